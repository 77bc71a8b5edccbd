"""Many convolutions and networks at once, each result compared byte for byte with one thread's.

Not a test module: ``make tsan`` runs it as a script under ThreadSanitizer; it also runs without
one. Python threads, the callers, share convolutions, plans, packed weights and the pool of
scratch; most calls lead a team of their own, too. Other calls go through instance pools, some of
which are opened and closed for them. Prints how much was tried; exits with 1 if a byte
differed.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np

# The tests' helpers are imported from the root, which goes last: the installed package must run.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from pplconv import config
from pplconv.planner import target
from tests.sanitizers.call_cases import Case, every_case


class Callers:
    """Python threads that make calls until the requested number is reached."""

    def __init__(self, cases: list[Case], calls: int, count: int, seed: int) -> None:
        self.cases, self.calls, self.count, self.seed = cases, calls, count, seed
        self.tried: Counter[tuple[str, str]] = Counter()
        self.wrong: list[str] = []
        self.most = 0
        self._lock = threading.Lock()
        self._begun = self._running = 0

    def run(self) -> None:
        """Make all calls; an exception counts as a wrong result."""
        threads = [
            threading.Thread(target=self._work, args=(number,)) for number in range(self.count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, number: int) -> None:
        order = np.random.default_rng([self.seed, number])
        while True:
            case = self.cases[int(order.integers(len(self.cases)))]
            with self._lock:
                if self._begun == self.calls:
                    return
                self._begun += 1
                self._running += 1
                self.most = max(self.most, self._running)
            try:
                fault = None if case.call() == case.expected else "other bytes"
            except Exception as error:
                fault = repr(error)
            with self._lock:
                self._running -= 1
                for name in ("kind", "algorithm", "layout", "dtype", "team"):
                    self.tried[name, str(getattr(case, name))] += 1
                if fault:
                    self.wrong.append(
                        f"{case.kind} {case.algorithm} {case.layout} {case.dtype} "
                        f"team of {case.team}: {fault}"
                    )


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--callers", type=int, default=4, help="Python threads (default 4)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--networks", action="store_true", help="call whole networks only")
    options = parser.parse_args()
    # The highest level that PPLCONV_MAX_ISA allows, as in other programs.
    asked = config.current().max_isa
    isas = target.here().isas("f32")
    isa = asked if asked in isas else isas[-1]

    begin = time.monotonic()
    with ExitStack() as pools:
        cases = every_case(options.seed, isa, pools, networks_only=options.networks)
        made = time.monotonic()
        print(f"{len(cases)} cases on {isa}, made in {made - begin:.1f} s", flush=True)
        callers = Callers(cases, options.calls, options.callers, options.seed)
        callers.run()
    print(
        f"{sum(n for (name, _), n in callers.tried.items() if name == 'kind')} calls from "
        f"{options.callers} Python threads, at most {callers.most} at once, in "
        f"{time.monotonic() - made:.1f} s; seed {options.seed}"
    )
    for name in ("kind", "algorithm", "layout", "dtype", "team"):
        parts = [f"{what} {n}" for (of, what), n in sorted(callers.tried.items()) if of == name]
        print(f"  by {name}: {', '.join(parts)}")
    print(f"{len(callers.wrong)} results wrong")
    for line in callers.wrong[:20]:
        print(f"  {line}")
    return 1 if callers.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
