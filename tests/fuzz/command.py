"""The command: processes, progress, and what was tried, in numbers."""

from __future__ import annotations

import argparse
import os
import signal
import struct
import sys
import threading
import time
from math import inf

import pplconv
from tests.fuzz.jobs import BLOCK, Jobs
from tests.fuzz.tally import Tally


def seed_range(text: str) -> range:
    """``A:B``, or ``A:`` without end."""
    first, colon, last = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"expected A:B, got {text!r}")
    return range(int(first or 0), int(last) if last else 1 << 62)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="fuzz", description="Random calls of pplconv against float64; one for each seed."
    )
    parser.add_argument(
        "--seeds", type=seed_range, metavar="A:B", help="seeds A to B - 1 (default: from the clock)"
    )
    parser.add_argument("--seconds", type=float, help="when to stop (default: 60 without --seeds)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (default: 1)")
    parser.add_argument("--seed", type=int, metavar="N", help="run this one and print the call")
    # Options of the processes that this command starts.
    for name in ("--worker", "--isa", "--mark"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    found = parser.parse_args(arguments)
    if found.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {found.jobs}")
    if found.seeds is None:
        start = time.time_ns() // 1_000_000 * 1000
        found.seeds = range(start, 1 << 62)
        if found.seconds is None:
            found.seconds = 60.0
    if found.seconds is None:
        found.seconds = inf
    return found


def one(seed: int) -> int:
    """Run one seed in this process, with the instruction set that it has."""
    from tests.fuzz.case import Finding
    from tests.fuzz.cases import draw
    from tests.fuzz.checking import check
    from tests.fuzz.worker import describe, instruction_sets, shrunk

    sets = instruction_sets()
    os.environ["PPLCONV_MAX_ISA"] = isa = sets[seed % len(sets)]
    case = draw(seed)
    print(f"seed {seed}, {isa}: {describe(case)}", flush=True)
    try:
        print(check(case))
    except Finding as finding:
        print(f"FINDING {finding}")
        if (smaller := shrunk(case)) is not None:
            print(f"smaller: {smaller}")
        return 1
    return 0


def _worker(found: argparse.Namespace) -> int:
    from tests.fuzz.worker import run

    mark = os.open(found.mark, os.O_WRONLY) if found.mark else None
    if mark is not None:
        os.pwrite(mark, struct.pack("<q", found.seeds.start), 0)
    try:
        run(found.seeds, found.isa, found.seconds, mark, sys.stdout)
    except KeyboardInterrupt:
        return 130
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run the command.

    Returns
    -------
    int
        Status: 0, 1 if there are findings.
    """
    # Nothing of the user's is read or written; BLAS is for the reference only.
    os.environ["PPLCONV_WISDOM"] = "off"
    found = parse(arguments)
    if found.seed is not None:
        return one(found.seed)
    if found.worker is not None:
        return _worker(found)
    seeds: range = found.seeds
    last = "" if seeds.stop == 1 << 62 else seeds.stop
    print(f"fuzzing {pplconv.__file__}, --seeds {seeds.start}:{last}", flush=True)
    tally = Tally(seeds.start)
    jobs = Jobs(seeds, found.seconds, found.jobs, tally, BLOCK)
    threading.Thread(target=_show, args=(tally, jobs), daemon=True).start()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        jobs.run()
    except KeyboardInterrupt:
        print("\ninterrupted", flush=True)
        jobs.stop()
    print(tally.summary())
    return 1 if tally.findings else 0


def _show(tally: Tally, jobs: Jobs) -> None:
    """Progress: a line that changes on a terminal, and one a minute elsewhere."""
    terminal = sys.stdout.isatty()
    while not jobs.stopped.wait(1.0 if terminal else 60.0):
        line = tally.line()
        print(f"\r{line} " if terminal else line, end="" if terminal else "\n", flush=True)
    if terminal:
        print()
