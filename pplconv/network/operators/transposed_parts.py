"""A transposed convolution of a network as ordinary ones, of numbers of any type."""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import numpy as np

from ..._records import record
from ...ops.transposed.phases import Axis, Phase, phase_parts, phases
from ...ops.transposed.tap_runs import TapRun, covers, has_many_phases, run_parts, tap_runs
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Shape, Value, channels_last
from .convolution import PLAIN, explicit_pads

__all__ = ["Part", "Transposed", "axes", "repeated"]

# Fewer output channels leave much of a vector idle. Then all positions within a stride are channels
# of one product, which copies distribute afterwards.
FEW_CHANNELS = 16


@record(frozen=True)
class OfPhases:
    """A convolution for one phase in each dimension: its outputs lie a stride apart.

    Parameters
    ----------
    whole : Transposed
        What it is a part of.
    down, across : Phase
        Outputs and taps of each dimension.
    """

    whole: Transposed
    down: Phase
    across: Phase
    times: ClassVar[int] = 1
    copied: ClassVar[int] = 0

    @property
    def is_empty(self) -> bool:
        """Whether no tap reaches its outputs: all sums are zero."""
        return self.down.is_empty or self.across.is_empty

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells its weights from those of other parts, of any stride and dilation."""
        return self.down.taps, self.across.taps

    @property
    def kernel(self) -> Shape:
        """Shape (oc, ic / groups, kh, kw) of its weights."""
        return self.whole.kernel(1, len(self.down.taps), len(self.across.taps))

    @property
    def geometry(self) -> dict[str, Any]:
        """As of `convolution.emit_convolution`."""
        return self.whole.geometry(self.down, self.across)

    @property
    def input_shape(self) -> Shape:
        """Shape of the inputs that it sees."""
        rows, columns = self.down.seen, self.across.seen
        return *self.whole.x[:2], rows.stop - rows.start, columns.stop - columns.start

    def weight(self, weight: Array) -> Array:
        """Give its weights as a view (..., ic / groups, kh, kw)."""
        return phase_parts(weight, self.whole.groups, self.down.taps, self.across.taps)

    def of_input(self, x: Value) -> Value:
        """Give the inputs that it sees."""
        _, _, sh, sw = x.strides
        begin = self.down.seen.start * sh + self.across.seen.start * sw
        return x.viewed(self.input_shape, x.strides, begin)

    def of_output(self, builder: Builder, y: Value) -> Value:
        """Give the place of its results."""
        tn, tc, th, tw = y.strides
        return y.viewed(
            (*y.shape[:2], self.down.count, self.across.count),
            (tn, tc, th * self.down.axis.stride, tw * self.across.axis.stride),
            self.down.first * th + self.across.first * tw,
        )  # fmt: skip

    def distribute(self, builder: Builder, results: Value, y: Value, nodes: list[str]) -> None:
        """Copy its results to the outputs, where they already are."""


@record(frozen=True)
class OfRuns:
    """A product by runs of taps (`ops.transposed.tap_runs`), whose results are copied to outputs.

    Parameters
    ----------
    whole : Transposed
        What it is a part of.
    down, across : TapRun
        Taps of each dimension.
    """

    whole: Transposed
    down: TapRun
    across: TapRun
    is_empty: ClassVar[bool] = False

    @property
    def times(self) -> int:
        """How often the channels of each group are repeated."""
        return self.down.count * self.across.count

    @property
    def copied(self) -> int:
        """How many numbers it computes that are copied."""
        return self.whole.x[0] * self.kernel[0] * self.down.computed * self.across.computed

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells its weights from those of other parts, of any stride and dilation."""
        runs = self.down, self.across
        return tuple((run.first, run.count, run.taps.tobytes()) for run in runs)

    @property
    def kernel(self) -> Shape:
        """Shape (oc, ic / groups, kh, kw) of its weights."""
        return self.whole.kernel(self.times, self.down.depth, self.across.depth)

    @property
    def geometry(self) -> dict[str, Any]:
        """As of `convolution.emit_convolution`."""
        return self.whole.geometry(self.down, self.across)

    @property
    def input_shape(self) -> Shape:
        """Shape of the input, of which it sees all."""
        return self.whole.x

    def weight(self, weight: Array) -> Array:
        """Give its weights as a view (..., ic / groups, kh, kw)."""
        return run_parts(weight, self.whole.groups, self.down, self.across)

    def of_input(self, x: Value) -> Value:
        """Give the inputs that it sees: all."""
        return x

    def of_output(self, builder: Builder, y: Value) -> Value:
        """Give an array for its results."""
        shape = y.shape[0], self.kernel[0], self.down.computed, self.across.computed
        return builder.new(shape, y.dtype, channels_last(4))

    def distribute(self, builder: Builder, results: Value, y: Value, nodes: list[str]) -> None:
        """Copy its results to their outputs."""
        down, across, groups, e = self.down, self.across, self.whole.groups, y.dtype.itemsize
        own = self.whole.channels // groups
        sn, _, sh, sw = results.strides
        line, place = across.count * own * e, own * e
        tn, tc, th, tw = y.strides
        for rows, columns in product(down.spans, across.spans):
            sizes = (
                y.shape[0], groups, rows.count, rows.places, columns.count, columns.places, own
            )  # fmt: skip
            begin = rows.first * sh + rows.place * line + columns.first * sw + columns.place * place
            strides = sn, down.count * line, sh, line, sw, place, e
            source = results.viewed(sizes, strides, begin)
            to = y.viewed(
                sizes,
                (
                    tn, own * tc, th * down.axis.stride, th * down.axis.dilation,
                    tw * across.axis.stride, tw * across.axis.dilation, tc,
                ),
                rows.output * th + columns.output * tw,
            )  # fmt: skip
            builder.copy(source, to, nodes)


