"""Instruction sets: the levels of the dispatch ladders, and the CPU features each may use."""

from __future__ import annotations

from dataclasses import dataclass

# Element types for which every level has all kernels, and their sizes in bytes.
DTYPES = {"f32": 4, "f64": 8}


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
        Element types for which the level has all kernels, keys of :data:`ELEMENT_BYTES`; narrow
        types have tables of their own.
    """

    name: str
    machine: str | None
    cflags: tuple[str, ...]
    features: tuple[str, ...]
    vector_bytes: int
    vector_registers: int
    dtypes: tuple[str, ...] = tuple(DTYPES)


# NEON of 32-bit Arm flushes subnormal numbers, as the loops ask for. So GCC uses it for vectors of
# floats only with unsafe optimizations; otherwise it computes them as scalars. The optimizations
# that change the order of sums or the sign of zeros are switched off again.
_FLUSHING = (
    "-funsafe-math-optimizations",
    "-fno-associative-math",
    "-fno-reciprocal-math",
    "-fsigned-zeros",
    "-ftrapping-math",
)

_AVX2 = ("-mavx2", "-mfma", "-mbmi2", "-mf16c")
_AVX2_FEATURES = ("avx", "avx2", "fma", "bmi2", "f16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq")
_AVX512_FEATURES = (*_AVX2_FEATURES, "avx512f", "avx512bw", "avx512vl", "avx512dq")

ISAS = {
    isa.name: isa
    for isa in (
        Isa("portable", None, (), (), 16, 16),
        Isa("avx2", "x86_64", _AVX2, _AVX2_FEATURES, 32, 16),
        # 256-bit products of bytes, for cores without AVX-512.
        Isa(
            "avxvnni",
            "x86_64",
            (*_AVX2, "-mavxvnni"),
            (*_AVX2_FEATURES, "avx_vnni"),
            32,
            16,
            (),
        ),
        # The same for products of two signed bytes. Old compilers do not know the name of this
        # level, and it has no kernels in C.
        Isa(
            "avxvnniint8",
            "x86_64",
            (*_AVX2, "-mavxvnni"),
            (*_AVX2_FEATURES, "avx_vnni", "avx_vnni_int8"),
            32,
            16,
            (),
        ),
        Isa("avx512", "x86_64", (*_AVX512, "-mprefer-vector-width=512"), _AVX512_FEATURES, 64, 32),
        # Products of bytes and of bfloat16; everything else comes from the levels below.
        Isa(
            "avx512vnni",
            "x86_64",
            (*_AVX512, "-mavx512vnni"),
            (*_AVX512_FEATURES, "avx512_vnni"),
            64,
            32,
            (),
        ),
        Isa(
            "avx512bf16",
            "x86_64",
            (*_AVX512, "-mavx512vnni", "-mavx512bf16"),
            (*_AVX512_FEATURES, "avx512_vnni", "avx512_bf16"),
            64,
            32,
            (),
        ),
        Isa(
            "amx",
            "x86_64",
            (*_AVX512, "-mavx512vnni", "-mavx512bf16"),
            (
                *_AVX512_FEATURES,
                "avx512_vnni",
                "avx512_bf16",
                "amx_tile",
                "amx_int8",
                "amx_bf16",
            ),
            64,
            32,
            (),
        ),
        Isa("neon", "aarch64", ("-march=armv8-a",), ("asimd",), 16, 32),
        # Only arithmetic in half precision; kernels of other types come from the level below.
        Isa(
            "fp16",
            "aarch64",
            ("-march=armv8.2-a+fp16",),
            ("asimd", "fphp", "asimdhp"),
            16,
            32,
            ("f16",),
        ),
        # Products of bytes in fours, products of matrices, and products of bfloat16; everything
        # else comes from the levels below.
        Isa(
            "dotprod",
            "aarch64",
            ("-march=armv8.2-a+dotprod",),
            ("asimd", "asimddp"),
            16,
            32,
            (),
        ),
        Isa(
            "i8mm",
            "aarch64",
            ("-march=armv8.2-a+dotprod+i8mm",),
            ("asimd", "asimddp", "i8mm"),
            16,
            32,
            (),
        ),
        Isa(
            "bf16",
            "aarch64",
            ("-march=armv8.2-a+bf16",),
            ("asimd", "bf16"),
            16,
            32,
            (),
        ),
        # 32-bit Arm. Portable C does what these two levels lack; for example all of float64, which
        # has no vectors on these machines.
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

    It is the next lower level that requires no feature beyond those of `isa`, so that every CPU
    with `isa` can execute it.
    """
    levels = list(ISAS.values())
    own = ISAS[isa]
    for level in reversed(levels[: levels.index(own)]):
        if level.machine in (None, own.machine) and set(level.features) <= set(own.features):
            return level.name
    return None
