"""RoiAlign: regions of images, resampled to one size, by `ops.aligned_regions`."""

from __future__ import annotations

import math

import numpy as np

from ..._kernels import POOLINGS
from ...memory.dtypes import NAMES
from ...ops.aligned_regions import MOST_RATIO, Regions
from ...ops.placing import pixel_bytes
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Shape, Step, channels_last
from .convolution import lies_in_pixels
from .elementwise_steps import NATIVE
from .window_steps import images

__all__ = ["lower_roi_align", "roi_align_shape", "serves_roi_align"]

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)


def roi_align_shape(node: Node, x: Shape, regions: int) -> Shape:
    """Shape of the result."""
    bins = (int(node.attributes.get(f"output_{name}", 1)) for name in ("height", "width"))
    return (regions, x[1], *bins)


def serves_roi_align(node: Node, graph: Graph) -> bool:
    """Whether the loops take a RoiAlign: of four corners a region, and an image for each."""
    shapes = [graph.shapes[name] for name in node.inputs]
    x, regions, numbers = shapes
    dtypes = [graph.dtypes[name] for name in node.inputs]
    return (
        len(x) == 4
        and dtypes[0] in NATIVE
        and dtypes[1] == dtypes[0]
        and dtypes[2] == np.int64
        and regions == (*numbers, 4)
        and len(numbers) == 1
        and 0 <= node.attributes.get("sampling_ratio", 0) <= MOST_RATIO
        and node.attributes.get("mode", "avg") in ("avg", "max")
        and all(math.prod(shape) for shape in (*shapes, graph.shapes[node.outputs[0]]))
    )


def lower_roi_align(node: Node, builder: Builder, graph: Graph) -> None:
    """RoiAlign: channels lie side by side, corners are float32, or float64 if the images are."""
    name, attributes = node.outputs[0], node.attributes
    x = builder.pixels(builder.values[node.inputs[0]])
    corners, numbers = (builder.contiguous(builder.values[read]) for read in node.inputs[1:])
    shape, dtype = graph.shapes[name], x.dtype
    if dtype not in (_SINGLE, _DOUBLE):
        single = builder.new(corners.shape, _SINGLE)
        builder.convert(corners, single, [name])
        corners = single
    y = builder.target(name, shape, dtype, channels_last(4), lies_in_pixels)
    image, row, pixel = images(x)
    half = attributes.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    fields = {
        "dtype": NAMES[dtype],
        "kind": POOLINGS["MAX" if attributes.get("mode", "avg") == "max" else "SUM"],
        "images": x.shape[0], "channels": shape[1], "ih": x.shape[2], "iw": x.shape[3],
        "regions": shape[0], "oh": shape[2], "ow": shape[3],
        "x": (image, row, pixel if x.shape[3] > 1 else pixel_bytes(x)), "y": images(y),
        "ratio": int(attributes.get("sampling_ratio", 0)), "half": half,
        "scale": float(attributes.get("spatial_scale", 1.0)),
    }  # fmt: skip
    builder.emit(Step(
        Regions(fields, builder.isa), [x, corners, numbers], [y],
        {"arrays": [y, x, corners, numbers, ("refusals",)]}, node.op, [name],
        f"{shape[0]} of {shape[2]}x{shape[3]} from {x.shape}",
    ))  # fmt: skip
    builder.deliver(name, y)
