"""Executes the text of an assembly kernel whose instructions this machine lacks.

It knows the instructions on integers, flags and masked vectors that such kernels use, and no
others; a subclass adds those that the machine lacks (``tile_interpreter``). It checks the same
rules as the native checker: a kernel may access only the memory that the caller gives, restores
callee-saved registers and the stack pointer, and returns with clean upper halves of vectors.

Registers and the stack hold noise at the start, as they may in a real call.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partialmethod

import numpy as np

_WIDE = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *(f"r{i}" for i in range(8, 16)))
_PARTS = {"ax": ("rax", 2), "r13b": ("r13", 1)}  # bytes of registers
_SIZES = {"byte": 1, "word": 2, "dword": 4, "qword": 8}
_HALF = {f"e{name[1:]}": name for name in _WIDE[:8]} | {f"{name}d": name for name in _WIDE[8:]}
_SAVED = ("rbx", "rbp", "r12", "r13", "r14", "r15")
MASK = (1 << 64) - 1
_STACK, _STACK_BYTES, _RODATA = 0x7FFF_0000_0000, 1 << 15, 0x5555_0000_0000
_RETURN = 0x1234_5678
_JUMPS: dict[str, Callable[[Interpreter], bool]] = {
    "jmp": lambda m: True,
    "je": lambda m: m.zero,
    "jz": lambda m: m.zero,
    "jne": lambda m: not m.zero,
    "jnz": lambda m: not m.zero,
    "jg": lambda m: m.above,
    "jae": lambda m: not m.carry,
}


@dataclass(frozen=True)
class Piece:
    """Bytes that a kernel may touch.

    Parameters
    ----------
    name : str
        Name of the contents, for reports.
    address : int
        Address of the first byte, for the kernel.
    bytes : ndarray of uint8
        The bytes; the kernel writes into this array.
    writable : bool
        Whether the kernel may write.
    """

    name: str
    address: int
    bytes: np.ndarray
    writable: bool = False


class Memory:
    """All pieces; everything between them faults."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces = list(pieces)

    def view(self, address: int, count: int, *, write: bool = False) -> np.ndarray:
        """`count` bytes from `address` on, as a view.

        Raises
        ------
        AssertionError
            If the bytes are not all inside one piece, or are written and read-only.
        """
        for piece in self.pieces:
            first = address - piece.address
            if first >= 0 and first + count <= len(piece.bytes):
                assert piece.writable or not write, f"a write into {piece.name} at {first}"
                return piece.bytes[first : first + count]
        near = [
            f"{p.name} at {address - p.address} of {len(p.bytes)}"
            for p in self.pieces
            if -4096 <= address - p.address <= len(p.bytes) + 4096
        ]
        kind = "write" if write else "read"
        raise AssertionError(f"a {kind} of {count} bytes at {address:#x}, near {near}")


@dataclass(frozen=True)
class Text:
    """A parsed assembly file: instructions, positions of labels, constants."""

    code: tuple[tuple[str, tuple[str, ...]], ...]
    labels: dict[str, int]
    rodata: bytes
    constants: dict[str, int]


@cache
def parse(text: str) -> Text:
    """Parse an assembly file."""
    code: list[tuple[str, tuple[str, ...]]] = []
    labels: dict[str, int] = {}
    constants: dict[str, int] = {}
    rodata = bytearray()
    in_rodata = False
    for line in (whole.split("#")[0].strip() for whole in text.splitlines()):
        mnemonic, _, rest = line.partition(" ")
        operands = tuple(o.strip() for o in rest.split(",")) if rest.strip() else ()
        if line.startswith((".section", ".text")):
            in_rodata = ".rodata" in line
        elif line.endswith(":"):
            (constants if in_rodata else labels)[line[:-1]] = len(rodata if in_rodata else code)
        elif mnemonic in (".byte", ".short"):
            assert in_rodata
            size = {".byte": 1, ".short": 2}[mnemonic]
            rodata += b"".join(int(o).to_bytes(size, "little") for o in operands)
        elif line and not line.startswith("."):
            code.append((mnemonic, operands))
    return Text(tuple(code), labels, bytes(rodata), constants)


def _size(operand: str) -> int:
    """Bytes of a memory operand; of a register's, if it does not say."""
    return _SIZES.get(operand.split()[0], 8)


