"""The registry: the single truth of what kernels exist.

The build, the dispatch table, the tests, the benchmarks and the documentation are derived
from :func:`kernels`. A family of tiles comes from one loop over a description, never from
copies: to add a tile, widen the description; to add an instruction set, add an
:class:`Isa` and name it in :data:`GEMM_TILES` and :data:`C_OPERATIONS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

# Element types that every level has all kernels for, and the size of every element.
DTYPES = {"f32": 4, "f64": 8}
ELEMENT_BYTES = {**DTYPES, "f16": 2}

# What kernels of an element type add up in: a vector has as many lanes as it holds of these.
ACCUMULATORS = {"f16": "f16", "f32": "f32", "f64": "f64"}


@dataclass(frozen=True)
class Isa:
    """One level of the dispatch ladder.

    Parameters
    ----------
    name : str
        Name in symbols, in ``PPLCONV_MAX_ISA`` and in plans.
    machine : str or None
        ``platform.machine()`` it is built for; None: any.
    cflags : tuple of str
        Flags for the files of this level, and for no other file.
    features : tuple of str
        CPU features a file of this level may use, as Linux lists them (``/proc/cpuinfo``).
    vector_bytes : int
        Size of a vector register.
    vector_registers : int
        How many there are.
    dtypes : tuple of str
        Element types it has kernels for, keys of :data:`ELEMENT_BYTES`.
    """

    name: str
    machine: str | None
    cflags: tuple[str, ...]
    features: tuple[str, ...]
    vector_bytes: int
    vector_registers: int
    dtypes: tuple[str, ...] = tuple(DTYPES)


# GCC computes vectors as scalars where NEON would flush subnormal numbers, as the loops ask for,
# unless it may take liberties; those with the order of sums and the sign of zeros are taken back.
_FLUSHING = (
    "-funsafe-math-optimizations",
    "-fno-associative-math",
    "-fno-reciprocal-math",
    "-fsigned-zeros",
    "-ftrapping-math",
)

ISAS = {
    isa.name: isa
    for isa in (
        Isa("portable", None, (), (), 16, 16),
        Isa(
            "avx2",
            "x86_64",
            ("-mavx2", "-mfma", "-mbmi2", "-mf16c"),
            ("avx", "avx2", "fma", "bmi2", "f16c"),
            32,
            16,
        ),
        Isa(
            "avx512",
            "x86_64",
            (
                "-mavx2",
                "-mfma",
                "-mbmi2",
                "-mf16c",
                "-mavx512f",
                "-mavx512bw",
                "-mavx512vl",
                "-mavx512dq",
                "-mprefer-vector-width=512",
            ),
            ("avx", "avx2", "fma", "bmi2", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512dq"),
            64,
            32,
        ),
        Isa("neon", "aarch64", ("-march=armv8-a",), ("asimd",), 16, 32),
        # Arithmetic in half precision, and nothing else: other types are those of the level below.
        Isa(
            "fp16",
            "aarch64",
            ("-march=armv8.2-a+fp16",),
            ("asimd", "fphp", "asimdhp"),
            16,
            32,
            ("f16",),
        ),
        # 32-bit Arm: portable C does what these two levels lack, all of float64 for one, which has
        # no vectors there.
        Isa(
            "neon32",
            "armv7l",
            ("-march=armv7-a", "-mfpu=neon-vfpv4", *_FLUSHING),
            ("neon", "vfpv4"),
            16,
            16,
            ("f32",),
        ),
        Isa(
            "half32",
            "armv7l",
            ("-march=armv8.2-a+fp16", "-mfpu=auto", "-mfp16-format=ieee", *_FLUSHING),
            ("neon", "vfpv4", "fphp", "asimdhp"),
            16,
            16,
            ("f16",),
        ),
    )
}


def below(isa: str) -> str | None:
    """Level whose kernels stand in for those that `isa` lacks; None below the lowest.

    The next lower one that every CPU with `isa` can execute: it asks for no other features.
    """
    levels = list(ISAS.values())
    own = ISAS[isa]
    for level in reversed(levels[: levels.index(own)]):
        if level.machine in (None, own.machine) and set(level.features) <= set(own.features):
            return level.name
    return None


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

# Kinds of cores for which a level has a second set of GEMM kernels, with the same bits: ``inorder``
# is Cortex-A53, A55 and their like, for which loads stand between the FMAs.
GEMM_TUNINGS = {"neon": ("inorder",), "fp16": ("inorder",)}

EVERY_LEVEL = ("portable", "avx2", "avx512", "neon")
ARM32 = ("neon32", "half32")

# Operations with one kernel a level in assembly.
ASSEMBLY_OPERATIONS = {
    "activate": ("avx2", "avx512", "neon", "fp16"),
    "fma_peak": ("avx2", "avx512", "neon", "fp16", *ARM32),
}

# What networks do besides convolution. All but copies compute half precision in float.
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
    "activate",
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
    "zero_lanes": (*EVERY_LEVEL, "fp16", *ARM32),
    "elementwise": (*EVERY_LEVEL, "fp16", *ARM32),
    "depthwise_pixels": (*EVERY_LEVEL, "fp16", *ARM32),
    "depthwise_channels": (*EVERY_LEVEL, "fp16", *ARM32),
    "pack_depthwise": (*EVERY_LEVEL, "fp16", *ARM32),
    **dict.fromkeys(NETWORK_OPERATIONS, (*EVERY_LEVEL, "fp16", *ARM32)),
    # What Winograd's transforms spoil; of half precision there are none.
    "direct_sums": EVERY_LEVEL,
    "activate": ("portable", "half32"),
    "fma_peak": ("portable",),
}

# Conversions between arrays and scratch, listed by the compute type, that of the arithmetic; the
# arrays' storage type is the other one of the two.
CONVERSIONS = {"f32": EVERY_LEVEL, "f16": ("fp16", "half32")}
CONVERSION_OPERATIONS = ("convert_in", "convert_out")

# Winograd F(n x n, r x r): an output tile of n x n, weights of r x r. Each has the operations
# below, in C for `EVERY_LEVEL`: half precision does not carry the transforms' sums. A kernel's MR
# is n and its NR is r.
WINOGRAD_VARIANTS = ((2, 3), (4, 3), (6, 3), (2, 5), (4, 5))
WINOGRAD_OPERATIONS = ("winograd_input", "winograd_output", "winograd_weights")


@dataclass(frozen=True)
class Kernel:
    """One kernel: what it computes, on what, and what it needs.

    Parameters
    ----------
    op : str
        Operation, a key of :data:`asm.contract.CONTRACTS`.
    dtype : str
        Element type, a key of :data:`ELEMENT_BYTES`.
    isa : str
        Level of the ladder, a key of :data:`ISAS`.
    mr, nr, kr : int
        Tile: rows, columns and depth; 0 where the operation has none. Of Winograd transforms,
        ``mr`` is the side of the output tile and ``nr`` that of the weights.
    source : str
        ``"generator"`` (assembly from ``asm/<machine>/<op>.py``) or ``"template"``
        (C from ``asm/templates/<op>.c``).
    tuning : str
        Kind of cores it is scheduled for, of :data:`GEMM_TUNINGS`; empty: any.
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
        """Sums in one vector."""
        return ISAS[self.isa].vector_bytes // ELEMENT_BYTES[ACCUMULATORS[self.dtype]]

    @property
    def vectors(self) -> int:
        """Vectors in one row of the tile."""
        return self.nr // self.lanes


