"""Part of a vector from memory and to it: NEON has no masks, so its elements go in chunks.

A chunk is a power of two of bytes, the largest first; which ones there are, the bits of the number
of elements say.
"""

from __future__ import annotations

from asm.aarch64.emit import Vector, Writer, chunk_letter


class Partial:
    """Emits loads and stores of the first elements of a vector, fewer than it has.

    Parameters
    ----------
    w : Writer
        Where to.
    v : Vector
        Names of its elements.
    lanes : int, optional
        Elements that count as a vector, if not all that fit one.
    """

    def __init__(self, w: Writer, v: Vector, lanes: int | None = None) -> None:
        self.w, self.v = w, v
        self.lanes = lanes or v.lanes
        self.labels = 0

    def load(self, register: int, address: str, count: str) -> None:
        """Load `count` elements, 1 <= count < lanes; other lanes are zero. Moves `address`."""
        self._tree("ld", register, address, count)

    def store(self, register: int, address: str, count: str) -> None:
        """Store `count` elements, 1 <= count < lanes. Moves `address`."""
        self._tree("st", register, address, count)

    def _tree(self, op: str, register: int, address: str, count: str) -> None:
        self.labels += 1
        done = f"{op}_lanes_{self.labels}"
        self._branch(op, register, address, count, self.lanes.bit_length() - 2, 0, done)
        self.w.label(done)

    def _branch(
        self, op: str, register: int, address: str, count: str, bit: int, offset: int, done: str
    ) -> None:
        """Handle the bits of the count from `bit` on; `offset` bytes are done."""
        w = self.w
        size = self.v.size << bit
        # One element at least: the last bit is set where no other one was.
        certain = bit == 0 and offset == 0
        without = f"{done}_{bit}_{offset}"
        if not certain:
            w(f"tbz {count}, #{bit}, .L{without}")
        letter = chunk_letter(size)
        if offset:
            place = f"{{v{register}.{letter}}}[{offset // size}]"
            w(f"{op}1 {place}, [{address}], #{size}")
        else:
            w(f"{op}r {letter}{register}, [{address}], #{size}")
        if bit:
            self._branch(op, register, address, count, bit - 1, offset + size, done)
            w(f"b .L{done}")
            w.label(without)
            self._branch(op, register, address, count, bit - 1, offset, done)
        elif not certain:
            w.label(without)
