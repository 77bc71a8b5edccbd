"""The encoder of tile instructions: what binutils make of the same text, for all registers."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from asm.x86_64 import gemm_tiles, release_tiles
from asm.x86_64.encode_tiles import MNEMONICS, encode, in_bytes
from tests.kernels.kernel_table import MACHINE
from tests.kernels.tile_case import KERNELS

REGISTERS = (
    "rax",
    "rcx",
    "rdx",
    "rbx",
    "rsp",
    "rbp",
    "rsi",
    "rdi",
    *(f"r{i}" for i in range(8, 16)),
)
TILES = [f"tmm{i}" for i in range(8)]
PRODUCTS = [m for m in MNEMONICS if m.startswith("tdp")]
LOADS = ["tileloadd", "tileloaddt1"]
DISPLACEMENTS = (0, 64, -64, 127, 128, -128, -129, 2048, 0x12345678)

binutils = pytest.mark.skipif(
    MACHINE != "x86_64" or shutil.which("as") is None, reason="needs an assembler for x86-64"
)


def assembled(lines: list[str], directory: Path) -> bytes:
    """Machine code of lines of assembly."""
    source, code = directory / "text.s", directory / "text.bin"
    source.write_text("\n".join([".intel_syntax noprefix", ".text", *lines]) + "\n")
    subprocess.run(["as", "-o", str(directory / "text.o"), str(source)], check=True)
    extract = ["objcopy", "-O", "binary", "-j", ".text", str(directory / "text.o"), str(code)]
    subprocess.run(extract, check=True)
    return code.read_bytes()


def addresses() -> list[str]:
    """Each base with each index and scale; each displacement with some."""
    indices = [r for r in REGISTERS if r != "rsp"]
    found = [
        f"[{base} + {index}*{scale}]"
        for base, index, scale in product(REGISTERS, indices, (1, 2, 4, 8))
    ]
    found += [
        f"[{b} + rdx*1 + {d}]".replace("+ -", "- ") for b, d in product(REGISTERS, DISPLACEMENTS)
    ]
    return found + [
        f"[{b} + {d}]".replace("+ -", "- ") for b, d in product(REGISTERS, DISPLACEMENTS)
    ]


def instructions() -> list[tuple[str, tuple[str, ...]]]:
    """All forms with all registers."""
    found: list[tuple[str, tuple[str, ...]]] = [("tilerelease", ())]
    found += [("tilezero", (tile,)) for tile in TILES]
    # The same tile twice is no instruction: it faults.
    found += [
        (name, tiles)
        for name, tiles in product(PRODUCTS, product(TILES, TILES, TILES))
        if len(set(tiles)) == 3
    ]
    found += [(name, (tile, "[r8 + r10*1]")) for name, tile in product(LOADS, TILES)]
    found += [("tilestored", ("[r8 + r10*1]", tile)) for tile in TILES]
    for address in addresses():
        found += [(name, ("tmm5", address)) for name in LOADS]
        found.append(("tilestored", (address, "tmm5")))
        found += [(name, (address,)) for name in ("ldtilecfg", "sttilecfg")]
    return found


@binutils
def test_encodes_as_binutils_do(tmp_path):
    forms = instructions()
    assert len(forms) > 7000
    assert {name for name, _ in forms} == set(MNEMONICS)
    lines = [f"    {name} {', '.join(operands)}" for name, operands in forms]
    expected = assembled(lines, tmp_path)
    assert b"".join(encode(name, operands) for name, operands in forms) == expected


@binutils
def test_kernels_in_bytes_are_the_same_code(tmp_path):
    """Whole files, and not one mnemonic is left."""
    for kernel in (KERNELS[0], KERNELS[17], KERNELS[-1]):
        text = gemm_tiles.generate(kernel)
        changed = in_bytes(text)
        assert re.search(r"^\s+t(ile|dp)|^\s+ldtilecfg", changed, re.MULTILINE) is None
        assert re.search(r"^    \.byte .* # tdp\w+ tmm0, tmm4, tmm5$", changed, re.MULTILINE)
        assert assembled([changed], tmp_path) == assembled([text], tmp_path)


@binutils
def test_a_constant_beside_the_code(tmp_path):
    """Its place is the linker's to fill in: the object files are the same."""
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
        assembled([lines], tmp_path)
        object_file = tmp_path / f"{name}.o"
        (tmp_path / "text.o").rename(object_file)
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
def test_refused(name, operands):
    with pytest.raises(ValueError, match=r"no (tile register|base|address)|not in tuple"):
        encode(name, operands)
