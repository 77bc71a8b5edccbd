"""How GEMM kernels multiply on AArch64: which instructions add a product to an accumulator.

By element: a vector of B, all of its columns, times one element of A, a lane of a register. With
narrow types the element is a group of neighbouring k, 32 bits like a sum, and the vector of B has
such a group for each column. So these kernels have the layout of float32 in memory and in
registers.

By matrix: two rows of A times two columns of B, 64 bits of k of each, give two rows of two sums.
"""

from __future__ import annotations

from dataclasses import dataclass

from asm.aarch64.emit import Vector


@dataclass(frozen=True)
class Part:
    """An instruction that adds the product of a vector and an element.

    Parameters
    ----------
    mnemonic : str
        Name of the instruction.
    sums, vector, element : str
        Names of the lanes of accumulators, of the lanes of B, and of the lane of A.
    stride, first : int, optional
        The lane of A for group g is ``stride * g + first``, in lanes of the instruction.
    """

    mnemonic: str
    sums: str
    vector: str
    element: str
    stride: int = 1
    first: int = 0


_NARROW = {
    "s8": (Part("sdot", "4s", "16b", "4b"),),
    "bf16": (Part("bfdot", "4s", "8h", "2h"),),
    # Without dot products: the lower half of B is the first k of its columns, the upper half is
    # the second.
    "s16": (Part("smlal", "4s", "4h", "h", 2), Part("smlal2", "4s", "8h", "h", 2, 1)),
}

PERMUTED = {"s16": (0x0D0C090805040100, 0x0F0E0B0A07060302)}
"""Types whose vectors of B are permuted before products, with the index of bytes for TBL."""

BY_MATRIX = {
    "s8m": ("smmla", "16b"),
    "u8m": ("usmmla", "16b"),
    "bf16m": ("bfmmla", "8h"),
}
"""Instructions that multiply matrices, and how they name the lanes of A and B."""


def by_element(dtype: str, v: Vector) -> tuple[Part, ...]:
    """Instructions that add a product by element; `v` names the elements of C."""
    lanes = f"{v.lanes}{v.letter}"
    return _NARROW.get(dtype, (Part("fmla", lanes, lanes, v.letter),))


def multiply(part: Part, accumulator: int, b: int, element: tuple[int, int]) -> str:
    """Text of one instruction; `element` is a register and the number of a group in it."""
    register, group = element
    lane = part.stride * group + part.first
    return (
        f"{part.mnemonic} v{accumulator}.{part.sums}, v{b}.{part.vector}, "
        f"v{register}.{part.element}[{lane}]"
    )