class Interpreter:
    """A machine with integer registers, flags and vectors of 64 bytes.

    Parameters
    ----------
    seed : int
        Seed of the noise.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.executed: dict[str, int] = {}  # executions of each mnemonic

    def call(self, text: str, arguments: int, memory: Memory) -> None:
        """Run a kernel to its end.

        Parameters
        ----------
        text : str
            Assembly file of the kernel.
        arguments : int
            Address of its argument struct.
        memory : Memory
            All memory that it may touch, including the struct.

        Raises
        ------
        AssertionError
            If the kernel breaks a rule.
        """
        rng = np.random.default_rng(self.seed)
        self.text = parse(text)
        noise = rng.integers(0, 256, _STACK_BYTES).astype(np.uint8)
        rodata = np.frombuffer(self.text.rodata, np.uint8)
        self.memory = Memory([
            *memory.pieces,
            Piece("the stack", _STACK, noise, writable=True),
            Piece("constants", _RODATA, rodata),
        ])  # fmt: skip
        self.r = {name: int(rng.integers(0, 1 << 62)) for name in _WIDE}
        self.zmm = np.full((32, 64), 0xFF, np.uint8)
        self.k = [int(rng.integers(0, 1 << 16)) for _ in range(8)]
        self.zero = self.carry = self.above = False
        self.dirty = False
        top = _STACK + _STACK_BYTES - 256 - 8 * int(rng.integers(0, 16))
        self.r["rsp"], self.r["rdi"] = top, arguments
        above = noise[top - _STACK + 8 :].copy()
        self._put(top, _RETURN)
        before = dict(self.r)
        self._run()
        assert self.r["rsp"] == top + 8, "the stack pointer is not what it was"
        assert np.array_equal(noise[top - _STACK + 8 :], above), "a write above the return address"
        for name in _SAVED:
            assert self.r[name] == before[name], f"{name} is not what it was"
        assert not self.dirty, "upper halves of vector registers are dirty"

    def _run(self) -> None:
        at = 0
        for _ in range(1 << 22):
            mnemonic, operands = self.text.code[at]
            self.executed[mnemonic] = self.executed.get(mnemonic, 0) + 1
            at += 1
            if mnemonic in _JUMPS:
                if _JUMPS[mnemonic](self):
                    at = self.text.labels[operands[0]]
            elif mnemonic == "ret":
                assert self._get(self.r["rsp"]) == _RETURN, "a return to somewhere else"
                self.r["rsp"] += 8
                return
            else:
                getattr(self, f"do_{mnemonic}")(*operands)
        raise AssertionError("it did not return")

    # Operands.

    def _get(self, address: int, size: int = 8) -> int:
        return int.from_bytes(self.memory.view(address, size).tobytes(), "little")

    def _put(self, address: int, value: int, size: int = 8) -> None:
        raw = np.frombuffer((value & MASK).to_bytes(8, "little"), np.uint8)
        self.memory.view(address, size, write=True)[:] = raw[:size]

    def address(self, operand: str) -> int:
        label, bracket, inside = operand.partition("[")
        assert bracket
        if inside == "rip]":
            return _RODATA + self.text.constants[label]
        total = 0
        for sign, term in re.findall(r"([+-]?)\s*([^\s+-]+)", inside.rstrip("]")):
            name, _, scale = term.partition("*")
            value = self.r[name] if name in self.r else int(name)
            value *= int(scale or 1)
            total += -value if sign == "-" else value
        return total & MASK

    def _value(self, operand: str) -> int:
        """Value of a source operand of an integer instruction."""
        if operand in self.r:
            return self.r[operand]
        if operand in _HALF:
            return self.r[_HALF[operand]] & 0xFFFFFFFF
        if "[" in operand:
            return self._get(self.address(operand[operand.index("[") :]), _size(operand))
        if operand in _PARTS:
            return self.r[_PARTS[operand][0]] & ((1 << 8 * _PARTS[operand][1]) - 1)
        return int(operand) & MASK

    def _assign(self, operand: str, value: int) -> None:
        """Set a destination: a register (32-bit ones clear the upper half), or memory."""
        if operand in self.r:
            self.r[operand] = value & MASK
        elif operand in _HALF:
            self.r[_HALF[operand]] = value & 0xFFFFFFFF
        else:
            self._put(self.address(operand[operand.index("[") :]), value, _size(operand))

    # Integers.

    def do_mov(self, to: str, source: str) -> None:
        self._assign(to, self._value(source))

    def do_lea(self, to: str, source: str) -> None:
        self._assign(to, self.address(source))

    def do_push(self, source: str) -> None:
        self.r["rsp"] -= 8
        self._put(self.r["rsp"], self._value(source))

    def do_pop(self, to: str) -> None:
        self._assign(to, self._get(self.r["rsp"]))
        self.r["rsp"] += 8

    def _arithmetic(self, to: str, value: int) -> None:
        self._assign(to, value)
        bits = 32 if to in _HALF else 64
        result = value & ((1 << bits) - 1)
        self.zero = result == 0
        self.above = not self.zero and not result >> (bits - 1)  # without overflow
        self.carry = False

    def _binary(self, operation: Callable[[int, int], int], to: str, source: str) -> None:
        self._arithmetic(to, operation(self._value(to), self._value(source)))

    do_add = partialmethod(_binary, operator.add)
    do_sub = partialmethod(_binary, operator.sub)
    do_and = partialmethod(_binary, operator.and_)
    do_shl = partialmethod(_binary, operator.lshift)
    do_shr = partialmethod(_binary, operator.rshift)

    def do_dec(self, to: str) -> None:
        self._arithmetic(to, self._value(to) - 1)

    def do_inc(self, to: str) -> None:
        self._arithmetic(to, self._value(to) + 1)

    def do_xor(self, to: str, source: str) -> None:
        self._arithmetic(to, 0 if to == source else self._value(to) ^ self._value(source))

    def do_imul(self, to: str, source: str, factor: str = "") -> None:
        # Of a register and a number, or of two registers.
        other = int(factor) if factor else self._value(to)
        self._arithmetic(to, self._value(source) * other)

    def do_div(self, by: str) -> None:
        divisor = self._value(by)
        assert divisor, "a division by zero"
        whole, rest = divmod(self.r["rdx"] << 64 | self.r["rax"], divisor)
        assert whole <= MASK, "a quotient that is too large"
        self.r["rax"], self.r["rdx"] = whole, rest

    def do_bzhi(self, to: str, source: str, count: str) -> None:
        bits = self._value(count) & 0xFF
        self._arithmetic(to, self._value(source) & ((1 << min(bits, 64)) - 1))

    def do_test(self, a: str, b: str) -> None:
        self.zero = self._value(a) & self._value(b) == 0

    def do_cmp(self, a: str, b: str) -> None:
        left, right = self._value(a), self._value(b)
        self.zero, self.carry = left == right, left < right
        self.above = (left ^ 1 << 63) > (right ^ 1 << 63)

    def do_cmovz(self, to: str, source: str) -> None:
        if self.zero:
            self.do_mov(to, source)

    def do_cmovb(self, to: str, source: str) -> None:
        if self.carry:
            self.do_mov(to, source)

    # Vectors of 16 elements of 4 bytes.

    def do_kmovw(self, to: str, source: str) -> None:
        self.k[int(to[1:])] = self._value(source) & 0xFFFF

    def do_vzeroupper(self) -> None:
        self.zmm[:16, 16:] = 0
        self.dirty = False

    def _lanes(self, operand: str) -> tuple[str, np.ndarray, bool]:
        """Operand without its mask; lanes of the mask; whether the other lanes are cleared."""
        name, *rest = operand.split("{")
        masks = [int(word[1]) for word in rest if re.match(r"k[1-7]}", word)]
        mask = self.k[masks[0]] if masks else 0xFFFF
        return name, np.array([mask >> lane & 1 for lane in range(16)], bool), "z}" in rest

    def _register(self, operand: str) -> np.ndarray:
        return self.zmm[int(re.fullmatch(r"[xyz]mm(\d+)", operand)[1])]  # type: ignore[index]

    def _load(self, operand: str, lanes: np.ndarray) -> np.ndarray:
        """64 bytes of a register or of memory; memory outside the masked lanes is not accessed."""
        if "[" not in operand:
            return self._register(operand).copy()
        address, found = self.address(operand), np.zeros(64, np.uint8)
        if lanes.all():
            found[:] = self.memory.view(address, 64)
        else:
            for lane in np.flatnonzero(lanes) * 4:
                found[lane : lane + 4] = self.memory.view(address + int(lane), 4)
        return found

    def _store(self, operand: str, lanes: np.ndarray, value: np.ndarray) -> None:
        address = self.address(operand)
        if lanes.all():
            self.memory.view(address, 64, write=True)[:] = value
        for lane in () if lanes.all() else np.flatnonzero(lanes) * 4:
            view = self.memory.view(address + int(lane), 4, write=True)
            view[:] = value[lane : lane + 4]

    def _write(self, to: str, value: np.ndarray) -> None:
        name, lanes, clear = self._lanes(to)
        register, chosen = self._register(name), np.repeat(lanes, 4)
        register[:] = np.where(chosen, value, 0 if clear else register)
        self.dirty = True

    def do_vmovups(self, to: str, source: str) -> None:
        name, lanes, _ = self._lanes(to)
        if "[" in name:
            self._store(name, lanes, self._register(source))
        else:
            self._write(to, self._load(source, lanes))

    def do_vmovaps(self, to: str, source: str) -> None:
        address = self.address(to if "[" in to else source)
        assert address % 64 == 0, f"an aligned move at {address:#x}"
        self.do_vmovups(to, source)

    def do_vbroadcastss(self, to: str, source: str) -> None:
        self._write(to, np.tile(self.memory.view(self.address(source), 4), 16))

    def do_vpxord(self, to: str, a: str, b: str) -> None:
        self._write(to, self._register(a) ^ self._register(b))

    def _floats(self, operand: str, lanes: np.ndarray) -> np.ndarray:
        return self._load(operand, lanes).view(np.float32)

    def _of_floats(self, operation: Callable, to: str, a: str, b: str) -> None:
        lanes = self._lanes(to)[1]
        with np.errstate(all="ignore"):
            result = operation(self._floats(a, lanes), self._floats(b, lanes))
        self._write(to, result.view(np.uint8))

    do_vaddps = partialmethod(_of_floats, np.add)
    # The result is the second source if either is NaN, or both are zero.
    do_vmaxps = partialmethod(_of_floats, lambda x, y: np.where(x > y, x, y))
    do_vminps = partialmethod(_of_floats, lambda x, y: np.where(x < y, x, y))
