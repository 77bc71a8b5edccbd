"""Memory of an interpreted kernel: pieces at addresses; accesses outside of them fail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


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
