"""ONNX Runtime: a session of one QLinearConv."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Prepared
from benchmarks.engines.onnx_model import model_of
from benchmarks.engines.onnxruntime import bound_call
from benchmarks.engines.quantized.base import Quantized, QuantizedEngine
from benchmarks.memory import aligned, aligned_copy
from benchmarks.problems import Problem

# Of its own operators, where QLinearConv knows channels-last.
_MICROSOFT = "com.microsoft"


class OnnxRuntimeInt8(QuantizedEngine):
    """ONNX Runtime's CPU provider (MLAS), uint8 activations."""

    name = "ort_u8s8"
    modules = ("onnxruntime", "onnx")
    distribution = "onnxruntime"
    note = "single QLinearConv, NCHW, uint8 x int8 per channel, bound input and output"
    channels_last = False

    def prepare_quantized(self, problem: Problem, layer: Quantized, threads: int) -> Prepared:
        """Open a session, and bind its input and output."""
        order, back = ((0, 2, 3, 1), (0, 3, 1, 2)) if self.channels_last else ((0, 1, 2, 3),) * 2
        n, c, h, w = problem.output_shape
        shape = (n, h, w, c) if self.channels_last else (n, c, h, w)
        x = aligned_copy(layer.x.transpose(order), layer.x.dtype)
        model = qlinear_conv_model(problem, layer, x.shape, shape, self.channels_last)
        call = bound_call(model, x, aligned(shape, x.dtype), threads)

        def to_nchw(value: Any) -> NDArray[np.generic]:
            return np.array(value.numpy().transpose(back))

        return Prepared(call, to_nchw)


class OnnxRuntimeInt8Nhwc(OnnxRuntimeInt8):
    """The same, channels-last by its own operator."""

    name = "ort_u8s8_nhwc"
    note = "com.microsoft QLinearConv with channels_last, uint8 x int8 per channel"
    layout = "NHWC"
    channels_last = True


class OnnxRuntimeSigned(OnnxRuntimeInt8):
    """int8 activations, which its documents advise against on x86."""

    name = "ort_s8s8"
    note = "single QLinearConv, NCHW, int8 x int8 per channel"
    kind = "s8"


class OnnxRuntimeSignedNhwc(OnnxRuntimeInt8Nhwc):
    """int8 activations, channels-last."""

    name = "ort_s8s8_nhwc"
    note = "com.microsoft QLinearConv with channels_last, int8 x int8 per channel"
    kind = "s8"


def qlinear_conv_model(
    problem: Problem,
    layer: Quantized,
    x_shape: tuple[int, ...],
    y_shape: tuple[int, ...],
    channels_last: bool,
) -> bytes:
    """Serialise a model of one QLinearConv: fixed shapes, all but ``x`` constants."""
    dtype = layer.x.dtype
    constants = {
        "x_scale": np.float32(layer.x_scale),
        "x_zero": dtype.type(layer.x_zero),
        "w": layer.w,
        "w_scale": layer.w_scale,
        "w_zero": np.zeros(problem.oc, np.int8),
        "y_scale": np.float32(layer.y_scale),
        "y_zero": dtype.type(layer.y_zero),
        "b": layer.bias,
    }
    own: dict[str, Any] = {"domain": _MICROSOFT, "channels_last": 1} if channels_last else {}
    return model_of("QLinearConv", problem, x_shape, y_shape, dtype, constants, **own)
