"""Swin transformers (Liu et al.) as exporters write them, with seeded random weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.networks.builder import CLASSES, Builder
from benchmarks.networks.weights import BRANCH, Array32

if TYPE_CHECKING:
    import onnx

_WIDTH = 96
_DEPTHS = (2, 2, 6, 2)
_HEADS = (3, 6, 12, 24)
_WINDOW = 7
_SIDE = 224 // 4


def _mask(side: int) -> Array32:
    """Make the mask of a shifted window: pixels do not see those from the image's other end."""
    part = np.zeros(side, np.int64)
    part[side - _WINDOW : side - _WINDOW // 2] = 1
    part[side - _WINDOW // 2 :] = 2
    regions = 3 * part[:, None] + part
    count = side // _WINDOW
    split = regions.reshape(count, _WINDOW, count, _WINDOW).transpose(0, 2, 1, 3)
    seen = split.reshape(count * count, _WINDOW * _WINDOW)
    differ = seen[:, None, :] != seen[:, :, None]
    return np.where(differ, np.float32(-100), np.float32(0))


def _rolled(build: Builder, x: str, by: int) -> str:
    """Shift rows and columns cyclically by `by` places."""
    for axis in (1, 2):
        ends = ([-by], [2**63 - 1]), ([0], [-by])
        parts = [
            build.node("Slice", [x, build.ints(first), build.ints(last), build.ints([axis])])
            for first, last in ends
        ]
        x = build.node("Concat", parts, axis=axis)
    return x


def _attention(build: Builder, x: str, side: int, width: int, heads: int, shift: int) -> str:
    """Let the pixels of each window see one another."""
    count, area, depth = side // _WINDOW, _WINDOW * _WINDOW, width // heads
    windows = count * count

    def split(x: str, shape: Sequence[int], order: Sequence[int], then: Sequence[int]) -> str:
        x = build.node("Transpose", [build.reshape(x, shape)], perm=order)
        return build.reshape(x, then)

    if shift:
        x = _rolled(build, x, -shift)
    halves = (1, count, _WINDOW, count, _WINDOW, width)
    x = split(x, halves, (0, 1, 3, 2, 4, 5), (windows, area, width))
    x = build.dense(x, width, 3 * width, 1.0)
    x = build.node(
        "Transpose", [build.reshape(x, (windows, area, 3, heads, depth))], perm=(2, 0, 3, 1, 4)
    )
    # Exporters separate query, key and value by Gather.
    query, key, value = (build.node("Gather", [x, build.integer(i)], axis=0) for i in range(3))
    query = build.node("Mul", [query, build.number(depth**-0.5)])
    key = build.node("Transpose", [key], perm=(0, 1, 3, 2))
    seen = build.node("MatMul", [query, key])
    seen = build.node("Add", [seen, build.drawn("positions", (1, heads, area, area), "shift")])
    if shift:
        mask = build.constant(f"mask_{len(build.weights)}", _mask(side)[None, :, None])
        seen = build.reshape(seen, (1, windows, heads, area, area))
        seen = build.reshape(build.node("Add", [seen, mask]), (windows, heads, area, area))
    seen = build.node("Softmax", [seen], axis=-1)
    x = build.node("Transpose", [build.node("MatMul", [seen, value])], perm=(0, 2, 1, 3))
    x = build.dense(build.reshape(x, (windows, area, width)), width, width, BRANCH)
    halves = (1, count, count, _WINDOW, _WINDOW, width)
    x = split(x, halves, (0, 1, 3, 2, 4, 5), (1, side, side, width))
    return _rolled(build, x, shift) if shift else x


def _merged(build: Builder, x: str, width: int) -> str:
    """Make one pixel of four, of twice the channels."""
    end, two = build.ints([2**63 - 1]), build.ints([2])
    parts = []
    for column, row in ((0, 0), (0, 1), (1, 0), (1, 1)):
        part = x
        for axis, first in ((1, row), (2, column)):
            taken = [part, build.ints([first]), end, build.ints([axis]), two]
            part = build.node("Slice", taken)
        parts.append(part)
    x = build.layer_norm(build.node("Concat", parts, axis=-1), 4 * width)
    return build.dense(x, 4 * width, 2 * width, 1.0, bias=False)


def tiny() -> onnx.ModelProto:
    """Build Swin-T: attention in windows of 7x7 pixels, every second time shifted by 3."""
    build = Builder("swin_t")
    x = build.conv("x", (_WIDTH, 3, 4, 4), 4, bias=True, pad=0)
    x = build.layer_norm(build.node("Transpose", [x], perm=(0, 2, 3, 1)), _WIDTH)
    side, width = _SIDE, _WIDTH
    for stage, (depth, heads) in enumerate(zip(_DEPTHS, _HEADS, strict=True)):
        if stage:
            x = _merged(build, x, width)
            side, width = side // 2, 2 * width
        for index in range(depth):
            # One window needs no shift.
            shift = _WINDOW // 2 if index % 2 and side > _WINDOW else 0
            y = _attention(build, build.layer_norm(x, width), side, width, heads, shift)
            x = build.node("Add", [x, y])
            y = build.gelu(build.dense(build.layer_norm(x, width), width, 4 * width))
            x = build.node("Add", [x, build.dense(y, 4 * width, width, BRANCH)])
    x = build.node("Transpose", [build.layer_norm(x, width)], perm=(0, 3, 1, 2))
    x = build.node("Flatten", [build.node("GlobalAveragePool", [x])])
    build.linear(x, (CLASSES, width), 1.0)
    return build.model()
