"""GEMM of narrow types: random elements, and the results that the contract gives, in NumPy and C.

Integers are exact: the lowest 32 bits of 64-bit sums. ``u8p`` first adds pairs of products and
saturates each pair to 16 bits. All bfloat16 kernels are compared with float64; where the exact
bits are known, these are compared as well:

portable
    Each product and each sum is rounded to float, in ascending k.
x86-64
    ``vdpbf16ps`` by Intel's pseudocode, which a million random experiments on Granite Rapids
    confirmed: the second product of each pair is added first, then the first one, each by a fused
    multiply-add that rounds to nearest even; subnormal operands and results are zeros of their
    sign, whatever MXCSR holds. AMD's manual states only the rounding mode, so the bits of AMD's
    CPUs are not compared.
AArch64
    BFDOT and BFMMLA by Arm's pseudocode for FPCR.EBF = 0, the default: the products of a pair are
    added, and their sum is added to the accumulator, each rounded to odd; subnormal operands and
    results are zeros of their sign, and results that overflow are infinite.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from asm.registry import PRODUCTS
from tests.kernels import tile_arithmetic
from tests.kernels.kernel_table import DTYPES
from tests.kernels.kernel_values import draw, pick_each

TINY = float(np.finfo(np.float32).tiny)


def group_bytes(row: dict) -> int:
    """Bytes of a group: the KR neighbouring k of A, or of B, that the kernel takes together."""
    product = PRODUCTS[row["dtype"]]
    return product.kr * DTYPES[product.a].itemsize


def is_integer(row: dict) -> bool:
    """Whether a kernel multiplies integers."""
    return PRODUCTS[row["dtype"]].sum == "s32"


def draw_stored(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], name: str
) -> np.ndarray:
    """Draw numbers of a type, named as in the registry; floats as `kernel_values.draw` does.

    Integers of kind "random" span the type's range, "extreme" ones are its ends, whose products
    are the largest, and "special" ones are small.
    """
    dtype = DTYPES[name]
    if name == "bf16":
        return narrowed(draw(rng, kind, shape, np.dtype(np.float32)))
    if dtype.kind == "f":
        return draw(rng, kind, shape, dtype)
    info = np.iinfo(dtype)
    if kind == "extreme":
        return pick_each(rng, np.array([info.min, info.min + 1, info.max], dtype), shape)
    low, high = (info.min, info.max) if kind == "random" else (max(info.min, -2), 2)
    return rng.integers(low, high, shape, dtype, endpoint=True)


def narrowed(x: np.ndarray) -> np.ndarray:
    """Bits of float32 numbers truncated to bfloat16; NaN stays NaN."""
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), bits)


def rounded(x: np.ndarray) -> np.ndarray:
    """Bits of float32 numbers rounded to bfloat16, to nearest even; subnormal ones are zeros."""
    bits = x.view(np.uint32)
    bits = np.where(np.abs(x) < TINY, bits & 0x80000000, bits)
    nearest = (bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), bits >> 16 | 0x40, nearest).astype(np.uint16)


def widened(x: np.ndarray, name: str) -> np.ndarray:
    """Values of stored elements, as int64 or as floating point."""
    if name == "bf16":
        return tile_arithmetic.widened(x)
    return x.astype(np.int64) if x.dtype.kind in "iu" else x


def dot_products(
    native: ctypes.CDLL, a: np.ndarray, b: np.ndarray, start: np.ndarray, of: str = "x86"
) -> np.ndarray:
    """`start` plus a @ b, of floats that are bfloat16 values, in the bits of a CPU.

    Parameters
    ----------
    native : CDLL
        The checker's native half, ten times as fast as NumPy.
    a, b, start : ndarray of float32
        The depth of `a` and `b` is even.
    of : {"x86", "arm"}, optional
        Rule of the sums: of ``vdpbf16ps``, or of BFDOT and BFMMLA.
    """
    (m, depth), n = a.shape, b.shape[1]
    assert depth % 2 == 0 and b.shape == (depth, n) and start.shape == (m, n)
    a, b = (np.ascontiguousarray(x, np.float32) for x in (a, b))
    total = np.array(start, np.float32, order="C")
    getattr(native, f"bfloat16_products_{of}")(
        *(ctypes.c_void_p(x.ctypes.data) for x in (a, b)),
        *(ctypes.c_int64(size) for size in (m, n, depth)),
        ctypes.c_void_p(total.ctypes.data),
    )
    return total


@np.errstate(all="ignore")
def rounded_steps(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """`start` plus a @ b with each product and each sum rounded, in ascending k."""
    total = start
    for k in range(a.shape[1]):
        total = total + a[:, k, np.newaxis] * b[np.newaxis, k]
    return total


def of_intel() -> bool:
    """Whether the CPU is Intel's."""
    return "GenuineIntel" in Path("/proc/cpuinfo").read_text()


def sum_of_pairs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b, where the sum of each pair of neighbouring products is saturated to 16 bits."""
    ends = np.iinfo(np.int16)
    total = np.zeros((len(a), b.shape[1]), np.int64)
    for k in range(0, a.shape[1], 2):
        total += np.clip(a[:, k : k + 2] @ b[k : k + 2], ends.min, ends.max)
    return total


def known_sum(
    native: ctypes.CDLL, row: dict, a: np.ndarray, b: np.ndarray, start: np.ndarray
) -> np.ndarray | None:
    """`start` plus a @ b in the bits that the kernel `row` must give; None if they are unknown."""
    if is_integer(row):
        products = sum_of_pairs(a, b) if row["dtype"].endswith("p") else a @ b
        return (products + start).astype(np.int32)
    if row["isa"] == "portable":
        return rounded_steps(a, b, start)
    if row["isa"] == "avx512bf16" and of_intel():
        return dot_products(native, a, b, start)
    if row["isa"] == "bf16":
        return dot_products(native, a, b, start, "arm")
    return None
