"""Pooling and Resize of NHWC images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._kernels import POOLINGS
from ...ops.placing import pixel_bytes
from ...ops.strided_copies import TASK_BYTES
from ...schedules.window_loops import Pool, Resample
from ..antialiasing import every_tap_counts, is_smooth, wide_taps
from ..builder import Builder
from ..nodes import Graph, Node
from ..resizing import Axis, Taps, axes_of, axes_resized, taps, unchanged
from ..storage import Array, Step, Value, channels_last, constant_value
from .convolution import explicit_pads, lies_in_pixels
from .elementwise_steps import BRAIN, LOADED

SUMS = "sums"
"""Attribute of an AveragePool of ours that does not divide; files cannot contain it."""
ROWS = "rows"
"""Attribute of a Resize of ours in a band: first row and end of the result's rows, the first row of
the image that is given, and the height of the whole image."""
# Types that pools of integers compute: they give the largest alone.
POOLED_BYTES = {np.dtype(np.uint8): "u8", np.dtype(np.int8): "s8"}
# Largest divisor of an average; a table has the reciprocal of each divisor.
MOST_TAPS = 1 << 16
Sight = tuple[int, int, int, int, int]
LONG_SUM = 512
"""Taps whose weighted sum single precision may hold; longer ones are for `axis_resampling`."""


def images(value: Value) -> tuple[int, int, int]:
    """Bytes from one image, row and pixel to the next."""
    return value.strides[0], value.strides[2], value.strides[3]


def rows_of_a_task(value: Value) -> int:
    """Output rows that one task computes."""
    _, c, h, w = value.shape
    return max(1, min(h, TASK_BYTES // (value.dtype.itemsize * c * w)))


def sights(
    outputs: int,
    inputs: int,
    kernel: int,
    stride: int,
    dilation: int,
    pads: tuple[int, int],
    padded: bool,
) -> Array:
    """Give the taps of each output along one dimension, and the divisor of its average.

    Parameters
    ----------
    outputs, inputs, kernel, stride, dilation : int
        Of the dimension.
    pads : (int, int)
        Before and after it.
    padded : bool
        Whether padding counts.

    Returns
    -------
    ndarray of int64
        Shape (outputs, 3): first tap, the one after the last, count.
    """
    start = np.arange(outputs, dtype=np.int64) * stride - pads[0]
    low = np.maximum(-(start // dilation), 0)
    high = np.minimum((inputs - 1 - start) // dilation + 1, kernel)
    counted = (inputs + pads[1] - 1 - start) // dilation + 1
    count = np.minimum(counted, kernel) if padded else high - low
    return np.stack([low, high, count], 1)


def listed(seen: Array) -> list[Sight]:
    """Output, the one after it, first tap, the one after the last, count: one for each output."""
    outputs = len(seen)
    return list(zip(range(outputs), range(1, outputs + 1), *seen.T.tolist(), strict=True))


def joined(seen: Array) -> list[Sight]:
    """Merge consecutive outputs with the same taps."""
    changes = np.flatnonzero((seen[1:] != seen[:-1]).any(1)) + 1
    begins = [0, *changes.tolist()]
    ends = [*begins[1:], len(seen)]
    return list(zip(begins, ends, *seen[begins].T.tolist(), strict=True))


def _pool_sights(node: Node, graph: Graph) -> tuple[Array, Array]:
    x, y = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    kernel = node.attributes["kernel_shape"]
    strides = node.attributes.get("strides") or [1, 1]
    dilations = node.attributes.get("dilations") or [1, 1]
    pads = explicit_pads(node)
    average = node.op == "AveragePool"
    padded = average and bool(node.attributes.get("count_include_pad", 0))
    rows, columns = (
        sights(
            y[2 + d], x[2 + d], kernel[d], strides[d], dilations[d], (pads[d], pads[2 + d]), padded
        )
        for d in range(2)
    )
    if not average:
        rows[:, 2] = columns[:, 2] = 1
    return rows, columns


def serves_pool(node: Node, graph: Graph) -> bool:
    """Whether a node pools images, and no window has padding alone."""
    return (
        len(graph.shapes[node.inputs[0]]) == 4
        and graph.dtypes[node.outputs[0]] in LOADED
        and graph.dtypes[node.inputs[0]] == graph.dtypes[node.outputs[0]]
        and len([name for name in node.outputs if name]) == 1
        and math.prod(graph.shapes[node.outputs[0]]) > 0
        and _are_seen(*_pool_sights(node, graph))
    )


def _are_seen(rows: Array, columns: Array) -> bool:
    """Whether no window is empty, and the table has the divisor of every average."""
    seen = all(((s[:, 0] < s[:, 1]) & (s[:, 2] > 0)).all() for s in (rows, columns))
    return seen and int(rows[:, 2].max()) * int(columns[:, 2].max()) <= MOST_TAPS


def lower_pool(node: Node, builder: Builder, graph: Graph) -> None:
    """MaxPool and AveragePool."""
    x = builder.pixels(builder.values[node.inputs[0]])
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    rows, columns = _pool_sights(node, graph)
    counts = np.arange(rows[:, 2].max() * columns[:, 2].max() + 1, dtype=np.float64)
    divisors = np.ones_like(counts) if node.attributes.get(SUMS, 0) else np.maximum(counts, 1)
    scales = constant_value(1 / divisors)
    kind = "SUM" if node.op == "AveragePool" else "MAX"
    fields: dict[str, Any] = {
        "dtype": (LOADED | POOLED_BYTES)[dtype], "kind": POOLINGS[kind], "batch": shape[0],
        "channels": shape[1], "ih": x.shape[2], "iw": x.shape[3], "oh": shape[2], "ow": shape[3],
        "stride": tuple(node.attributes.get("strides") or (1, 1)),
        "dilation": tuple(node.attributes.get("dilations") or (1, 1)),
        "pads": explicit_pads(node)[:2], "x": images(x), "y": images(y),
        "rows": listed(rows), "columns": joined(columns), "row_segment": rows_of_a_task(y),
    }  # fmt: skip
    builder.emit(Step(
        Pool(fields, builder.isa_of(x)), [x], [y], {"arrays": [y, x, scales]}, node.op, [name],
        f"{tuple(node.attributes['kernel_shape'])} of {x.shape}",
    ))  # fmt: skip
    builder.deliver(name, y)


def axes_of_resize(node: Node, graph: Graph) -> list[Axis] | None:
    """Resizing of each dimension; None if scales or sizes are computed at run time."""
    names = [*node.inputs, "", "", ""][:4]
    if any(name and name not in graph.constants for name in names[2:]):
        return None
    scales, sizes = (graph.constants[name] if name else None for name in names[2:])
    shape = graph.shapes[node.inputs[0]]
    if ROWS in node.attributes:
        *_, height = node.attributes[ROWS]
        shape = (*shape[:2], height, *shape[3:])
    if sizes is not None and sizes.size and graph.shapes[node.outputs[0]][0] == shape[0]:
        # A part of a batch has fewer images than the sizes say.
        resized = axes_of(node.attributes, len(shape))
        given = zip(resized, sizes.reshape(-1), strict=True)
        sizes = np.array([shape[0] if axis == 0 else size for axis, size in given])
    return axes_resized(shape, scales, sizes, node.attributes)


def resize_taps(node: Node, graph: Graph) -> list[Taps] | None:
    """Taps of height and width; None if the node is not served."""
    x, y = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    attributes = node.attributes
    if (
        len(x) != 4
        or math.prod(y) == 0
        or attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    ):
        return None
    axes = axes_of_resize(node, graph)
    if axes is None or any(axis.scale != 1 for axis in axes[:2]):
        return None
    if not is_smooth(attributes):
        down, across = (taps(axis, attributes) for axis in axes[2:])
        return [_in_rows(down, node), across]
    # An antialiased axis that keeps its size is copied for any scale, as in onnxruntime.
    found = [
        unchanged(axis.outputs) if axis.inputs == axis.outputs
        else wide_taps(axis, attributes, (0, 1))
        for axis in axes[2:]
    ]  # fmt: skip
    if any(each.at.shape[1] > LONG_SUM for each in found):
        return None
    down, across = (every_tap_counts(each) for each in found)
    return [_in_rows(down, node), across]


def _in_rows(down: Taps, node: Node) -> Taps:
    """Give the taps of a band of rows."""
    if ROWS not in node.attributes:
        return down
    begin, end, first, _ = node.attributes[ROWS]
    rows = slice(begin, end)
    return Taps(down.at[rows] - first, down.weights[rows], down.outside[rows])


def serves_resize(node: Node, graph: Graph) -> bool:
    """Whether it is a Resize of height and width by known scales.

    Of bfloat16, no sum along one axis is rounded before that along the other one.
    """
    dtype = graph.dtypes[node.outputs[0]]
    both = resize_taps(node, graph) if dtype in LOADED else None
    return (
        both is not None
        and graph.dtypes[node.inputs[0]] == dtype
        and not (dtype == BRAIN and _in_turns(node, *both))
    )


def _in_turns(node: Node, down: Taps, across: Taps) -> bool:
    """Whether rows are resampled first: a filter of two dimensions would have many taps."""
    return is_smooth(node.attributes) and down.at.shape[1] > 1 and across.at.shape[1] > 1


def lower_resize(node: Node, builder: Builder, graph: Graph) -> None:
    """Resize: each output is a weighted sum of some inputs."""
    both = resize_taps(node, graph)
    assert both is not None
    down, across = both
    x = builder.pixels(builder.values[node.inputs[0]])
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    if _in_turns(node, down, across):
        rows = builder.new((*shape[:2], x.shape[2], shape[3]), dtype, channels_last(4))
        _resample(builder, x, rows, unchanged(x.shape[2]), across, name)
        _resample(builder, rows, y, down, unchanged(shape[3]), name)
    else:
        _resample(builder, x, y, down, across, name)
    builder.deliver(name, y)


def _resample(builder: Builder, x: Value, y: Value, down: Taps, across: Taps, name: str) -> None:
    """Add a step that resamples height and width."""
    shape, dtype = y.shape, y.dtype
    _, row, pixel = images(x)
    # One tap each copies bits.
    copied = down.at.shape[1] * across.at.shape[1] == 1
    as_bytes = dtype.itemsize == 1 or (dtype == BRAIN and copied)
    fields = {
        "dtype": "u8" if as_bytes else LOADED[dtype], "batch": shape[0],
        "channels": shape[1] * (dtype.itemsize if as_bytes else 1), "ih": x.shape[2],
        "iw": x.shape[3],
        "x": (x.strides[0], row, pixel if x.shape[3] > 1 else pixel_bytes(x)),
        "y": images(y), "rows": down.at, "columns": across.at,
        "weights_y": down.weights, "weights_x": across.weights, "row_segment": rows_of_a_task(y),
    }  # fmt: skip
    builder.emit(Step(
        Resample(fields, builder.isa_of(x)), [x], [y], {"arrays": [y, x]}, "Resize", [name],
        f"{x.shape[2:]} to {shape[2:]} of {shape[1]} channels, "
        f"{down.at.shape[1]}x{across.at.shape[1]} taps",
    ))  # fmt: skip
