"""Quantized kernels by NumPy: stands in for the compiled loops."""

# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

import numpy as np

from .. import planner
from ..memory.array_like import array_of
from . import arguments
from .quantization import DTYPES, Array


def _typed(value: Any, name: str, kind: str) -> Array:
    array = array_of(value, name)
    if array.dtype != DTYPES[kind]:
        raise TypeError(f"{name} must be {DTYPES[kind]}, got {array.dtype}")
    return array


class _Kernel:
    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def _finish(self, sums: Array, residual: Array | None, axis: int) -> Array:
        s = self.settings
        each = [1] * sums.ndim
        each[axis] = -1
        sums = sums + s["offset"].astype(np.int64).reshape(each)
        if s["out_dtype"] == "s32":
            return sums.astype(np.int32)
        y = sums.astype(np.int32).astype(np.float32) * s["multiplier"].reshape(each)
        if residual is not None and s["out_dtype"] == "f32":
            y = y + residual
        elif residual is not None:
            moved = (residual.astype(np.int32) - s["residual_zero"]).astype(np.float32)
            y = y + moved * s["residual_scale"]
        y = np.minimum(np.maximum(y, s["low"]), s["high"])
        if s["out_dtype"] == "f32":
            return y
        return (np.rint(y).astype(np.int32) + s["y_zero"]).astype(DTYPES[s["out_dtype"]])

    def _stored(self, y: Array, out: Any, *operands: Any) -> Array:
        if out is None:
            return np.ascontiguousarray(y)
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out must be a numpy.ndarray, got {type(out).__name__}")
        if out.dtype != y.dtype:
            raise TypeError(f"out must be {y.dtype}, got {out.dtype}")
        if out.shape != y.shape:
            raise ValueError(f"out must have shape {y.shape}, got {out.shape}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out must be C-contiguous and writeable")
        for name, operand in zip(("input", "residual"), operands, strict=True):
            if operand is not None and np.may_share_memory(out, operand):
                raise ValueError(f"out must not overlap {name}")
        out[...] = y
        return out


class QuantizedKernel(_Kernel):
    """One quantized convolution."""

    def _problem(self, shape: tuple[int, ...]) -> Any:
        s = self.settings
        names = ("stride", "padding", "dilation", "groups", "layout")
        return arguments.make_problem(
            shape, s["weight"].shape, "f32", **{name: s[name] for name in names}
        )

    def plan_for(self, shape: tuple[int, ...]) -> Any:
        """As the compiled one."""
        return planner.make_plan(self._problem(shape), epilogue="none", algorithm="auto")[0]

    def __call__(self, x: Any, residual: Any = None, out: Any = None) -> Array:
        """As the compiled one."""
        s = self.settings
        x = _typed(x, "input", s["x_dtype"])
        if x.ndim not in (3, 4):
            raise ValueError(f"input must have 3 or 4 dimensions, got shape {x.shape}")
        batched = x if x.ndim == 4 else x[None]
        p = self._problem(batched.shape)
        last = s["layout"] == "NHWC"
        images = batched.transpose(0, 3, 1, 2) if last else batched
        moved = images.astype(np.float64) - s["x_zero"]
        moved = np.pad(moved, ((0, 0), (0, 0), *p.padding))
        reach = [(k - 1) * d + 1 for k, d in zip((p.kh, p.kw), p.dilation, strict=True)]
        seen = np.lib.stride_tricks.sliding_window_view(moved, reach, axis=(2, 3))
        (sh, sw), (dh, dw) = p.stride, p.dilation
        seen = seen[:, :, ::sh, ::sw, ::dh, ::dw]
        n, c, oh, ow, kh, kw = seen.shape
        seen = seen.reshape(n, p.groups, c // p.groups, oh, ow, kh, kw)
        w = s["weight"].reshape(p.groups, -1, *s["weight"].shape[1:]).astype(np.float64)
        sums = np.einsum("ngcyxhw,gochw->ngoyx", seen, w, optimize=True)
        sums = sums.reshape(n, -1, oh, ow).astype(np.int64)
        if last:
            sums = sums.transpose(0, 2, 3, 1)
        shape = sums.shape if x.ndim == 4 else sums.shape[1:]
        if residual is not None:
            residual = _typed(residual, "residual", s["out_dtype"])
            if residual.shape != shape:
                raise ValueError(f"residual must have shape {shape}, got {residual.shape}")
        plain = None if residual is None else residual.reshape(sums.shape)
        y = self._finish(sums, plain, 3 if last else 1).reshape(shape)
        return self._stored(y, out, x, residual)


class QuantizedMatrix(_Kernel):
    """One quantized product with a matrix."""

    def __call__(self, x: Any, residual: Any = None, out: Any = None) -> Array:
        """As the compiled one."""
        s = self.settings
        x = _typed(x, "input", s["x_dtype"])
        sums = (x.astype(np.float64) - s["x_zero"]) @ s["weight"].astype(np.float64)
        return self._stored(self._finish(sums.astype(np.int64), residual, 1), out, x, residual)
