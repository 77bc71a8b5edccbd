"""The registry, the files that are generated from it, and the installed table of kernels."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from asm import registry
from asm.aarch64.mach_o import mach_o
from asm.build import generate
from asm.contract import CONTRACTS
from asm.registry import (
    C_OPERATIONS,
    CONVERSION_OPERATIONS,
    DTYPES,
    ELEMENT_BYTES,
    EVERY_LEVEL,
    GEMM_TUNINGS,
    ISAS,
    NARROW_OPERATIONS,
    NARROW_TILES,
    PRODUCTS,
    ROUNDING_OPERATIONS,
    SPARSE_NARROW_TILES,
    SPARSE_OPERATIONS,
    SPARSE_PANELS,
    STORES,
    WINOGRAD_INTEGER_VARIANTS,
    WINOGRAD_INTEGERS,
    WINOGRAD_OPERATIONS,
    WINOGRAD_VARIANTS,
    Isa,
    Kernel,
    below,
    kernels,
)
from pplconv import _kernels
from pplconv.machine import detect
from tests.cases import each
from tests.kernels.kernel_table import in_pairs
from tests.levels import LADDER, MACHINE, executable_isas

GRAMMAR = re.compile(
    r"pplconv_(?P<op>[a-z]+(?:_[a-z]+)*)_(?P<dtype>(?:f16|f32|f64|bf16|[us]8|s16|s32|s64)+[mpt]?)"
    r"(?:_(?P<mr>[1-9]\d*)x(?P<nr>[1-9]\d*))?_(?P<isa>[a-z]+\d*(?:[a-z]+\d*)?)(?:_(?P<tuning>[a-z]+))?"
)
MACHINES = (MACHINE, "x86_64", "aarch64", "armv7l", "riscv64")
# Kernels on tile registers have no accumulators in vectors: see `test_tile_kernels`.
TILED = ("gemm", *SPARSE_OPERATIONS)
IN_VECTORS = [k for k in kernels() if k.op in TILED and k.source == "generator" and k.isa != "amx"]
ASSEMBLY = [k for k in IN_VECTORS if k.op == "gemm"]


def by_symbol(kernel: Kernel) -> str:
    """Name of a kernel in test ids."""
    return kernel.symbol.removeprefix("pplconv_")


def test_names_are_unique():
    symbols = Counter(kernel.symbol for kernel in kernels())
    assert symbols
    assert max(symbols.values()) == 1


@each("kernel", kernels(), by_symbol)
def test_name_says_what_the_kernel_is(kernel):
    match = GRAMMAR.fullmatch(kernel.symbol)
    assert match
    assert (match["op"], match["dtype"], match["isa"]) == (kernel.op, kernel.dtype, kernel.isa)
    assert (match["tuning"] or "") == kernel.tuning
    assert kernel.tuning in ("", *GEMM_TUNINGS.get(kernel.isa, ()))
    assert (int(match["mr"] or 0), int(match["nr"] or 0)) == (kernel.mr, kernel.nr)
    assert kernel.op in CONTRACTS
    assert kernel.isa in ISAS
    if kernel.op in TILED:
        assert kernel.dtype in PRODUCTS
        assert kernel.kr == PRODUCTS[kernel.dtype].kr
        tiles = NARROW_TILES if kernel.op == "gemm" else SPARSE_NARROW_TILES
        named = (kernel.isa, kernel.dtype) in tiles
    else:
        named = kernel.isa in NARROW_OPERATIONS.get(kernel.op, {}).get(kernel.dtype, ())
        named |= kernel.op == "convert_out" and kernel.isa in STORES.get(kernel.dtype, ())
        named |= kernel.dtype == "f32" and kernel.isa in ROUNDING_OPERATIONS.get(kernel.op, ())
        assert kernel.dtype in ELEMENT_BYTES or named
    # Some kernels of narrow arrays have the name of another type that they work with.
    assert named or kernel.dtype in ISAS[kernel.isa].dtypes
    assert bool(kernel.mr) == bool(kernel.nr) == (kernel.op in (*TILED, *WINOGRAD_OPERATIONS))
    assert bool(kernel.kr) == (kernel.op in TILED)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("machine", MACHINES)
def test_file_name_is_symbol(tmp_path, machine):
    """Each file of a kernel defines one function, with the name of the file."""
    files = {source.path.stem: source.path for source in generate(tmp_path, machine)}
    for kernel in kernels(machine):
        text = files[kernel.symbol].read_text()
        if kernel.source == "generator":
            assert files[kernel.symbol].suffix == ".s"
            assert re.findall(r"^\.globl (\S+)$", text, re.MULTILINE) == [kernel.symbol]
            assert re.findall(r"^(pplconv\w+):$", text, re.MULTILINE) == [kernel.symbol]
        else:
            assert files[kernel.symbol].suffix == ".c"
            assert f"#define PPLCONV_SYMBOL {kernel.symbol}\n" in text
    others = set(files) - {kernel.symbol for kernel in kernels(machine)}
    assert others == {"pplconv_kernel_table", "pixel_runs", "cpuid", "auxval"}


@pytest.mark.parametrize(
    ("machine", "comment", "registers"),
    [
        ("x86_64", "#", "[yz]mm0-[yz]mm{last} C"),
        ("aarch64", "//", r"(v\d+, ){{{last}}}v\d+ C"),
        ("armv7l", "@", r"(q\d+, ){{{last}}}q\d+ C"),
    ],
)
def test_assembly_opens_with_contract_and_register_map(tmp_path, machine, comment, registers):
    generate(tmp_path, machine)
    found = [kernel for kernel in IN_VECTORS if ISAS[kernel.isa].machine == machine]
    assert found
    for kernel in found:
        head = []
        for line in (tmp_path / f"{kernel.symbol}.s").read_text().splitlines():
            if not line.startswith(comment):
                break
            head.append(line)
        summary = CONTRACTS[kernel.op].summary
        text = " ".join(line.removeprefix(comment).strip() for line in head)
        assert text.startswith(f"{kernel.symbol}: {summary}")
        last = (kernel.mr + in_pairs(kernel)) * kernel.vectors - 1
        pattern = f"{comment} {registers.format(last=last)}"
        assert any(re.match(pattern, line) for line in head)


@pytest.mark.parametrize("machine", ["aarch64", "armv7l"])
def test_arm_names_its_architecture_and_state(tmp_path, machine):
    """Each file does, so that the assembler refuses instructions that its level lacks.

    Kernels of 32 bits are called from Thumb code, and with either float ABI.
    """
    generate(tmp_path, machine)
    for kernel in kernels(machine):
        if kernel.source != "generator":
            continue
        text = (tmp_path / f"{kernel.symbol}.s").read_text()
        (wanted,) = (f for f in ISAS[kernel.isa].cflags if f.startswith("-march="))
        wanted = wanted.removeprefix("-march=")
        if machine == "armv7l":
            wanted = wanted.partition("+")[0]
            assert (".arch_extension fp16" in text) is (kernel.isa == "half32")
            for line in (".arm", ".syntax unified", ".eabi_attribute 28, 3"):
                assert text.count(f"\n{line}\n") == 1
        assert re.findall(r"^\.arch (\S+)$", text, re.MULTILINE) == [wanted]


def test_assembly_for_macos(tmp_path):
    """Symbols with an underscore and none of ELF's directives; nothing else differs."""
    for source in generate(tmp_path / "elf", "aarch64", "linux"):
        if source.path.suffix != ".s":
            continue
        elf, text = source.path.read_text(), mach_o(source.path.read_text())
        name = source.path.stem
        assert re.findall(r"^\.globl (\S+)$", text, re.MULTILINE) == [f"_{name}"]
        assert re.findall(r"^(\w+):$", text, re.MULTILINE).count(f"_{name}") == 1
        assert not re.search(r"^\.(type|size|hidden|section|arch)|\.L", text, re.MULTILINE)
        instructions = re.compile(r"^    (\w+)", re.MULTILINE)
        assert instructions.findall(text) == instructions.findall(elf)
    apple = generate(tmp_path / "apple", "arm64", "darwin")
    texts = [source.path.read_text() for source in apple if source.path.suffix == ".s"]
    assert texts
    assert all(".private_extern _pplconv" in text for text in texts)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("machine", MACHINES)
