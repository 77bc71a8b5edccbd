"""32-bit Arm code as objdump prints it, and rules that the assembler does not check."""

from __future__ import annotations

import re

from tests.kernels.disassembly import Function, Judge

# Floating-point units by feature; the last one that a level has is used.
_UNITS = {"vfpv4": "neon-vfpv4", "asimdhp": "neon-fp-armv8"}
_CONSTANT = re.compile(r"^([sdq]\d+, )#-?\d+$")
_CONDITIONS = "eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"


class JudgeArmv7l(Judge):
    """Judge of 32-bit Arm code: the baseline is ARMv7-A with VFPv3 and 16 registers.

    Generated kernels are in ARM state, other code in the state that the compiler prefers. The
    instructions that are judged have the same text in both.
    """

    machine = "armv7l"

    def clean(self, text: str) -> str:
        """Leave out comments and symbol names."""
        if "UNDEFINED" in text:
            return "undefined"
        return re.sub(r"\s*<.*?>", "", re.split(r"\s[@;]", text)[0]).strip()

    def forbidden(self, encoding: bytes, text: str, features: tuple[str, ...]) -> str:
        """Refuse what objdump does not know."""
        return "unknown to objdump" if text == "undefined" else ""

    def judged(self, name: str, text: str) -> str:
        """Judge instructions on floating-point and vector registers, without their condition.

        The integer instructions of the baseline are in every CPU that has NEON, and no compiler
        flag of a level adds to them.
        """
        words = text.split()
        if not words or not re.match(r"v[a-z]|f(ld|st)m|sha|aes|crc|[su]dot", words[0]):
            return ""
        head, *rest = words[0].split(".")
        head = re.sub(rf"^(v[a-z0-9]{{2,}}?)({_CONDITIONS})$", self._unconditional, head)
        # objdump prints the bits of a constant; the assembler expects a number.
        operands = " ".join(words[1:])
        if head == "vmov" and rest and rest[0] in ("f32", "f64"):
            operands = _CONSTANT.sub(r"\1#1.0", operands)
        return f"{'.'.join([head, *rest])} {operands}".rstrip()

    @staticmethod
    def _unconditional(match: re.Match[str]) -> str:
        # The last letters of some mnemonics look like a condition.
        whole = match[0] == "vnmls" or match[0].startswith(("vac", "vsel"))
        return match[0] if whole else match[1]

    def head(self, features: tuple[str, ...]) -> list[str]:
        """ARMv7-A and the features."""
        units = [unit for name, unit in _UNITS.items() if name in features]
        half = "asimdhp" in features
        return [
            ".syntax unified",
            f".arch {'armv8.2-a' if half else 'armv7-a'}",
            f".fpu {units[-1] if units else 'vfpv3-d16'}",
            *([".arch_extension fp16"] if half else []),
            ".arm",
        ]

    def adds_products(self, text: str) -> bool:
        """Whether an instruction adds products to a register."""
        return text.startswith("vfma.")

    def chains(self, function: Function) -> set[str]:
        """Registers that FMAs of a function accumulate in."""
        return {t.split()[1].rstrip(",") for t in self.products(function)[0]}

    def spills(self, function: Function) -> list[str]:
        """Instructions that move vectors to or from the stack between the FMAs."""
        between = self.products(function)[1]
        return [t for t in between if re.match(r"v(ld|st|push|pop)\S* .*\bsp\b", t)]
