"""Convolutions with dilation as convolutions without, on every d-th row or column.

An output row of a convolution with dilation d reads every d-th input row. So the outputs whose rows
have one remainder by d are a convolution without dilation, of the inputs of one remainder: both are
views, and the loops walk their strides. Winograd's algorithm takes no dilation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..._records import NamedTuple
from ..storage import Shape, Value
from .epilogue import Epilogue

__all__ = ["Part", "parts_of"]

# Each part is a step, and its images get small.
_MOST_PARTS = 16


class Part(NamedTuple):
    """Some of the outputs of a convolution.

    Parameters
    ----------
    inputs, outputs : tuple of slice
        The rows and columns that it reads, and the ones that it writes.
    geometry : dict
        As of `emit_convolution`, without dilation.
    """

    inputs: tuple[slice, slice]
    outputs: tuple[slice, slice]
    geometry: dict[str, Any]

    def of_input(self, x: Value) -> Value:
        """Give the pixels that it reads."""
        return _view(x, self.inputs)

    def of_output(self, y: Value) -> Value:
        """Give the pixels that it writes, or their residuals."""
        return _view(y, self.outputs)

    def input_shape(self, x: Shape) -> Shape:
        """Shape of the pixels that it reads."""
        return (*x[:2], *(len(range(n)[s]) for n, s in zip(x[2:], self.inputs, strict=True)))

    def of_epilogue(self, epilogue: Epilogue) -> Epilogue:
        """Give the epilogue of its outputs."""
        residual, last = (
            None if value is None else self.of_output(value)
            for value in (epilogue.residual, epilogue.last)
        )  # fmt: skip
        return replace(epilogue, residual=residual, last=last)


class _Line(NamedTuple):
    """Part of one axis."""

    inputs: slice
    outputs: slice
    padding: tuple[int, int]


def parts_of(x: Shape, y: Shape, weight: Shape, geometry: dict[str, Any]) -> list[Part]:
    """List the parts of a convolution with dilation.

    Parameters
    ----------
    x, y, weight : tuple of int
        Shapes in ONNX's order.
    geometry : dict
        As of `emit_convolution`.

    Returns
    -------
    list of Part
        None at all where there is no dilation, a stride, or a part without inputs.
    """
    dilation, sizes = geometry["dilation"], (x[2:], y[2:], weight[2:], geometry["padding"])
    if not 1 < dilation[0] * dilation[1] <= _MOST_PARTS or geometry["stride"] != (1, 1):
        return []
    axes = [list(_lines(d, *axis)) for d, *axis in zip(dilation, *sizes, strict=True)]
    if not all(axes):
        return []
    return [
        Part(
            (rows.inputs, columns.inputs),
            (rows.outputs, columns.outputs),
            {**geometry, "dilation": (1, 1), "padding": (rows.padding, columns.padding)},
        )
        for rows, columns in itertools.product(*axes)
    ]


def _lines(
    dilation: int, pixels: int, outputs: int, taps: int, padding: tuple[int, int]
) -> Iterator[_Line]:
    """Yield the parts of an axis, all of them or none."""
    found = []
    for first in range(min(dilation, outputs)):
        count = len(range(first, outputs, dilation))
        begin = (first - padding[0]) % dilation
        before = (begin - first + padding[0]) // dilation
        # Inputs that no output of the part reads are left out.
        there = min(len(range(begin, pixels, dilation)), count + taps - 1 - before)
        after = count + taps - 1 - before - there
        if there < 1 or max(before, after) >= taps:
            return
        reads = slice(begin, begin + (there - 1) * dilation + 1, dilation)
        found.append(_Line(reads, slice(first, outputs, dilation), (before, after)))
    yield from found


def _view(value: Value, pixels: tuple[slice, slice]) -> Value:
    """Give a view of some rows and columns."""
    ranges = [range(n)[part] for n, part in zip(value.shape[2:], pixels, strict=True)]
    strides = value.strides[2:]
    return value.viewed(
        (*value.shape[:2], *map(len, ranges)),
        (*value.strides[:2], *(r.step * s for r, s in zip(ranges, strides, strict=True))),
        sum(r.start * s for r, s in zip(ranges, strides, strict=True)),
    )
