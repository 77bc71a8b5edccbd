"""Element-wise programs of integers, and streams that convert, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asm.contract.constants import OF_INTEGERS, STORED
from tests.kernels.elementwise_call import Call
from tests.kernels.kernel_table import DTYPES, every_row, integer_rows, symbol

integer_kernels = pytest.mark.parametrize("row", integer_rows("elementwise"), ids=symbol)
every_kernel = pytest.mark.parametrize("row", every_row("elementwise"), ids=symbol)
TYPES = [name for name in STORED if name not in ("TRUTH", "BF16")]


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Quotients rounded toward zero, of Python's integers; by zero 0."""
    whole = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
             for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)]  # fmt: skip
    return wrapped(whole, x)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What `quotient` leaves; nothing by zero."""
    rest = [abs(a) % abs(b) * (-1 if a < 0 else 1) if b else 0
            for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)]  # fmt: skip
    return wrapped(rest, x)


def wrapped(numbers: list[int], like: np.ndarray) -> np.ndarray:
    """Integers of Python in a type, modulo its size."""
    bits = 8 * like.itemsize
    unsigned = np.array([n % 2**bits for n in numbers], f"u{like.itemsize}")
    return unsigned.view(like.dtype).reshape(like.shape)


EXACT: dict[str, Callable[..., np.ndarray]] = {
    "COPY": lambda x, y, z: x,
    "ADD": lambda x, y, z: x + y,
    "SUBTRACT": lambda x, y, z: x - y,
    "MULTIPLY": lambda x, y, z: x * y,
    "DIVIDE": lambda x, y, z: quotient(x, y),
    "REMAINDER": lambda x, y, z: remainder(x, y),
    "MULTIPLY_ADD": lambda x, y, z: x * y + z,
    "MINIMUM": lambda x, y, z: np.minimum(x, y),
    "MAXIMUM": lambda x, y, z: np.maximum(x, y),
    "CLIP": lambda x, y, z: np.minimum(np.maximum(x, y), z),
    "NEGATE": lambda x, y, z: -x,
    "ABSOLUTE": lambda x, y, z: np.abs(x),
    "LESS": lambda x, y, z: x < y,
    "LESS_OR_EQUAL": lambda x, y, z: x <= y,
    "EQUAL": lambda x, y, z: x == y,
    "NOT": lambda x, y, z: x == 0,
    "AND": lambda x, y, z: (x != 0) & (y != 0),
    "OR": lambda x, y, z: (x != 0) | (y != 0),
    "WHERE": lambda x, y, z: np.where(x != 0, y, z),
}


def drawn(rng: np.random.Generator, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """Small numbers, both limits, and numbers of all sizes."""
    info = np.iinfo(dtype)
    whole = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    whole >>= rng.integers(0, 8 * dtype.itemsize - 1, shape).astype(dtype)
    limits = rng.choice(np.array([info.min, info.max, -1, 0, 1], dtype), shape)
    return np.where(rng.random(shape) < 0.3, limits, whole)


@integer_kernels
@pytest.mark.parametrize("op", OF_INTEGERS)
def test_instructions(checker, row, op, rng):
    """All lengths around a chunk, operands that repeat, and limits of the type."""
    dtype = DTYPES[row["dtype"]]
    lanes = row["vector_bytes"] // dtype.itemsize
    for columns in {*range(1, 2 * lanes + 2), 8 * lanes - 1, 8 * lanes, 16 * lanes + 3}:
        shape = (int(rng.integers(1, 4)), columns)
        operands = []
        call = Call(checker, row, rng, shape)
        for register in range(3):
            size = tuple(1 if rng.random() < 0.2 else n for n in shape)
            operands.append(drawn(rng, size, dtype))
            call.read(operands[-1], register)
        call.write_as(7, "", dtype)
        (got,) = call.run([(op, 7, 0, 1, 2)])
        with np.errstate(all="ignore"):
            wide = [np.broadcast_to(x, shape) for x in operands]
            np.testing.assert_array_equal(got, EXACT[op](*wide).astype(dtype))


def convertible(rng: np.random.Generator, shape: tuple[int, int], *types: Any) -> np.ndarray:
    """Numbers that are in the range of several types, whole or not."""
    whole = [np.iinfo(t) for t in types if np.dtype(t).kind in "iu"]
    floats = [np.dtype(t) for t in types if np.dtype(t).kind == "f"]
    most = 65504.0 if np.dtype(np.float16) in floats else 2.0**62
    low = max([-most, *(float(info.min) / 2 for info in whole)])
    high = min([most, *(float(info.max) / 2 for info in whole)])
    small = np.clip(rng.standard_normal(shape) * 9, low, high)
    return np.where(rng.random(shape) < 0.5, rng.uniform(low, high, shape), small)


@every_kernel
@pytest.mark.parametrize("name", TYPES)
def test_conversions(checker, row, name, rng):
    """Types on their way in and out, beside NumPy's casts."""
    dtype, other = DTYPES[row["dtype"]], DTYPES[name.lower()]
    lanes = row["vector_bytes"] // min(dtype.itemsize, 4)
    for columns in {*range(1, 2 * lanes + 2), 8 * lanes - 1, 8 * lanes, 16 * lanes + 3}:
        shape = (int(rng.integers(1, 4)), columns)
        size = tuple(1 if rng.random() < 0.2 else n for n in shape)
        x = convertible(rng, size, dtype, other).astype(other)
        call = Call(checker, row, rng, shape)
        call.read(x, 0, name)
        call.write_as(0, "", dtype)
        (got,) = call.run([])
        np.testing.assert_array_equal(got, np.broadcast_to(x.astype(dtype), shape))
        y = convertible(rng, size, dtype, other).astype(dtype)
        call = Call(checker, row, rng, shape)
        call.read(y, 0)
        call.write_as(0, name, other)
        (got,) = call.run([])
        np.testing.assert_array_equal(got, np.broadcast_to(y.astype(other), shape))


@every_kernel
@pytest.mark.parametrize("name", ["U8", "S8", "S32", "S64"])
def test_numbers_beyond_integers_do_no_harm(checker, row, name, rng):
    """NaN, infinities and large numbers become some integer; others stay right beside them."""
    dtype, other = DTYPES[row["dtype"]], DTYPES[name.lower()]
    if dtype.kind == "f":
        strange = rng.choice(np.array([np.nan, np.inf, -np.inf, 6e4], dtype), (2, 33))
    else:
        strange = drawn(rng, (2, 33), dtype)
    mask = rng.random((2, 33)) < 0.5
    x = np.where(mask, strange, np.array(7, dtype))
    call = Call(checker, row, rng, (2, 33))
    call.read(x, 0)
    call.write_as(0, name, other)
    (got,) = call.run([])
    assert (got[~mask] == 7).all()
