"""`Numerics`: the types of one way to compute, from the input to the output.

A problem names the type of its arrays and the types that it may be computed in; a candidate has one
`Numerics`. Everything that depends on types comes from it: sizes, kernels, error bounds, rates,
keys of wisdom.
"""

from __future__ import annotations

from ._kernels import HALF_CHAIN
from ._lazy import lazy
from ._records import NamedTuple, record

__all__ = [
    "BRAIN_KINDS",
    "PRODUCTS",
    "TYPES",
    "ElementType",
    "Numerics",
    "Product",
    "default_permission",
    "integer_permission",
    "numerics_of",
]


class ElementType(NamedTuple):
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
        # NumPy has no bfloat16; arrays are viewed as their bits.
        ElementType("bf16", "uint16", 2, 2.0**-8),
        ElementType("f32", "float32", 4, 2.0**-24),
        ElementType("f64", "float64", 8, 2.0**-53),
        # Integers are exact.
        ElementType("u8", "uint8", 1, 0.0),
        ElementType("s8", "int8", 1, 0.0),
        ElementType("s16", "int16", 2, 0.0),
        ElementType("s32", "int32", 4, 0.0),
        ElementType("s64", "int64", 8, 0.0),
    )
}


class Product(NamedTuple):
    """How GEMM kernels of one kind multiply.

    Parameters
    ----------
    operand, weights, accumulator : str
        Types of input elements, of packed weights and of sums.
    kr : int
        Neighbouring k that lie side by side in packed operands; 1: none do.
    instruction : str
        Text for `Plan.bits` if rounding depends on the instruction; else empty.
    step : int
        Neighbouring k that one instruction adds up. Rounded sums depend on how it adds them and on
        where steps begin. 0: `kr`.
    rounding : tuple of str
        Levels whose kernels can round sums to bfloat16 as they store them.
    """

    operand: str
    weights: str
    accumulator: str
    kr: int = 1
    instruction: str = ""
    step: int = 0
    rounding: tuple[str, ...] = ()


# Kinds of products, as the registry of kernels names them. ``t`` is for tiles of AMX, ``m`` for
# Arm's instructions that multiply matrices, ``d`` for depthwise convolution of bytes, ``p`` for
# pairs of products whose sums have 16 bits: exact only for weights whose sums cannot overflow.
PRODUCTS = {
    **{name: Product(name, name, name) for name in ("f16", "f32", "f64")},
    "u8": Product("u8", "s8", "s32", 4),
    "s8": Product("s8", "s8", "s32", 4),
    "s16": Product("s16", "s16", "s32", 2),
    "u8p": Product("u8", "s8", "s32", 4),
    "u8d": Product("u8", "s16", "s32"),
    "s8d": Product("s8", "s16", "s32"),
    "bf16": Product(
        "bf16", "bf16", "f32", 2, "pairs of bf16 by the dot product", rounding=("avx512bf16",)
    ),
    "u8m": Product("u8", "s8", "s32", 8),
    "s8m": Product("s8", "s8", "s32", 8),
    "bf16m": Product("bf16", "bf16", "f32", 4, "bf16 by BFMMLA"),
    "u8t": Product("u8", "s8", "s32", 4, step=64),
    "s8t": Product("s8", "s8", "s32", 4, step=64),
    "bf16t": Product("bf16", "bf16", "f32", 2, "pairs of bf16 by TDPBF16PS", 32),
}
# Products of bfloat16, the fastest first.
BRAIN_KINDS = ("bf16t", "bf16m", "bf16")
_BYTES = ("u8t", "s8t", "u8m", "s8m", "u8", "s8", "s16")
_PAIRS = "u8p"


