"""The plans of every shape file on every recorded machine, as lines that can be compared.

``python tests/planner/golden_plans.py`` writes ``golden.txt`` anew beside this file, for a change
that is to change plans; the commit says which ones, and why.

A line of the file is a problem: each choice with the machines that make it, and behind the bar a
digest of all that each machine's plan says, in the order of `TARGETS`::

    mb1ic3... f32 NCHW 1: direct direct_f32_6x16_avx2 x1 @ epyc laptop; im2col ... | 1a2b3c4d ...
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

if __name__ == "__main__":
    os.environ["PPLCONV_WISDOM"] = "off"
    # The helpers lie below the root, which goes last: the installed package is what plans.
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.problems import load_nets
from pplconv.planner import Request, plan_problem
from pplconv.problem import ConvProblem
from tests.planner.targets import TARGETS, target_of

GOLDEN = Path(__file__).resolve().parent / "golden.txt"
# Type, layout, channels of a block, team.
CASES = (
    ("f32", "NCHW", 0, 1),
    ("f32", "NCHW", 0, 4),
    ("f32", "NHWC", 0, 1),
    ("f32", "NHWC", 0, 4),
    ("f32", "NCHWc", 16, 1),
    ("f16", "NCHW", 0, 1),
    ("f64", "NHWC", 0, 1),
)
LAYERS = sorted({layer.sizes for layers in load_nets().values() for layer in layers})


def lines(machine: str) -> Iterator[str]:
    """One line a plan: what is planned, the kernel, and a digest of all that the plan says."""
    target = target_of(machine)
    for dtype, layout, block, threads in CASES:
        for sizes in LAYERS:
            problem = ConvProblem.parse(sizes, dtype, layout, block)
            if dtype == "f16" and "fp16" in target.machine.isas:
                problem = replace(problem, permitted=("f16",))
            plan = plan_problem(Request(problem, threads=threads, target=target)).plan
            cost = {name: f"{cycles:.6g}" for name, cycles in plan.cost.items()}
            said = (
                plan.bits, plan.isa, dict(plan.blocks), plan.tasks, plan.threads, plan.packing,
                plan.packed_weight_bytes, plan.scratch_bytes, f"{plan.error_bound:.6g}", cost,
            )  # fmt: skip
            digest = hashlib.sha256(repr(said).encode()).hexdigest()[:8]
            kernel = plan.kernel.removeprefix("pplconv_")
            yield (
                f"{sizes} {dtype} {problem.layout_text} {threads}: "
                f"{plan.algorithm} {kernel} x{plan.threads} {digest}"
            )


def merged(found: Mapping[str, Sequence[str]]) -> str:
    """Write the lines of all machines as one line a problem."""
    text = []
    for row in zip(*found.values(), strict=True):
        choices: dict[str, list[str]] = {}
        digests = []
        for machine, line in zip(found, row, strict=True):
            problem, said = line.split(": ")
            choice, digest = said.rsplit(" ", 1)
            choices.setdefault(choice, []).append(machine)
            digests.append(digest)
        chosen = "; ".join(f"{choice} @ {' '.join(by)}" for choice, by in choices.items())
        text.append(f"{problem}: {chosen} | {' '.join(digests)}\n")
    return "".join(text)


def kept() -> dict[str, list[str]]:
    """Read the golden file: the lines of each machine."""
    found: dict[str, list[str]] = {machine: [] for machine in TARGETS}
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        problem, said = line.split(": ")
        chosen, digests = said.split(" | ")
        by_machine = {}
        for part in chosen.split("; "):
            choice, machines = part.split(" @ ")
            by_machine |= dict.fromkeys(machines.split(), choice)
        for machine, digest in zip(TARGETS, digests.split(), strict=True):
            found[machine].append(f"{problem}: {by_machine[machine]} {digest}")
    return found


def main() -> None:
    """Write every machine's lines."""
    found = {}
    for name in TARGETS:
        found[name] = list(lines(name))
        print(name)
    GOLDEN.write_text(merged(found), encoding="utf-8")


if __name__ == "__main__":
    main()
