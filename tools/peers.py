"""Install what pplconv is measured against, each by itself, in little time: ``make test-peers``.

Those of ``pyproject.toml``'s extra ``peers``, at the oldest versions that it names, so that only a
change here can change what is tested. What cannot be had (no wheel for this Python or machine, no
network, too slow) is said and left out, and so is what would bring a GPU's libraries: gigabytes for
a test of a CPU.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from importlib.metadata import requires
from pathlib import Path

# Distributions that only a GPU needs.
_OF_A_GPU = re.compile(r"nvidia-|cuda-|triton$|pytorch-triton")
SECONDS = 240
"""Time for all of them together; one that would take longer is left out."""

Run = Callable[[list[str], float], "subprocess.CompletedProcess[str]"]


def oldest(requirements: Iterable[str], extra: str = "peers") -> list[str]:
    """Give the requirements of an extra, each at the oldest version that it allows.

    Parameters
    ----------
    requirements : iterable of str
        As a distribution's metadata have them.
    extra : str
        Name of the extra.

    Returns
    -------
    list of str
        ``name==version``, or any release of that version where it names but year and month; of
        requirements on the package's own other extras, nothing.
    """
    found = []
    for requirement in requirements:
        text, _, marker = (part.strip() for part in requirement.partition(";"))
        if f'extra == "{extra}"' in marker.replace("'", '"') and "[" not in text:
            name, _, version = text.partition(">=")
            found.append(f"{name}=={version}" + (".*" if version.count(".") < 2 else ""))
    return found


def run(command: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a command for at most so long."""
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def install(python: str, requirement: str, until: float, run: Run = run) -> str:
    """Install one of them.

    Parameters
    ----------
    python : str
        Of the environment that gets it.
    requirement : str
        What.
    until : float
        When to give up, by `time.monotonic`.
    run : callable, optional
        Runs a command with a limit in seconds.

    Returns
    -------
    str
        Why it is not there; nothing if it is.
    """
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--only-binary=:all:"]
    try:
        asked = run(
            [*pip, "--quiet", "--dry-run", "--report=-", requirement], until - time.monotonic()
        )
        if asked.returncode:
            return f"it cannot be had: {_last(asked.stderr)}"
        names = [each["metadata"]["name"].lower() for each in json.loads(asked.stdout)["install"]]
        heavy = [name for name in names if _OF_A_GPU.match(name)]
        if heavy:
            return f"it would bring {', '.join(sorted(heavy)[:3])}, which only a GPU needs"
        done = run([*pip, "--quiet", requirement], until - time.monotonic())
        return f"it does not install: {_last(done.stderr)}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        return "it took too long"


def _last(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.startswith("ERROR")]
    return (lines or text.strip().splitlines() or ["pip says nothing"])[-1]


def main() -> int:
    """Install them into the environment that is named, and say which are not there."""
    parser = argparse.ArgumentParser(prog="python -m tools.peers", description=__doc__)
    parser.add_argument("python", type=Path, help="of the environment")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    chosen = parser.parse_args()
    until = time.monotonic() + chosen.seconds
    for requirement in oldest(requires("pplconv") or []):
        reason = install(str(chosen.python), requirement, until)
        print(f"{requirement}: {f'NOT RUN HERE: {reason}' if reason else 'installed'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
