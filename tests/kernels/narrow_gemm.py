"""GEMM of narrow types: its elements, and what the contract makes of them, in NumPy and in C.

Integers are exact: 64-bit sums, of which the lowest 32 bits count; but ``u8p`` first adds up pairs
of products, and takes the nearest number of 16 bits for one that has more. bfloat16 is held to
float64 by all kernels; what is known of the very bits is compared as well:

portable
    each product and each sum rounded to float, in ascending k.
x86-64
    what ``vdpbf16ps`` does by Intel's pseudocode, and did in all of a million random
    experiments on Granite Rapids: of each pair, first the second product, then the first is added
    by a fused multiply-add that rounds to nearest even; subnormal operands and results are zeros of
    their sign, whatever MXCSR says. AMD's manual says no more than that it does not round
    otherwise, so its bits are not compared.
AArch64
    what BFDOT and BFMMLA do by Arm's pseudocode where FPCR.EBF is 0, as it is unless a program sets
    it: the products of a pair are added, then they to the sum, each rounded to odd; subnormal
    operands and results are zeros of their sign, and too large ones infinite.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np

from asm.registry import PRODUCTS
from tests.kernels.kernel_values import draw, pick_each

# As they lie in memory; of bfloat16 its bits.
STORED = {
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "bf16": np.dtype(np.uint16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
SUMS = {**STORED, "s32": np.dtype(np.int32)}
TINY = float(np.finfo(np.float32).tiny)


def group_bytes(row: dict) -> int:
    """Bytes of the neighbouring k of A, or of B, that the kernel takes together."""
    product = PRODUCTS[row["dtype"]]
    return product.kr * STORED[product.a].itemsize


def is_integer(row: dict) -> bool:
    """Whether a kernel multiplies integers."""
    return PRODUCTS[row["dtype"]].sum == "s32"


def draw_stored(
    rng: np.random.Generator, kind: str, shape: tuple[int, ...], name: str
) -> np.ndarray:
    """Draw numbers of a type by its name in the registry, of a kind as `kernel_values.draw` does.

    Of integers: the whole range; its ends alone, whose products are the largest; a few small ones.
    """
    dtype = SUMS[name]
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
    """Bits of float32 numbers cut to bfloat16: any such number will do, but NaN stays NaN."""
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), bits)


def widened(x: np.ndarray, name: str) -> np.ndarray:
    """Values of stored elements, as int64 or as floating point."""
    if name == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.int64) if x.dtype.kind in "iu" else x


def dot_products(
    native: ctypes.CDLL, a: np.ndarray, b: np.ndarray, start: np.ndarray, of: str = "x86"
) -> np.ndarray:
    """`start` plus a @ b, of floats that are bfloat16, as ``vdpbf16ps`` adds it up.

    Parameters
    ----------
    native : CDLL
        The checker's native half; NumPy takes ten times as long.
    a, b, start : ndarray of float32
        The depth of `a` and `b` is even.
    of : {"x86", "arm"}, optional
        Whose products: for "arm" as BFDOT and BFMMLA add it up.
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
    """a @ b, two neighbouring products after the other, of which each pair fits 16 bits."""
    ends = np.iinfo(np.int16)
    total = np.zeros((len(a), b.shape[1]), np.int64)
    for k in range(0, a.shape[1], 2):
        total += np.clip(a[:, k : k + 2] @ b[k : k + 2], ends.min, ends.max)
    return total


def known_sum(
    native: ctypes.CDLL, row: dict, a: np.ndarray, b: np.ndarray, start: np.ndarray
) -> np.ndarray | None:
    """`start` plus a @ b in the bits that the kernel `row` has to give; None if nobody knows."""
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