@record(frozen=True)
class Numerics:
    """The types of one way to compute; all but `name` and `product` are keys of `TYPES`.

    Parameters
    ----------
    name : str
        In keys of wisdom and messages: the type of the arrays, then the kind of product if it
        differs, such as ``"f16f32"``, then the type of the output if it differs.
    source : str
        Of the input array.
    operand : str
        Of the input as kernels read it: `source`, or the type to which it is converted first.
        Kernels that move the input are looked up by it.
    weights : str
        Of the packed weights.
    accumulator : str
        Of the sums as kernels leave them.
    destination : str
        Of the residual and the output array.
    bias : str
        Of bias, slopes and bounds of an activation.
    product : str
        Kind of product, a key of `PRODUCTS`; GEMM kernels are looked up by it.
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
    product: str
    kr: int = 1
    chain: int | None = None
    conversion: float = 0.0

    @lazy
    def converts_in(self) -> bool:
        """Whether kernels read another type than the input array has."""
        return self.source != self.operand

    @lazy
    def converts_out(self) -> bool:
        """Whether sums are finished in scratch, on their way to an array of another type."""
        return self.exact or self.accumulator != self.destination

    def rounds_on(self, isa: str) -> bool:
        """Whether kernels of a level can convert sums to the output's type as they store them."""
        return self.destination == "bf16" and isa in PRODUCTS[self.product].rounding

    @lazy
    def converts_weights(self) -> bool:
        """Whether weights come in the type of the input, and have to be converted."""
        return self.converts_in and not self.exact

    @lazy
    def converts(self) -> bool:
        """Whether kernels read or write another type than the arrays have."""
        return self.converts_in or self.converts_out

    @lazy
    def exact(self) -> bool:
        """Whether sums are of integers."""
        return self.accumulator == "s32"

    @property
    def kind(self) -> dict[str, int | str]:
        """Fields that tell kinds of product with the same bits apart."""
        return {"product": self.product} if self.exact else {}

    @lazy
    def narrow(self) -> bool:
        """Whether operands are narrower than the sums: kernels then take pixels only in rows."""
        return self.operand != self.accumulator

    @property
    def in_converter(self) -> str:
        """Name of the kernels that convert the input."""
        if {self.source, self.operand} <= {"f16", "f32"}:
            return self.operand
        return self.source + self.operand

    @property
    def out_converter(self) -> str:
        """Name of the kernels that convert floating-point sums."""
        if {self.destination, self.accumulator} <= {"f16", "f32"}:
            return self.accumulator
        return self.destination + self.accumulator

    @property
    def order(self) -> str:
        """Text for `Plan.bits` about limited chains and narrow products in a sum's order."""
        said = PRODUCTS[self.product].instruction
        products = f", {said}" if said else ""
        return products if self.chain is None else f"{products}, in chains of {self.chain}"

    @lazy
    def step(self) -> int:
        """Neighbouring k that are added up in one step: sums are cut only between steps."""
        return PRODUCTS[self.product].step or self.kr

    @lazy
    def in_tiles(self) -> bool:
        """Whether integers are multiplied in tile registers, many groups of k in one step."""
        return self.exact and self.step > self.kr

    @property
    def roundoff(self) -> float:
        """Unit roundoff of the sums."""
        return TYPES[self.accumulator].roundoff

    @lazy
    def source_bytes(self) -> int:
        """Size of an element of the input array."""
        return TYPES[self.source].bytes

    @lazy
    def operand_bytes(self) -> int:
        """Size of an element of the input as kernels read it."""
        return TYPES[self.operand].bytes

    @lazy
    def weight_bytes(self) -> int:
        """Size of an element of the packed weights."""
        return TYPES[self.weights].bytes

    @property
    def filter_bytes(self) -> int:
        """Size of an element of the weights before packing."""
        return self.source_bytes if self.converts_weights else self.weight_bytes

    @lazy
    def sum_bytes(self) -> int:
        """Size of a sum."""
        return TYPES[self.accumulator].bytes

    @lazy
    def destination_bytes(self) -> int:
        """Size of an element of the output array."""
        return TYPES[self.destination].bytes

    @property
    def bias_bytes(self) -> int:
        """Size of an element of the bias."""
        return TYPES[self.bias].bytes


