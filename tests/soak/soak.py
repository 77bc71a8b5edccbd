"""Run everything at once for a stated time; compare resources at the end with those after warm-up.

``make soak`` runs it, ``SECONDS=`` says how long. Not a test module: ``test_soak.py`` runs it for
a few seconds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

# The helpers of the tests lie below the root, which goes last: the installed package is what runs.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.soak import instances
from tests.soak.counts import differences, settled
from tests.soak.load import Load

# glibc keeps freed blocks below a threshold in an arena of each thread, and raises the threshold
# up to 32 MiB by itself; arenas with holes, of threads that come and go, then look like a leak.
# With a fixed threshold, arrays go back to the system when they are freed, and a leak stays one.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(1 << 16), "MALLOC_TRIM_THRESHOLD_": str(1 << 16)}

# Turns: loads start and end again and again, so that a leak of either shows.
TURN = 5.0


def turn(load: Load, pools: instances.Instances | None, seconds: float) -> None:
    """Run each kind of load for its share of the time."""
    kinds = 1 if pools is None else 3
    load.run(seconds / kinds)
    if pools is not None:
        pools.run("thread", seconds / kinds)
        pools.run("process", seconds / kinds)


def main() -> int:
    """Run and report; 1 if something was wrong or something is held that was not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds before that")
    parser.add_argument("--margin", type=float, default=16.0, help="MiB that memory may grow")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in ALLOCATOR.items()):
        # glibc reads them when a process begins.
        sys.stdout.flush()
        os.execve(sys.executable, sys.orig_argv, os.environ | ALLOCATOR)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["PPLCONV_WISDOM"] = str(Path(folder) / "wisdom.json")
        load = Load(options.seed)
        pools = instances.Instances(options.seed) if instances.available() else None
        if pools is None:
            print("this package has no InstancePool: soaking without instances")
        # Two turns, because the first does not make everything that is made once.
        for _ in range(2):
            turn(load, pools, options.warm_up / 2)
        before = settled()
        print(f"after warm-up:  {before.text()}", flush=True)
        begin, turns = time.monotonic(), 0
        while (left := options.seconds - (time.monotonic() - begin)) > 0:
            turn(load, pools, min(left, TURN * (1 if pools is None else 3)))
            turns += 1
        after = settled(before)
        took = time.monotonic() - begin

    print(f"at the end:     {after.text()}")
    print(f"{turns} turns in {took:.0f} s, seed {options.seed}, warm-up included:")
    wrong = list(load.wrong)
    tried = load.tried
    if pools is not None:
        wrong += pools.wrong
        tried = tried + pools.tried
    for what, number in sorted(tried.items()):
        print(f"  {what}: {number}")
    found = differences(before, after, int(options.margin * 2**20))
    print(
        f"{len(wrong)} wrong, {len(found)} counts differ (memory may grow {options.margin:g} MiB)"
    )
    for line in [*wrong[:20], *found]:
        print(f"  {line}")
    return 1 if wrong or found else 0


if __name__ == "__main__":
    sys.exit(main())
