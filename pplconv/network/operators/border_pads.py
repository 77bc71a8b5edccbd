"""Pad with an image's own elements: reflected, repeated at the edge, or wrapped around."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..._records import NamedTuple
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Value
from .movement import pad_begins


class Run(NamedTuple):
    """A run of outputs along one axis, and the elements that it repeats.

    Parameters
    ----------
    at, length : int
        First index of the output, and number of outputs.
    source : int
        Index, in the output, of the first repeated element.
    step : int
        0: all repeat that element; 1: each repeats the next element; -1: the one before.
    """

    at: int
    length: int
    source: int
    step: int


def serves_pad(node: Node, graph: Graph) -> bool:
    """Whether pads are known, and repeat existing elements."""
    return (
        node.attributes.get("mode", "constant") in ("edge", "reflect", "wrap")
        and all(not name or name in graph.constants for name in node.inputs[1:])
        and math.prod(graph.shapes[node.outputs[0]]) > 0
        and all(inner > 0 for _, _, inner in _all_kept(node, graph))
    )


def lower_pad(node: Node, builder: Builder, graph: Graph) -> None:
    """Copy the input, then fill one axis after the other from the output itself."""
    name, mode = node.outputs[0], node.attributes["mode"]
    x, shape = builder.values[node.inputs[0]], graph.shapes[node.outputs[0]]
    # Volumes of images keep their channels last.
    order = builder.order(name, len(shape)) if len(shape) < 5 else x.order
    y = builder.target(name, shape, x.dtype, order)
    kept = _all_kept(node, graph)
    inner = [count for _, _, count in kept]
    first, begins = [skip for skip, _, _ in kept], [at for _, at, _ in kept]
    builder.copy(_part(x, first, inner), _part(y, begins, inner), [name])
    extent = list(inner)
    # The innermost axis first: its lines are the shortest, and later axes copy them, too.
    for axis in reversed(y.order):
        for run in _runs(mode, shape[axis], begins[axis], inner[axis]):
            at, source, count = list(begins), list(begins), list(extent)
            at[axis], source[axis], count[axis] = run.at, run.source, run.length
            read = _part(y, source, count, {axis: run.step})
            builder.copy(read, _part(y, at, count), [name])
        begins[axis], extent[axis] = 0, shape[axis]
    builder.deliver(name, y)


def _all_kept(node: Node, graph: Graph) -> list[tuple[int, int, int]]:
    """Give for each dimension what `_kept` says."""
    shape, result = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    return [
        _kept(n, m, begin)
        for n, m, begin in zip(shape, result, pad_begins(node, graph), strict=True)
    ]


def _kept(n: int, m: int, begin: int) -> tuple[int, int, int]:
    """First input that negative pads keep, its index in the output, and the number kept."""
    skip, at = max(-begin, 0), max(begin, 0)
    return skip, at, min(n - skip, m - at)


def _runs(mode: str, size: int, begin: int, inner: int) -> Iterator[Run]:
    """Give the runs outside the `inner` elements from `begin` on, and their sources.

    A run repeats elements of the runs before it, too: as many periods as there are so far. So the
    number of runs grows with the logarithm of the amounts.
    """
    low, high = begin, begin + inner
    if mode == "edge" or (mode == "reflect" and inner == 1):
        yield from (
            run for run in (Run(0, low, low, 0), Run(high, size - high, high - 1, 0)) if run.length
        )
        return
    period = inner if mode == "wrap" else 2 * (inner - 1)
    while low > 0:
        whole = (high - low) // period * period
        # Before there is a whole period, the reflection of all but the element at the edge.
        count = min(low, whole or inner - 1)
        yield Run(low - count, count, *((low - count + whole, 1) if whole else (low + count, -1)))
        low -= count
    while high < size:
        whole = (high - low) // period * period
        count = min(size - high, whole or inner - 1)
        yield Run(high, count, *((high - whole, 1) if whole else (high - 2, -1)))
        high += count


def _part(
    value: Value, at: list[int], counts: list[int], steps: dict[int, int] | None = None
) -> Value:
    """A part of a value; along some axes its elements may repeat."""
    offset = sum(i * stride for i, stride in zip(at, value.strides, strict=True))
    strides = [stride * (steps or {}).get(axis, 1) for axis, stride in enumerate(value.strides)]
    return value.viewed(tuple(counts), tuple(strides), offset)
