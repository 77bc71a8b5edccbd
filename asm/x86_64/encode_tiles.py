"""AMX instructions as bytes, for assemblers that do not know them.

GNU binutils have these instructions since 2.35 (bfloat16 and bytes alike). Where an older one
builds the package, :func:`in_bytes` replaces each of them by ``.byte``, with the instruction as
the comment, so that a listing reads as before.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: the encodings of
each instruction, and section 2.3.5 for the VEX prefix of three bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Instruction -> the prefix that VEX stands for (its pp field), and the opcode in map 0F38.
_NONE, _66, _F3, _F2 = range(4)
_CODES = {
    "ldtilecfg": (_NONE, 0x49),
    "sttilecfg": (_66, 0x49),
    "tilerelease": (_NONE, 0x49),
    "tilezero": (_F2, 0x49),
    "tileloadd": (_F2, 0x4B),
    "tileloaddt1": (_66, 0x4B),
    "tilestored": (_F3, 0x4B),
    "tdpbssd": (_F2, 0x5E),
    "tdpbsud": (_F3, 0x5E),
    "tdpbusd": (_66, 0x5E),
    "tdpbuud": (_NONE, 0x5E),
    "tdpbf16ps": (_F3, 0x5C),
}
MNEMONICS = tuple(_CODES)
# One instruction of each extension, to test whether an assembler knows them.
PROBE = """.intel_syntax noprefix
    tilerelease
    tdpbusd tmm0, tmm1, tmm2
    tdpbf16ps tmm0, tmm1, tmm2
"""

_REGISTERS = (
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
_RSP = _REGISTERS.index("rsp")
_LINE = re.compile(rf"^(\s*)({'|'.join(sorted(_CODES, key=len, reverse=True))})\b\s*(.*?)\s*$")
# Operand of LDTILECFG: a constant beside the code.
_CONSTANT = re.compile(r"\[rip \+ (\.L\w+)\]")
_TERM = re.compile(r"([+-]?)(?:(\w+)\*([1248])|([a-z]\w*)|(\d+|0x[0-9a-f]+))")


def _vex(code: tuple[int, int], r: int, x: int, b: int, v: int) -> list[int]:
    """VEX prefix of three bytes and the opcode; r, x, b and v are whole register numbers."""
    prefix, opcode = code
    high = [~(number >> 3) & 1 for number in (r, x, b)]
    return [0xC4, high[0] << 7 | high[1] << 6 | high[2] << 5 | 2, (~v & 15) << 3 | prefix, opcode]


def _address(text: str) -> tuple[int, int | None, int, int]:
    """Base, index, scale and displacement of ``[base + index*scale + displacement]``."""
    base = index = None
    scale, displacement = 1, 0
    inside = re.sub(r"\s", "", text).removeprefix("[").removesuffix("]")
    terms = list(_TERM.finditer(inside))
    if "".join(term[0] for term in terms) != inside:
        raise ValueError(f"{text} is no address that a tile instruction is encoded for")
    for sign, indexed, times, register, number in (term.groups() for term in terms):
        if number:
            displacement += int(f"{sign}{number}", 0)
        elif indexed:
            index, scale = _REGISTERS.index(indexed), int(times)
        elif base is None:
            base = _REGISTERS.index(register)
        else:
            index = _REGISTERS.index(register)
    if base is None or index == _RSP:
        raise ValueError(f"{text} has no base, or an index that there is not")
    return base, index, scale, displacement


def _memory(code: tuple[int, int], register: int, text: str, *, sib: bool) -> list[int]:
    """An instruction with a memory operand; `sib`: with a SIB byte even for a base alone."""
    base, index, scale, displacement = _address(text)
    head = _vex(code, register, index or 0, base, 0)
    if displacement == 0 and base & 7 != 5:  # rbp and r13 have no form without displacement
        mode, tail = 0, b""
    elif -128 <= displacement < 128:
        mode, tail = 1, displacement.to_bytes(1, "little", signed=True)
    else:
        mode, tail = 2, displacement.to_bytes(4, "little", signed=True)
    modrm = mode << 6 | (register & 7) << 3
    if index is None and not sib and base & 7 != _RSP:
        return [*head, modrm | base & 7, *tail]
    number = _RSP if index is None else index & 7
    return [*head, modrm | 4, (scale.bit_length() - 1) << 6 | number << 3 | base & 7, *tail]


def _tile(name: str) -> int:
    """Give the number of a tile register."""
    match = re.fullmatch(r"tmm([0-7])", name)
    if match is None:
        raise ValueError(f"{name} is no tile register")
    return int(match[1])


def encode(mnemonic: str, operands: Iterable[str] = ()) -> bytes:
    """Encode one instruction.

    Parameters
    ----------
    mnemonic : str
        One of :data:`MNEMONICS`.
    operands : iterable of str
        In Intel's order: ``("tmm4", "[r8 + r10*1]")``.

    Returns
    -------
    bytes
        As binutils encode it.

    Raises
    ------
    ValueError
        If the instruction has no operand of such a kind.
    """
    code, found = _CODES[mnemonic], list(operands)
    if mnemonic == "tilerelease":
        return bytes([*_vex(code, 0, 0, 0, 0), 0xC0])
    if mnemonic in ("ldtilecfg", "sttilecfg"):
        return bytes(_memory(code, 0, found[0], sib=False))
    if mnemonic == "tilezero":
        return bytes([*_vex(code, 0, 0, 0, 0), 0xC0 | _tile(found[0]) << 3])
    if mnemonic.startswith("tile"):
        tile, address = found if mnemonic != "tilestored" else found[::-1]
        return bytes(_memory(code, _tile(tile), address, sib=True))
    to, a, b = (_tile(name) for name in found)
    return bytes([*_vex(code, 0, 0, 0, b), 0xC0 | to << 3 | a])


def in_bytes(text: str) -> str:
    """Replace the AMX instructions of an assembly file.

    Parameters
    ----------
    text : str
        In Intel's syntax, one instruction a line.

    Returns
    -------
    str
        The same with ``.byte`` in their places.
    """
    return "\n".join(_line(line) for line in text.split("\n"))


def _line(line: str) -> str:
    match = _LINE.match(line)
    if match is None:
        return line
    indent, mnemonic, operands = match.groups()
    if constant := _CONSTANT.fullmatch(operands):
        # ModRM: the next four bytes are the distance from their end to the constant.
        numbers = [*_vex(_CODES[mnemonic], 0, 0, 0, 0), 5]
        where = f".long {constant[1]} - . - 4"
        return f"{indent}.byte {_listed(numbers)}; {where} # {line.strip()}"
    encoded = encode(mnemonic, [o.strip() for o in operands.split(",")] if operands else [])
    return f"{indent}.byte {_listed(encoded)} # {line.strip()}"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"0x{byte:02x}" for byte in numbers)
