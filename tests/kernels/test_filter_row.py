"""Filters of bytes in integers of 16 bits, against Python's and NumPy's wide integers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from asm.contract.constants import SUMS
from tests.kernels.kernel_table import every_row, symbol
from tests.kernels.rows_call import Call

every_kernel = pytest.mark.parametrize("row", every_row("filter_row"), ids=symbol)


def counts_of(row):
    """Every tail of up to a vector, and around one, four, five and nine vectors."""
    lanes = row["vector_bytes"] // 2
    ends = [n * lanes + more for n in (1, 4, 5, 9) for more in (-1, 0, 1, lanes // 2)]
    return (*range(1, lanes), *ends)


def filtered(checker, row, rng, source, weights, places, count, result, **how):
    """Run the kernel on elements between guard pages."""
    call = Call(checker, row, rng)
    # Sources go on for a whole vector at least.
    more = max(row["vector_bytes"] // 2 - count, 0)
    source = np.append(source, rng.integers(0, 256, more, source.dtype))
    call.put("src", source.reshape(1, -1), 0)
    call.put("places", (places * source.itemsize).astype(np.int64).reshape(1, -1), 0)
    if weights is None:
        call.values["weights"] = 0
    else:
        call.put("weights", weights.astype(np.uint16).reshape(1, -1), 0)
    call.put("dst", np.full((1, count), 0x55, result), 0, writable=True)
    size = np.dtype(result).itemsize
    numbers = {"mode": 0, "add": 0, "factor": 0, "shift": 0, "low": 0, "high": 0xFFFF}
    return call.run(
        taps=len(places), count=count, kind=source.itemsize, size=size, **numbers | how
    )[0]


@every_kernel
@pytest.mark.parametrize(("dtype", "ones"), [*product((np.uint8, np.uint16), (True, False))])
def test_sums(checker, row, rng, dtype, ones):
    """Sums modulo 2**16, of taps in any places."""
    for count in counts_of(row):
        taps = int(rng.integers(1, 12))
        source = rng.integers(0, np.iinfo(dtype).max, count + 40, dtype, endpoint=True)
        places = np.append(rng.integers(0, 41, taps - 1), 40)
        weights = None if ones else rng.integers(-300, 300, taps)
        seen = np.stack([source[at : at + count] for at in places.tolist()]).astype(np.int64)
        expected = (np.ones(taps, int) if ones else weights) @ seen
        found = filtered(checker, row, rng, source, weights, places, count, np.uint16)
        np.testing.assert_array_equal(found, (expected % (1 << 16)).astype(np.uint16))


@every_kernel
@pytest.mark.parametrize("mode", ["SIGNED", "UNSIGNED", "DIVIDED"])
@pytest.mark.parametrize("result", [np.uint8, np.int8, np.uint16, np.int16])
def test_integers(checker, row, rng, mode, result):
    """All sums of 16 bits: shifted to even, or divided, and saturated."""
    signed = mode == "SIGNED"
    info = np.iinfo(result)
    high = min(int(info.max), 0x7FFF if signed else 0xFFFF)
    for shift in (0, 1, 4, 8):
        half = (1 << shift >> 1) - 1 if shift else 0
        how = {"shift": shift, "add": half}
        sums = np.arange(-(1 << 15), (1 << 15) - half - 1) if signed else np.arange(
            (1 << 16) - half - 1)  # fmt: skip
        if mode == "DIVIDED":
            divisor = (3, 9, 25, 36)[(0, 1, 4, 8).index(shift)]
            how = {"shift": 5, "factor": -(-(1 << 21) // divisor) % (1 << 16), "add": 4}
            sums = np.arange(1 << 12)
            expected = (sums + 4) * how["factor"] >> 21
        else:
            expected = np.rint(sums / 2.0**shift).astype(np.int64)
        count = len(sums)
        found = filtered(
            checker, row, rng, sums.astype(np.uint16), None, np.zeros(1, int), count, result,
            mode=SUMS[mode], low=int(info.min), high=high, **how,
        )  # fmt: skip
        np.testing.assert_array_equal(found, np.clip(expected, info.min, high).astype(result))
