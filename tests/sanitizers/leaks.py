"""Memory leaks of calls, found by LeakSanitizer.

Not a test module: ``make leaks`` runs it as a script, with the sanitizer preloaded. It makes rounds
of the same calls, some of which run out of memory or are refused. Memory that no pointer leads to
after a round is lost. LeakSanitizer does not search the memory of Python's frames, so it also
reports a few allocations that only a frame points to; but a call that leaks does so each time.
Objects that Python's collector tracks are always reachable: those of the package are counted
instead. Exits with 1 if either number grows as with a leak in each call, or if an intentional leak
at the end is not found.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import re
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np

# The tests' helpers are imported from the root, which goes last: the installed package must run.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import pplconv
from pplconv import config, machine
from pplconv.memory import workspace
from tests.sanitizers.call_cases import Case, every_case

# The last line of a report.
SUMMARY = re.compile(r"SUMMARY: \w+: (\d+) byte\(s\) leaked in (\d+) allocation\(s\)")
# The first rounds warm up; after them, a call that leaks does so REPEATS times a round.
WARM, ROUNDS, REPEATS = 1, 3, 4
LEAK = REPEATS * (ROUNDS - WARM)
# Allocations of a call that fail, one after the other; most calls make fewer.
FAILURES = 3
SHOWN = 6000
"""Characters of a report that are shown."""


class Sanitizer:
    """LeakSanitizer in this process."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)  # attributes with such names would be mangled
        try:
            self._check = library["__lsan_do_recoverable_leak_check"]
            self._report_to = library["__sanitizer_set_report_fd"]
        except AttributeError:
            sys.exit("leaks: no LeakSanitizer is loaded; `make leaks` preloads it")
        self._report_to.argtypes = [ctypes.c_void_p]
        self._report_to.restype = None

    def lost(self) -> tuple[int, str]:
        """Number of lost allocations since the process began, and the report."""
        gc.collect()
        with tempfile.TemporaryFile() as file:
            self._report_to(file.fileno())
            found = self._check()
            self._report_to(sys.stderr.fileno())
            file.seek(0)
            text = file.read().decode(errors="replace")
        summary = SUMMARY.search(text)
        if bool(found) != bool(summary):
            sys.exit(f"leaks: LeakSanitizer could not look:\n{text[:SHOWN]}")
        return int(summary[2]) if summary else 0, text


def tracked() -> Counter[str]:
    """Objects of the package's classes that Python's collector knows."""
    gc.collect()
    kinds = Counter(type(each) for each in gc.get_objects())
    return Counter(
        {
            kind.__qualname__: n
            for kind, n in kinds.items()
            if str(kind.__module__).startswith("pplconv")
        }
    )


def once(case: Case, tried: Counter[str]) -> None:
    """Make a call normally, and then once for each of its first allocations, which fails."""
    for failing in range(FAILURES + 1):
        workspace.fail_allocation(failing)
        try:
            result = case.call()
        except MemoryError:
            tried["out of memory"] += 1
        else:
            tried["whole"] += 1
            assert result == case.expected, f"{case.kind} {case.algorithm}: other bytes"
        finally:
            workspace.fail_allocation(0)


def refused(tried: Counter[str]) -> None:
    """Make invalid calls, which are refused at several depths."""
    x, weight = np.ones((1, 4, 9, 9), np.float32), np.ones((8, 4, 3, 3), np.float32)
    conv = pplconv.Conv2d(weight)
    for bad in (x.astype(np.int64), x[:, :3], x[0, 0], x[:, :, :2], "x"):
        for call in (conv, lambda x: pplconv.conv2d(x, weight)):
            try:
                call(bad)
            except (TypeError, ValueError):
                tried["refused"] += 1
            else:
                raise AssertionError(f"{type(bad).__name__} was taken")


def pinned(cases: list[Case], tried: Counter[str]) -> None:
    """Make calls with teams that are bound to cores anew each time."""
    for case in cases:
        with pplconv.runtime.pin():
            assert case.call() == case.expected
        tried["pinned"] += 1


def main() -> None:
    """Run, report and exit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="take one case of so many")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    asked = config.current().max_isa
    isas = machine.current().isas
    sanitizer = Sanitizer()

    begin = time.monotonic()
    counts: list[tuple[int, Counter[str]]] = []
    tried: Counter[str] = Counter()
    with ExitStack() as pools:
        cases = every_case(options.seed, asked if asked in isas else isas[-1], pools)
        cases = cases[:: options.every]
        print(f"{len(cases)} cases, made in {time.monotonic() - begin:.1f} s", flush=True)
        for _ in range(ROUNDS):
            for _ in range(REPEATS):
                for case in cases:
                    once(case, tried)
                refused(tried)
                pinned([case for case in cases if case.team > 1][:20], tried)
            held, (lost, report) = tracked(), sanitizer.lost()
            counts.append((lost, held))
    parts = ", ".join(f"{what} {number}" for what, number in sorted(tried.items()))
    print(f"{tried.total()} calls in {ROUNDS} rounds: {parts}; seed {options.seed}")
    print(f"  a call that loses something would add {LEAK} after round {WARM}")
    print(f"  lost allocations after each round: {[lost for lost, _ in counts]}")
    print(f"  tracked objects after each round: {[held.total() for _, held in counts]}")

    wrong = []
    if counts[-1][0] - counts[WARM - 1][0] >= LEAK:
        wrong.append(f"allocations are lost in each round:\n{report[:SHOWN]}")
    more = counts[-1][1] - counts[WARM - 1][1]
    wrong += [f"{n} more of {kind}" for kind, n in more.items() if n >= LEAK]
    for _ in range(10):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(pplconv.empty_aligned((1000,))))
    found = sanitizer.lost()[0] - counts[-1][0]
    print(f"  of 10 arrays lost on purpose, {found} allocations were found")
    if found < 10:
        wrong.append("what was lost on purpose is not found")
    print(f"{len(wrong)} things wrong (took {time.monotonic() - begin:.0f} s)", flush=True)
    for text in wrong:
        print(f"  {text}")
    sys.stdout.flush()
    # The intentional leak must not be reported again when the process ends.
    os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
