"""The arguments of quantized operators, checked together and described for kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._records import record
from ...arguments import checks
from ...memory.array_like import array_of
from . import quantization, quantized_output
from .quantization import DTYPES, NAMES, OUTPUTS, Array
from .quantized_output import Output

_NONE = np.zeros((), np.int64)  # zero point of outputs without one


@record(frozen=True)
class Scales:
    """The caller's scales and zero points of one operator.

    Parameters
    ----------
    x_scale, w_scale, y_scale, residual_scale : object
        None where there is none.
    x_zero_point, w_zero_point, y_zero_point, residual_zero_point : object
        None counts as 0.
    x_dtype, out_dtype : object
        Requested types, or None.
    activation : object
        As `quantized_output.clamp` takes it.
    """

    x_scale: Any = None
    x_zero_point: Any = None
    w_scale: Any = None
    w_zero_point: Any = None
    y_scale: Any = None
    y_zero_point: Any = None
    residual_scale: Any = None
    residual_zero_point: Any = None
    x_dtype: Any = None
    out_dtype: Any = None
    activation: Any = None

    def input_kind(self) -> str:
        """Type of inputs: the requested one, that of `x_zero_point`, or ``"u8"``."""
        if self.x_dtype is not None:
            return quantization.dtype_named("x_dtype", self.x_dtype, NAMES)
        return quantization.own_type(self.x_zero_point) or "u8"

    def output_kind(self, x_kind: str) -> str:
        """Type of outputs: the requested one, that of `y_zero_point`, or `x_kind`."""
        if self.out_dtype is not None:
            return quantization.dtype_named("out_dtype", self.out_dtype, OUTPUTS)
        return quantization.own_type(self.y_zero_point) or x_kind

    def units(self, channels: int) -> Array | None:
        """The real value of one unit of each channel's sum, in float64; None if unknown."""
        if self.x_scale is None and self.w_scale is None:
            return None
        x = quantization.scale("x_scale", self.x_scale).astype(np.float64)
        w = quantization.scales("w_scale", self.w_scale, (channels,)).astype(np.float64)
        return np.broadcast_to(np.asarray(x * w), (channels,))

    def output(self, kind: str, channels: int) -> Output:
        """The operations after the sums, for outputs of type `kind`."""
        self._refuse_useless(kind)
        if kind == "s32":
            quantized_output.clamp(self.activation, channels, None, kind, _NONE)
            return Output("s32")
        x = np.asarray(quantization.scale("x_scale", self.x_scale))
        w = quantization.scales("w_scale", self.w_scale, (channels,))
        if kind == "f32":
            low, high = quantized_output.clamp(self.activation, channels, None, kind, _NONE)
            multiplier = _each(quantized_output.multipliers(x, w, None), channels)
            return Output("f32", multiplier, 0, np.float32(low), np.float32(high))
        y = quantization.scale("y_scale", self.y_scale)
        zero = quantization.zero_point("y_zero_point", self.y_zero_point, kind)
        low, high = quantized_output.clamp(
            self.activation, channels, np.asarray(y), kind, np.asarray(zero)
        )
        residual_scale, residual_zero = None, 0
        if self.residual_scale is not None:
            given = quantization.scale("residual_scale", self.residual_scale)
            residual_scale = quantized_output.residual_multiplier(given, y)
            residual_zero = quantization.zero_point(
                "residual_zero_point", self.residual_zero_point, kind
            )
        multiplier = _each(quantized_output.multipliers(x, w, np.asarray(y)), channels)
        return Output(
            kind, multiplier, zero, np.float32(low), np.float32(high), residual_scale,
            residual_zero,
        )  # fmt: skip

    def _refuse_useless(self, kind: str) -> None:
        """Refuse arguments without effect on outputs of type `kind`."""
        where = f"for {DTYPES[kind]} outputs"
        if kind in ("s32", "f32"):
            for name in ("y_scale", "residual_scale"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} must be None {where}")
            _refuse_zero_point("y_zero_point", self.y_zero_point, where)
        if self.residual_scale is None:
            _refuse_zero_point(
                "residual_zero_point", self.residual_zero_point, "without residual_scale"
            )


def _refuse_zero_point(name: str, value: Any, where: str) -> None:
    if value is not None and np.any(array_of(value, name) != 0):
        raise ValueError(f"{name} must be None or 0 {where}")


def _each(values: Array, channels: int) -> Array:
    """One number for each channel."""
    return np.array(np.broadcast_to(values, (channels,)), order="C")


@record(frozen=True)
class QuantizedConv:
    """A quantized convolution without its memory layout.

    Parameters
    ----------
    weight : ndarray, shape (oc, ic / groups, kh, kw)
        Without zero points: int8 where it holds them, else int16.
    x_kind : {"u8", "s8"}
        Type of inputs.
    x_zero : int
        Their zero point, also the value of padding.
    offset : ndarray of int32, shape (oc,)
        The bias.
    output : Output
        Operations after the sums.
    """

    weight: Array
    x_kind: str
    x_zero: int
    offset: Array
    output: Output

    @classmethod
    def of(cls, weight: Array, bias: object, groups: int, scales: Scales) -> QuantizedConv:
        """Check all arguments that define the computation.

        Raises
        ------
        TypeError, ValueError
            If one is not as `QConv2d` describes it; the message names it.
        """
        w_kind = quantization.integer_name(weight, "weight")
        checks.check_weight_shape(weight.shape, groups)
        oc = weight.shape[0]
        x_kind = scales.input_kind()
        x_zero = quantization.zero_point("x_zero_point", scales.x_zero_point, x_kind)
        zeros = quantization.zero_points("w_zero_point", scales.w_zero_point, w_kind, (oc,))
        moved = quantization.centered(weight, zeros.reshape(-1, 1, 1, 1))
        offset = quantization.quantized_bias(bias, oc, scales.units(oc))
        output = scales.output(scales.output_kind(x_kind), oc)
        quantization.check_sums("weight", moved, (1, 2, 3), x_kind, (x_zero, x_zero), offset)
        return cls(moved, x_kind, x_zero, offset, output)

    def keywords(self) -> dict[str, Any]:
        """Give the keyword arguments of its kernel."""
        output = self.output
        return {
            "weight": np.ascontiguousarray(self.weight),
            "x_dtype": self.x_kind,
            "x_zero": self.x_zero,
            "offset": self.offset,
            "out_dtype": output.dtype,
            "multiplier": output.multiplier,
            "y_zero": output.zero,
            "low": output.low,
            "high": output.high,
            "residual_scale": output.residual_scale,
            "residual_zero": output.residual_zero,
        }


def check_conv_layout(layout: object) -> str:
    """Return the layout of a quantized convolution.

    Raises
    ------
    ValueError
        If it is not a layout, or has blocks of channels.
    """
    if isinstance(layout, str) and layout == "NCHWc":
        raise ValueError("layout of quantized arrays must be NCHW or NHWC, got 'NCHWc'")
    return checks.check_layout(layout)
