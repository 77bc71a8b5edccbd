"""How one step of k multiplies, by type: the difference between GEMM kernels on x86-64.

A group of narrow elements of neighbouring k is as wide as the sum to which it is added: 32 bits. So
a kernel broadcasts groups of A and loads groups of B like single elements; only the instructions
between these loads and the sums differ.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Multiply:
    """Instructions that add the product of a broadcast and a vector of B to a vector of C.

    Parameters
    ----------
    instruction : str
        Multiplies, with the broadcast as its first source.
    add : str
        Adds the product to the sum; empty where `instruction` does.
    widen : str
        Adds up neighbouring lanes of the product first, if sums are wider than these lanes: it
        multiplies them by ones, which take a register. Empty if lanes are as wide as sums.
    broadcasts : bool
        Whether AVX-512's form of it takes the broadcast from memory, as its second source.
    twins : bool
        Whether it has AVX-512's encoding and another one, which has to be asked for.
    means : str
        Description of a step that is not one fused multiply-add.
    """

    instruction: str
    add: str = ""
    widen: str = ""
    broadcasts: bool = False
    twins: bool = False
    means: str = ""


_SUM = "the exact sum of the group's products, added with wrap-around"
_PAIRS = (
    "the sum of the group's products, the first two and the last two of which are added up first, "
    "to what fits 16 bits or the nearest number that does, added with wrap-around"
)
# Found by experiments on Granite Rapids; Intel's pseudocode says the same.
_BF16 = (
    "for the second k of the group, then for the first, one fused multiply-add, rounded to nearest "
    "even; subnormal operands and results are zeros, whatever MXCSR says"
)

MULTIPLIES = {
    "f32": Multiply("vfmadd231ps", broadcasts=True),
    "f64": Multiply("vfmadd231pd", broadcasts=True),
    # The first source is the unsigned one; the second may come from memory.
    "u8": Multiply("vpdpbusd", twins=True, means=_SUM),
    "s8": Multiply("vpdpbssd", means=_SUM),
    "u8p": Multiply("vpmaddubsw", "vpaddd", "vpmaddwd", means=_PAIRS),
    "s16": Multiply("vpmaddwd", "vpaddd", means=_SUM),
    "bf16": Multiply("vdpbf16ps", broadcasts=True, means=_BF16),
}
