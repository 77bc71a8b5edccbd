"""`Numerics`: the types that one way to compute works with, from the input to the output.

A problem names the type of its arrays and the types that it may be computed in; a candidate has one
`Numerics`. It answers for all that follows from types: sizes, kernels, error bounds, rates, keys of
wisdom.
"""

from __future__ import annotations

from dataclasses import dataclass

from ._kernels import HALF_CHAIN

__all__ = ["TYPES", "ElementType", "Numerics", "default_permission", "numerics_of"]


@dataclass(frozen=True)
class ElementType:
    """One type of elements.

    Parameters
    ----------
    name : str
        Name in problems, kernels and plans.
    numpy : str
        Name of the same type in NumPy.
    bytes : int
        Size of an element.
    roundoff : float
        Largest relative error of one rounding, of numbers in the normal range.
    """

    name: str
    numpy: str
    bytes: int
    roundoff: float


TYPES = {
    kind.name: kind
    for kind in (
        ElementType("f16", "float16", 2, 2.0**-11),
        # NumPy has none; arrays are viewed as their bits.
        ElementType("bf16", "uint16", 2, 2.0**-8),
        ElementType("f32", "float32", 4, 2.0**-24),
        ElementType("f64", "float64", 8, 2.0**-53),
        # Integers are exact.
        ElementType("u8", "uint8", 1, 0.0),
        ElementType("s8", "int8", 1, 0.0),
        ElementType("s16", "int16", 2, 0.0),
        ElementType("s32", "int32", 4, 0.0),
    )
}


@dataclass(frozen=True)
class Numerics:
    """The types of one way to compute; all but `name` are keys of `TYPES`.

    Parameters
    ----------
    name : str
        In keys of wisdom and messages: the type of the arrays, followed by the type of the
        arithmetic if that differs, such as ``"f16f32"``.
    source : str
        Of the input array.
    operand : str
        Of the input as kernels read it: `source`, or the type that it is converted to before.
        Kernels are found by it.
    weights : str
        Of the packed weights.
    accumulator : str
        Of the sums as kernels leave them.
    destination : str
        Of the residual and the output array.
    bias : str
        Of bias, slopes and bounds of an activation.
    kr : int
        Neighbouring k that lie side by side in packed operands; 1: none do.
    chain : int or None
        Most products that are added up in `accumulator`; longer sums are chains of this length,
        added in the next wider type. None: there is no limit.
    conversion : float
        Error of converting arrays, relative to the largest output; 0 if none is converted.
    """

    name: str
    source: str
    operand: str
    weights: str
    accumulator: str
    destination: str
    bias: str
    kr: int = 1
    chain: int | None = None
    conversion: float = 0.0

    @property
    def converts(self) -> bool:
        """Whether the arrays have another type than kernels read and write."""
        return self.source != self.operand

    @property
    def order(self) -> str:
        """What limited chains add to the order of a sum, as `Plan.bits` says it."""
        return "" if self.chain is None else f", in chains of {self.chain}"

    @property
    def roundoff(self) -> float:
        """Unit roundoff of the sums."""
        return TYPES[self.accumulator].roundoff

    @property
    def source_bytes(self) -> int:
        """Size of an element of the input array."""
        return TYPES[self.source].bytes

    @property
    def operand_bytes(self) -> int:
        """Size of an element of the input as kernels read it."""
        return TYPES[self.operand].bytes

    @property
    def weight_bytes(self) -> int:
        """Size of an element of the packed weights."""
        return TYPES[self.weights].bytes

    @property
    def sum_bytes(self) -> int:
        """Size of a sum."""
        return TYPES[self.accumulator].bytes

    @property
    def destination_bytes(self) -> int:
        """Size of an element of the output array."""
        return TYPES[self.destination].bytes

    @property
    def bias_bytes(self) -> int:
        """Size of an element of the bias."""
        return TYPES[self.bias].bytes


def _floating(storage: str, compute: str) -> Numerics:
    """Arrays of type `storage`, all arithmetic in type `compute`."""
    conversion = 0.0
    if storage == "f16" != compute:
        # The result is rounded once, by half an ulp. The error is relative to the largest output,
        # so the bound holds for subnormal results too; results beyond 65504 are infinite.
        conversion = TYPES["f16"].roundoff
    elif compute == "f16" != storage:
        conversion = 2 * TYPES["f16"].roundoff  # the roundings of input and weights
    return Numerics(
        name=storage if storage == compute else storage + compute,
        source=storage,
        operand=compute,
        weights=compute,
        accumulator=compute,
        destination=storage,
        bias=compute,
        chain=HALF_CHAIN if compute == "f16" else None,
        conversion=conversion,
    )


# The `Numerics` by storage type and compute type.
_NUMERICS = {
    (storage, compute): _floating(storage, compute)
    for storage, compute in (
        ("f16", "f16"),
        ("f16", "f32"),
        ("f32", "f32"),
        ("f32", "f16"),
        ("f64", "f64"),
    )
}


def numerics_of(storage: str, compute: str) -> Numerics:
    """Return the `Numerics` for arrays of type `storage` and arithmetic in type `compute`.

    Raises
    ------
    ValueError
        If there are none.
    """
    found = _NUMERICS.get((storage, compute))
    if found is None:
        raise ValueError(f"arrays of {storage!r} cannot be computed in {compute!r}")
    return found


def default_permission(storage: str) -> tuple[str, ...]:
    """Types that every machine can compute arrays of type `storage` in."""
    return ("f32",) if storage == "f16" else (storage,)
