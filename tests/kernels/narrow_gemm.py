"""GEMM of narrow types: its elements, and what the contract makes of them, in NumPy.

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

from pathlib import Path

import numpy as np

from asm.registry import PRODUCTS
from half_gemm import rounded_to_odd
from kernel_values import draw, pick_each

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


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Round a * b + c to float32 once, to zero what is subnormal; a and b are of bfloat16.

    Subnormal is what would be below the smallest normal number if exponents had no end.
    """
    odd = rounded_to_odd(a, b, c)
    tiny = np.abs((odd * 2.0**100).astype(np.float32)) < np.float32(TINY * 2.0**100)
    return np.where(tiny, np.copysign(0.0, odd), odd).astype(np.float32)


def flushed(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers as zeros of their sign."""
    return np.where(np.abs(x) < np.float32(TINY), np.copysign(np.float32(0), x), x)


@np.errstate(all="ignore")
def dot_products(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """`start` plus a @ b as ``vdpbf16ps`` adds it up."""
    a, b = flushed(a), flushed(b)
    total = start
    for k in range(0, a.shape[1], 2):
        total = flushed(total)
        for q in (k + 1, k):
            total = fused(a[:, q, np.newaxis], b[np.newaxis, q], total)
    return total


def to_odd(x: np.ndarray) -> np.ndarray:
    """Round float64 numbers, which are exact or rounded to odd, to normal float32 and to odd."""
    bits = x.view(np.int64)
    lost = bits & ((1 << 29) - 1)  # what float64 has more of
    cut = np.asarray(bits - lost).view(np.float64)
    cut = np.where(np.abs(cut) < TINY, np.copysign(0.0, cut), cut).astype(np.float32)
    inexact = (lost != 0) & np.isfinite(cut) & (cut != 0)
    return np.where(inexact, cut.view(np.int32) | 1, cut.view(np.int32)).view(np.float32)


@np.errstate(all="ignore")
def odd_dot_products(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """`start` plus a @ b as BFDOT and BFMMLA add it up."""
    a, b = flushed(a).astype(np.float64), flushed(b).astype(np.float64)
    total, one = start, np.float32(1)
    for k in range(0, a.shape[1], 2):
        first, second = (to_odd(a[:, q, np.newaxis] * b[np.newaxis, q]) for q in (k, k + 1))
        pair = to_odd(rounded_to_odd(first, one, second))
        total = to_odd(rounded_to_odd(flushed(total), one, pair))
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


def known_sum(row: dict, a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray | None:
    """`start` plus a @ b in the bits that the kernel `row` has to give; None if nobody knows."""
    if is_integer(row):
        products = sum_of_pairs(a, b) if row["dtype"].endswith("p") else a @ b
        return (products + start).astype(np.int32)
    if row["isa"] == "portable":
        return rounded_steps(a, b, start)
    if row["isa"] == "avx512bf16" and of_intel():
        return dot_products(a, b, start)
    if row["isa"] == "bf16":
        return odd_dot_products(a, b, start)
    return None
