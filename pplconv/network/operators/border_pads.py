"""Pad with an image's own elements: reflected, repeated at the edge, or wrapped around."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Value
from .movement import pad_begins

# Most copies of one node; a step in Python is as fast as more copies.
MOST_COPIES = 64
# Sizes of elements, in bytes, that every instruction set can copy.
SIZES = (4, 8)


class Run(NamedTuple):
    """A run of outputs along one axis, and the elements that it repeats.

    Parameters
    ----------
    at, length : int
        First index of the output, and number of outputs.
    source : int
        Index, in the output, of the first repeated element.
    step : int
        0: all repeat that element; 1: each repeats the next element.
    """

    at: int
    length: int
    source: int
    step: int


def serves_pad(node: Node, graph: Graph) -> bool:
    """Whether pads are known, repeat existing elements, and need few copies."""
    shape, result = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    if (
        node.attributes.get("mode", "constant") not in ("edge", "reflect", "wrap")
        or any(name and name not in graph.constants for name in node.inputs[1:])
        or graph.dtypes[node.outputs[0]].itemsize not in SIZES
        or math.prod(shape) == 0
        or math.prod(result) == 0
    ):
        return False
    kept = _all_kept(node, graph)
    if any(inner < 1 for _, _, inner in kept):
        return False
    mode = node.attributes["mode"]
    if mode == "edge":
        return True
    # Reflection copies line by line, wrapping copies whole images of the input.
    pairs = [(m, inner) for m, (_, _, inner) in zip(result, kept, strict=True)]
    copies = sum(m - n if mode == "reflect" else -(-m // n) for m, n in pairs)
    return copies <= MOST_COPIES


def lower_pad(node: Node, builder: Builder, graph: Graph) -> None:
    """Copy the input, then fill one axis after the other from the output itself."""
    name, mode = node.outputs[0], node.attributes["mode"]
    x, shape = builder.values[node.inputs[0]], graph.shapes[node.outputs[0]]
    y = builder.target(name, shape, x.dtype, builder.order(name, len(shape)))
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
    """Give the runs outside the `inner` elements from `begin` on, and their sources."""
    end = begin + inner
    if mode == "edge":
        yield from (
            run for run in (Run(0, begin, begin, 0), Run(end, size - end, end - 1, 0)) if run.length
        )
    elif mode == "wrap":
        at = 0
        while at < size:
            past = (at - begin) % inner
            if at == begin:
                at = end
                continue
            count = min(inner - past, (begin if at < begin else size) - at)
            yield Run(at, count, begin + past, 1)
            at += count
    else:
        period = max(2 * (inner - 1), 1)
        for at in (*range(begin), *range(end, size)):
            past = (at - begin) % period
            yield Run(at, 1, begin + min(past, period - past), 0)


def _part(
    value: Value, at: list[int], counts: list[int], steps: dict[int, int] | None = None
) -> Value:
    """A part of a value; along some axes its elements may repeat."""
    offset = sum(i * stride for i, stride in zip(at, value.strides, strict=True))
    strides = [stride * (steps or {}).get(axis, 1) for axis, stride in enumerate(value.strides)]
    return value.viewed(tuple(counts), tuple(strides), offset)
