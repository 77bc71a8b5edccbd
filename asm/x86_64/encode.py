"""Instructions of narrow products as bytes, for assemblers that are too old for them.

A build asks the assembler for them once (``setup.py``). If it does not know one of them, all are
written as bytes with the instruction as a comment. Only the forms that the generators write are
known here: three registers, or for AVX-512 two and a broadcast from memory; two of a conversion.

Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2 (VEX, EVEX
and the compressed displacement), and the pages of the instructions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Encoding:
    """How one instruction is encoded; its opcode is in the map 0F38, W is 0.

    Parameters
    ----------
    opcode : int
        The byte behind the prefix.
    prefix : int
        Legacy prefix that the field pp stands for: 1 is 66, 2 is F3, 3 is F2.
    evex : bool
        True: EVEX with vectors of 512 bits. False: VEX with vectors of 256 bits.
    converts : bool
        Whether it has one source, which is converted to elements of half the size.
    """

    opcode: int
    prefix: int
    evex: bool
    converts: bool = False


ENCODINGS = {
    "vpdpbusd": Encoding(0x50, 1, evex=True),
    "{vex} vpdpbusd": Encoding(0x50, 1, evex=False),
    "vpdpbssd": Encoding(0x50, 3, evex=False),
    "vdpbf16ps": Encoding(0x52, 2, evex=True),
    "vcvtneps2bf16": Encoding(0x72, 2, evex=True, converts=True),
}
# One instruction of each name, to test whether an assembler knows them.
PROBE = ".intel_syntax noprefix\n" + "".join(
    f"    {name} ymm0, zmm1\n" if e.converts else f"    {name} {r}0, {r}1, {r}2\n"
    for name, e, r in ((name, e, "zmm" if e.evex else "ymm") for name, e in ENCODINGS.items())
)
_MAP_0F38 = 2
_NAMES = "|".join(re.escape(name) for name in ENCODINGS)
_LINE = re.compile(rf"^    ({_NAMES}) [yz]mm(\d+), (?:[yz]mm(\d+), )?(.+)$", re.MULTILINE)
_REGISTER = re.compile(r"[yz]mm(\d+)")
_MEMORY = re.compile(r"\[(\w+)(?: \+ (\w+)(?:\*([1248]))?)??(?: \+ (-?\d+))?\]\{1to16\}")
_GENERAL = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi")
_NUMBERS = {name: i for i, name in enumerate((*_GENERAL, *(f"r{i}" for i in range(8, 16))))}
_BROADCAST_BYTES = 4  # unit of displacements of one byte


@dataclass(frozen=True)
class _Operand:
    """The operand that ModRM describes: its bytes, and the bits that prefixes hold, X and B."""

    fields: bytes  # ModRM without the other register, then SIB and displacement
    x: int
    b: int
    memory: bool


def encoded(text: str) -> str:
    """Write the instructions of this module as bytes, and leave all other lines of `text` alone."""
    return _LINE.sub(_line, text)


def instruction_bytes(name: str, target: int, first: int, second: str) -> bytes:
    """Encode one instruction.

    Parameters
    ----------
    name : str
        A key of :data:`ENCODINGS`.
    target, first : int
        Numbers of the vector registers of the sum and the first factor; a conversion has no first
        factor, and 0 stands for none.
    second : str
        The second factor, or what is converted, as the assembler takes it.

    Raises
    ------
    ValueError
        If `second` has a form that the generators do not write.
    """
    encoding = ENCODINGS[name]
    operand = _operand(second)
    if operand.memory and (encoding.converts or not encoding.evex):
        raise ValueError(f"{name} with {second!r}: expected a register")
    prefix = _evex if encoding.evex else _vex
    modrm, *rest = operand.fields
    modrm |= (target & 7) << 3
    head = prefix(encoding, target, first, operand)
    return bytes((*head, encoding.opcode, modrm, *rest))


def _line(match: re.Match[str]) -> str:
    name, target, first, second = match.groups()
    found = instruction_bytes(name, int(target), int(first or 0), second)
    text = match.group().strip()
    return f"    .byte {', '.join(f'{byte:#04x}' for byte in found)} # {text}"


def _operand(text: str) -> _Operand:
    if register := _REGISTER.fullmatch(text):
        number = int(register[1])
        return _Operand(bytes([0b11 << 6 | number & 7]), number >> 4, number >> 3 & 1, memory=False)
    memory = _MEMORY.fullmatch(text)
    if memory is None:
        raise ValueError(f"no encoding of the operand {text!r}")
    base, index, scale, displacement = memory.groups()
    b, x = _NUMBERS[base], _NUMBERS[index] if index else 0
    mode, tail = _displacement(int(displacement or 0), b)
    if index is None and b & 7 != _NUMBERS["rsp"]:
        return _Operand(bytes([mode << 6 | b & 7, *tail]), 0, b >> 3, memory=True)
    low = x & 7 if index else _NUMBERS["rsp"]  # which stands for no index
    sib = (int(scale or 1).bit_length() - 1) << 6 | low << 3 | b & 7
    return _Operand(bytes([mode << 6 | 0b100, sib, *tail]), x >> 3, b >> 3, memory=True)


def _displacement(value: int, base: int) -> tuple[int, bytes]:
    """Field mod and bytes of a displacement; a base of rbp or r13 always has one."""
    if value == 0 and base & 7 != _NUMBERS["rbp"]:
        return 0, b""
    scaled, rest = divmod(value, _BROADCAST_BYTES)
    if rest == 0 and -128 <= scaled < 128:
        return 1, scaled.to_bytes(1, "little", signed=True)
    return 2, value.to_bytes(4, "little", signed=True)


def _vex(encoding: Encoding, target: int, first: int, operand: _Operand) -> bytes:
    """Three bytes; registers are numbered with their bits inverted."""
    r, b = target >> 3 & 1, operand.b
    second = (1 - r) << 7 | 1 << 6 | (1 - b) << 5 | _MAP_0F38
    third = (~first & 0xF) << 3 | 1 << 2 | encoding.prefix
    return bytes((0xC4, second, third))


def _evex(encoding: Encoding, target: int, first: int, operand: _Operand) -> bytes:
    """Four bytes; registers are numbered with their bits inverted. No mask; L is 512 bits."""
    r, r_high = target >> 3 & 1, target >> 4
    second = (1 - r) << 7 | (1 - operand.x) << 6 | (1 - operand.b) << 5 | (1 - r_high) << 4
    third = (~first & 0xF) << 3 | 1 << 2 | encoding.prefix
    fourth = 0b10 << 5 | int(operand.memory) << 4 | (1 - (first >> 4)) << 3
    return bytes((0x62, second | _MAP_0F38, third, fourth))
