"""Arrays of calls; outputs that show elements left unwritten, and bytes written outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

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


def guarded(
    call: Callable[..., Any], shape: tuple[int, ...], dtype: Any, *arguments: Any,
    also: Sequence[np.ndarray] = (), offset: int = 3, **keywords: Any,
) -> np.ndarray:  # fmt: skip
    """Call with a `GuardedOutput` as ``out``, and give the array.

    Margins, arrays among the arguments and those in ``also`` must stay as they are.
    """
    output = GuardedOutput(shape, dtype, offset)
    given = (*arguments, *keywords.values(), *also)
    with untouched(*(array for array in given if isinstance(array, np.ndarray))):
        assert call(*arguments, **keywords, out=output.array) is output.array
    output.assert_margins_intact()
    return output.array


def assert_all_calls_give(
    expected: np.ndarray, conv: Any, prepared: Any, x: np.ndarray, residual: np.ndarray | None
) -> None:
    """Hold fresh results of a layer, and a given output of another one, to the same bits."""
    for _ in range(2):  # the second call finds its plan made
        fresh = conv(x, residual)
        assert fresh.flags.c_contiguous
        assert fresh.tobytes() == expected.tobytes()
    y = guarded(prepared, expected.shape, expected.dtype, x, residual, offset=1)
    assert y.tobytes() == expected.tobytes()


def four_arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Give input (2,6,9,10), weight (8,6,3,3), bias and residual in float32."""
    shapes = {
        "input": (2, 6, 9, 10), "weight": (8, 6, 3, 3), "bias": (8,), "residual": (2, 8, 7, 8),
    }  # fmt: skip
    return {name: draw(rng, *shape) for name, shape in shapes.items()}


def draw(rng: np.random.Generator, *shape: int, dtype: Any = "float32") -> np.ndarray:
    """Draw normal numbers."""
    return rng.standard_normal(shape).astype(dtype)