def test_flags_reach_the_files_of_their_level_only(tmp_path, machine):
    """Flags do not depend on the machine that builds."""
    levels = {kernel.symbol: ISAS[kernel.isa] for kernel in kernels(machine)}
    for source in generate(tmp_path, machine):
        level = levels.get(source.path.stem)
        own = level.cflags if level else ()
        flags = [flag for flag in source.flags if flag.startswith("-m") or flag in own]
        if source.path.suffix == ".c" and level:
            assert tuple(flags) == level.cflags
        else:
            assert flags == []


def test_nothing_is_written_twice(tmp_path):
    """A second run does not touch the files, so that nothing is compiled again."""
    before = {s.path: s.path.stat().st_mtime_ns for s in generate(tmp_path) if s.path.exists()}
    after = {s.path: s.path.stat().st_mtime_ns for s in generate(tmp_path) if s.path.exists()}
    assert before == after


@pytest.mark.parametrize("machine", MACHINES)
def test_kernels_of_a_machine(machine):
    rows = kernels(machine)
    assert {ISAS[row.isa].machine for row in rows} <= {None, machine}
    # On every machine, each operation has portable kernels of each type, the reference.
    portable = {(row.op, row.dtype) for row in rows if row.isa == "portable"}
    conversions = {(op, "f32") for op in CONVERSION_OPERATIONS}
    conversions |= {("convert_out", dtype) for dtype, isas in STORES.items() if "portable" in isas}
    # sparse_channels computes the same as sparse_pixels, with vectors along another axis.
    others = {*TILED, *C_OPERATIONS, *WINOGRAD_OPERATIONS} - {"sparse_channels"}
    whole = {(op, dtype) for op in others for dtype in DTYPES}
    # Products for matrix, pair and tile instructions compute the same as others.
    narrow = {
        ("gemm", name) for name, kind in PRODUCTS.items() if kind.kr > 1 and name[-1] not in "mpt"
    }
    narrow |= {
        (op, dtype)
        for op, types in NARROW_OPERATIONS.items()
        for dtype, isas in types.items()
        if "portable" in isas
    }
    narrow |= {("sparse_pixels", dtype) for isa, dtype in SPARSE_NARROW_TILES if isa == "portable"}
    assert portable == conversions | whole | narrow


