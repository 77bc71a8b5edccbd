"""The exponential of the C templates, over all arguments, compiled for each level."""

from __future__ import annotations

from ctypes import c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest

import asm.build
from asm.exponential import c_macros, exponential
from asm.registry import ISAS
from tests.kernels.kernel_checker import compile_library
from tests.kernels.kernel_table import BITS, DTYPES
from tests.levels import LADDER, allowed_isas

SOURCE = """\
#include "exponential.h"
void exponentials(const element *src, element *dst, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES)
        *(unaligned_vector *)(dst + i) = exponential(*(const unaligned_vector *)(src + i));
}
"""
# Largest error, in units of the result's last place.
ALLOWED = 1.5


@pytest.fixture(
    params=[
        (isa, dtype) for isa in LADDER for dtype in ("f32", "f64") if dtype in ISAS[isa].dtypes
    ],
    ids="_".join,
)
def level(request, tmp_path):
    """Give the type, and the function on arrays of whole vectors."""
    isa, dtype = request.param
    if isa not in allowed_isas():
        pytest.skip("this run cannot call it")
    names = {
        "PPLCONV_F64": int(dtype == "f64"),
        "PPLCONV_F16": 0,
        "PPLCONV_VECTOR_BYTES": ISAS[isa].vector_bytes,
        "PPLCONV_NEON": int(not {"asimd", "neon"}.isdisjoint(ISAS[isa].features)),
        **c_macros(dtype),
    }
    defines = "".join(f"#define {name} {value}\n" for name, value in names.items())
    source = tmp_path / "exponentials.c"
    source.write_text(defines + SOURCE)
    flags = [*ISAS[isa].cflags, f"-I{Path(asm.build.TEMPLATES)}"]
    function = compile_library(tmp_path, "exponentials", [source], flags).exponentials
    function.argtypes, function.restype = (c_void_p, c_void_p, c_int64), None

    def run(x: np.ndarray) -> np.ndarray:
        padded = np.zeros(x.size + 16, x.dtype)
        padded[: x.size] = x
        out = np.empty_like(padded)
        function(padded.ctypes.data, out.ctypes.data, (x.size + 15) // 16 * 16)
        return out[: x.size]

    return isa, dtype, run


def test_error(level, rng):
    isa, dtype, run = level
    number, info = DTYPES[dtype], np.finfo(DTYPES[dtype])
    limit = exponential(dtype).limit
    x = [rng.uniform(-d, d, 20000) for d in (0.3, 3, 20, 0.8 * limit, limit)]
    bits = rng.integers(0, np.iinfo(BITS[dtype]).max, 20000, BITS[dtype]).view(number)
    x = np.concatenate([*(part.astype(number) for part in x), bits[np.isfinite(bits)]])
    with np.errstate(over="ignore", under="ignore"):
        expected = np.exp(x.astype(np.longdouble))
        rounded = expected.astype(number)
    got = run(x)
    # Near the largest number, results may overflow or not, whatever the exact value does.
    edge = np.abs(expected / np.longdouble(info.max) - 1) < 2 * info.eps
    infinite = np.isinf(rounded) & ~edge
    assert np.isinf(got[infinite]).all()
    finite = ~np.isinf(rounded) & ~edge
    unit = np.spacing(np.maximum(rounded[finite], info.tiny)).astype(np.longdouble)
    error = np.abs(got[finite] - expected[finite]) / unit
    normal = rounded[finite] >= info.tiny
    if isa == "neon32":  # has no subnormal numbers
        error = error[normal]
    assert error.max() <= ALLOWED, x[finite][int(error.argmax())]
    assert error.max() > 0.4


def test_special_values(level):
    _, dtype, run = level
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], DTYPES[dtype])
    np.testing.assert_array_equal(run(x), [np.nan, np.nan, np.inf, 0, 1, 1])
