"""AArch64 code as objdump prints it, and rules that the assembler does not check."""

from __future__ import annotations

import re

from tests.kernels.disassembly import Function, Judge

# The assembler's extension for each feature, which has its name in Linux's list of HWCAP.
_EXTENSIONS = {
    "asimd": "simd",
    "fphp": "fp16",
    "asimdhp": "fp16",
    "asimddp": "dotprod",
    "asimdfhm": "fp16fml",
    "atomics": "lse",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
}
# binutils allows these only from Armv8.2 on; other instructions of Armv8.2 are then excluded.
_OF_V8_2 = frozenset({"dotprod", "i8mm"})
_ADDS_PRODUCTS = re.compile(r"(fmla|smlal2?|sdot|bfdot|u?smmla|bfmmla)\s")
# Branches and addresses of code, all in the baseline; their operands are addresses.
_PLACES = re.compile(r"^(b|bl|b\.\w+|cbn?z|tbn?z|adrp?)\s")
# A load from the constants next to the code.
_LITERAL = re.compile(r"^((?:ldr|ldrsw|prfm)\s+\w+, )[0-9a-f]+$")
# Hints, which older CPUs execute as NOP.
_HARMLESS = frozenset({"bti", "paciasp", "pacibsp", "autiasp", "autibsp", "hint", "udf"})
# libgcc's atomics test for LSE right before they use it (-moutline-atomics): they load a byte that
# is set if the system has LSE, and branch.
_READS_LSE, _BRANCHES = "ldrb w16, [x16", "cbz w16, "


class JudgeAarch64(Judge):
    """Judge of AArch64 code: the baseline is Armv8.0 with its floating point and NEON."""

    machine = "aarch64"

    def clean(self, text: str) -> str:
        """Leave out comments and symbol names."""
        return re.sub(r"\s*<.*?>", "", text.split("//")[0]).strip()

    def asked(self, function: Function, at: int) -> tuple[str, ...]:
        """LSE where libgcc has just tested for it."""
        # Of a million instructions, hardly one follows such a branch.
        if at < 2 or not function.instructions[at - 1][1].startswith(_BRANCHES):
            return ()
        reads = function.instructions[at - 2][1].startswith(_READS_LSE)
        return ("atomics",) if reads else ()

    def forbidden(self, encoding: bytes, text: str, features: tuple[str, ...]) -> str:
        """Refuse what objdump does not know."""
        return "unknown to objdump" if text.startswith(".inst") else ""

    def judged(self, name: str, text: str) -> str:
        """Leave out data between functions, hints, and operands that are addresses."""
        if not text or text.startswith(".") or _PLACES.match(text):
            return ""
        return "" if text.split()[0] in _HARMLESS else _LITERAL.sub(r"\1.", text)

    def head(self, features: tuple[str, ...]) -> list[str]:
        """Armv8.0 and the features."""
        extensions = dict.fromkeys(_EXTENSIONS[feature] for feature in features)
        base, left_out = "armv8-a", ()
        if not _OF_V8_2.isdisjoint(extensions):
            base, left_out = "armv8.2-a", ("nolse", "nordma", "nocrc")
        return [f".arch {base}", *(f".arch_extension {name}" for name in (*left_out, *extensions))]

    def adds_products(self, text: str) -> bool:
        """Whether an instruction adds products to a register."""
        return bool(_ADDS_PRODUCTS.match(text))

    def chains(self, function: Function) -> set[str]:
        """Registers that FMAs of a function accumulate in."""
        return {t.split()[1].split(".")[0] for t in self.products(function)[0]}

    def spills(self, function: Function) -> list[str]:
        """Instructions that move whole vectors to or from the stack between the FMAs.

        Before and after them, partial vectors go through the stack, as lanes have no masks. The
        lower halves of v8 to v15 are saved there by their names d8 to d15.
        """
        between = self.products(function)[1]
        return [t for t in between if re.match(r"(ld|st)\S* .*\b[qv]\d+.*\[sp", t)]