def test_every_operation_has_kernels():
    assert {kernel.op for kernel in kernels()} == CONTRACTS.keys()


def test_table_is_the_registry():
    """The rows agree in order, and each row has its own function."""
    table = _kernels.rows()
    names = ("symbol", "op", "dtype", "isa", "tuning", "mr", "nr", "kr", "lanes")
    rows = [tuple(row[name] for name in names) for row in table]
    expected = kernels(MACHINE)
    assert rows == [tuple(getattr(kernel, name) for name in names) for kernel in expected]
    assert [r["vector_bytes"] for r in table] == [ISAS[k.isa].vector_bytes for k in expected]
    addresses = {row["address"] for row in table}
    assert len(addresses) == len(table)
    assert 0 not in addresses


@pytest.mark.parametrize(
    ("isa", "expected"),
    [
        ("portable", None),
        ("avx2", "portable"),
        ("avx512", "avx2"),
        ("neon", "portable"),
        ("fp16", "neon"),
        ("neon32", "portable"),
        ("half32", "neon32"),
    ],
)
def test_the_level_below(isa, expected):
    assert below(isa) == expected


def test_a_level_below_asks_for_nothing_else(monkeypatch):
    """AArch64's extensions are independent: a CPU may have dot products without halves."""
    dotprod = Isa("dotprod", "aarch64", (), ("asimd", "asimddp"), 16, 32)
    monkeypatch.setitem(registry.ISAS, "dotprod", dotprod)
    assert below("dotprod") == "neon"


def test_a_missing_kernel_is_that_of_the_next_level():
    """The kernel that serves each tile of each operation, on each level that is built."""
    rows = [row for row in kernels(MACHINE) if not row.tuning]
    built = {(r.op, r.dtype, r.isa, r.mr, r.nr, r.kr): r.symbol for r in rows}
    levels = list(dict.fromkeys(isa for _, _, isa, *_ in built))
    lower = 0
    for isa in levels:
        ladder = [isa]
        while (next_one := below(ladder[-1])) is not None:
            ladder.append(next_one)
        assert _kernels.ladder(isa) == ladder
        for op, dtype, *tile in {(op, dtype, *tile) for op, dtype, _, *tile in built}:
            found = [built[key] for at in ladder if (key := (op, dtype, at, *tile)) in built]
            if found:
                assert _kernels.serving(op, dtype, isa, *tile) == found[0]
                lower += f"_{isa}" not in found[0]
            else:
                with pytest.raises(LookupError, match=f"no kernel for {op}"):
                    _kernels.serving(op, dtype, isa, *tile)
    # Some tiles exist on lower levels only, e.g. a tile of three narrower vectors.
    assert lower or len(levels) == 1


def test_a_kernel_of_another_kr_is_another_kernel():
    kernel = next(row for row in kernels(MACHINE) if row.op == "gemm" and not row.tuning)
    asked = "gemm", kernel.dtype, kernel.isa, kernel.mr, kernel.nr
    assert _kernels.serving(*asked, kernel.kr) == kernel.symbol
    for kr in {0, 1, 2, 4} - {kernel.kr}:
        with pytest.raises(
            LookupError, match="no kernel for gemm .*" + ("of kr" if kr > 1 else "")
        ):
            _kernels.serving(*asked, kr)


