"""Operators that move elements: most become views, without copies."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ..builder import Builder
from ..collapse import broadcast_strides
from ..nodes import Graph, Node
from ..numpy_operators.moves import backward_start
from ..storage import Shape, Value, constant_value, strides_of


def integers(name: str, graph: Graph) -> list[int] | None:
    """Numbers of a constant input; None if it is omitted."""
    return [int(i) for i in graph.constants[name].reshape(-1)] if name else None


def lower_reformat(node: Node, builder: Builder, graph: Graph) -> None:
    """Reformat, and Cast: give a value in another type of floating point, or as it is."""
    name = node.outputs[0]
    value = builder.values[node.inputs[0]]
    dtype = graph.dtypes[name]
    if value.dtype == dtype:
        builder.deliver(name, value)
        return
    y = builder.target(name, value.shape, dtype, value.order)
    builder.move(value, y, [name])
    builder.deliver(name, y)


def serves_cast(node: Node, graph: Graph) -> bool:
    """Whether a Cast is one between bfloat16 and float32, and not empty."""
    names = {graph.dtypes[name].name for name in (node.inputs[0], node.outputs[0])}
    return names == {"bfloat16", "float32"} and math.prod(graph.shapes[node.inputs[0]]) > 0


def lower_view(node: Node, builder: Builder, graph: Graph) -> None:
    """Reshape and its kin: another shape of the same elements in the same order."""
    name = node.outputs[0]
    value = builder.values[node.inputs[0]]
    shape = graph.shapes[name]
    strides = _view_strides(value, shape)
    if strides is None:
        # Images keep the order of their dimensions if only their number is written otherwise.
        kept = value.order if keeps_images(node, graph) else range(len(value.shape))
        outer = len(value.shape) - 3
        order = [*range(outer), *(d for d in kept if d >= outer)]
        value = builder.contiguous(value, order)
        strides = _view_strides(value, shape)
        if strides is None:
            value = builder.contiguous(value)
            strides = strides_of(shape, value.dtype.itemsize)
    builder.deliver(name, value.viewed(shape, strides))


def keeps_images(node: Node, graph: Graph) -> bool:
    """Whether a reshape changes nothing but dimensions before the last three."""
    before, after = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    return min(len(before), len(after)) > 3 and before[-3:] == after[-3:]


def _view_strides(value: Value, shape: Shape) -> Shape | None:
    """Give the strides of another shape of the same elements; None if it takes a copy."""
    old = [(n, s) for n, s in zip(value.shape, value.strides, strict=True) if n != 1]
    strides: list[int] = []
    at, inner = len(old), value.dtype.itemsize
    wanted = list(shape)
    while wanted:
        if wanted[-1] == 1:
            strides.append(inner)
            wanted.pop()
            continue
        # The fewest dimensions on either side with as many elements.
        first, count = at - 1, old[at - 1][0] if at else 0
        last, size = len(wanted) - 1, wanted[-1]
        while count != size and count and size:
            if count < size and first > 0:
                first -= 1
                count *= old[first][0]
            elif size < count and last > 0:
                last -= 1
                size *= wanted[last]
            else:
                return None
        if count != size or not count:
            return None
        group = old[first:at]
        if any(s != m * t for (_, s), (m, t) in pairwise(group)):
            return None
        inner = group[-1][1]
        for n in reversed(wanted[last:]):
            strides.append(inner)
            inner *= n
        at, wanted = first, wanted[:last]
    return tuple(reversed(strides)) if at == 0 else None


def lower_transpose(node: Node, builder: Builder, graph: Graph) -> None:
    """Transpose: other strides."""
    value = builder.values[node.inputs[0]]
    order = node.attributes.get("perm") or list(reversed(range(len(value.shape))))
    shape, strides = (tuple(of[d] for d in order) for of in (value.shape, value.strides))
    builder.deliver(node.outputs[0], value.viewed(shape, strides))


def lower_expand(node: Node, builder: Builder, graph: Graph) -> None:
    """Expand: strides of zero where elements repeat."""
    name = node.outputs[0]
    value = builder.values[node.inputs[0]]
    shape = graph.shapes[name]
    builder.deliver(name, value.viewed(shape, broadcast_strides(value, shape)))


def slices(node: Node, graph: Graph) -> list[tuple[int, int]] | None:
    """First index and step of each dimension of a Slice; None if they are not known."""
    names = [*node.inputs, "", ""][:5]
    if any(name and name not in graph.constants for name in names[1:]):
        return None
    shape = graph.shapes[node.inputs[0]]
    starts, ends = integers(names[1], graph), integers(names[2], graph)
    assert starts is not None and ends is not None
    axes = integers(names[3], graph) or list(range(len(starts)))
    steps = integers(names[4], graph) or [1] * len(starts)
    found = [(0, 1)] * len(shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            return None
        first, _, by = slice(start, end, step).indices(shape[axis])
        found[axis] = backward_start(start, shape[axis]) if by < 0 else first, by
    return found


def serves_slice(node: Node, graph: Graph) -> bool:
    """Whether the numbers of a Slice are known."""
    return slices(node, graph) is not None


def lower_slice(node: Node, builder: Builder, graph: Graph) -> None:
    """Slice: a view; a copy if it goes backwards, since only copies walk down."""
    name = node.outputs[0]
    value = builder.values[node.inputs[0]]
    taken = slices(node, graph)
    assert taken is not None
    shape = graph.shapes[name]
    offset = sum(
        first * stride
        for (first, _), stride, n in zip(taken, value.strides, shape, strict=True)
        if n
    )
    # A single element is the same in either direction.
    steps = [by if n > 1 else 1 for (_, by), n in zip(taken, shape, strict=True)]
    strides = tuple(by * stride for by, stride in zip(steps, value.strides, strict=True))
    view = value.viewed(shape, strides, offset)
    if min(steps, default=1) < 0:
        y = builder.target(name, shape, value.dtype, value.order)
        builder.copy(view, y, [name])
        view = y
    builder.deliver(name, view)


def lower_split(node: Node, builder: Builder, graph: Graph) -> None:
    """Split: views side by side."""
    value = builder.values[node.inputs[0]]
    axis = int(node.attributes.get("axis", 0)) % len(value.shape)
    at = 0
    for name in node.outputs:
        shape = graph.shapes[name]
        builder.deliver(name, value.viewed(shape, value.strides, at * value.strides[axis]))
        at += shape[axis]


def lower_gather(node: Node, builder: Builder, graph: Graph) -> None:
    """Gather of one constant index: a view."""
    value = builder.values[node.inputs[0]]
    axis = int(node.attributes.get("axis", 0)) % len(value.shape)
    index = int(graph.constants[node.inputs[1]]) % value.shape[axis]
    strides = value.strides[:axis] + value.strides[axis + 1 :]
    shape = graph.shapes[node.outputs[0]]
    builder.deliver(node.outputs[0], value.viewed(shape, strides, index * value.strides[axis]))


def serves_gather(node: Node, graph: Graph) -> bool:
    """Whether a Gather is a view: of one constant index in range."""
    if node.inputs[1] not in graph.constants or graph.constants[node.inputs[1]].ndim:
        return False
    shape = graph.shapes[node.inputs[0]]
    size = shape[int(node.attributes.get("axis", 0)) % len(shape)]
    return -size <= int(graph.constants[node.inputs[1]]) < size


def lower_depth_to_space(node: Node, builder: Builder, graph: Graph) -> None:
    """DepthToSpace: one copy, as channels become pixels of a block."""
    _lower_blocks(node, builder, graph, deep=node.inputs[0], wide=node.outputs[0])


def lower_space_to_depth(node: Node, builder: Builder, graph: Graph) -> None:
    """SpaceToDepth: one copy, as pixels of a block become channels."""
    _lower_blocks(node, builder, graph, deep=node.outputs[0], wide=node.inputs[0])


def _lower_blocks(node: Node, builder: Builder, graph: Graph, *, deep: str, wide: str) -> None:
    """Copy between images with many channels and images with many pixels."""
    name, size = node.outputs[0], int(node.attributes["blocksize"])
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    x = builder.values[node.inputs[0]]
    y = builder.target(name, shape, dtype, builder.order(name, len(shape)))
    n, c, h, w = graph.shapes[wide][:2] + graph.shapes[deep][2:]
    # In the depth, a block's row and column come before the channel (DCR) or after it (CRD).
    last = node.attributes.get("mode", "DCR") == "CRD"
    row, column, channel = (size, 1, size**2) if last else (size * c, c, 1)

    def blocks(value: Value) -> Value:
        sn, sc, sh, sw = value.strides
        strides = (
            (sn, channel * sc, sh, row * sc, sw, column * sc)
            if value.shape == graph.shapes[deep]
            else (sn, sc, size * sh, sh, size * sw, sw)
        )
        return value.viewed((n, c, h, size, w, size), strides)

    builder.copy(blocks(x), blocks(y), [name])
    builder.deliver(name, y)


def parts(node: Node, graph: Graph, whole: Value) -> list[tuple[str, Value]]:
    """Offsets of a Concat's inputs in its output."""
    axis = int(node.attributes["axis"]) % len(whole.shape)
    found, at = [], 0
    for name in node.inputs:
        shape = graph.shapes[name]
        found.append((name, whole.viewed(shape, whole.strides, at * whole.strides[axis])))
        at += shape[axis]
    return found


