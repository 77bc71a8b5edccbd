"""llvm-mca: where it is, which version, and its answer about a loop.

It simulates a core's pipeline on a loop whose every load hits L1. Its answer is read from JSON.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.analysis.cores import ATTRIBUTES, Core
from benchmarks.analysis.loops import ADDS_PRODUCTS, Loop

# Older ones lack the models of Neoverse cores; 19 has them, and is 20 % off for products on V1.
OLDEST = 22
PACKAGE = "llvm-22"
ITERATIONS = 400
SECONDS = 120


class ToolError(RuntimeError):
    """llvm-mca cannot be used; the text says what to do."""


@dataclass(frozen=True)
class Tool:
    """An llvm-mca that is new enough.

    Parameters
    ----------
    path : str
        The program.
    version : str
        As it states it, for example ``22.1.8``.
    """

    path: str
    version: str


def version_of(path: str) -> str | None:
    """Version of the llvm-mca at `path`; None if it does not run or is none."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"LLVM version (\d+[\w.]*)", done.stdout)
    return found[1] if found else None


def installed(path: str | None = None) -> Iterable[str]:
    """Programs on the search path that are named llvm-mca, with or without a version."""
    found: dict[str, str] = {}
    for directory in os.get_exec_path() if path is None else path.split(os.pathsep):
        try:
            names = sorted(os.listdir(directory or os.curdir))
        except OSError:
            continue
        for name in names:
            if re.fullmatch(r"llvm-mca(-\d+)?", name):
                found.setdefault(name, str(Path(directory) / name))
    return found.values()


def find(wish: str | None = None, path: str | None = None) -> Tool:
    """Find the newest llvm-mca.

    Parameters
    ----------
    wish : str, optional
        The one to take, if it will do.
    path : str, optional
        Where to look, as ``PATH`` says it (the default).

    Raises
    ------
    ToolError
        If there is none, or only older ones than :data:`OLDEST`.
    """
    candidates = [shutil.which(wish, path=path) or wish] if wish else installed(path)
    found = [Tool(p, v) for p in candidates if (v := version_of(p))]
    fit = [tool for tool in found if _major(tool.version) >= OLDEST]
    if not fit:
        old = ", ".join(f"{tool.path} is {tool.version}" for tool in found) or "there is none"
        if wish and not found:
            old = f"{wish} is none"
        raise ToolError(
            f"llvm-mca {OLDEST} or newer is needed, {old}; it is in Debian's package {PACKAGE} "
            "(bookworm: from security), and nothing is installed here by itself"
        )
    return max(fit, key=lambda tool: [int(n) for n in re.findall(r"\d+", tool.version)])


def _major(version: str) -> int:
    return int(version.split(".")[0])


@dataclass(frozen=True)
class Answer:
    """The answer of llvm-mca about a loop on a core.

    Parameters
    ----------
    cycles : float
        A turn of the loop takes.
    micro_ops : float
        A turn has.
    dispatch_width : int
        Micro-ops that the model hands to its units in a cycle.
    fma_latency, fma_cycles : float
        Latency of an FMA, and one over how many start in a cycle.
    pressure : mapping of str to float
        Cycles a turn that each resource is busy, of its busiest unit.
    fma_resources : frozenset of str
        Resources that FMAs use.
    stalls : mapping of str to int
        Cycles in which a resource ran out, by its name, over the whole simulation.
    """

    cycles: float
    micro_ops: float
    dispatch_width: int
    fma_latency: float
    fma_cycles: float
    pressure: Mapping[str, float]
    fma_resources: frozenset[str]
    stalls: Mapping[str, int]


def command(tool: Tool, core: Core) -> list[str]:
    """Command line that reads a loop from standard input."""
    line = [tool.path, f"--mtriple={core.arch}", f"-mcpu={core.name}"]
    if ATTRIBUTES[core.arch]:
        line.append(f"-mattr={ATTRIBUTES[core.arch]}")
    return [*line, f"-iterations={ITERATIONS}", "-bottleneck-analysis", "--json"]


def ask(tool: Tool, core: Core, loop: Loop) -> Answer:
    """Simulate `loop` on `core`.

    Raises
    ------
    ToolError
        If llvm-mca does not know the core, or not an instruction.
    """
    done = subprocess.run(
        command(tool, core), input=loop.source, capture_output=True, text=True, timeout=SECONDS,
        check=False,
    )  # fmt: skip
    if done.returncode or "not a recognized processor" in done.stderr:
        what = done.stderr.strip().splitlines()
        raise ToolError(f"{tool.path}: {core.name}: {what[0] if what else done.returncode}")
    return read(done.stdout)


def _resource(name: str) -> str:
    """Name of a resource without the number of its unit, which is written with control codes."""
    return re.sub(r"[.\s]*[\x00-\x1f]+$", "", name)


def read(text: str) -> Answer:
    """Read llvm-mca's JSON.

    Raises
    ------
    ToolError
        If it is not what llvm-mca writes of a loop with FMAs.
    """
    try:
        document = json.loads(text)
        region = document["CodeRegions"][0]
        summary, info = region["SummaryView"], region["InstructionInfoView"]["InstructionList"]
        names = [_resource(name) for name in document["TargetInfo"]["Resources"]]
        instructions: list[str] = region["Instructions"]
        used = region["ResourcePressureView"]["ResourcePressureInfo"]
        # Version 19 leaves it out of JSON.
        stalls: dict[str, Any] = region.get("BottleneckAnalysis", {})
    except (json.JSONDecodeError, KeyError, IndexError, TypeError) as error:
        raise ToolError(f"not an answer of llvm-mca: {error!r}") from None
    fmas = {i for i, t in enumerate(instructions) if ADDS_PRODUCTS.match(t)}
    if not fmas:
        raise ToolError("not an answer of llvm-mca about FMAs")
    pressure: dict[str, float] = {}
    fma_resources = set()
    for entry in used:
        name = names[entry["ResourceIndex"]]
        if entry["InstructionIndex"] == len(instructions):  # the sum over all of them
            pressure[name] = max(pressure.get(name, 0.0), float(entry["ResourceUsage"]))
        elif entry["InstructionIndex"] in fmas:
            fma_resources.add(name)
    turns = summary["Iterations"]
    first = info[min(fmas)]
    return Answer(
        cycles=summary["TotalCycles"] / turns,
        micro_ops=summary["TotaluOps"] / turns,
        dispatch_width=summary["DispatchWidth"],
        fma_latency=float(first["Latency"]),
        fma_cycles=float(first["RThroughput"]),
        pressure=pressure,
        fma_resources=frozenset(fma_resources),
        stalls={name: count for name, count in stalls.items() if isinstance(count, int)},
    )
