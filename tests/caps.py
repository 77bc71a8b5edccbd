"""Run the collected tests under each lower ``PPLCONV_MAX_ISA`` of this machine, in one run.

``--caps`` collects once, and forks a process for each part of the tests under each cap, as many at
a time as there are CPUs. The parent process prints the reports of all of them. Some levels have
kernels of narrow types only. Under such a cap only tests marked ``narrow`` run: all others would
run as under the next lower cap.
"""

from __future__ import annotations

import multiprocessing
import os
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest

from tests import emulation, levels

__all__ = ["ROOMS", "add_options", "ignore", "lower", "report", "run"]

_VARIABLE = "PPLCONV_MAX_ISA"
_OWN = "cap"
# Messages that a process sends besides reports.
_BEGINS, _ENDS = "a test begins", "all tests have run"
# Rooms and files that a cap does not change. The random calls of "fuzz" are left out only under
# emulation, where they are too slow.
ROOMS = {name: reason for name, reason in emulation.ROOMS.items() if name != "fuzz"} | {
    "analysis": "models of other CPUs",
    "network/test_model_fuzz.py": "hostile files, which are read alike at every level",
    "instances": "processes and their messages, whatever they compute",
    "kernels": "its tests name an instruction set each, or read the sources of all",
    "planner/test_golden_plans.py": "plans of recorded machines",
    "runtime": "threads, forks and signals, whatever is computed meanwhile",
    "test_caps.py": "starts runs of its own under caps",
    "test_patience.py": "reads tests",
    "test_rooms.py": "about the tests",
    "test_shares.py": "about the tests",
    "test_tiers.py": "about the tests",
}
_HERE = Path(__file__).resolve().parent
# Parts of the tests under one cap: more than CPUs, so that all CPUs end at about the same time.
_PARTS = 8


def add_options(parser: pytest.Parser) -> None:
    """Declare the option."""
    group = parser.getgroup("instruction sets")
    group.addoption("--caps", action="store_true", help=f"under each {_VARIABLE} below the highest")


def ignore(path: Path, config: pytest.Config) -> bool:
    """Whether to leave out a room or a file, before it is imported: a cap does not change it."""
    return config.option.caps and path.is_relative_to(_HERE) and (
        path.relative_to(_HERE).as_posix() in ROOMS
    )  # fmt: skip


def lower() -> tuple[list[str], list[str]]:
    """Caps below the highest level of this machine, lowest first.

    Returns
    -------
    whole, narrow : list of str
        Caps under which all tests run, and caps under which only tests of narrow types run.
    """
    isas = levels.allowed_isas()
    whole = [isa for isa in isas if isa not in levels.narrow_isas()][:-1]
    # The highest is the level of a run without a cap.
    return whole, [isa for isa in isas[:-1] if isa not in whole]


@dataclass
class _Job:
    """Tests that one process runs under one cap."""

    cap: str
    items: Sequence[pytest.Item]


def run(session: pytest.Session) -> bool | None:
    """Run the tests under each cap, if that was asked for.

    Returns
    -------
    True or None
        True if the tests ran here; None leaves them to pytest, as in ``pytest_runtestloop``.

    Raises
    ------
    pytest.UsageError
        If ``-n`` asks for worker processes.
    """
    config = session.config
    if not config.option.caps:
        return None
    if config.getoption("numprocesses", None):
        raise pytest.UsageError("--caps starts processes of its own: leave -n out")
    if session.testsfailed or config.option.collectonly:
        return None  # pytest says so itself
    whole, narrow = lower()
    some = [item for item in session.items if item.get_closest_marker("narrow")]
    jobs = [_Job(cap, part) for cap in whole for part in _parts(session.items)]
    jobs += [_Job(cap, some) for cap in narrow if some]
    session.testscollected = sum(len(job.items) for job in jobs)
    waiting: deque[_Job] = deque(jobs)
    running: list[_Process] = []
    try:
        while waiting or running:
            while waiting and len(running) < len(os.sched_getaffinity(0)):
                running.append(_Process(config, waiting.popleft()))
            wait([end for process in running for end in process.ends])
            for process in running.copy():
                if process.take():
                    continue
                running.remove(process)
                rest = process.finish()
                if rest.items:
                    waiting.append(rest)
            if session.shouldfail:  # by --maxfail
                raise session.Failed(session.shouldfail)
    finally:
        for process in running:
            process.kill()
    return True


