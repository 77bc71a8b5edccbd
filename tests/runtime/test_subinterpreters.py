"""Teams in a sub-interpreter that shares the GIL, as servers of several applications have it."""

from __future__ import annotations

import sys

import pytest

from tests.programs import finding, output

# NumPy can be loaded once in a process, so the main interpreter has none of it.
INNER = """
import warnings
warnings.simplefilter("ignore")
import numpy as np, pplconv
random = np.random.default_rng()
x = random.integers(-3, 4, (1, 16, 40, 40)).astype(np.float32)
w = random.integers(-3, 4, (32, 16, 1, 1)).astype(np.float32)
for _ in range(3):
    y = pplconv.conv2d(x, w, threads=2)
    assert (y == np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0])).all()
print("right", flush=True)
"""
OUTER = """
try:
    import _interpreters as interpreters
    made = interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as interpreters
    made = interpreters.create(isolated={isolated})
error = interpreters.run_string(made, {inner!r})
assert error is None, error
"""


# Those of CPython 3.12 and later have a GIL of their own if they are isolated: NumPy refuses it.
@pytest.mark.parametrize("isolated", [False, True] if sys.version_info < (3, 12) else [False])
def test_a_team_computes_in_a_sub_interpreter(isolated):
    assert output("-c", OUTER.format(isolated=isolated, inner=finding(INNER))) == "right\n"