def _gemm_family() -> Iterator[Kernel]:
    for (isa, vectors), largest in GEMM_TILES.items():
        source = "template" if isa == "portable" else "generator"
        for dtype in ISAS[isa].dtypes:
            nr = vectors * Kernel("gemm", dtype, isa).lanes
            for mr in range(1, largest + 1):
                for tuning in ("", *GEMM_TUNINGS.get(isa, ())):
                    yield Kernel("gemm", dtype, isa, mr, nr, 1, source, tuning)


def kernels(machine: str | None = None) -> list[Kernel]:
    """List every kernel that is built for `machine`, lowest ISA first.

    Parameters
    ----------
    machine : str, optional
        As ``platform.machine()`` gives it. None lists the kernels of all machines.
    """
    rows = list(_gemm_family())
    for isa, level in ISAS.items():
        for dtype in level.dtypes:
            rows += [Kernel(op, dtype, isa) for op, isas in C_OPERATIONS.items() if isa in isas]
            for op in WINOGRAD_OPERATIONS if isa in EVERY_LEVEL else ():
                rows += [Kernel(op, dtype, isa, n, r) for n, r in WINOGRAD_VARIANTS]
            for op, isas in ASSEMBLY_OPERATIONS.items():
                rows += [Kernel(op, dtype, isa, source="generator")] if isa in isas else []
    for dtype, isas in CONVERSIONS.items():
        rows += [Kernel(op, dtype, isa) for op in CONVERSION_OPERATIONS for isa in isas]
    if machine is not None:
        rows = [r for r in rows if ISAS[r.isa].machine in (None, machine)]
    order = list(ISAS)
    return sorted(rows, key=lambda r: (r.op, r.dtype, order.index(r.isa), r.tuning, r.nr, r.mr))
