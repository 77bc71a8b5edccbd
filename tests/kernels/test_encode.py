"""Instructions that are written as bytes: the very bytes that an assembler makes of them."""

from __future__ import annotations

import random
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from asm.build import generate
from asm.registry import ISAS, kernels
from asm.x86_64.encode import ENCODINGS, encoded, instruction_bytes
from tests.kernels.kernel_table import MACHINE

pytestmark = [
    pytest.mark.skipif(MACHINE != "x86_64", reason="its assembler knows nothing of them"),
    pytest.mark.unemulated("writes x86-64 instructions, which the host's run compares"),
]

SCALES = ("", "*1", "*2", "*4", "*8")
DISPLACEMENTS = (0, 4, 8, 3, 124, 128, 508, 511, 512, 4096, -4, -1, -512, -513, -516)
GENERAL = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{i}" for i in range(8, 16)))


def assemble(path: Path, text: str) -> bytes:
    """Bytes of the code that the assembler makes of a file."""
    assembler, copier = shutil.which("as"), shutil.which("objcopy")
    assert assembler and copier, "the tests of encodings need as and objcopy of GNU binutils"
    path.write_text(text)
    made, code = path.with_suffix(".o"), path.with_suffix(".bin")
    done = subprocess.run([assembler, "-o", str(made), str(path)], capture_output=True, text=True)
    if "no such instruction" in done.stderr:
        pytest.skip("this assembler is too old to know them")
    assert done.returncode == 0, done.stderr[:2000]
    subprocess.run([copier, "-O", "binary", "-j", ".text", str(made), str(code)], check=True)
    return code.read_bytes()


def compare(path: Path, cases: list[tuple[str, int, int, str]]) -> None:
    """Hold each instruction against the assembler's."""
    letter = {name: "z" if encoding.evex else "y" for name, encoding in ENCODINGS.items()}
    lines = [f"    {n} {letter[n]}mm{t}, {letter[n]}mm{f}, {s}" for n, t, f, s in cases]
    expected = assemble(path, ".intel_syntax noprefix\n" + "\n".join(lines) + "\n")
    at = 0
    for line, case in zip(lines, cases, strict=True):
        found = instruction_bytes(*case)
        assert expected[at : at + len(found)] == found, line
        at += len(found)
    assert at == len(expected)


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_combination_of_registers(tmp_path, name):
    letter, count = ("z", 32) if ENCODINGS[name].evex else ("y", 16)
    numbers = product(range(count), repeat=3)
    compare(tmp_path / "registers.s", [(name, t, f, f"{letter}mm{s}") for t, f, s in numbers])


@pytest.mark.parametrize("name", [name for name, encoding in ENCODINGS.items() if encoding.evex])
def test_every_address(tmp_path, name):
    """Each base with each index, scale and displacement, and registers drawn."""
    random.seed(name)
    indexes = [f" + {i}{s}" for i in GENERAL if i != "rsp" for s in SCALES]
    cases = []
    for base, index, displacement in product(GENERAL, ["", *indexes], DISPLACEMENTS):
        address = f"[{base}{index} + {displacement}]{{1to16}}"
        cases.append((name, random.randrange(32), random.randrange(32), address))
    compare(tmp_path / "addresses.s", cases)


def test_an_address_of_another_form_is_refused():
    with pytest.raises(ValueError, match="no encoding of the operand"):
        instruction_bytes("vdpbf16ps", 0, 1, "[rip + 8]")
    with pytest.raises(ValueError, match="expected a register"):
        instruction_bytes("vpdpbssd", 0, 1, "[rax + 8]{1to16}")


def test_kernels_written_as_bytes_are_the_same(tmp_path):
    """One file of each level and type, and no instruction of them left in any."""
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
            code = assemble(tmp_path / "one.s", text)
            assert code == assemble(tmp_path / "other.s", own), kernel.symbol
        assert encoded(text) == text
    assert {isa for isa, *_ in changed} >= {"avxvnni", "avxvnniint8", "avx512vnni", "avx512bf16"}