Part = OfPhases | OfRuns


@record(frozen=True)
class Transposed:
    """A transposed convolution of images.

    Parameters
    ----------
    x : tuple of int
        Shape of the input.
    channels, groups : int
        Output channels, and groups of them.
    down, across : Axis
        Height and width.
    """

    x: Shape
    channels: int
    groups: int
    down: Axis
    across: Axis

    @classmethod
    def of(cls, node: Node, graph: Graph) -> Transposed:
        """Describe a node whose shapes are known."""
        groups = int(node.attributes.get("group", 1))
        x, weight = (graph.shapes[name] for name in node.inputs[:2])
        return cls(x, weight[1] * groups, groups, *axes(node, graph))

    @property
    def _is_tiled(self) -> bool:
        """Whether each output is a product with one pixel, which no other pixel reaches."""
        return all(
            axis.kernel == axis.stride and axis.outputs == axis.inputs * axis.stride
            and not axis.padding and axis.dilation == 1
            for axis in (self.down, self.across)
        )  # fmt: skip

    def kernel(self, times: int, rows: int, columns: int) -> Shape:
        """Shape of the weights of a part."""
        return times * self.channels, self.x[1] // self.groups, rows, columns

    def geometry(self, down: Phase | TapRun, across: Phase | TapRun) -> dict[str, Any]:
        """Stride, padding, dilation and groups of a part."""
        return {
            **PLAIN, "padding": (down.padding, across.padding),
            "dilation": (down.dilation, across.dilation), "groups": self.groups,
        }  # fmt: skip

    def parts(self, few: float = FEW_CHANNELS) -> tuple[list[Part], bool]:
        """Divide it; the second result says whether the parts give all outputs.

        If they do not, the other outputs have sums of nothing.

        Parameters
        ----------
        few : float
            Of fewer output channels, one product gives all outputs of a pixel, where it can.
        """
        by_phases = not self._is_tiled or self.channels >= few
        if by_phases and not has_many_phases(self.down, self.across):
            ways = product(phases(self.down), phases(self.across))
            return [OfPhases(self, *way) for way in ways], True
        downs, acrosses = tap_runs(self.down), tap_runs(self.across)
        whole = covers(self.down, downs) and covers(self.across, acrosses)
        return [OfRuns(self, *way) for way in product(downs, acrosses)], whole


def repeated(numbers: Array, groups: int, times: int) -> Array:
    """Repeat the numbers of each group of channels so many times, one group after the other."""
    return np.repeat(numbers.reshape(groups, 1, -1), times, axis=1).reshape(-1)


def axes(node: Node, graph: Graph) -> tuple[Axis, Axis]:
    """Height and width of a node whose shapes are known."""
    inputs, outputs = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    kernel, pads = graph.shapes[node.inputs[1]][2:], explicit_pads(node)
    stride = node.attributes.get("strides") or (1, 1)
    dilation = node.attributes.get("dilations") or (1, 1)
    down, across = (
        Axis(outputs[2 + d], inputs[2 + d], kernel[d], stride[d], dilation[d], pads[d])
        for d in range(2)
    )
    return down, across
