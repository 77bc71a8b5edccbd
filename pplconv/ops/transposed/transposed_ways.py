"""Ways to divide a transposed convolution into ordinary ones, and their arrays.

====================  =============================================================================
``"phases"``          each phase is written to its place in the output, between the others; in NCHW
                      only with stride 1, where there is but one
``"rows"``            NHWC, a kernel as wide as the stride: the phases of a row are joined, as their
                      outputs are neighbours in the output too
``"joined"``          all phases are one convolution, whose outputs are then copied into place
``"phases, moved"``   the same for phases that are computed one by one
``"phases, spared"``  the same with one phase in memory at a time
``"taps"``            strides of many phases: products by runs of taps, put in their places among
                      outputs to which no tap leads (`tap_runs`)
====================  =============================================================================

In every layout arrays have five dimensions here: images, blocks of channels, rows, pixels, and
channels of a block. NCHW has blocks of one channel, NHWC has one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from itertools import product
from typing import Any

from ..._records import record
from ...memory.dtypes import DTYPES
from ...problem import ConvProblem
from ..strided_copies import copy_fields
from .phases import Phase, Span, block_phases, joined, phases, spans
from .tap_runs import TapRun, covers, tap_runs
from .transposed_problem import TransposedProblem

__all__ = ["LINE", "Copy", "Lying", "Piece", "Way", "by_taps", "ways"]

LINE = 64


@record(frozen=True)
class Lying:
    """A part of an array.

    Parameters
    ----------
    base : str
        ``"x"``, ``"y"``, ``"residual"``, ``"arena"`` or ``"zeros"``, an array of zeros.
    offset : int
        Bytes from its beginning.
    shape, strides : tuple of int
        Dimensions, and bytes from one index of each to the next.
    """

    base: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def cut(self, rows: range, columns: range) -> Lying:
        """Some of the rows and pixels, evenly spaced, of images."""
        image, block, row, pixel, one = self.strides
        return replace(
            self,
            offset=self.offset + rows.start * row + columns.start * pixel,
            shape=(*self.shape[:2], len(rows), len(columns), self.shape[4]),
            strides=(image, block, rows.step * row, columns.step * pixel, one),
        )


@record(frozen=True)
class Piece:
    """One ordinary convolution.

    Parameters
    ----------
    problem : ConvProblem
        The convolution.
    kernel : tuple
        Its weights: ``("phase", taps, taps)``, ``("joined", sh, sw)``, ``("row", taps, sw)``, or
        ``("taps", run, run)``, or ``("nothing",)`` where no tap is seen.
    times : int
        Number of its output channels for each one of the transposed convolution.
    x, y : Lying
        Input and output.
    """

    problem: ConvProblem
    kernel: tuple[Any, ...]
    times: int
    x: Lying
    y: Lying


@record(frozen=True)
class Copy:
    """A copy of elements; both sides have the same shape.

    Parameters
    ----------
    after : int
        The piece before the copy.
    outer, inner : Lying
        In the output, and in the arena; of eight dimensions.
    """

    after: int
    outer: Lying
    inner: Lying

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return self.outer.strides[-1]

    def fields(self, *, back: bool = False) -> dict[str, Any] | None:
        """Describe the copy for the loops, `back` from a residual; None if NumPy has to do it."""
        to, source = (self.inner, self.outer) if back else (self.outer, self.inner)
        return copy_fields(to.shape, self.element, to.strides, source.strides)


@record
class Way:
    """One way to compute some images.

    Parameters
    ----------
    name : str
        For people.
    pieces : list of Piece
        In the order that they run.
    copies : list of Copy
        From the arena to the output; of a residual the other way, before the piece.
    arena : int
        Bytes of results before they are copied.
    """

    name: str
    pieces: list[Piece] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    arena: int = 0


def _whole(p: ConvProblem, base: str, channels: int, h: int, w: int, offset: int = 0) -> Lying:
    """An array of images in the problem's layout."""
    e = DTYPES[p.dtype].itemsize
    memory = p.memory(e, channels, h, w)
    shape = (p.batch, -(-channels // memory.width), h, w, memory.width)
    return Lying(base, offset, shape, (*memory[:4], e))


def ways(p: TransposedProblem, images: int) -> Iterator[Way]:
    """List the ways to compute `images` of the images."""
    p = replace(p, batch=images)
    whole = p.convolution()
    x, y = _whole(whole, "x", p.ic, p.ih, p.iw), _whole(whole, "y", p.oc, p.oh, p.ow)
    in_place = _in_place(p, x, y)
    if in_place is not None:
        yield in_place
        if p.stride == (1, 1) and in_place.pieces[0].x == x:  # there is nothing to divide
            return
    if (by_rows := _by_rows(p, x, y)) is not None:
        yield by_rows
    if (at_once := _joined(p, x, y)) is not None:
        yield at_once
    yield _moved(p, x, y, spared=False)
    yield _moved(p, x, y, spared=True)


def _nothing(p: TransposedProblem, y: Lying) -> Piece:
    """Outputs without inputs: their sums are zero."""
    _, _, h, w, _ = y.shape
    problem = p.convolution(groups=1, ic=1, ih=h, iw=w, oh=h, ow=w)
    return Piece(problem, ("nothing",), 1, _whole(problem, "zeros", 1, h, w), y)


def _range(part: slice) -> range:
    return range(part.start, part.stop)


def _in_place(p: TransposedProblem, x: Lying, y: Lying) -> Way | None:
    way = Way("phases")
    (sh, sw), (down_axis, across_axis) = p.stride, p.axes
    for down, across in product(phases(down_axis), phases(across_axis)):
        to = y.cut(
            range(down.first, down.first + down.count * sh, sh),
            range(across.first, across.first + across.count * sw, sw),
        )
        if down.is_empty or across.is_empty:
            piece = _nothing(p, to)
        else:
            seen = x.cut(_range(down.seen), _range(across.seen))
            problem = p.convolution(
                ih=seen.shape[2], iw=seen.shape[3], oh=down.count, ow=across.count,
                kh=len(down.taps), kw=len(across.taps), padding=(down.padding, across.padding),
                dilation=(down.dilation, across.dilation),
            )  # fmt: skip
            piece = Piece(problem, ("phase", down.taps, across.taps), 1, seen, to)
        # Pixels of NCHW are neighbours, of input and output.
        if p.layout == "NCHW" and ((sh, sw) != (1, 1) or piece.x.shape != x.shape):
            return None
        way.pieces.append(piece)
    return way


def _by_rows(p: TransposedProblem, x: Lying, y: Lying) -> Way | None:
    down_axis, across = p.axes
    sw = across.stride
    plain = across.dilation == 1 and not across.padding and across.outputs == p.iw * sw
    if p.layout != "NHWC" or p.groups > 1 or sw == 1 or across.kernel != sw or not plain:
        return None
    way = Way("rows")
    for down in phases(down_axis):
        to = y.cut(
            range(down.first, down.first + down.count * p.stride[0], p.stride[0]), range(p.ow)
        )
        if down.is_empty:
            way.pieces.append(_nothing(p, to))
            continue
        seen = x.cut(_range(down.seen), range(p.iw))
        problem = p.convolution(
            ih=seen.shape[2], oc=p.oc * sw, oh=down.count, ow=p.iw, kh=len(down.taps),
            padding=(down.padding, (0, 0)), dilation=(down.dilation, 1),
        )  # fmt: skip
        image, block, row, pixel, one = to.strides
        pairs = replace(
            to, shape=(p.batch, 1, down.count, p.iw, p.oc * sw),
            strides=(image, block, row, sw * pixel, one),
        )  # fmt: skip
        way.pieces.append(Piece(problem, ("row", down.taps, sw), sw, seen, pairs))
    return way


def _over_all(p: TransposedProblem, down: Phase, across: Phase, times: int) -> ConvProblem:
    """A convolution of the whole input: all outputs of the phases, perhaps with extra ones."""
    return p.convolution(
        oc=p.oc * times, oh=down.computed, ow=across.computed, kh=len(down.taps),
        kw=len(across.taps), padding=(down.padding, across.padding),
        dilation=(down.dilation, across.dilation),
    )  # fmt: skip


def _joined(p: TransposedProblem, x: Lying, y: Lying) -> Way | None:
    down, across = (joined(axis) for axis in p.axes)
    # Positions would not be contiguous by blocks of channels.
    if down is None or across is None or p.layout == "NCHWc" or p.stride == (1, 1):
        return None
    if down.is_empty or across.is_empty:
        return None
    sh, sw = p.stride
    problem = _over_all(p, down, across, sh * sw)
    inner = _whole(problem, "arena", problem.oc, problem.oh, problem.ow)
    way = Way("joined", [Piece(problem, ("joined", sh, sw), sh * sw, x, inner)])
    way.arena = -(-inner.strides[0] * p.batch // LINE) * LINE
    image, block, row, pixel, e = inner.strides
    channel = e if p.layout == "NHWC" else block
    own = p.oc // p.groups
    strides = (
        image, sh * sw * own * channel, channel, row, sw * own * channel, pixel, own * channel, e,
    )  # fmt: skip
    corner = down.skipped * row + across.skipped * pixel
    for rows, columns in product(*(spans(axis) for axis in p.axes)):
        way.copies.append(_copy(p, 0, y, corner, strides, rows, columns))
    return way


def _moved(p: TransposedProblem, x: Lying, y: Lying, *, spared: bool) -> Way:
    way = Way("phases, spared" if spared else "phases, moved")
    sh, sw = p.stride
    sizes = set()
    temporaries: list[tuple[int, int, int]] = []
    for down, across in product(*(block_phases(axis) for axis in p.axes)):
        skipped = 0, 0
        kernel: tuple[Any, ...] = ("nothing",)
        if down.is_empty or across.is_empty:
            problem = p.convolution(oh=down.count, ow=across.count)
        else:
            problem = _over_all(p, down, across, 1)
            kernel = ("phase", down.taps, across.taps)
            skipped = down.skipped, across.skipped
        at = 0 if spared else way.arena
        inner = _whole(problem, "arena", p.oc, problem.oh, problem.ow, at)
        way.arena = max(way.arena, at + -(-inner.strides[0] * p.batch // LINE) * LINE)
        sizes.add((problem.oh, problem.ow, skipped))
        row, pixel = inner.strides[2:4]
        temporaries.append((at + skipped[0] * row + skipped[1] * pixel, row, pixel))
        if kernel == ("nothing",):
            way.pieces.append(_nothing(p, inner))
        else:
            way.pieces.append(Piece(problem, kernel, 1, x, inner))
    image, block, _, _, one = way.pieces[0].y.strides
    if len(sizes) == 1 and not spared:
        corner, row, pixel = temporaries[0]
        apart = way.arena // (sh * sw)
        strides = (image, 0, block, row, sw * apart, pixel, apart, one)
        for rows, columns in product(*(spans(axis) for axis in p.axes)):
            way.copies.append(_copy(p, sh * sw - 1, y, corner, strides, rows, columns))
        return way
    for number, (place, other) in enumerate(product(range(sh), range(sw))):
        corner, row, pixel = temporaries[number]
        image, block, _, _, one = way.pieces[number].y.strides
        strides = (image, 0, block, row, 0, pixel, 0, one)
        for rows, columns in product(spans(p.axes[0], place), spans(p.axes[1], other)):
            rows, columns = replace(rows, place=0), replace(columns, place=0)
            way.copies.append(_copy(p, number, y, corner, strides, rows, columns))
    return way


def _copy(
    p: TransposedProblem, after: int, y: Lying, corner: int, strides: tuple[int, ...],
    rows: Span, columns: Span,
) -> Copy:  # fmt: skip
    """Describe the copies from the arena to the positions of some blocks.

    There the first place of the first block is at `corner`; `strides` are of image, group, block of
    channels, block of rows, place in it, block of columns, place in it, and channel.
    """
    image, block, row, pixel, one = y.strides
    (sh, sw), blocks, width = p.stride, y.shape[1], y.shape[4]
    if strides[1]:  # by groups: all channels are in one dimension
        own, channel = p.oc // p.groups, one if p.layout == "NHWC" else block
        groups, blocks, width = p.groups, own, 1
        group, block = own * channel, channel
    else:
        groups, group = 1, 0
    shape = (
        y.shape[0], groups, blocks, rows.count, rows.places, columns.count, columns.places, width,
    )  # fmt: skip
    outer = Lying(
        "y", y.offset + rows.output * row + columns.output * pixel, shape,
        (image, group, block, sh * row, row, sw * pixel, pixel, one),
    )  # fmt: skip
    offset = (
        corner + rows.first * strides[3] + rows.place * strides[4] + columns.first * strides[5]
        + columns.place * strides[6]
    )  # fmt: skip
    return Copy(after, outer, Lying("arena", offset, shape, strides))


def by_taps(p: TransposedProblem, images: int, most: tuple[int, int] | None) -> Way:
    """Give the way of strides with many phases, for `images` of the images.

    Blocks of channels have to be of one group each. A run has `most` first taps in each dimension.
    """
    p = replace(p, batch=images)
    whole = p.convolution()
    x, y = _whole(whole, "x", p.ic, p.ih, p.iw), _whole(whole, "y", p.oc, p.oh, p.ow)
    way = Way("taps")
    downs, acrosses = (
        tap_runs(axis, limit) for axis, limit in zip(p.axes, most or (None, None), strict=True)
    )
    if not (covers(p.axes[0], downs) and covers(p.axes[1], acrosses)):
        way.pieces.append(_nothing(p, y))
    for down, across in product(downs, acrosses):
        times = down.count * across.count
        problem = p.convolution(
            oc=p.oc * times, oh=down.computed, ow=across.computed, kh=down.depth, kw=across.depth,
            padding=(down.padding, across.padding), dilation=(down.dilation, across.dilation),
        )  # fmt: skip
        inner = _whole(problem, "arena", problem.oc, problem.oh, problem.ow)
        way.arena = max(way.arena, -(-inner.strides[0] * p.batch // LINE) * LINE)
        for rows, columns in product(down.spans, across.spans):
            copy = _from_taps(p, len(way.pieces), y, inner, (down, rows), (across, columns))
            way.copies.append(copy)
        way.pieces.append(Piece(problem, ("taps", down, across), times, x, inner))
    return way


def _from_taps(
    p: TransposedProblem, after: int, y: Lying, inner: Lying, down: tuple[TapRun, Span],
    across: tuple[TapRun, Span],
) -> Copy:  # fmt: skip
    """Describe the copies from the arena to the outputs of some first taps."""
    image, block, row, pixel, one = y.strides
    (_, rows), (run, columns) = down, across
    # Channels of a group, which a first tap has for its own.
    blocks, width = (1, p.oc // p.groups) if p.layout == "NHWC" else (
        p.oc // p.groups // y.shape[4], y.shape[4]
    )  # fmt: skip
    group = width * one if p.layout == "NHWC" else blocks * block
    own_image, own_block, own_row, own_pixel, own_one = inner.strides
    place = width * own_one if p.layout == "NHWC" else blocks * own_block
    line = run.count * place
    shape = (
        y.shape[0], p.groups, blocks, rows.count, rows.places, columns.count, columns.places, width,
    )  # fmt: skip
    outer = Lying(
        "y", y.offset + rows.output * row + columns.output * pixel, shape,
        (
            image, group, block, p.stride[0] * row, p.dilation[0] * row, p.stride[1] * pixel,
            p.dilation[1] * pixel, one,
        ),
    )  # fmt: skip
    offset = (
        rows.first * own_row + rows.place * line + columns.first * own_pixel
        + columns.place * place
    )  # fmt: skip
    strides = (
        own_image, down[0].count * line, own_block, own_row, line, own_pixel, place, own_one,
    )  # fmt: skip
    return Copy(after, outer, Lying("arena", inner.offset + offset, shape, strides))
