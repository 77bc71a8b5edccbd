"""Calls in which each of Python's own allocations fails in turn; prints what came of it.

Not a test module: ``test_allocation.py`` runs it as a script. Everything that asks Python for
memory fails, NumPy's array objects and Cython's classes included; the memory of an array's elements
comes from NumPy itself and does not fail.
"""

from __future__ import annotations

import _testcapi
import itertools
import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable

import numpy as np

import pplconv
from pplconv.memory import workspace

# The probe ends after so many calls in a row that did not fail: a single call may have recovered
# from a failed allocation.
ENOUGH = 30
# Making a plan takes thousands of allocations, of which some are tried.
STEPS = {"new shape": 23}


def acts() -> dict[str, Callable[[], np.ndarray]]:
    """What is tried."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1, 9, 12, 11)).astype(np.float32)
    weight = rng.standard_normal((7, 9, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(7).astype(np.float32)
    residual = rng.standard_normal((1, 7, 12, 11)).astype(np.float32)
    swapped = x.astype(x.dtype.newbyteorder())
    conv = pplconv.Conv2d(weight, bias, padding=1, activation="silu")
    workspace = itertools.count(1 << 30)

    def new_shape() -> np.ndarray:
        made = pplconv.Conv2d(weight, bias, padding=1, max_workspace=next(workspace))
        return made(x)

    return {
        "call": lambda: conv(swapped, residual),
        "function": lambda: pplconv.conv2d(x, weight, bias, padding=1, residual=residual),
        "new shape": new_shape,
        "to_blocked": lambda: pplconv.to_blocked(x, 4),
    }


def ours(error: BaseException) -> bool:
    """Whether an error comes from pplconv and not from inside Python's own library.

    An interpreter that cannot allocate while it runs its own code (`os.environ`, for one) may
    raise a SystemError.
    """
    return "pplconv" in traceback.extract_tb(error.__traceback__)[-1].filename


def main() -> None:
    """Try the act that the argument names."""
    name = sys.argv[1]
    act, step = acts()[name], STEPS.get(name, 1)
    expected = act().tobytes()
    act()
    workspace.empty_pool()
    before = workspace.allocated_bytes()
    failed, whole, other = 0, 0, Counter()
    wrong, leaked = [], []
    for start in itertools.count(0, step):
        result = error = None
        _testcapi.set_nomemory(start, start + 1)
        try:
            result = act()
        except BaseException as caught:
            error = caught
        _testcapi.remove_mem_hooks()
        if error is None:
            whole += 1
        else:
            whole = 0
            failed += isinstance(error, MemoryError)
            if not isinstance(error, MemoryError) and ours(error):
                other[f"{type(error).__name__}: {error}"] += 1
        if result is not None and result.tobytes() != expected:
            wrong.append(start)
        result = error = None
        if act().tobytes() != expected:
            wrong.append(start)
        workspace.empty_pool()
        if workspace.allocated_bytes() != before:
            leaked.append(start)
            before = workspace.allocated_bytes()
        if whole >= ENOUGH:
            break
    print(json.dumps({"failed": failed, "other": other, "wrong": wrong, "leaked": leaked}))


if __name__ == "__main__":
    main()
