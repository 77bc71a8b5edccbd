"""x86-64 instructions as bytes: the encoders agree with an assembler that knows them."""

from __future__ import annotations

import random
import re
import subprocess
from itertools import product
from pathlib import Path

import pytest

from asm.build import generate
from asm.registry import ISAS, kernels
from asm.x86_64 import gemm_tiles, release_tiles
from asm.x86_64.encode import ENCODINGS, encoded, instruction_bytes
from asm.x86_64.encode_tiles import MNEMONICS, encode, in_bytes
from tests.kernels.assembler import assemble, has_assembler
from tests.kernels.kernel_table import MACHINE
from tests.kernels.tile_case import KERNELS

GENERAL = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{i}" for i in range(8, 16)))
INDEXES = [register for register in GENERAL if register != "rsp"]
BROADCASTING = [name for name, e in ENCODINGS.items() if e.evex and not e.converts]
SCALES = ("", "*1", "*2", "*4", "*8")
DISPLACEMENTS = (0, 4, 8, 3, 124, 128, 508, 511, 512, 4096, -4, -1, -512, -513, -516)
TILES = [f"tmm{i}" for i in range(8)]
TILE_PRODUCTS = [m for m in MNEMONICS if m.startswith("tdp")]
TILE_LOADS = ["tileloadd", "tileloaddt1"]
TILE_DISPLACEMENTS = (0, 64, -64, 127, 128, -128, -129, 2048, 0x12345678)


def with_assembler(test):
    """Mark a test that compares with an assembler of x86-64."""
    needed = MACHINE == "x86_64" and has_assembler()
    skip = pytest.mark.skipif(not needed, reason="needs an assembler for x86-64")
    here = pytest.mark.unemulated("writes x86-64 instructions, which the host's run compares")
    return skip(here(test))


def intel(lines: list[str], directory: Path) -> bytes:
    """Machine code of lines of assembly."""
    return assemble("\n".join([".intel_syntax noprefix", ".text", *lines]) + "\n", directory)


def compare(path: Path, cases: list[tuple[str, int, int, str]]) -> None:
    """Compare the bytes of each instruction with the assembler's."""
    letter = {name: "z" if encoding.evex else "y" for name, encoding in ENCODINGS.items()}
    lines = [
        f"    {n} ymm{t}, {s}"
        if ENCODINGS[n].converts
        else f"    {n} {letter[n]}mm{t}, {letter[n]}mm{f}, {s}"
        for n, t, f, s in cases
    ]
    expected = intel(lines, path)
    at = 0
    for line, case in zip(lines, cases, strict=True):
        found = instruction_bytes(*case)
        assert expected[at : at + len(found)] == found, line
        at += len(found)
    assert at == len(expected)


@with_assembler
@pytest.mark.parametrize("name", ENCODINGS)
def test_every_combination_of_registers(tmp_path, name):
    letter, count = ("z", 32) if ENCODINGS[name].evex else ("y", 16)
    firsts = [0] if ENCODINGS[name].converts else range(count)
    numbers = product(range(count), firsts, range(count))
    compare(tmp_path, [(name, t, f, f"{letter}mm{s}") for t, f, s in numbers])


@with_assembler
@pytest.mark.parametrize("name", BROADCASTING)
def test_every_address(tmp_path, name):
    """Each base with each index, scale and displacement, and random registers."""
    random.seed(name)
    indexes = [f" + {i}{s}" for i in INDEXES for s in SCALES]
    cases = []
    for base, index, displacement in product(GENERAL, ["", *indexes], DISPLACEMENTS):
        address = f"[{base}{index} + {displacement}]{{1to16}}"
        cases.append((name, random.randrange(32), random.randrange(32), address))
    compare(tmp_path, cases)


def test_an_address_of_another_form_is_refused():
    with pytest.raises(ValueError, match="no encoding of the operand"):
        instruction_bytes("vdpbf16ps", 0, 1, "[rip + 8]")
    with pytest.raises(ValueError, match="expected a register"):
        instruction_bytes("vpdpbssd", 0, 1, "[rax + 8]{1to16}")


@with_assembler
def test_kernels_written_as_bytes_are_the_same(tmp_path):
    """One file of each level and type has the same code; no file has such an instruction left."""
    plain = {source.path.stem: source.path for source in generate(tmp_path / "plain", "x86_64")}
    files = generate(tmp_path / "encoded", "x86_64", encoded=ISAS)
    texts = {f.path.stem: f.path.read_text() for f in files if f.path.suffix == ".s"}
    changed = set()
    for kernel in kernels("x86_64"):
        if kernel.source != "generator":
            continue
        text, own = texts[kernel.symbol], plain[kernel.symbol].read_text()
        if kernel.isa in ("avx2", "avx512"):
            assert text == own
            continue
        kind = kernel.isa, kernel.op, kernel.dtype, kernel.vectors
        if ".byte" in text and kind not in changed:
            changed.add(kind)
            assert assemble(text, tmp_path) == assemble(own, tmp_path), kernel.symbol
        assert encoded(text) == text
    assert {isa for isa, *_ in changed} >= {"avxvnni", "avxvnniint8", "avx512vnni", "avx512bf16"}


