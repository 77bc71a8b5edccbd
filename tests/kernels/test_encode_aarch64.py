"""AArch64 instructions as words: the encoder agrees with an assembler that knows them."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from asm.aarch64.encode import FORMS, Form, encode, word_of
from asm.aarch64.gemm import generate
from asm.build import generate as write_sources
from asm.build import probes
from asm.registry import ISAS, kernels
from tests.kernels.assembler import assemble, has_assembler
from tests.levels import MACHINE

# The machine's own tools if it is AArch64, else cross tools.
PREFIX = "" if MACHINE == "aarch64" else "aarch64-linux-gnu-"
assembler = pytest.mark.skipif(not has_assembler(PREFIX), reason="no assembler of AArch64")
EVERYTHING = ".arch armv8.2-a+fp16+dotprod+i8mm+bf16\n"
LEVELS = [isa for isa in ISAS.values() if isa.machine == "aarch64"]


def operands(form: Form) -> Iterable[tuple[tuple[int, int, int], int]]:
    """All operands of an instruction: registers (d, n, m), and lane."""
    for m in range(form.last_registers):
        for n in range(32):
            for d in range(32):
                for lane in range(1 << len(form.lane_bits)):
                    yield (d, n, m), lane


@pytest.mark.sampled(4)
@assembler
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.mnemonic}-{form.lanes[2]}")
def test_every_combination_of_operands(form: Form, tmp_path: Path) -> None:
    every = list(operands(form))
    assert len(every) >= 32**3
    text = EVERYTHING + "".join(f"{form.text(*each)}\n" for each in every)
    code = assemble(text, tmp_path, PREFIX)
    assert code == struct.pack(f"<{len(every)}I", *(form.encode(*each) for each in every))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("smmla v16.4s, v2.16b, v0.16b", 0x4E80A450),
        ("bfmmla v19.4s, v7.8h, v1.8h", 0x6E41ECF3),
        ("fmla v1.4s, v2.4s, v3.s[1]", None),
        ("sdot v0.2s, v1.8b, v2.8b", None),
        ("prfm pldl1keep, [x2, x6]", None),
    ],
)
def test_words(text: str, word: int | None) -> None:
    """Two words that MNN has, too; None for the baseline's instructions and for unknown forms."""
    assert word_of(text) == word


@pytest.mark.parametrize(
    "text",
    [
        "smmla v32.4s, v0.16b, v0.16b",
        "sdot v0.4s, v0.16b, v0.4b[4]",
        "fmla v0.8h, v1.8h, v16.h[0]",
        "fmla v0.8h, v1.8h, v2.h[8]",
    ],
)
def test_operands_that_do_not_exist(text: str) -> None:
    with pytest.raises(ValueError, match=r"has no (registers|lane)"):
        word_of(text)


@assembler
@pytest.mark.parametrize("isa", [isa.name for isa in LEVELS])
def test_kernels_as_words_are_the_same_code(isa: str, tmp_path: Path) -> None:
    """The largest tiles of each type; an assembler of Armv8.0 accepts the words."""
    found = {}
    for kernel in kernels("aarch64"):
        if (kernel.op, kernel.isa) == ("gemm", isa):
            found[kernel.dtype, kernel.nr] = kernel
    assert found
    for kernel in found.values():
        text = generate(kernel)
        words = encode(text)
        assert re.findall(r"^\.arch (.*)$", words, re.MULTILINE) == ["armv8-a"]
        assert assemble(words, tmp_path, PREFIX) == assemble(text, tmp_path, PREFIX)
        assert (".inst" in words) == (isa != "neon")


@assembler
def test_old_assemblers_are_found_out(tmp_path: Path) -> None:
    """Each level above Armv8.0 has a file of instructions that an old assembler refuses."""
    found = probes("aarch64")
    assert set(found) == {isa.name for isa in LEVELS} - {"neon"}
    assert "avx512vnni" in probes("x86_64")
    assert probes("armv7l") == {}
    for text in found.values():
        assert len(text.splitlines()) > 2
        assert assemble(text, tmp_path, PREFIX)
        for line in text.splitlines()[2:]:
            assert word_of(line.strip()), line
            with pytest.raises(subprocess.CalledProcessError):
                assemble(f".arch armv8-a\n{line}\n", tmp_path, PREFIX)


@pytest.mark.unemulated("reads sources, which no machine changes")
def test_sources_of_levels_that_are_encoded(tmp_path: Path) -> None:
    """Only the sources of encoded levels differ, on macOS, too."""
    plain = {s.path.name: s.path.read_text() for s in write_sources(tmp_path / "a", "aarch64")}
    for system in ("linux", "darwin"):
        made = write_sources(tmp_path / system, "aarch64", system, encoded=["i8mm"])
        texts = {s.path.name: s.path.read_text() for s in made}
        encoded = {name for name, text in texts.items() if ".inst" in text}
        assert encoded == {name for name in plain if name.endswith("_i8mm.s")}
        assert all("mmla v" in texts[name] for name in encoded)
        assert not any(re.search(r"^    \w*mmla ", texts[n], re.MULTILINE) for n in encoded)
