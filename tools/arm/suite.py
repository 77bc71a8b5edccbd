"""Which tests run on which emulated CPU.

All CPUs together run everything that can run under emulation:

- kernels of a level run in full, with every tail between guard pages, on the oldest CPU that has
  the level's instructions; whatever a newer one has is not what they use;
- everything else runs in full on the first CPU;
- of what a CPU need not run in full it runs a share, chosen by the tests' names, another one on
  each CPU. A wrong dispatch shows there: it ends in an illegal instruction, or in another level's
  name in a plan.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from asm.registry import ISAS
from tools.arm.emulated import environment
from tools.arm.host import SetUpError
from tools.arm.kept import say
from tools.arm.places import BUILD, PYTHON, ROOT

# From the CPU that runs everything to those that run shares; SVE of another width on the last.
CPUS = ("max,sme=off", "max,sme=off,sve=off", "neoverse-n1", "cortex-a72", "a64fx")
# From the one with the fewest features to the one with the most.
OLDEST_FIRST = ("cortex-a72", "a64fx", "neoverse-n1", "max,sme=off,sve=off", "max,sme=off")
# Of what a CPU need not run it runs one in so many.
ONE_IN = 12

# pytest's exit status.
_NO_TESTS = 5

_ASK = "from levels import executable_isas; print(*executable_isas())"


def run_suite(arguments: list[str]) -> int:
    """Run the suite on each CPU.

    Parameters
    ----------
    arguments : list of str
        For pytest, after ``tests`` or instead of it if they name tests.

    Returns
    -------
    int
        Exit status: 0 if all is well on each.
    """
    levels = {cpu: _levels(cpu) for cpu in CPUS}
    if any(not found for found in levels.values()):
        raise SetUpError(f"an emulated CPU has no level at all: {levels}")
    outcomes = []
    for share, cpu in enumerate(CPUS):
        full = [level for level in levels[cpu] if _first_with(level, levels) == cpu]
        say(f"{cpu} executes {' '.join(levels[cpu])}; in full here: {' '.join(full) or 'none'}")
        begin = time.monotonic()
        status = _run(cpu, full, share, arguments)
        if status == _NO_TESTS and arguments:
            status = 0  # what was asked for is in another CPU's share
        outcomes.append((cpu, status, time.monotonic() - begin))
    for cpu, status, seconds in outcomes:
        say(f"{cpu:<20} {'passed' if status == 0 else f'FAILED ({status})'} in {seconds:.0f} s")
    return max(status for _, status, _ in outcomes)


def _first_with(level: str, levels: dict[str, list[str]]) -> str:
    return next(cpu for cpu in OLDEST_FIRST if level in levels[cpu])


def _levels(cpu: str) -> list[str]:
    """Levels of the registry that a CPU executes, as its own system tells."""
    path = os.pathsep.join(str(folder) for folder in (ROOT / "tests", ROOT))
    command = [str(PYTHON), "-c", _ASK]
    done = subprocess.run(
        command, env=environment(cpu, PYTHONPATH=path), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SetUpError(f"the emulated Python does not run on {cpu}:\n{done.stderr}")
    return [name for name in done.stdout.split() if name in ISAS]


def _run(cpu: str, full: list[str], share: int, arguments: list[str]) -> int:
    selected = [word for word in arguments if (ROOT / word.partition("::")[0]).exists()]
    options = [word for word in arguments if word not in selected]
    # Neither `-m pytest`, which would put the sources on the path, nor a file cache in them.
    command = [str(PYTHON), "-P", "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    command += ["-n", str(len(os.sched_getaffinity(0))), "--dist=worksteal"]
    command += ["--emulated", f"--kernels-of={','.join(full)}", f"--share={share}"]
    command += [f"--one-in={1 if share == 0 else ONE_IN}", f"--basetemp={BUILD / 'tmp'}"]
    command += [*options, *(selected or ["tests"])]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(cpu, OPENBLAS_NUM_THREADS="1"),
        stdin=subprocess.DEVNULL,
        stdout=sys.stdout,
        check=False,
    ).returncode


def installed_package() -> Path:
    """Where the emulated Python finds the package; the sources would be a mistake."""
    command = [str(PYTHON), "-P", "-c", "import pplconv; print(pplconv.__file__)"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SetUpError(f"the wheel does not import:\n{done.stderr}")
    return Path(done.stdout.strip())
