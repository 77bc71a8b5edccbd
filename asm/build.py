"""Turn the registry into sources, compiler flags and the dispatch table.

``setup.py`` calls :func:`generate`, compiles each :class:`Source` with its own flags, and
links the objects into ``pplconv._kernels``. Nothing here asks what the build machine can
*execute*: flags follow from the registry alone, and the choice is made at run time.

``python -m asm.build DIRECTORY`` writes the sources for reading and disassembling.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from asm import error_function, exponential, sines
from asm.aarch64 import encode as aarch64_encode
from asm.aarch64.mach_o import mach_o
from asm.contract import header_text
from asm.contract.constants import NUMBERS
from asm.kept import write
from asm.registry import (
    BYTE_CONVERSIONS,
    C_OPERATIONS,
    CONVERSION_OPERATIONS,
    ELEMENT_BYTES,
    HALF_IN_FLOAT,
    ISAS,
    NARROW_OPERATIONS,
    PRODUCTS,
    STORES,
    WINOGRAD_INTEGER_VARIANTS,
    WINOGRAD_OPERATIONS,
    WINOGRAD_VARIANTS,
    Kernel,
    below,
    kernels,
)
from asm.winograd_code import header_text as transforms_text
from asm.x86_64 import encode as x86_64_encode
from asm.x86_64 import encode_tiles

ROOT = Path(__file__).resolve().parent
TEMPLATES = ROOT / "templates"

# No contraction: the portable kernels are the reference, so their roundings are spelled out.
# Without errno, a square root is always an instruction and never a call.
# No kernel calls back, so none needs unwind tables; the assembly kernels have none either.
C_FLAGS = (
    *("-std=gnu11", "-Wall", "-Wextra", "-ffp-contract=off", "-fno-math-errno"),
    # Python's own flags may have -fwrapv, with which gcc 12 crashes in `elementwise`.
    "-fno-wrapv",
    "-fno-asynchronous-unwind-tables",
)
HIDDEN = ("-fvisibility=hidden",)
# Some AArch64 systems reserve register x18; only Linux lets compilers use it.
MACHINE_FLAGS = {"aarch64": ("-ffixed-x18",)}
# Folder of each machine's generators.
FOLDERS = {"x86_64": "x86_64", "aarch64": "aarch64", "armv7l": "aarch32"}
# Functions that write instructions as words or bytes, for assemblers that do not know them.
ENCODERS = {
    "x86_64": (x86_64_encode.encoded, encode_tiles.in_bytes),
    "aarch64": (aarch64_encode.encode,),
}
PLAIN_SOURCES = ("pixel_runs", "cpuid", "auxval")
# Products whose GEMM kernels have a generator of their own.
GENERATORS = dict.fromkeys((("gemm", dtype) for dtype in ("u8t", "s8t", "bf16t")), "gemm_tiles")
# Operations with one template for all types, narrow types included.
OF_ALL_TYPES = ("arg_columns", "pack_sparse", "suppress", "top_columns")
# Operations whose kernels of narrow types compute in these, without conversions.
OF_INTEGERS = ("arg_columns", "elementwise", "reduce_columns", "reduce_rows", "top_columns")
# Operations that are as fast, and smaller by a quarter, when they are compiled for size: their
# vectors and blocks are written out.
FOR_SIZE = (
    "box_columns", "depthwise_bytes_channels", "filter_floats", "pixel_columns", "whole_sums",
)  # fmt: skip
# The same of portable C, and of double precision.
PORTABLE_FOR_SIZE = ("depthwise_channels", "depthwise_pixels", "winograd_input")
DOUBLE_FOR_SIZE = ("depthwise_channels",)
# Loops that make a convolution's products. Other portable C keeps the compiler's unrolling away:
# it doubles the code, and every CPU that is met has better kernels.
PORTABLE_FOR_SPEED = ("gemm", "winograd_output", "sparse_channels")
# Operations of float64 that are rare: smaller by two thirds, and slower by up to a quarter, without
# a loop for each combination of their operands.
SELDOM = ("elementwise",)
# Operations whose templates write their blocks out: as fast, and smaller by a tenth, if the
# compiler copies no loops on its own.
WRITTEN_OUT = (
    "depthwise_channels", "depthwise_pixels", "filter_means", "filter_strips", "pair_pixels",
    "pair_rows", "read_pixels", "round_sums",
)  # fmt: skip
# Operations whose functions the linker orders by name (`setup.py`): a function of one type or level
# then lies beside the same function of another, which makes a wheel 41 kB smaller.
BY_FUNCTION = (
    "depthwise_bytes_channels",
    "depthwise_bytes_pixels",
    "depthwise_pixels",
    "requantize",
)
# Operations whose template takes computed constants: dtype to macros.
CONSTANTS: dict[str, Callable[[str], dict[str, str]]] = {
    "elementwise": lambda dtype: {
        **exponential.c_macros(dtype),
        **error_function.c_macros(),
        **sines.c_macros(),
    },
    "softmax": exponential.c_macros,
}
# C types of elements as they are stored; bfloat16 is stored as its bits.
STORED = {"u8": "uint8_t", "s8": "int8_t", "s16": "int16_t", "bf16": "uint16_t"}


@dataclass(frozen=True)
class Source:
    """A file to compile and the flags it alone gets."""

    path: Path
    flags: tuple[str, ...]


def _transforms_name(n: int, r: int, integers: bool = False) -> str:
    return f"winograd_{n}x{r}{'_integers' * integers}.h"


def _is_narrow(kernel: Kernel) -> bool:
    return kernel.dtype in NARROW_OPERATIONS.get(kernel.op, {})


def _template_name(kernel: Kernel) -> str:
    """Name of the C template: most operations that move narrow items have their own."""
    if kernel.kr > 1:
        return f"{kernel.op}_groups"
    if kernel.op in OF_ALL_TYPES:
        return kernel.op
    moves = kernel.op in C_OPERATIONS or kernel.dtype in BYTE_CONVERSIONS
    own = moves or kernel.op == "winograd_weights"  # in pairs, without double precision
    return f"{kernel.op}_narrow" if _is_narrow(kernel) and own else kernel.op


def _optimization(kernel: Kernel) -> str:
    """Ask for more code where it runs faster: not for weights, which are packed once."""
    portable, double = kernel.isa == "portable", kernel.dtype == "f64"
    small = FOR_SIZE + PORTABLE_FOR_SIZE * portable + DOUBLE_FOR_SIZE * double
    if kernel.op in small:
        return "-Os"
    once = kernel.op.startswith(("pack_weights", "pack_depthwise", "pack_sparse"))
    spare = (portable and kernel.op not in PORTABLE_FOR_SPEED) or (double and kernel.op in SELDOM)
    return "-O2" if once or spare or kernel.op in WRITTEN_OUT else "-O3"


def _likeness(kernel: Kernel) -> tuple[str | int, ...]:
    """Give the place of a kernel in the library: similar kernels become neighbours.

    A wheel is compressed with a window of 32 KiB. Tiles of GEMM that hold equally many registers
    have nearly the same code in several types and levels; packed elements are moved alike at all
    levels.
    """
    kind, level, dtype = kernel.op, kernel.isa, kernel.dtype
    if kernel.op == "gemm":
        generator = GENERATORS.get((kernel.op, dtype), kernel.source)
        width = ISAS[level].vector_bytes
        return kind, width, generator, kernel.vectors, kernel.mr, dtype, level, kernel.tuning
    if kernel.op.startswith("pack"):
        return kind, 0, dtype, 0, 0, level
    return kind, 0, level, kernel.mr, kernel.nr, dtype, kernel.tuning


def _template_text(kernel: Kernel) -> str:
    names: dict[str, str | int] = {
        "PPLCONV_SYMBOL": kernel.symbol,
        "PPLCONV_F16": int(kernel.dtype in ("f16", "f16f16")),
        "PPLCONV_F64": int(kernel.dtype in ("f64", "f64f64")),
        "PPLCONV_VECTOR_BYTES": ISAS[kernel.isa].vector_bytes,
        "PPLCONV_NEON": int(not {"asimd", "neon"}.isdisjoint(ISAS[kernel.isa].features)),
    }
    if kernel.mr:
        names |= {"MR": kernel.mr, "NR": kernel.nr}
    if kernel.op in CONSTANTS and not _is_narrow(kernel):
        names |= CONSTANTS[kernel.op]("f32" if kernel.dtype == "f16" else kernel.dtype)
    if kernel.op in HALF_IN_FLOAT and kernel.dtype == "f16":
        names |= {"PPLCONV_F16": 0, "PPLCONV_STORAGE_F16": 1}
    if kernel.op in OF_INTEGERS and _is_narrow(kernel):
        names["PPLCONV_INTEGER_BITS"] = 8 * ELEMENT_BYTES[kernel.dtype]
    if _is_narrow(kernel):
        names[f"PPLCONV_TYPE_{kernel.dtype.upper()}"] = 1
        names |= {"PPLCONV_STORAGE_BF16": 1} if kernel.dtype == "bf16f32" else {}
    elif kernel.op in CONVERSION_OPERATIONS and kernel.dtype not in STORES:
        names[f"PPLCONV_STORAGE_{'F32' if kernel.dtype == 'f16' else 'F16'}"] = 1
    if kernel.op in WINOGRAD_OPERATIONS:
        integers = _is_narrow(kernel)
        names["WINOGRAD_INTEGERS"] = int(integers)
        names["WINOGRAD_TRANSFORMS"] = f'"{_transforms_name(kernel.mr, kernel.nr, integers)}"'
    if kernel.kr > 1:
        product = PRODUCTS[kernel.dtype]
        names |= {"KR": kernel.kr, "PPLCONV_INTEGERS": int(product.sum == "s32")}
        names |= {"PPLCONV_A": STORED[product.a], "PPLCONV_B": STORED[product.b]}
    defines = "".join(f"#define {name} {value}\n" for name, value in names.items())
    return f'{defines}#include "{_template_name(kernel)}.c"\n'


def _table_text(rows: list[Kernel]) -> str:
    declarations = "".join(f"void {k.symbol}(const void *args);\n" for k in rows)
    entries = "".join(
        f'    {{"{k.symbol}", "{k.op}", "{k.dtype}", "{k.isa}", "{k.tuning}", {k.mr}, {k.nr}, '
        f"{k.kr}, {ISAS[k.isa].vector_bytes}, {k.lanes}, {k.symbol}}},\n"
        for k in rows
    )
    levels = [isa for isa in ISAS if any(k.isa == isa for k in rows)]
    numbers = [
        f'    {{"{kind}", "{name}", {value}}},\n'
        for kind, values in NUMBERS.items()
        for name, value in values.items()
    ]
    ladder = "".join(f'    {{"{isa}", "{below(isa) or ""}"}},\n' for isa in levels)
    return (
        '#include "pplconv_kernels.h"\n\n'
        f"{declarations}\n"
        "const struct pplconv_kernel_row pplconv_kernel_table[] = {\n"
        f"{entries}}};\n"
        f"const int32_t pplconv_kernel_count = {len(rows)};\n\n"
        "const struct pplconv_isa_row pplconv_isa_table[] = {\n"
        f"{ladder}}};\n"
        f"const int32_t pplconv_isa_count = {len(levels)};\n\n"
        "const struct pplconv_number_row pplconv_number_table[] = {\n"
        f"{''.join(numbers)}}};\n"
        f"const int32_t pplconv_number_count = {len(numbers)};\n"
    )


def probes(machine: str) -> dict[str, str]:
    """Assembly files, by level, that test whether the assembler knows the level's instructions.

    Only levels that may be encoded have such a file.

    Parameters
    ----------
    machine : str
        As ``platform.machine()`` gives it.
    """
    machine = _canonical(machine)
    levels = [isa for isa in ISAS.values() if isa.machine == machine]
    if machine == "x86_64":
        # Only levels of narrow types have instructions that are younger than the compilers.
        texts = {isa.name: x86_64_encode.PROBE for isa in levels if not isa.dtypes}
        return texts | {"amx": encode_tiles.PROBE}
    if machine == "aarch64":
        texts = {isa.name: aarch64_encode.probe(isa.cflags[0], isa.features) for isa in levels}
        return {name: text for name, text in texts.items() if text}
    return {}


def _canonical(machine: str) -> str:
    return {"arm64": "aarch64", "armv8l": "armv7l"}.get(machine, machine)


def generated(kernel: Kernel) -> str:
    """Give the text of a kernel as its generator writes it.

    Parameters
    ----------
    kernel : Kernel
        One whose source is a generator.
    """
    machine = str(ISAS[kernel.isa].machine)
    name = GENERATORS.get((kernel.op, kernel.dtype), kernel.op)
    if kernel.op == "sparse_pixels" and machine == "x86_64":
        name = "sparse_groups" if kernel.kr > 1 else "sparse_single" if kernel.mr == 1 else name
    return str(importlib.import_module(f"asm.{FOLDERS[machine]}.{name}").generate(kernel))


def _assembly(kernel: Kernel, *, words: bool, apple: bool) -> str:
    """Text of a generated kernel, its instructions as words and for macOS if asked."""
    text = generated(kernel)
    machine = str(ISAS[kernel.isa].machine)
    for encoder in ENCODERS[machine] if words else ():
        text = encoder(text)
    return mach_o(text) if apple else text


def generate(
    directory: Path,
    machine: str | None = None,
    system: str = sys.platform,
    encoded: Container[str] = (),
) -> list[Source]:
    """Write every source for `machine` into `directory`.

    Parameters
    ----------
    directory : Path
        Where the generated files go; headers among them (``pplconv_kernels.h``, and the
        transforms of each Winograd variant).
    machine : str, optional
        As ``platform.machine()`` gives it (the default); macOS says ``arm64``.
    system : str, optional
        As ``sys.platform`` gives it (the default).
    encoded : container of str, optional
        Levels whose instructions the assembler does not know: written as words or bytes.

    Returns
    -------
    list of Source
        What to compile, in the order of the library; include paths are ``directory`` and
        ``asm/templates``.
    """
    machine = _canonical(machine or platform.machine())
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "pplconv_kernels.h", header_text())
    for n, r in WINOGRAD_VARIANTS:
        write(directory / _transforms_name(n, r), transforms_text(n, r))
    for n, r in WINOGRAD_INTEGER_VARIANTS:
        write(directory / _transforms_name(n, r, True), transforms_text(n, r, True))
    include = (f"-I{directory}", f"-I{TEMPLATES}")
    shared = (*C_FLAGS, *HIDDEN, *MACHINE_FLAGS.get(machine, ()))
    sources = []
    rows = kernels(machine)
    for kernel in sorted(rows, key=_likeness):
        isa = ISAS[kernel.isa]
        if kernel.source == "generator":
            path = directory / f"{kernel.symbol}.s"
            apple = system == "darwin" and machine == "aarch64"
            write(path, _assembly(kernel, words=kernel.isa in encoded, apple=apple))
            sources.append(Source(path, ()))
        else:
            path = directory / f"{kernel.symbol}.c"
            write(path, _template_text(kernel))
            apart = ("-ffunction-sections",) * (kernel.op in BY_FUNCTION)
            flags = (_optimization(kernel), *shared, *apart, *isa.cflags, *include)
            sources.append(Source(path, flags))
    table = directory / "pplconv_kernel_table.c"
    write(table, _table_text(rows))
    plain = [table, *(TEMPLATES / f"{name}.c" for name in PLAIN_SOURCES)]
    return sources + [Source(path, ("-O2", *shared, *include)) for path in plain]


def main(arguments: Sequence[str]) -> None:
    """Write the sources of this machine's kernels, and print their paths and flags.

    Parameters
    ----------
    arguments : sequence of str
        A directory for the sources.
    """
    parser = argparse.ArgumentParser(prog="python -m asm.build", description=__doc__)
    parser.add_argument("directory", type=Path, help="where the sources go")
    for source in generate(parser.parse_args(arguments).directory):
        print(source.path, *source.flags)


if __name__ == "__main__":
    main(sys.argv[1:])
