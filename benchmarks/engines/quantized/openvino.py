"""OpenVINO: a model of one convolution between a dequantization and a FakeQuantize."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Prepared, Unsupported
from benchmarks.engines.openvino import compiled_call, convolution
from benchmarks.engines.quantized.base import Quantized, QuantizedEngine
from benchmarks.problems import Problem

# Orders of transpositions.
_TO_NCHW, _TO_NHWC = (0, 3, 1, 2), (0, 2, 3, 1)


class OpenVinoInt8(QuantizedEngine):
    """OpenVINO's CPU plug-in, which makes an int8 convolution of such a model; NCHW."""

    name = "openvino_u8"
    modules = ("openvino",)
    # Without these, two products of bytes are added in 16 bits, where they saturate.
    levels = ("avx512vnni", "avxvnni", "neon")
    distribution = "openvino"
    note = "NCHW, LATENCY, NUM_STREAMS 1, uint8 x int8 per channel, FakeQuantize"
    channels_last = False

    def prepare_quantized(self, problem: Problem, layer: Quantized, threads: int) -> Prepared:
        """Compile the model, and fill its input; a model that stays in float is refused."""
        model = self._model(problem, layer)
        compiled, request, call = compiled_call(model, threads, {})
        used = _precision_of_convolution(compiled)
        # Where it cannot fold the scales into an int8 kernel, it computes in bf16 or f32.
        if used not in ("u8", "i8"):
            raise Unsupported(f"the convolution was compiled in {used}")
        order = _TO_NHWC if self.channels_last else (0, 1, 2, 3)
        request.get_input_tensor().data[...] = layer.x.transpose(order)

        def to_nchw(tensor: Any) -> NDArray[np.generic]:
            return np.array(tensor.data.transpose(_TO_NCHW if self.channels_last else (0, 1, 2, 3)))

        return Prepared(call, to_nchw)

    def _model(self, problem: Problem, layer: Quantized) -> Any:
        import openvino as ov
        from openvino import opset13 as ops

        n, c, h, w = problem.input_shape
        shape = [n, h, w, c] if self.channels_last else [n, c, h, w]
        parameter = ops.parameter(shape, layer.x.dtype, name="x")
        real = ops.convert(parameter, "f32")
        if layer.x_zero:
            real = ops.subtract(real, ops.constant(np.float32(layer.x_zero)))
        real = ops.multiply(real, ops.constant(np.float32(layer.x_scale)))
        if self.channels_last:
            # After the scale: otherwise OpenVINO does not fold the scale into the convolution.
            real = ops.transpose(real, ops.constant(np.array(_TO_NCHW)))
        shown = layer.w
        per_channel = layer.w_scale.reshape(-1, 1, 1, 1)
        if problem.groups > 1:
            shown = shown.reshape(problem.groups, -1, *shown.shape[1:])
            per_channel = per_channel.reshape(problem.groups, -1, 1, 1, 1)
        weight = ops.multiply(ops.convert(ops.constant(shown), "f32"), ops.constant(per_channel))
        node = convolution(problem, real, weight)
        node = ops.add(node, ops.constant(layer.real_bias.reshape(1, -1, 1, 1)))
        limits = np.iinfo(layer.x.dtype)
        low, high = (
            np.float32(layer.y_scale * (limit - layer.y_zero)) for limit in (limits.min, limits.max)
        )
        ends = np.float32(limits.min), np.float32(limits.max)
        node = ops.fake_quantize(node, low, high, *ends, 256)
        if self.channels_last:
            node = ops.transpose(node, ops.constant(np.array(_TO_NHWC)))
        return ov.Model([ops.convert(node, layer.kind.replace("s", "i"))], [parameter], "conv")


class OpenVinoInt8Nhwc(OpenVinoInt8):
    """The same with NHWC arrays, which are its own order of int8: nothing is reordered."""

    name = "openvino_u8_nhwc"
    layout = "NHWC"
    note = "NHWC, LATENCY, NUM_STREAMS 1, uint8 x int8 per channel, FakeQuantize"
    channels_last = True


class OpenVinoSignedNhwc(OpenVinoInt8Nhwc):
    """int8 activations."""

    name = "openvino_s8_nhwc"
    kind = "s8"
    note = "NHWC, LATENCY, NUM_STREAMS 1, int8 x int8 per channel, FakeQuantize"


def _precision_of_convolution(compiled: Any) -> str:
    """Type that the only convolution of a compiled model is computed in."""
    for node in compiled.get_runtime_model().get_ordered_ops():
        about = node.get_rt_info()
        if "Convolution" in str(about["layerType"].astype(str)):
            return str(about["runtimePrecision"].astype(str))
    return "something that is no convolution"
