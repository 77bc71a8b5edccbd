"""The registry: the list of all kernels, from which everything else follows.

The build, the dispatch table, the tests, the benchmarks and the documentation are derived
from :func:`kernels`. A family of tiles comes from one loop over a description, never from
copies: to add a tile, widen the description; to add an instruction set, add an
:class:`Isa` to :mod:`asm.isas` and name it in :data:`GEMM_TILES` and :data:`C_OPERATIONS`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from asm.isas import DTYPES as DTYPES
from asm.isas import ISAS as ISAS
from asm.isas import Isa as Isa
from asm.isas import below as below

# The size of every element.
ELEMENT_BYTES = {**DTYPES, "f16": 2, "bf16": 2, "u8": 1, "s8": 1, "s16": 2, "s32": 4, "s64": 8}


@dataclass(frozen=True)
class Product:
    """How a family of GEMM kernels multiplies: the types that it works with.

    Parameters
    ----------
    a, b, sum : str
        Types of the elements of A, of B and of the sums, keys of :data:`ELEMENT_BYTES`. A vector
        has as many lanes as it holds sums.
    kr : int
        Number of neighbouring k that one step multiplies together. In memory they lie side by side
        in each row of A and each column of B.
    """

    a: str
    b: str
    sum: str
    kr: int = 1


# The type part of the names of GEMM kernels. A type without a suffix: vectors along B. ``m``: an
# instruction that multiplies matrices of two rows and two columns (Arm); ``t``: tile registers
# (AMX); ``p``: pairs of products by an instruction that keeps their sum in 16 bits (x86).
PRODUCTS = {
    **{dtype: Product(dtype, dtype, dtype) for dtype in ("f16", "f32", "f64")},
    "u8": Product("u8", "s8", "s32", 4),
    "s8": Product("s8", "s8", "s32", 4),
    "s16": Product("s16", "s16", "s32", 2),
    "bf16": Product("bf16", "bf16", "f32", 2),
    "u8m": Product("u8", "s8", "s32", 8),
    "s8m": Product("s8", "s8", "s32", 8),
    "bf16m": Product("bf16", "bf16", "f32", 4),
    "u8p": Product("u8", "s8", "s32", 4),
    "u8t": Product("u8", "s8", "s32", 4),
    "s8t": Product("s8", "s8", "s32", 4),
    "bf16t": Product("bf16", "bf16", "f32", 2),
}

# Type of the accumulators of each product: a vector has as many lanes as it holds accumulators.
ACCUMULATORS = {name: product.sum for name, product in PRODUCTS.items()}


# (ISA, vectors in a tile row) -> largest MR. The bound is the register file: MR * vectors
# accumulators, the vectors of B, and one or two broadcasts of A (AVX-512 tiles of one vector
# broadcast from memory inside the FMA and need none; NEON multiplies by an element of a vector,
# and keeps a column of A in as few registers as it fills).
GEMM_TILES = {
    ("portable", 2): 4,
    ("portable", 4): 4,
    ("avx2", 1): 12,
    ("avx2", 2): 6,
    ("avx2", 3): 4,
    ("avx512", 1): 28,
    ("avx512", 2): 14,
    ("avx512", 3): 9,
    ("avx512", 4): 6,
    ("neon", 1): 16,
    ("neon", 2): 12,
    ("neon", 3): 8,
    ("neon", 4): 6,
    ("fp16", 1): 16,
    ("fp16", 2): 12,
    ("fp16", 3): 8,
    ("fp16", 4): 6,
    ("neon32", 1): 12,
    ("neon32", 2): 6,
    ("neon32", 3): 4,
    ("half32", 1): 12,
    ("half32", 2): 6,
    ("half32", 3): 4,
}

# Kinds of cores for which a level has a second set of GEMM kernels, with the same bits. In kernels
# for ``inorder`` the loads stand between the FMAs. They run on in-order cores of ARMv8.2 with half
# precision, such as Cortex-A55; Cortex-A53 runs the kernels for any core (`Machine.tuning`).
GEMM_TUNINGS = {"neon": ("inorder",), "fp16": ("inorder",)}

# The same for products of narrow types: (ISA, product) -> {vectors in a row: largest MR}.
NARROW_TILES = {
    ("portable", "u8"): {2: 4, 4: 4},
    ("portable", "s8"): {2: 4, 4: 4},
    ("portable", "s16"): {2: 4, 4: 4},
    ("portable", "bf16"): {2: 4, 4: 4},
    # The product and its addition are two instructions, with one more register between them.
    ("avx2", "s16"): {1: 12, 2: 6},
    # Pairs of products are added up by a product with ones, which take a register too.
    ("avx2", "u8p"): {1: 10, 2: 5},
    ("avxvnni", "u8"): {1: 12, 2: 6, 3: 4},
    ("avxvnniint8", "s8"): {1: 12, 2: 6, 3: 4},
    ("avx512", "s16"): {1: 28, 2: 14, 3: 9, 4: 6},
    ("avx512", "u8p"): {1: 28, 2: 13, 3: 8, 4: 6},
    ("avx512vnni", "u8"): {1: 28, 2: 14, 3: 9, 4: 6},
    ("avx512bf16", "bf16"): {1: 28, 2: 14, 3: 9, 4: 6},
    # A tile register holds 16 x 16 sums: up to 2 x 2 of them are accumulators, others hold A and B.
    ("amx", "u8t"): {1: 32, 2: 32},
    ("amx", "s8t"): {1: 32, 2: 32},
    ("amx", "bf16t"): {1: 32, 2: 32},
    ("neon", "s16"): {1: 16, 2: 12, 3: 8, 4: 6},
    ("dotprod", "s8"): {1: 16, 2: 12, 3: 8, 4: 6},
    ("i8mm", "s8m"): {1: 16, 2: 12, 3: 8, 4: 6},
    ("i8mm", "u8m"): {1: 16, 2: 12, 3: 8, 4: 6},
    ("bf16", "bf16"): {1: 16, 2: 12, 3: 8, 4: 6},
    ("bf16", "bf16m"): {1: 16, 2: 12, 3: 8, 4: 6},
}

# Products with sparse weights whose vectors run over pixels: ISA -> {output channels of a panel:
# vectors of pixels}. The bound is the register file again. A panel of one channel needs enough
# vectors to hide the latency of an FMA; a panel that has no room for more than one vector still
# shares each load of pixels among its channels.
SPARSE_PANELS = (1, 4, 8, 16)
_NEON_PANELS = {1: (1, 2, 4, 8), 4: (1, 2, 3, 4, 5, 6), 8: (1, 2, 3), 16: (1,)}
SPARSE_PIXELS_TILES: dict[str, dict[int, tuple[int, ...]]] = {
    # Wider panels are cut into panels of these widths.
    "portable": {1: (1, 4), 4: (1, 4)},
    "avx2": {1: (1, 2, 4), 4: (1, 2, 3), 8: (1,)},
    # There are seven masks.
    "avx512": {1: (1, 2, 4, 7), 4: (1, 2, 3, 4, 5, 6), 8: (1, 2, 3), 16: (1,)},
    "neon": _NEON_PANELS,
    "fp16": _NEON_PANELS,
}

# The same for products of integers, several terms at a time: (ISA, product) -> {output channels of
# a panel: vectors of sums}. Shuffles interleave the bytes and words of the terms once for all
# channels of a panel. The more channels, the narrower the tile.
SPARSE_NARROW_TILES: dict[tuple[str, str], dict[int, tuple[int, ...]]] = {
    **{("portable", name): {1: (4,), 4: (4,)} for name in ("u8", "s8", "s16")},
    ("avx2", "s16"): {1: (2,), 4: (2,), 8: (1,)},
    ("avxvnni", "u8"): {1: (4,), 4: (2,), 8: (1,)},
    ("avxvnniint8", "s8"): {1: (4,), 4: (2,), 8: (1,)},
    ("avx512", "s16"): {1: (2, 4), 4: (1, 2, 4), 8: (1, 2), 16: (1,)},
    ("avx512vnni", "u8"): {1: (4,), 4: (1, 2, 4), 8: (1, 2), 16: (1,)},
    ("neon", "s16"): _NEON_PANELS,
    ("dotprod", "s8"): {1: (1, 2, 4), 4: (1, 2, 4), 8: (1, 2), 16: (1,)},
}

# Levels whose vectors may run over the output channels of a panel of more than one channel. Their
# tiles are GEMM's tiles whose rows are as wide as the panel.
SPARSE_CHANNELS_ISAS = ("avx2", "avx512", "neon", "fp16")

# Operations whose kernels have tiles as GEMM has, also in the table of kernels.
SPARSE_OPERATIONS = ("sparse_pixels", "sparse_channels")

EVERY_LEVEL = ("portable", "avx2", "avx512", "neon")
ARM32 = ("neon32", "half32")

# Operations with one kernel a level in assembly.
ASSEMBLY_OPERATIONS = {
    "curve": ("avx2", "avx512", "neon", "fp16"),
    "fma_peak": ("avx2", "avx512", "neon", "fp16", *ARM32),
}

# Operations of networks besides convolution. All but copies compute half precision in float.
NETWORK_OPERATIONS = (
    "pool",
    "resample",
    "reduce_rows",
    "reduce_columns",
    "softmax",
    "layer_norm",
    "copy_strided",
)
HALF_IN_FLOAT = (
    "curve",
    "elementwise",
    *(op for op in NETWORK_OPERATIONS if op != "copy_strided"),
)

# Operations whose kernels are C, compiled once per dtype and ISA from one source.
C_OPERATIONS = {
    "pack_pixels": (*EVERY_LEVEL, "fp16", *ARM32),
    "pack_rows": (*EVERY_LEVEL, "fp16", *ARM32),
    "pack_channels": (*EVERY_LEVEL, "fp16", *ARM32),
    "pack_weights": (*EVERY_LEVEL, "fp16", *ARM32),
    "store_transposed": (*EVERY_LEVEL, "fp16", *ARM32),
    "pack_sparse": ("portable", "fp16"),
    "zero_lanes": (*EVERY_LEVEL, "fp16", *ARM32),
    "round_sums": EVERY_LEVEL,
    # Integers of any length, one after the other: no vectors.
    "exact_sums": ("portable",),
    "filter_floats": EVERY_LEVEL,
    "box_columns": EVERY_LEVEL,
    "pixel_columns": EVERY_LEVEL,
    "whole_sums": EVERY_LEVEL,
    "read_pixels": EVERY_LEVEL,
    "elementwise": (*EVERY_LEVEL, "fp16", *ARM32),
    "depthwise_pixels": (*EVERY_LEVEL, "fp16", *ARM32),
    "depthwise_channels": (*EVERY_LEVEL, "fp16", *ARM32),
    "pack_depthwise": (*EVERY_LEVEL, "fp16", *ARM32),
    **dict.fromkeys(NETWORK_OPERATIONS, (*EVERY_LEVEL, "fp16", *ARM32)),
    "arg_columns": ("portable",),
    # Vectors without intrinsics.
    "pool_places": ("portable", "avx2"),
    "top_columns": ("portable",),
    # Repairs outputs that Winograd's transforms spoil; half precision has no such transforms.
    "direct_sums": EVERY_LEVEL,
    "fma_peak": ("portable",),
}

# Conversions between arrays and scratch, listed by their compute type. The storage type of the
# arrays is the other one of ``f32`` and ``f16``.
CONVERSIONS = {"f32": EVERY_LEVEL, "f16": ("fp16", "half32")}
CONVERSION_OPERATIONS = ("convert_in", "convert_out")
# Stores of sums from scratch without a conversion: storage type and compute type are the same.
STORES = {
    "f32f32": EVERY_LEVEL,
    "f64f64": EVERY_LEVEL,
    "f16f16": ("fp16",),
}

# Levels with an instruction that rounds to bfloat16. On x86 it flushes subnormal numbers, as their
# products do, so it serves operands and sums; all other levels keep them. On Arm it flushes only
# where asked to, so it serves element-wise programs, too (`asm/templates/flushed.h`).
FLUSHING_CONVERSIONS = ("avx512bf16",)
EXACT_CONVERSIONS = ("bf16",)
BRAIN_CONVERSIONS = (*FLUSHING_CONVERSIONS, *EXACT_CONVERSIONS)
# Operations of float32 that a level has for its rounding to bfloat16 alone.
ROUNDING_OPERATIONS = {"elementwise": EXACT_CONVERSIONS}

# Depthwise convolution of bytes, and the levels with their own way of multiplying bytes.
DEPTHWISE_BYTES_OPERATIONS = (
    "depthwise_bytes_channels",
    "depthwise_bytes_pixels",
    "pack_depthwise_bytes",
)
DEPTHWISE_BYTES_LEVELS = ("portable", "avx2", "avxvnni", "avx512", "avx512vnni", "dotprod")

# Level and product of the GEMM kernels that round to bfloat16 as they store, with STORE_BF16.
ROUNDING_TILES = (("avx512bf16", "bf16"),)

# Operations of narrow types besides products: operation -> {type: levels}. Operations that only
# move bits are listed under ``u8`` for all types of one byte, under ``s16`` for all of two bytes.
# Where wider vectors bring nothing, AVX-512 uses the kernels of AVX2.
BYTE_CONVERSIONS = ("u8s16", "s8s16", "u8s8", "s8u8", "f32bf16")
NARROW_OPERATIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "convert_in": {
        **dict.fromkeys((*BYTE_CONVERSIONS, "bf16f32"), EVERY_LEVEL),
        "f32bf16": (*EVERY_LEVEL, *BRAIN_CONVERSIONS),
    },
    "convert_out": {"bf16f32": (*EVERY_LEVEL, *BRAIN_CONVERSIONS)},
    "pack_rows": dict.fromkeys(("u8", "s16"), EVERY_LEVEL),
    "pack_channels": dict.fromkeys(("u8", "s16"), EVERY_LEVEL),
    "pack_weights": dict.fromkeys(("u8", "s16"), ("portable", "avx2", "neon")),
    "pad_channels": dict.fromkeys(("u8", "s16"), EVERY_LEVEL),
    "copy_strided": dict.fromkeys(("u8", "s16"), EVERY_LEVEL),
    "pack_sparse": dict.fromkeys(("u8", "s16"), ("portable",)),
    "quantize": dict.fromkeys(("u8", "s8"), EVERY_LEVEL),
    "dequantize": dict.fromkeys(("u8", "s8", "s32"), EVERY_LEVEL),
    "rescale": dict.fromkeys(("u8", "s8"), EVERY_LEVEL),
    "sum_bytes": dict.fromkeys(("u8", "s8"), EVERY_LEVEL),
    "lookup": {"u8": EVERY_LEVEL},
    "filter_row": {"u8": EVERY_LEVEL},
    # Other levels add up rows one by one, by `filter_row`.
    "filter_squares": {"u8": ("avx2", "avx512")},
    # Others round sums of floats, by `round_sums`. One kernel for both types of 16 bits.
    "filter_means": {"s16": ("avx2", "avx512"), "u8": ("avx2", "avx512")},
    # Others sum up columns and rows, by `pixel_columns` and `whole_sums`.
    "filter_mirrored": {"u8": ("avx2", "avx512", "avx512vnni")},
    # Other levels add up neighbours by `filter_floats`.
    "box_rows": {"f32": ("avx512",)},
    "near_rows": dict.fromkeys(("f32", "f64"), ("avx2",)),
    # Others load pixels once for each tap of a row.
    "filter_strips": {"f32": ("avx2", "avx512")},
    # Others multiply in floating point, by `filter_floats` and `whole_sums`.
    "pair_pixels": {"s16": ("avx2", "avx512")},
    # Makes the pairs of bytes.
    "pair_rows": {"u8": ("avx2", "avx512")},
    "pair_sums": {"s16": ("avx2", "avxvnni", "avx512", "avx512vnni")},
    "pair_row_sums": {"s16": ("avx2", "avxvnni", "avx512", "avx512vnni")},
    "pair_column_sums": {"s16": ("avx2", "avxvnni", "avx512", "avx512vnni")},
    # Vectors of four lanes without intrinsics: the portable kernel has those of NEON.
    "elementwise": dict.fromkeys(("s32", "s64"), ("portable", "avx2")),
    "reduce_rows": dict.fromkeys(("s32", "s64"), ("portable", "avx2")),
    "reduce_columns": dict.fromkeys(("s32", "s64"), ("portable", "avx2")),
    "arg_columns": dict.fromkeys(("s32", "s64"), ("portable",)),
    "top_columns": dict.fromkeys(("s32", "s64"), ("portable",)),
    # Boxes are float32 in ONNX.
    "suppress": {"f32": EVERY_LEVEL},
    # By the type of the indices.
    "copy_indexed": dict.fromkeys(("s32", "s64"), ("portable",)),
    # The largest alone. The portable kernel has vectors of 16 bytes; a pixel has few longer ones.
    "pool": dict.fromkeys(("u8", "s8"), ("portable",)),
    "resample": {"u8": EVERY_LEVEL},
    "requantize": dict.fromkeys(("u8", "s8", "s32", "f32"), EVERY_LEVEL),
    **dict.fromkeys(
        DEPTHWISE_BYTES_OPERATIONS, dict.fromkeys(("u8", "s8"), DEPTHWISE_BYTES_LEVELS)
    ),
    # One kernel for all types: it touches no elements.
    "release_tiles": {"u8": ("amx",)},
    # For every product that has kernels in assembly.
    "fma_peak": {
        product: tuple(isa for isa, other in NARROW_TILES if other == product and isa != "portable")
        for product in dict.fromkeys(product for _, product in NARROW_TILES)
    },
}

# Winograd of bytes: only variants without fractions, whose transforms are exact.
WINOGRAD_INTEGER_VARIANTS = ((2, 3),)
WINOGRAD_INTEGERS = {
    "winograd_input": ("u8", "s8"),
    "winograd_output": ("s32",),
    "winograd_weights": ("s16",),
}
NARROW_OPERATIONS |= {
    op: dict.fromkeys(types, EVERY_LEVEL) for op, types in WINOGRAD_INTEGERS.items()
}

# Operations of narrow types that are assembly.
NARROW_ASSEMBLY = ("fma_peak", "release_tiles")

# Winograd F(n x n, r x r): an output tile of n x n, weights of r x r. Each variant has the
# operations below, in C for `EVERY_LEVEL`; half precision is left out, as it cannot hold the
# transforms' sums. A kernel's MR is n and its NR is r.
WINOGRAD_VARIANTS = ((2, 3), (4, 3), (6, 3), (3, 4), (2, 5), (4, 5))
# Variants with patches of one size have the same points, so the same transform of the input: its
# kernels are named after the one of 3 x 3.
WINOGRAD_OPERATIONS = {
    "winograd_input": tuple((n, r) for n, r in WINOGRAD_VARIANTS if r == 3),
    "winograd_output": WINOGRAD_VARIANTS,
    "winograd_weights": WINOGRAD_VARIANTS,
}


@dataclass(frozen=True)
class Kernel:
    """One kernel: what it computes, on what, and what it needs.

    Parameters
    ----------
    op : str
        Operation, a key of :data:`asm.contract.CONTRACTS`.
    dtype : str
        Element type, a key of :data:`ELEMENT_BYTES`. For GEMM: a key of :data:`PRODUCTS`. For
        conversions: the storage type followed by the compute type, or the compute type alone for
        conversions between ``f32`` and ``f16``.
    isa : str
        Level of the ladder, a key of :data:`ISAS`.
    mr, nr, kr : int
        Tile: rows, columns and depth; 0 where the operation has none. For Winograd transforms,
        ``mr`` is the side of the output tile and ``nr`` the side of the weights.
    source : str
        ``"generator"`` (assembly from ``asm/<machine>/<op>.py``) or ``"template"``
        (C from ``asm/templates/<op>.c``).
    tuning : str
        Kind of cores it is scheduled for, from :data:`GEMM_TUNINGS`; empty: any.
    """

    op: str
    dtype: str
    isa: str
    mr: int = 0
    nr: int = 0
    kr: int = 0
    source: str = "template"
    tuning: str = ""

    @property
    def symbol(self) -> str:
        """Name of the function, and of its file without the suffix."""
        tile = f"_{self.mr}x{self.nr}" if self.mr else ""
        tuning = f"_{self.tuning}" if self.tuning else ""
        return f"pplconv_{self.op}_{self.dtype}{tile}_{self.isa}{tuning}"

    @property
    def lanes(self) -> int:
        """Sums in one vector; for kernels without sums, words of 32 bits."""
        sums = ACCUMULATORS.get(self.dtype, "s32")
        return ISAS[self.isa].vector_bytes // ELEMENT_BYTES[sums]

    @property
    def vectors(self) -> int:
        """Vectors in one row of the tile."""
        return self.nr // self.lanes

    @property
    def rounds(self) -> bool:
        """Whether it stores bfloat16 if `STORE_BF16` is set."""
        return self.op == "gemm" and (self.isa, self.dtype) in ROUNDING_TILES


def _gemm_family() -> Iterator[Kernel]:
    for (isa, vectors), largest in GEMM_TILES.items():
        source = "template" if isa == "portable" else "generator"
        for dtype in ISAS[isa].dtypes:
            nr = vectors * Kernel("gemm", dtype, isa).lanes
            kr = PRODUCTS[dtype].kr
            for mr in range(1, largest + 1):
                for tuning in ("", *GEMM_TUNINGS.get(isa, ())):
                    yield Kernel("gemm", dtype, isa, mr, nr, kr, source, tuning)
    for (isa, dtype), widths in NARROW_TILES.items():
        source = "template" if isa == "portable" else "generator"
        for vectors, largest in widths.items():
            nr = vectors * Kernel("gemm", dtype, isa).lanes
            for mr in range(1, largest + 1):
                yield Kernel("gemm", dtype, isa, mr, nr, PRODUCTS[dtype].kr, source)


def _sparse_family() -> Iterator[Kernel]:
    for isa, panels in SPARSE_PIXELS_TILES.items():
        source = "template" if isa == "portable" else "generator"
        for dtype in ISAS[isa].dtypes:
            lanes = Kernel("sparse_pixels", dtype, isa).lanes
            for panel, widths in panels.items():
                for vectors in widths:
                    yield Kernel("sparse_pixels", dtype, isa, panel, vectors * lanes, 1, source)
    for (isa, dtype), panels in SPARSE_NARROW_TILES.items():
        source = "template" if isa == "portable" else "generator"
        lanes, kr = Kernel("sparse_pixels", dtype, isa).lanes, PRODUCTS[dtype].kr
        for panel, widths in panels.items():
            for vectors in widths:
                yield Kernel("sparse_pixels", dtype, isa, panel, vectors * lanes, kr, source)
    for isa in SPARSE_CHANNELS_ISAS:
        source = "template" if isa == "portable" else "generator"
        for dtype in ISAS[isa].dtypes:
            lanes = Kernel("sparse_channels", dtype, isa).lanes
            for panel in SPARSE_PANELS[1:]:
                largest = 0 if panel % lanes else GEMM_TILES.get((isa, panel // lanes), 0)
                for mr in range(1, largest + 1):
                    yield Kernel("sparse_channels", dtype, isa, mr, panel, 1, source)


def kernels(machine: str | None = None) -> list[Kernel]:
    """List every kernel that is built for `machine`, lowest ISA first.

    Parameters
    ----------
    machine : str, optional
        As ``platform.machine()`` gives it. None lists the kernels of all machines.
    """
    rows = [*_gemm_family(), *_sparse_family()]
    for isa, level in ISAS.items():
        for dtype in level.dtypes:
            rows += [Kernel(op, dtype, isa) for op, isas in C_OPERATIONS.items() if isa in isas]
            for op, variants in WINOGRAD_OPERATIONS.items() if isa in EVERY_LEVEL else ():
                rows += [Kernel(op, dtype, isa, n, r) for n, r in variants]
            for op, isas in ASSEMBLY_OPERATIONS.items():
                rows += [Kernel(op, dtype, isa, source="generator")] if isa in isas else []
    for dtype, isas in CONVERSIONS.items():
        rows += [Kernel(op, dtype, isa) for op in CONVERSION_OPERATIONS for isa in isas]
    rows += [Kernel("convert_out", dtype, isa) for dtype, isas in STORES.items() for isa in isas]
    for op, isas in ROUNDING_OPERATIONS.items():
        rows += [Kernel(op, "f32", isa) for isa in isas]
    for op, types in NARROW_OPERATIONS.items():
        source = "generator" if op in NARROW_ASSEMBLY else "template"
        tiles = WINOGRAD_INTEGER_VARIANTS if op in WINOGRAD_INTEGERS else ((0, 0),)
        for (dtype, isas), (n, r) in itertools.product(types.items(), tiles):
            rows += [Kernel(op, dtype, isa, n, r, source=source) for isa in isas]
    if machine is not None:
        rows = [r for r in rows if ISAS[r.isa].machine in (None, machine)]
    order = list(ISAS)
    return sorted(rows, key=lambda r: (r.op, r.dtype, order.index(r.isa), r.tuning, r.nr, r.mr))
