"""The same assembly for macOS, whose object files are Mach-O and not ELF."""

from __future__ import annotations

import re


def mach_o(text: str) -> str:
    """Translate a file that :func:`asm.aarch64.emit.frame` wrapped.

    In Mach-O, symbols begin with an underscore and another directive hides them. Local labels begin
    with ``L`` alone. There are no notes, and symbols have neither kind nor size.

    Parameters
    ----------
    text : str
        Assembly for ELF: constants only in the code, nothing but notes after the function.
    """
    code, _, _ = text.partition("\n.section .note.gnu.property")
    lines = [line for line in code.splitlines() if not re.match(r"\.(arch|type|size) ", line)]
    translated = "\n".join(lines)
    translated = re.sub(r"\.L(?=[A-Za-z])", "L", translated)
    translated = re.sub(r"^\.globl (\w+)$", r".globl _\1", translated, flags=re.MULTILINE)
    translated = re.sub(r"^\.hidden (\w+)$", r".private_extern _\1", translated, flags=re.MULTILINE)
    return re.sub(r"^(pplconv\w*):$", r"_\1:", translated, flags=re.MULTILINE) + "\n"
