"""`matmul` between guard pages: nothing is read or written outside its operands."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import pplconv
from guarded_memory import Arena

DTYPES = ["float16", "float32", "float64"]
EPS = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(scope="module")
def arenas():
    return {name: Arena(name, 64, writable=name == "out") for name in ("a", "b", "out")}


def placed(arena, content, place):
    """Give a view of a copy of `content`, flush against a guard page."""
    buffer = arena.buffer(content.nbytes, place)
    buffer.array(content.shape, content.dtype, content.strides)[...] = content
    memory = (ctypes.c_char * content.nbytes).from_address(buffer.address)
    order = "C" if content.flags.c_contiguous else "F"
    return np.frombuffer(memory, content.dtype).reshape(content.shape, order=order)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [(), ("a",), ("b",), ("a", "b")], ids=str)
@pytest.mark.parametrize("place", ["start", "end"])
def test_nothing_outside_is_touched(arenas, dtype, transposed, place, rng):
    kind = np.dtype(dtype)
    for m, n, k in ((1, 1, 1), (1, 33, 70), (7, 17, 5), (40, 65, 129), (3, 200, 31)):
        views = []
        for name, shape in (("a", (m, k)), ("b", (k, n))):
            content = rng.standard_normal(shape).astype(kind)
            if name in transposed:
                content = np.asfortranarray(content)
            views.append(placed(arenas[name], content, place))
        exact = views[0].astype(np.float64) @ views[1].astype(np.float64)
        for bias in (None, rng.standard_normal(n).astype(kind)):
            out = placed(arenas["out"], np.full((m, n), np.nan, kind), place)
            pplconv.matmul(*views, bias=bias, out=out, threads=2)
            expected = exact if bias is None else exact + bias
            scale = max(np.abs(expected).max(), 3 * k**0.5)
            assert np.abs(out - expected).max() <= EPS[dtype] * (2 + k**0.5) * scale
