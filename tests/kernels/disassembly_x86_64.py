"""x86-64 code as objdump prints it, and rules that the assembler does not check.

The text does not show the encoding (a VEX and an EVEX instruction may have the same text), so the
first opcode byte is checked as well.
"""

from __future__ import annotations

import re

from tests.kernels.disassembly import Function, Judge

# A direct branch; objdump prints its target as a bare hexadecimal number.
_BRANCH = re.compile(r"^((?:\S+ +)*(?:j|call|loop|xbegin)\S* +)([0-9a-f]+)$")
# Padding; prefixes make it longer.
_PADDING = re.compile(r"^(?:data16 |cs )*nop[wl]?\b")
# Segment overrides, operand and address size, lock, repeat.
_PREFIXES = frozenset(bytes.fromhex("26 2e 36 3e 64 65 66 67 f0 f2 f3"))
_VEX, _EVEX = frozenset(b"\xc4\xc5"), frozenset(b"\x62")
# Older CPUs execute these as instructions of the baseline: NOP, and BSF, which GCC means when it
# writes `tzcnt` for the baseline.
_HARMLESS = frozenset({"endbr64", "tzcnt"})
# Instructions that add products to a register.
_ACCUMULATING = ("vfmadd", "vpdpb", "vdpbf16ps", "vpaddd")
# Executed only after CPUID has reported the instruction.
_EXCEPTIONS = {"pplconv_xgetbv": frozenset({"xgetbv"})}


class JudgeX86(Judge):
    """Judge of x86-64 code."""

    machine = "x86_64"

    def clean(self, text: str) -> str:
        """Leave out comments and names of targets; mark targets as hexadecimal."""
        if "#" in text or "<" in text:
            text = re.sub(r"<.*?>", "", text.split("#")[0])
        text = text.strip()
        if text[:1] in "jclxbdrn":  # branches, with their prefixes
            text = _BRANCH.sub(r"\g<1>0x\g<2>", text)
        return text

    def forbidden(self, encoding: bytes, text: str, features: tuple[str, ...]) -> str:
        """Refuse a VEX or EVEX encoding if no feature allows it."""
        vex = any(name.startswith("avx") for name in features)
        evex = any(name.startswith("avx512") for name in features)
        refused = (frozenset() if vex else _VEX) | (frozenset() if evex else _EVEX)
        first = next((byte for byte in encoding if byte not in _PREFIXES), 0)
        return encoding.hex(" ") if first in refused else ""

    def judged(self, name: str, text: str) -> str:
        """Leave out padding, harmless instructions, and those executed only after CPUID."""
        # A branch's prefix for control-flow enforcement is a hint.
        text = text.removeprefix("notrack ").removeprefix("bnd ")
        excused = _HARMLESS | _EXCEPTIONS.get(name, frozenset())
        return "" if not text or text.split()[0] in excused or _PADDING.match(text) else text

    def head(self, features: tuple[str, ...]) -> list[str]:
        """SSE2 and the features."""
        return [".arch generic64", *(f".arch .{feature}" for feature in features)]

    def chains(self, function: Function) -> set[str]:
        """Registers that products of a function accumulate in."""
        texts = [text.removeprefix("{vex} ") for _, text in function.instructions]
        return {t.split(",")[-1].split("{")[0] for t in texts if t.startswith(_ACCUMULATING)}

    def spills(self, function: Function) -> list[str]:
        """Instructions that move vectors to or from the stack."""
        texts = [text for _, text in function.instructions]
        return [t for t in texts if re.search(r"[xyz]mm", t) and "%rsp" in t]