def _made(storage: str, compute: str, destination: str) -> Numerics:
    """Make one for arrays of `storage`, products of `compute` and outputs of `destination`."""
    product = PRODUCTS[compute]
    conversion = 0.0
    if product.operand == "bf16" != storage:
        conversion = 2 * TYPES["bf16"].roundoff  # the roundings of input and weights
    elif compute == "f16" != storage:
        conversion = 2 * TYPES["f16"].roundoff
    if destination == "bf16" or (destination == "f16" != compute):
        # The result is rounded once, by half an ulp. The error is relative to the largest output,
        # so the bound holds for subnormal results too; results beyond 65504 are infinite.
        conversion += TYPES[destination].roundoff
    name = storage if storage == compute else storage + compute
    return Numerics(
        name=name if destination == storage else f"{name}-{destination}",
        source=storage,
        operand=product.operand,
        weights=product.weights,
        accumulator=product.accumulator,
        destination=destination,
        bias=product.accumulator,
        product=compute,
        kr=product.kr,
        chain=HALF_CHAIN if compute == "f16" else None,
        conversion=conversion,
    )


# The `Numerics` by storage type, kind of product and type of the output.
_NUMERICS = (
    {
        (storage, compute, storage): _made(storage, compute, storage)
        for storage, compute in (
            ("f16", "f16"),
            ("f16", "f32"),
            ("f32", "f32"),
            ("f32", "f16"),
            ("f64", "f64"),
            ("bf16", "f32"),
            *((storage, compute) for storage in ("f32", "bf16") for compute in BRAIN_KINDS),
        )
    }
    | {
        # A network's values are of the type that their maker and readers together prefer.
        (storage, compute, destination): _made(storage, compute, destination)
        for storage, destination in (("f32", "bf16"), ("bf16", "f32"))
        for compute in ("f32", *BRAIN_KINDS)
    }
    | {
        (storage, compute, destination): _made(storage, compute, destination)
        for storage in ("u8", "s8")
        for compute in (*_BYTES, _PAIRS, f"{storage}d")
        for destination in ("u8", "s8", "s32", "f32")
    }
)


def numerics_of(storage: str, compute: str, destination: str = "") -> Numerics:
    """Return the `Numerics` for arrays of type `storage` and products of kind `compute`.

    Parameters
    ----------
    storage : str
        Type of the input array.
    compute : str
        Kind of product, a key of `PRODUCTS`.
    destination : str, optional
        Type of the output; `storage` by default.

    Raises
    ------
    ValueError
        If there is no such combination.
    """
    found = _NUMERICS.get((storage, compute, destination or storage))
    if found is None:
        into = f" into {destination}" if destination else ""
        raise ValueError(f"arrays of {storage!r} cannot be computed in {compute!r}{into}")
    return found


def default_permission(storage: str) -> tuple[str, ...]:
    """Return the kinds of product for arrays of type `storage` by default.

    Every machine has the last of them. All kinds for integers give the same sums.
    """
    if storage in ("u8", "s8"):
        return _BYTES
    if storage == "bf16":
        return (*BRAIN_KINDS, "f32")
    return ("f32",) if storage == "f16" else (storage,)


def integer_permission(
    storage: str, weights: str, depthwise: bool, pairs: bool = False
) -> tuple[str, ...]:
    """Return the kinds of product for convolution of bytes by integer weights.

    Parameters
    ----------
    storage : str
        Of the input.
    weights : str
        Of the weights less their zero points: ``"s8"``, or ``"s16"`` if that made them wider.
    depthwise : bool
        Whether groups have one input channel.
    pairs : bool
        Whether neighbouring weights are so small that the sum of their two products fits 16 bits
        for any input.
    """
    permitted = default_permission(storage) if weights == "s8" else ("s16",)
    if pairs:
        *others, words = permitted
        permitted = (*others, _PAIRS, words)
    return (f"{storage}d", *permitted) if depthwise else permitted
