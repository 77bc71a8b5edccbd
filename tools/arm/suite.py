"""The suite on each emulated CPU, or a share of it.

Emulated, a test takes half a second on average, and collecting all tests more than a minute. So
each file's tests are divided into ``one_in`` shares by their names, and each CPU runs a different
share (``tests/shares.py``). A file that does not depend on instruction sets is collected on one CPU
only, which runs as many of its tests as all CPUs together would. The first share is drawn and
printed, so that many runs cover everything; ``one_in=1`` is the whole suite on each CPU. The end of
a run lists the files that it reached; a missing file is an error.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.arm.account import Account, conclude
from tools.arm.emulated import environment
from tools.arm.host import SetUpError
from tools.arm.kept import say
from tools.arm.targets import ROOT, Target

# Disables SVE in Python, NumPy and the references. Under emulation SVE makes OpenBLAS's products
# ten times slower, and glibc's copies, too, which use it on the A64FX only. The package has no SVE
# code.
_WITHOUT_SVE = {
    "OPENBLAS_NUM_THREADS": "1",
    "OPENBLAS_CORETYPE": "ARMV8",
    "GLIBC_TUNABLES": "glibc.cpu.name=generic",
}

# pytest's exit status if no test was collected.
_NO_TESTS = 5


@dataclass(frozen=True)
class Outcome:
    """The result of the suite on one CPU.

    Parameters
    ----------
    cpu : str
        As QEMU names it.
    status : int
        pytest's exit status.
    seconds : float
        How long it took.
    text : str
        Its output.
    account : Account
        Files and instruction sets that it reached.
    """

    cpu: str
    status: int
    seconds: float
    text: str
    account: Account = field(default_factory=Account)

    @property
    def line(self) -> str:
        """Sum up, in pytest's own numbers."""
        lines = self.text.strip().splitlines() or [""]
        verdict = "passed" if self.status == 0 else f"FAILED ({self.status})"
        return f"{self.cpu:<20} {verdict} in {self.seconds:.0f} s: {lines[-1].strip('= ')}"


def run_suite(target: Target, arguments: list[str], one_in: int, first: int | None = None) -> int:
    """Run the suite on each CPU, as many at a time as there are cores.

    Parameters
    ----------
    target : Target
        The machine whose CPUs they are.
    arguments : list of str
        For pytest, after ``tests`` or instead of it if they name tests.
    one_in : int
        Number of shares of the suite.
    first : int, optional
        Share of the first CPU; drawn by default.

    Returns
    -------
    int
        Exit status: 0 if every CPU passed, and each file that can be emulated ran on one.
    """
    first = random.randrange(one_in) if first is None else first
    if one_in > 1:
        say(f"one test in {one_in}; for the same ones again: --one-in={one_in} --first={first}")
    cores = len(os.sched_getaffinity(0))
    workers = max(cores // len(target.cpus), 1)
    outcomes = []
    with ThreadPoolExecutor(min(cores, len(target.cpus))) as pool:
        runs: list[Future[Outcome]] = [
            pool.submit(_run, target, cpu, one_in, first + i, workers, arguments)
            for i, cpu in enumerate(target.cpus)
        ]
        try:
            for run in runs:
                outcome = run.result()
                outcomes.append(outcome)
                if outcome.status:
                    sys.stdout.write(outcome.text)
                say(outcome.line)
        except KeyboardInterrupt:  # the emulated Pythons received it, too
            pool.shutdown(cancel_futures=True)
            raise
    say("all CPUs:")
    for outcome in outcomes:
        say(outcome.line)
    lines, covered = conclude({outcome.cpu: outcome.account for outcome in outcomes})
    for line in lines:
        say(line)
    # A process that a signal ended has a negative status.
    worst = max((outcome.status for outcome in outcomes), key=abs)
    return abs(worst) or int(not covered)


def _run(
    target: Target, cpu: str, one_in: int, share: int, workers: int, arguments: list[str]
) -> Outcome:
    selected = [word for word in arguments if (ROOT / word.partition("::")[0]).exists()]
    options = [word for word in arguments if word not in selected]
    # Neither `-m pytest`, which would put the sources on the path, nor a file cache in them.
    command = [str(target.python), "-P", "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    if workers > 1:
        command += ["-n", str(workers), "--dist=worksteal"]
    command += ["--emulated", f"--share={share % one_in}", f"--one-in={one_in}"]
    if one_in > 1 and not selected:
        command.append(f"--part={share % len(target.cpus)}/{len(target.cpus)}")
    scratch = target.build / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)  # pytest creates only the last folder of a path
    account = scratch / f"{cpu}.json"
    account.unlink(missing_ok=True)
    command += [f"--account={account}", f"--basetemp={scratch / cpu}"]
    command += [*options, *(selected or ["tests"])]
    say(f"{cpu}: begun")
    begin = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(target, cpu, **_WITHOUT_SVE),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # The requested tests may be in another CPU's share.
    status = 0 if done.returncode == _NO_TESTS and one_in > 1 else done.returncode
    return Outcome(cpu, status, time.monotonic() - begin, done.stdout, Account.read(account))


def installed_package(target: Target) -> Path:
    """Path from which the emulated Python imports the package; it must not be the sources."""
    command = [str(target.python), "-P", "-c", "import pplconv; print(pplconv.__file__)"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(target), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SetUpError(f"the wheel does not import:\n{done.stderr}")
    return Path(done.stdout.strip())
