"""Pooling and Resize, of images whose channels are neighbours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._kernels import POOLINGS
from ...api.copying import TASK_BYTES
from ...api.placing import pixel_bytes
from ...memory.dtypes import NAMES
from ...schedules.windows import Pool, Resample
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Step, Value, channels_last, constant_value
from .convolution import explicit_pads, lies_in_pixels
from .elementwise import NATIVE

# Of an average; there is a scale for each number of them.
MOST_TAPS = 1 << 16
Sight = tuple[int, int, int, int, int]


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
) -> list[Sight]:
    """Say which taps each output of one dimension sees, and how many count in an average.

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
    list of (int, int, int, int, int)
        Output, the one after it, first tap, the one after the last, count.
    """
    found = []
    for o in range(outputs):
        start = o * stride - pads[0]
        low = max(0, -(start // dilation)) if start < 0 else 0
        high = min(kernel, (inputs - 1 - start) // dilation + 1)
        count = high - low
        if padded:
            count = min(kernel, (inputs + pads[1] - 1 - start) // dilation + 1)
        found.append((o, o + 1, low, high, count))
    return found


def _joined(each: list[Sight]) -> list[Sight]:
    joined: list[Sight] = []
    for begin, end, *seen in each:
        if joined and list(joined[-1][2:]) == seen:
            joined[-1] = (joined[-1][0], end, *joined[-1][2:])
        else:
            joined.append((begin, end, seen[0], seen[1], seen[2]))
    return joined


def _pool_sights(node: Node, graph: Graph) -> tuple[list[Sight], list[Sight]]:
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
        rows, columns = ([(*s[:4], 1) for s in side] for side in (rows, columns))
    return rows, columns


def serves_pool(node: Node, graph: Graph) -> bool:
    """Whether it is a pool of images, and no output sees padding alone."""
    return (
        len(graph.shapes[node.inputs[0]]) == 4
        and graph.dtypes[node.outputs[0]] in NATIVE
        and len([name for name in node.outputs if name]) == 1
        and math.prod(graph.shapes[node.outputs[0]]) > 0
        and _are_seen(*_pool_sights(node, graph))
    )


def _are_seen(rows: list[Sight], columns: list[Sight]) -> bool:
    """Whether every output sees something, and averages are of a number that a table has."""
    seen = all(s[2] < s[3] and s[4] > 0 for side in (rows, columns) for s in side)
    return seen and max(s[4] for s in rows) * max(s[4] for s in columns) <= MOST_TAPS


def lower_pool(node: Node, builder: Builder, graph: Graph) -> None:
    """MaxPool and AveragePool."""
    x = builder.pixels(builder.values[node.inputs[0]])
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    rows, columns = _pool_sights(node, graph)
    counts = np.arange(max(s[4] for s in rows) * max(s[4] for s in columns) + 1, dtype=np.float64)
    scales = constant_value(1 / np.maximum(counts, 1))
    fields: dict[str, Any] = {
        "dtype": NAMES[dtype], "kind": POOLINGS["SUM" if node.op == "AveragePool" else "MAX"],
        "batch": shape[0], "channels": shape[1], "ih": x.shape[2], "iw": x.shape[3],
        "oh": shape[2], "ow": shape[3],
        "stride": tuple(node.attributes.get("strides") or (1, 1)),
        "dilation": tuple(node.attributes.get("dilations") or (1, 1)),
        "pads": explicit_pads(node)[:2], "x": images(x), "y": images(y),
        "rows": rows, "columns": _joined(columns), "row_segment": rows_of_a_task(y),
    }  # fmt: skip
    builder.emit(Step(
        Pool(fields, builder.isa), [x], [y], {"arrays": [y, x, scales]}, node.op, [name],
        f"{tuple(node.attributes['kernel_shape'])} of {x.shape}",
    ))  # fmt: skip
    builder.deliver(name, y)


def coordinates(outputs: int, inputs: int, scale: float, mode: str) -> Array | None:
    """Where the outputs of a Resize lie among its inputs, in one dimension; None if unknown."""
    o = np.arange(outputs, dtype=np.float64)
    if mode == "pytorch_half_pixel" and outputs == 1:
        return np.zeros(1)
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (o + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        centre = inputs / 2
        return centre * (1 - outputs / (scale * inputs)) + (o + 0.5) / scale - 0.5
    if mode == "asymmetric":
        return o / scale
    if mode == "align_corners":
        return o * ((inputs - 1) / (outputs - 1)) if outputs > 1 else np.zeros(1)
    return None


def _nearest(x: Array, mode: str) -> Array:
    if mode == "round_prefer_floor":
        return np.ceil(x - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(x + 0.5)
    return np.floor(x) if mode == "floor" else np.ceil(x)


def taps(node: Node, outputs: int, inputs: int, scale: float) -> tuple[Array, Array] | None:
    """Inputs and weights of each output of a Resize, in one dimension; None if not served."""
    attributes = node.attributes
    x = coordinates(
        outputs, inputs, scale, attributes.get("coordinate_transformation_mode", "half_pixel")
    )
    if x is None:
        return None
    mode = attributes.get("mode", "nearest")
    if mode == "nearest":
        at = _nearest(x, attributes.get("nearest_mode", "round_prefer_floor"))[:, None]
        return np.clip(at, 0, inputs - 1).astype(np.int64), np.ones_like(at)
    if outputs == inputs and scale == 1:
        at = np.arange(outputs)[:, None]
        return at, np.ones(at.shape)
    first = np.floor(x)
    r = x - first
    if mode == "linear":
        at = first[:, None] + np.arange(2)
        weights = np.stack([1 - r, r], 1)
    else:
        a = attributes.get("cubic_coeff_a", -0.75)
        at = first[:, None] + np.arange(-1, 3)
        d = np.abs(at - x[:, None])
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weights = np.where(d <= 1, near, np.where(d < 2, far, 0.0))
    if attributes.get("exclude_outside", 0):
        weights = np.where((at < 0) | (at >= inputs), 0.0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(at, 0, inputs - 1).astype(np.int64), weights


def resize_taps(node: Node, graph: Graph) -> list[tuple[Array, Array]] | None:
    """Taps of height and width; None if the node is not served."""
    x, y = graph.shapes[node.inputs[0]], graph.shapes[node.outputs[0]]
    attributes = node.attributes
    names = [*node.inputs, "", "", ""][:4]
    policy = attributes.get("keep_aspect_ratio_policy", "stretch")
    if (
        len(x) != 4
        or x[:2] != y[:2]
        or math.prod(y) == 0
        or attributes.get("antialias", 0)
        or policy not in ("stretch", "")
        or any(name and name not in graph.constants for name in names[2:])
    ):
        return None
    scales = [n / m for n, m in zip(y, x, strict=True)]
    if names[2] and graph.constants[names[2]].size:
        axes = [int(axis) % 4 for axis in attributes.get("axes") or range(4)]
        given = graph.constants[names[2]].reshape(-1)
        for axis, scale in zip(axes, given, strict=True):
            scales[axis] = float(scale)
    found = []
    for d in (2, 3):
        one = taps(node, y[d], x[d], scales[d])
        if one is None:
            return None
        found.append(one)
    return found


def serves_resize(node: Node, graph: Graph) -> bool:
    """Whether it is a Resize of height and width by known scales."""
    return graph.dtypes[node.outputs[0]] in NATIVE and resize_taps(node, graph) is not None


def lower_resize(node: Node, builder: Builder, graph: Graph) -> None:
    """Resize: each output is a weighted sum of some inputs."""
    both = resize_taps(node, graph)
    assert both is not None
    (rows, weights_y), (columns, weights_x) = both
    x = builder.pixels(builder.values[node.inputs[0]])
    name = node.outputs[0]
    shape, dtype = graph.shapes[name], graph.dtypes[name]
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    _, row, pixel = images(x)
    fields = {
        "dtype": "u8" if dtype.itemsize == 1 else NAMES[dtype], "batch": shape[0],
        "channels": shape[1], "ih": x.shape[2], "iw": x.shape[3],
        "x": (x.strides[0], row, pixel if x.shape[3] > 1 else pixel_bytes(x)),
        "y": images(y), "rows": rows, "columns": columns, "weights_y": weights_y,
        "weights_x": weights_x, "row_segment": rows_of_a_task(y),
    }  # fmt: skip
    builder.emit(Step(
        Resample(fields, builder.isa), [x], [y], {"arrays": [y, x]}, "Resize", [name],
        f"{x.shape[2:]} to {shape[2:]} of {shape[1]} channels, "
        f"{rows.shape[1]}x{columns.shape[1]} taps",
    ))  # fmt: skip
    builder.deliver(name, y)