def _parts(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """Cut the tests into parts of about the same size, each file whole."""
    files = [list(group) for _, group in groupby(items, key=lambda item: item.path)]
    parts: list[list[pytest.Item]] = [[] for _ in range(min(_PARTS, len(files)))]
    for file in sorted(files, key=len, reverse=True):
        min(parts, key=len).extend(file)
    return parts


class _Process:
    """A process that runs one job, and the reports that it sends.

    Parameters
    ----------
    config : pytest.Config
        The configuration of the run.
    job : _Job
        The tests to run.
    """

    def __init__(self, config: pytest.Config, job: _Job) -> None:
        context = multiprocessing.get_context("fork")
        self._config, self._job, self._begun, self._done = config, job, 0, False
        self._reports, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_run_job, args=(config, job, theirs))
        self._process.start()
        theirs.close()

    @property
    def ends(self) -> tuple[Connection, int]:
        """The pipe and the sentinel to wait for: a report, or the end of the process."""
        return self._reports, self._process.sentinel

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def take(self) -> bool:
        """Read the reports that have arrived; return whether more may come."""
        # Asked before reading: reports sent before the end are then in the pipe. The end of the
        # pipe is no sign, because a process that a test left behind may hold it open.
        ended = not self._process.is_alive()
        try:
            while self._reports.poll():
                self._took(self._reports.recv())
        except (EOFError, OSError):  # the end, or half a report
            return False
        return not ended

    def _took(self, data: dict[str, Any] | str) -> None:
        if data == _BEGINS:
            self._begun += 1
        elif data == _ENDS:
            self._done = True
        else:
            hook = self._config.hook.pytest_report_from_serializable
            self._log(hook(config=self._config, data=data))

    def finish(self) -> _Job:
        """Wait for the end of the process; return the tests that did not run because of a crash."""
        self._process.join()
        if self._done:
            return _Job(self._job.cap, ())
        begun = max(self._begun, 1)
        item = self._job.items[begun - 1]
        text = f"the process ended with status {self._process.exitcode} in this test"
        self._log(pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call"))
        return _Job(self._job.cap, self._job.items[begun:])

    def _log(self, found: pytest.TestReport) -> None:
        cap = f"{_VARIABLE}={self._job.cap}"
        if found.failed:
            found.sections.append(("under a cap", f"alone: {cap} pytest '{found.nodeid}'"))
        found.nodeid += f" under {cap}"  # a test has a report under each cap
        found.user_properties.append((_OWN, self._job.cap))
        self._config.hook.pytest_runtest_logreport(report=found)


class _Sender:
    """A plugin that sends reports to the parent process, which prints them."""

    def __init__(self, config: pytest.Config, reports: Connection) -> None:
        self.config, self.reports = config, reports

    def pytest_runtest_logstart(self) -> None:
        """Say that a test begins."""
        self.reports.send(_BEGINS)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report."""
        hook = self.config.hook.pytest_report_to_serializable
        self.reports.send(hook(config=self.config, report=report))


def _run_job(config: pytest.Config, job: _Job, reports: Connection) -> None:
    # The package reads the variable; the helpers of the tests read `levels.CAP`.
    os.environ[_VARIABLE] = levels.CAP = job.cap
    levels.why_not.cache_clear()
    # Capture output in a new file: all processes would share the file of the run.
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(_Sender(config, reports))
    for item, following in zip(job.items, [*job.items[1:], None], strict=True):
        config.hook.pytest_runtest_protocol(item=item, nextitem=following)
    reports.send(_ENDS)


def report(config: pytest.Config, reporter: Any) -> list[str]:
    """Print how many tests ran under each cap, and which caps did not run; return the lines."""
    ran = Counter(
        value
        for outcome in ("passed", "failed", "xfailed", "xpassed")
        for found in reporter.stats.get(outcome, [])
        for key, value in getattr(found, "user_properties", ())
        if key == _OWN
    )
    reporter.section("caps")
    for name, reason in ROOMS.items():
        reporter.line(f"left out: {name}: {reason}")
    whole, narrow = lower()
    width = max(map(len, levels.LADDER))
    lines = []
    for name in levels.LADDER:
        text = f"{ran[name]} tests" + (" of narrow types" if name in narrow else "")
        if name not in (*whole, *narrow):
            text = f"NOT RUN HERE: {levels.why_not(name) or 'the level of a run without a cap'}"
        lines.append(f"{name:<{width}} {text}")
        reporter.line(lines[-1])
    return lines
