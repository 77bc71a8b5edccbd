"""Part of a vector from memory and to it: NEON has no masks, so its elements go in pieces."""

from __future__ import annotations

from asm.aarch64.emit import Vector, Writer, chunk_letter
from asm.writer import pieces


class Partial:
    """Emits loads and stores of the first elements of a vector, fewer than it has.

    Parameters
    ----------
    w : Writer
        Writer that takes the instructions.
    v : Vector
        Names of its elements.
    lanes : int, optional
        Elements that count as a vector; by default, all that fit into one.
    name : str, optional
        Part of its labels, where a file has others of its kind.
    """

    def __init__(self, w: Writer, v: Vector, lanes: int | None = None, name: str = "lanes") -> None:
        self.w, self.v, self.name = w, v, name
        self.lanes = lanes or v.lanes
        self.labels = 0

    def load(self, register: int, address: str, count: str) -> None:
        """Load `count` elements, 1 <= count < lanes; other lanes are zero. Moves `address`."""
        self._tree("ld", register, address, count)

    def store(self, register: int, address: str, count: str) -> None:
        """Store `count` elements, 1 <= count < lanes. Moves `address`."""
        self._tree("st", register, address, count)

    def _tree(self, op: str, register: int, address: str, count: str) -> None:
        w, v = self.w, self.v
        self.labels += 1

        def unless(bit: int, label: str) -> None:
            w(f"tbz {count}, #{bit}, .L{label}")

        def move(offset: int, size: int) -> None:
            letter = chunk_letter(size)
            if offset:
                place = f"{{v{register}.{letter}}}[{offset // size}]"
                w(f"{op}1 {place}, [{address}], #{size}")
            else:
                w(f"{op}r {letter}{register}, [{address}], #{size}")

        pieces(w, f"{op}_{self.name}_{self.labels}", self.lanes, v.size, unless, move)
