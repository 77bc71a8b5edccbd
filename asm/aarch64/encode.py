"""Instructions of later architectures as words, for assemblers that do not know them.

An assembler of Armv8.0 takes ``.inst`` and a word wherever it takes an instruction. The mnemonic
stays beside it as a comment, so that a kernel reads as before.

Every instruction here has three registers in the same places. The instructions differ in the other
bits and, if one operand is an element, in the bits of its lane.

Source: Arm Architecture Reference Manual for A-profile, section C7.2; the tests compare each with
the words of binutils.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from asm.aarch64.emit import arch_of

_BASELINE = "armv8-a"
# Bits of the word that hold the lane, its lowest bit first: two bits for elements of 32 bits, three
# for elements of 16 bits. One of the three is otherwise a bit of the register's number, so that
# these registers are v0 to v15 only.
_LANE_OF_32 = (21, 11)
_LANE_OF_16 = (20, 21, 11)


@dataclass(frozen=True)
class Form:
    """An instruction with its kinds of operands.

    Parameters
    ----------
    mnemonic : str
        Name of the instruction.
    lanes : tuple of str
        How each operand names its lanes; of an element, ``4b[]``.
    word : int
        The word with all registers and the lane zero.
    feature : str
        CPU feature that has the instruction, as Linux names it.
    """

    mnemonic: str
    lanes: tuple[str, str, str]
    word: int
    feature: str

    @property
    def lane_bits(self) -> tuple[int, ...]:
        """Bits that hold the lane of the last operand; none if it is a vector."""
        kind = self.lanes[2]
        if not kind.endswith("[]"):
            return ()
        return _LANE_OF_16 if kind == "h[]" else _LANE_OF_32

    @property
    def last_registers(self) -> int:
        """Number of registers that the last operand may name."""
        return 16 if self.lane_bits == _LANE_OF_16 else 32

    def encode(self, registers: tuple[int, int, int], lane: int = 0) -> int:
        """The word of the instruction with these operands.

        Raises
        ------
        ValueError
            If it has no such register, or no such lane.
        """
        d, n, m = registers
        if not (0 <= d < 32 and 0 <= n < 32 and 0 <= m < self.last_registers):
            raise ValueError(f"{self.mnemonic} has no registers {registers}")
        if not 0 <= lane < 1 << len(self.lane_bits):
            raise ValueError(f"{self.mnemonic} of {self.lanes[2]} has no lane {lane}")
        word = self.word | m << 16 | n << 5 | d
        for index, bit in enumerate(self.lane_bits):
            word |= (lane >> index & 1) << bit
        return word

    def text(self, registers: tuple[int, int, int], lane: int = 0) -> str:
        """The same as an assembler writes it."""
        operands = [f"v{r}.{k}" for r, k in zip(registers, self.lanes, strict=True)]
        return f"{self.mnemonic} {', '.join(operands)}".replace("[]", f"[{lane}]")


def _of_bytes(mnemonic: str, word: int, feature: str, last: str = "16b") -> Form:
    return Form(mnemonic, ("4s", "16b", last), word, feature)


def _of_bfloat16(mnemonic: str, word: int, last: str = "8h") -> Form:
    return Form(mnemonic, ("4s", "8h", last), word, "bf16")


def _of_halves(mnemonic: str, word: int, last: str = "8h") -> Form:
    return Form(mnemonic, ("8h", "8h", last), word, "asimdhp")


FORMS = (
    _of_bytes("sdot", 0x4E809400, "asimddp"),
    _of_bytes("sdot", 0x4F80E000, "asimddp", "4b[]"),
    _of_bytes("udot", 0x6E809400, "asimddp"),
    _of_bytes("udot", 0x6F80E000, "asimddp", "4b[]"),
    _of_bytes("usdot", 0x4E809C00, "i8mm"),
    _of_bytes("usdot", 0x4F80F000, "i8mm", "4b[]"),
    _of_bytes("sudot", 0x4F00F000, "i8mm", "4b[]"),
    _of_bytes("smmla", 0x4E80A400, "i8mm"),
    _of_bytes("ummla", 0x6E80A400, "i8mm"),
    _of_bytes("usmmla", 0x4E80AC00, "i8mm"),
    _of_bfloat16("bfmmla", 0x6E40EC00),
    _of_bfloat16("bfdot", 0x6E40FC00),
    _of_bfloat16("bfdot", 0x4F40F000, "2h[]"),
    _of_halves("fmla", 0x4E400C00),
    _of_halves("fmla", 0x4F001000, "h[]"),
    _of_halves("fmul", 0x6E401C00),
    _of_halves("fmul", 0x4F009000, "h[]"),
    _of_halves("fadd", 0x4E401400),
    _of_halves("fsub", 0x4EC01400),
    _of_halves("fcmgt", 0x6EC02400),
)
"""All instructions that this module encodes."""

_BY_NAME = {(form.mnemonic, form.lanes): form for form in FORMS}
_OPERAND = r"v(\d+)\.(\w+)"
_INSTRUCTION = re.compile(rf"(\w+) {_OPERAND}, {_OPERAND}, {_OPERAND}(?:\[(\d+)\])?")


def word_of(instruction: str) -> int | None:
    """The word of an instruction as text; None if it is none of :data:`FORMS`.

    Raises
    ------
    ValueError
        If the instruction has no such register, or no such lane.
    """
    found = _INSTRUCTION.fullmatch(instruction)
    if not found:
        return None
    mnemonic, *operands, lane = found.groups()
    kinds = (operands[1], operands[3], operands[5] + ("" if lane is None else "[]"))
    form = _BY_NAME.get((mnemonic, kinds))
    if form is None:
        return None
    d, n, m = (int(number) for number in operands[::2])
    return form.encode((d, n, m), int(lane or 0))


def encode(assembly: str) -> str:
    """Replace every instruction of :data:`FORMS` in a file by its word.

    The file then names Armv8.0 as its architecture, so that the assembler itself refuses a later
    instruction that was not replaced.
    """
    lines = []
    for line in assembly.splitlines():
        code = line.strip()
        word = word_of(code)
        lines.append(line if word is None else f"    .inst {word:#010x} // {code}")
    text = "\n".join(lines) + "\n"
    return re.sub(r"^\.arch .*$", f".arch {_BASELINE}", text, flags=re.MULTILINE)


def probe(march: str, features: Iterable[str]) -> str:
    """An assembly file with each instruction here that CPUs with `features` have.

    Parameters
    ----------
    march : str
        The compiler's flag for such CPUs.
    features : iterable of str
        As Linux names them.

    Returns
    -------
    str
        Text of the file; empty if there is no such instruction.
    """
    wanted = set(features)
    texts = [form.text((0, 1, 2)) for form in FORMS if form.feature in wanted]
    return "\n    ".join([arch_of(march), ".text", *texts]) + "\n" if texts else ""