def test_no_level_is_missing():
    """The package detects the levels that the system reports, and the table has kernels of them."""
    isas = executable_isas()
    assert [isa for isa in detect().isas if isa in LADDER] == isas
    for isa in isas:
        rows = [row for row in _kernels.rows() if row["isa"] == isa]
        products = {k.dtype for k in kernels(MACHINE) if (k.op, k.isa) == ("gemm", isa)}
        assert products >= {*ISAS[isa].dtypes}
        assert {row["dtype"] for row in rows if row["op"] == "gemm"} == products
        for op in ("fma_peak", "pack_pixels", "pack_rows", "store_transposed"):
            assert {row["dtype"] for row in rows if row["op"] == op} >= {*ISAS[isa].dtypes}


def test_winograd_variants_are_complete():
    """Each variant has its transforms on every level, in each of the level's types.

    Variants with patches of one size share that of the input.
    """
    found = {(k.op, k.mr, k.nr, k.dtype, k.isa) for k in kernels() if k.op in WINOGRAD_OPERATIONS}
    assert found == {
        (op, *variant, dtype, isa)
        for op, variants in WINOGRAD_OPERATIONS.items()
        for variant in variants
        for isa in EVERY_LEVEL
        for dtype in ISAS[isa].dtypes
    } | {
        (op, *variant, dtype, isa)
        for op, types in WINOGRAD_INTEGERS.items()
        for dtype in types
        for variant in WINOGRAD_INTEGER_VARIANTS
        for isa in EVERY_LEVEL
    }
    assert WINOGRAD_OPERATIONS["winograd_output"] == WINOGRAD_OPERATIONS["winograd_weights"]
    patches = [n + r - 1 for n, r in WINOGRAD_OPERATIONS["winograd_input"]]
    assert sorted(patches) == sorted({n + r - 1 for n, r in WINOGRAD_VARIANTS})
    assert set(WINOGRAD_INTEGERS) == set(WINOGRAD_OPERATIONS)
    assert set(WINOGRAD_INTEGER_VARIANTS) <= set(WINOGRAD_VARIANTS)


def test_tile_families_have_no_holes():
    """Every number of rows up to the largest, the same for each of the level's types."""
    families = defaultdict(set)
    for kernel in kernels():
        if kernel.op == "gemm":
            assert kernel.nr % kernel.lanes == 0
            assert kernel.kr == PRODUCTS[kernel.dtype].kr
            families[kernel.isa, kernel.vectors, kernel.dtype, kernel.tuning].add(kernel.mr)
    for (isa, vectors, own, _), rows in list(families.items()):
        assert rows == set(range(1, max(rows) + 1))
        for dtype in ISAS[isa].dtypes if own in ISAS[isa].dtypes else ():
            for tuning in ("", *GEMM_TUNINGS.get(isa, ())):
                assert rows == families[isa, vectors, dtype, tuning]


def test_sparse_families_have_no_holes():
    """Every level has panels of one and of four channels, into which wider blocks can be cut.

    With vectors over channels, there is every number of pixels up to the largest.
    """
    panels, pixels = defaultdict(set), defaultdict(set)
    for kernel in kernels():
        if kernel.op == "sparse_pixels":
            assert kernel.nr % kernel.lanes == 0
            assert kernel.mr in SPARSE_PANELS
            panels[kernel.isa, kernel.dtype].add(kernel.mr)
        if kernel.op == "sparse_channels":
            assert kernel.nr in SPARSE_PANELS[1:]
            pixels[kernel.isa, kernel.dtype, kernel.nr].add(kernel.mr)
    assert panels
    assert all({1, 4} <= widths for widths in panels.values())
    assert pixels
    for rows in pixels.values():
        assert rows == set(range(1, max(rows) + 1))


@each("kernel", ASSEMBLY, by_symbol)
def test_tile_fits_the_register_file(kernel):
    """Accumulators, a row of B, and a broadcast of A unless it is an operand of the FMA.

    Products that need a separate addition take one more register, unless there is one vector only;
    the constant ones of `u8p`, which widen products, take another.
    """
    isa = ISAS[kernel.isa]
    broadcast = "avx512f" in isa.features and kernel.dtype in ("f32", "f64", "bf16")
    others = 0 if broadcast and kernel.vectors == 1 else 1
    added = kernel.dtype in ("s16", "u8p") and isa.machine == "x86_64"
    others += (added and kernel.vectors > 1) + (kernel.dtype == "u8p")
    assert kernel.mr * kernel.vectors + kernel.vectors + others <= isa.vector_registers


def test_main_kernels_have_ten_accumulators():
    """The largest tile of each family has enough chains to hide the latency of FMAs."""
    largest = defaultdict(int)
    for kernel in ASSEMBLY:
        family = kernel.isa, kernel.dtype, kernel.vectors
        largest[family] = max(largest[family], kernel.mr * kernel.vectors)
    assert len(largest) >= 2
    assert min(largest.values()) >= 10
