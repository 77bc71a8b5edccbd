"""Output arrays that show elements left unwritten, and bytes written outside."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

_CANARY = 0xA5


class GuardedOutput:
    """An output filled with bytes of ones, which are NaN, inside a larger buffer of canary bytes.

    ``offset`` elements before the array let it start at an address that no vector size divides.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str, offset: int = 3) -> None:
        itemsize = np.dtype(dtype).itemsize
        size = int(np.prod(shape)) * itemsize
        self._first, self._last = (64 + offset) * itemsize, (64 + offset) * itemsize + size
        self._bytes = np.full(self._last + 64 * itemsize, _CANARY, np.uint8)
        self.array = self._bytes[self._first : self._last].view(dtype).reshape(shape)
        self._bytes[self._first : self._last] = 0xFF  # NaN in types of floats

    def assert_margins_intact(self) -> None:
        """Fail if a byte outside the array has changed."""
        assert np.all(self._bytes[: self._first] == _CANARY), "written before the output"
        assert np.all(self._bytes[self._last :] == _CANARY), "written behind the output"


@contextmanager
def untouched(*arrays: np.ndarray):
    """Fail if a byte of the arrays changes inside the block."""
    before = [array.tobytes() for array in arrays]
    yield
    for array, content in zip(arrays, before, strict=True):
        assert array.tobytes() == content, "an array was written that should not have been"