def lower_concat(node: Node, builder: Builder, graph: Graph) -> None:
    """Concat: copies the inputs that are not in place yet."""
    name = node.outputs[0]
    whole = builder.wanted[name]
    for part, place in parts(node, graph, whole):
        value = builder.values[part]
        if value.buffer is not place.buffer or value.offset != place.offset:
            builder.copy(value, place, [name])
    builder.values[name] = whole


def lower_pad(node: Node, builder: Builder, graph: Graph) -> None:
    """Pad with one number: it fills the output, the input covers its part."""
    name = node.outputs[0]
    value = builder.values[node.inputs[0]]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    begins = pad_begins(node, graph)
    given = node.inputs[2] if len(node.inputs) > 2 else ""
    if given and given not in graph.constants:
        fill = builder.values[given].viewed((), ())
    else:
        number = graph.constants[given].reshape(-1)[0] if given else 0
        fill = constant_value(np.array(number, dtype))
    # Volumes of images keep their channels last.
    order = builder.order(name, len(shape)) if len(shape) < 5 else value.order
    y = builder.target(name, shape, dtype, order)
    builder.copy(fill, y, [name])
    # Negative pads remove elements.
    skip = [max(-b, 0) for b in begins]
    at = [max(b, 0) for b in begins]
    inner = tuple(
        min(n - s, m - a) for n, s, m, a in zip(value.shape, skip, shape, at, strict=True)
    )
    if min(inner, default=1) > 0:
        source = value.viewed(
            inner, value.strides, sum(s * t for s, t in zip(skip, value.strides, strict=True))
        )
        place = y.viewed(inner, y.strides, sum(a * t for a, t in zip(at, y.strides, strict=True)))
        builder.copy(source, place, [name])
    builder.deliver(name, y)


def pad_begins(node: Node, graph: Graph) -> list[int]:
    """Pads before each dimension."""
    rank = len(graph.shapes[node.inputs[0]])
    pads = integers(node.inputs[1], graph) or []
    axes = list(range(rank))
    if len(node.inputs) > 3 and node.inputs[3]:
        axes = [axis % rank for axis in integers(node.inputs[3], graph) or []]
    begins = [0] * rank
    for axis, begin in zip(axes, pads, strict=False):
        begins[axis] = begin
    return begins


def serves_pad(node: Node, graph: Graph) -> bool:
    """Whether a Pad has constant pads, and one number for them, known or computed."""
    amounts, fill, axes = [*node.inputs[1:], "", ""][:3]
    known = all(not name or name in graph.constants for name in (amounts, axes))
    mode = node.attributes.get("mode", "constant")
    if not known or mode != "constant" or math.prod(graph.shapes[node.outputs[0]]) == 0:
        return False
    if not fill:
        return True
    types = graph.dtypes[fill], graph.dtypes[node.outputs[0]]
    return math.prod(graph.shapes[fill]) == 1 and types[0] == types[1]