def tile_addresses() -> list[str]:
    """Each base with each index and scale, and with each displacement."""
    found = [f"[{b} + {i}{scale}]" for b, i, scale in product(GENERAL, INDEXES, SCALES[1:])]
    for base, d in product(GENERAL, TILE_DISPLACEMENTS):
        found += [f"[{base}{i} + {d}]".replace("+ -", "- ") for i in (" + rdx*1", "")]
    return found


def tile_instructions() -> list[tuple[str, tuple[str, ...]]]:
    """All tile instructions with all registers."""
    found: list[tuple[str, tuple[str, ...]]] = [("tilerelease", ())]
    found += [("tilezero", (tile,)) for tile in TILES]
    # An instruction with the same tile twice is invalid.
    found += [
        (name, tiles)
        for name, tiles in product(TILE_PRODUCTS, product(TILES, TILES, TILES))
        if len(set(tiles)) == 3
    ]
    found += [(name, (tile, "[r8 + r10*1]")) for name, tile in product(TILE_LOADS, TILES)]
    found += [("tilestored", ("[r8 + r10*1]", tile)) for tile in TILES]
    for address in tile_addresses():
        found += [(name, ("tmm5", address)) for name in TILE_LOADS]
        found.append(("tilestored", (address, "tmm5")))
        found += [(name, (address,)) for name in ("ldtilecfg", "sttilecfg")]
    return found


@with_assembler
def test_tile_instructions(tmp_path):
    forms = tile_instructions()
    assert len(forms) > 7000
    assert {name for name, _ in forms} == set(MNEMONICS)
    lines = [f"    {name} {', '.join(operands)}" for name, operands in forms]
    expected = intel(lines, tmp_path)
    assert b"".join(encode(name, operands) for name, operands in forms) == expected


@with_assembler
def test_tile_kernels_in_bytes_are_the_same_code(tmp_path):
    """Whole files, without any mnemonic left."""
    for kernel in (KERNELS[0], KERNELS[17], KERNELS[-1]):
        text = gemm_tiles.generate(kernel)
        changed = in_bytes(text)
        assert re.search(r"^\s+t(ile|dp)|^\s+ldtilecfg", changed, re.MULTILINE) is None
        assert re.search(r"^    \.byte .* # tdp\w+ tmm0, tmm4, tmm5$", changed, re.MULTILINE)
        assert intel([changed], tmp_path) == intel([text], tmp_path)


@with_assembler
def test_a_constant_beside_the_code(tmp_path):
    """The linker fills in its address: the object files are the same."""
    text = """.intel_syntax noprefix
.section .rodata
    .long 0
.Lhere: .zero 64
.text
    nop
    ldtilecfg [rip + .Lhere]
    ret
"""
    changed = in_bytes(text)
    assert "    .byte 0xc4, 0xe2, 0x78, 0x49, 0x05; .long .Lhere - . - 4 # ldtilecfg" in changed
    found = []
    for name, lines in (("plain", text), ("bytes", changed)):
        intel([lines], tmp_path)
        object_file = tmp_path / f"{name}.o"
        (tmp_path / "code.o").rename(object_file)
        listed = subprocess.run(
            ["objdump", "-dr", str(object_file)], check=True, capture_output=True, text=True
        )
        found.append(listed.stdout.split("<.text>")[1])
    assert found[0] == found[1]


def test_other_lines_stay():
    text = "# tilezero in a comment\n.Ltile:\n    mov rax, 1\n"
    assert in_bytes(text) == text
    assert release_tiles.__doc__


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("tilezero", ("tmm8",)),
        ("tilezero", ("zmm1",)),
        ("tdpbusd", ("tmm0", "tmm1", "eax")),
        ("tileloadd", ("tmm0", "[rdx*2]")),
        ("tileloadd", ("tmm0", "[rax + rsp*1]")),
        ("tileloadd", ("tmm0", "[rip + .Lhere]")),
        ("ldtilecfg", ("[rip]",)),
    ],
)
def test_tile_operands_that_do_not_exist(name, operands):
    with pytest.raises(ValueError, match=r"no (tile register|base|address)|not in tuple"):
        encode(name, operands)
