"""OSACA, a second opinion: the busiest port, or the longest dependency carried by the loop.

It knows nothing of how many instructions a core takes in a cycle. It comes with the
extra ``analysis``, and is left out where it is not installed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.analysis.cores import Core
from benchmarks.analysis.loops import Loop

SECONDS = 300
# Seconds to look for dependencies carried by the loop: those of accumulators are found at once.
CHAIN_SECONDS = 3


@dataclass(frozen=True)
class Opinion:
    """The answer of OSACA about a loop.

    Parameters
    ----------
    cycles : float
        A turn takes, 0 if it cannot say.
    reason : str
        ``"port ..."`` or ``"dependency"``; else why it cannot say.
    """

    cycles: float
    reason: str


def version() -> str | None:
    """Version of the OSACA that is installed beside this Python; None if there is none."""
    if importlib.util.find_spec("osaca") is None:
        return None
    return importlib.metadata.version("osaca")


def ask(core: Core, loop: Loop) -> Opinion:
    """Analyse `loop` on `core`."""
    with tempfile.TemporaryDirectory() as folder:
        source, answer = Path(folder) / "loop.s", Path(folder) / "answer.yml"
        source.write_text(loop.text)
        line = [sys.executable, "-m", "osaca", "--arch", core.osaca, "--yaml-out", str(answer)]
        line += ["--lcd-timeout", str(CHAIN_SECONDS)]
        if loop.arch == "x86_64":
            line += ["--syntax", "INTEL"]
        try:
            done = subprocess.run(
                [*line, str(source)], capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return Opinion(0.0, "no answer in time")
        if done.returncode or not answer.exists():
            last = done.stderr.strip().splitlines()[-1:] or ["no answer"]
            return Opinion(0.0, last[0])
        return read(answer.read_text(), loop)


def read(text: str, loop: Loop) -> Opinion:
    """Read the summary at the end of OSACA's YAML.

    Instructions that it does not know count for nothing; where FMAs or loads are among them, it
    cannot say.
    """
    for entry in text.split("\n- Comment:")[1:]:
        name = re.search(r"\n  Instruction: (\S+)", entry)
        unknown = "tp_unknown" in entry.split("\n  Instruction:")[0]
        if unknown and name and re.match(r"fmla|vfmadd|ld|vmov|vbroadcast", name[1]):
            return Opinion(0.0, f"{name[1]} unknown")
    summary = re.search(r"\nSummary:\n(.*?)(?=\n\S|\Z)", text, re.DOTALL)
    carried = re.search(r"LCD: ([\d.]+)", summary[1]) if summary else None
    ports = re.search(r"PortPressure: \{(.*?)\}", summary[1], re.DOTALL) if summary else None
    if not carried or not ports:
        return Opinion(0.0, "no summary")
    found = re.findall(r"'?([\w|]+)'?: ([\d.]+)", ports[1])
    port, busy = max(((name, float(cycles)) for name, cycles in found), key=lambda p: p[1])
    chain = float(carried[1])
    return Opinion(busy, f"port {port}") if busy >= chain else Opinion(chain, "dependency")
