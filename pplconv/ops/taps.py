"""Which taps lie inside the image, for outputs at its border."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, product

from .._records import record
from ..problem import ConvProblem

__all__ = ["Part", "parts_of_border"]

Area = tuple[slice, slice]


@record(frozen=True)
class Part:
    """Outputs whose windows have the same taps inside the image.

    Parameters
    ----------
    problem : ConvProblem
        Their convolution, which has no padding; of one tap if `is_empty`.
    outputs, inputs, taps : tuple of (slice, slice)
        Rows and columns: of these outputs, of the pixels that they see, and of the kernel.
    is_empty : bool
        Whether no tap is inside.
    """

    problem: ConvProblem
    outputs: Area
    inputs: Area
    taps: Area
    is_empty: bool


def parts_of_border(problem: ConvProblem) -> Iterator[Part]:
    """Yield the parts of all outputs whose windows reach into the padding."""
    (top, _), (left, _) = problem.padding
    (stride_h, stride_w), (dilation_h, dilation_w) = problem.stride, problem.dilation
    vertical = _ranges(problem.oh, problem.ih, problem.kh, stride_h, dilation_h, top)
    horizontal = _ranges(problem.ow, problem.iw, problem.kw, stride_w, dilation_w, left)
    for row, column in product(vertical, horizontal):
        if row.taps == problem.kh and column.taps == problem.kw:
            continue
        empty = not (row.taps and column.taps)
        part = replace(
            problem, padding=((0, 0), (0, 0)), oh=row.outputs, ow=column.outputs,
            kh=1 if empty else row.taps, kw=1 if empty else column.taps,
            ih=(row.outputs - 1) * stride_h + 1 if empty else row.inputs,
            iw=(column.outputs - 1) * stride_w + 1 if empty else column.inputs,
        )  # fmt: skip
        yield Part(
            part, (row.at, column.at), (row.seen, column.seen), (row.kernel, column.kernel), empty
        )


@record(frozen=True)
class _Range:
    """Neighbouring outputs of one axis that have the same taps inside the image."""

    at: slice
    seen: slice
    kernel: slice

    @property
    def outputs(self) -> int:
        return int(self.at.stop - self.at.start)

    @property
    def inputs(self) -> int:
        return int(self.seen.stop - self.seen.start)

    @property
    def taps(self) -> int:
        return int(self.kernel.stop - self.kernel.start)


def _ranges(
    outputs: int, inputs: int, kernel: int, stride: int, dilation: int, before: int
) -> list[_Range]:
    """Cut the outputs of an axis where the taps inside the image change."""

    def inside(output: int) -> tuple[int, int]:
        begin = output * stride - before
        first = max(0, -(begin // dilation)) if begin < 0 else 0
        end = min(kernel, -(-(inputs - begin) // dilation))
        return min(first, kernel), max(end, min(first, kernel))

    found = []
    for (low, high), some in groupby(range(outputs), inside):
        along = list(some)
        first, last = along[0], along[-1]
        begin = first * stride - before + low * dilation
        end = last * stride - before + (high - 1) * dilation + 1
        seen = slice(begin, end) if high > low else slice(0, 0)
        found.append(_Range(slice(first, last + 1), seen, slice(low, high)))
    return found
