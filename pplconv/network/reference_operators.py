"""Operators as ONNX's reference runs them, where its own are wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from .storage import Array

__all__ = ["RIGHT"]


class ConvTranspose(OpRun):
    """A product for each tap, added to the outputs that it leads to.

    The reference gives all groups the bias of the first one, or fails.
    """

    op_domain = ""

    def _run(
        self, x: Array, w: Array, b: Array | None = None, *, auto_pad: str = "NOTSET",
        dilations: Sequence[int] | None = None, group: int = 1,
        kernel_shape: Sequence[int] | None = None, output_padding: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None, **_: Any,
    ) -> tuple[Array]:  # fmt: skip
        """See `OpRun`; `auto_pad` and `output_shape` were made explicit."""
        axes = x.ndim - 2
        kernel, sizes = w.shape[2:], x.shape[2:]
        ones, zeros = [1] * axes, [0] * 2 * axes
        steps, apart = strides or ones, dilations or ones
        begins, ends = (pads or zeros)[:axes], (pads or zeros)[axes:]
        more = output_padding or zeros[:axes]
        # Halves are summed as onnxruntime sums them, in float32.
        wide = np.float32 if x.dtype == np.float16 else x.dtype
        pixels = x.reshape(x.shape[0], group, x.shape[1] // group, math.prod(sizes)).astype(
            wide, copy=False
        )
        grouped = w.reshape(group, w.shape[0] // group, w.shape[1], *kernel)
        grouped = grouped.astype(wide, copy=False).swapaxes(1, 2)
        full = [
            (n - 1) * s + (k - 1) * d + 1 + m
            for n, s, k, d, m in zip(sizes, steps, kernel, apart, more, strict=True)
        ]
        channels = (slice(None),) * 3
        sums = np.zeros((x.shape[0], group, w.shape[1], *full), wide)
        for tap in np.ndindex(*kernel):
            part = np.matmul(np.ascontiguousarray(grouped[(..., *tap)]), pixels)
            place = [
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, apart, sizes, steps, strict=True)
            ]
            sums[(*channels, *place)] += part.reshape(*part.shape[:3], *sizes)
        kept = [
            slice(begin, size - end) for begin, end, size in zip(begins, ends, full, strict=True)
        ]
        y = sums[(*channels, *kept)]
        y = y.reshape(y.shape[0], group * w.shape[1], *y.shape[3:])
        if b is not None:
            y = y + b.reshape(-1, *ones).astype(wide, copy=False)
        return (y.astype(x.dtype, copy=False),)


RIGHT: list[type[OpRun]] = [ConvTranspose]
"""What a `ReferenceEvaluator` takes as ``new_ops``."""
