"""Engines that compute float32 convolutions in bfloat16: the others, with other settings.

They are given operands that bfloat16 holds exactly. The bounds are parts of the largest output:
rounding an output to bfloat16 costs 2^-8 of it at most, and sums in float32 a little more. Where
the output is float32, the sums alone are left. MNN is not among them: its precision "low" stays
with float32 on x86.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared
from benchmarks.engines.onednn import OneDnn
from benchmarks.engines.openvino import compiled_call, convolution_model
from benchmarks.engines.pplconv import PplconvNchw, PplconvNhwc
from benchmarks.engines.torch import Torch
from benchmarks.problems import Problem

SUM_TOLERANCE = 1e-4
OUTPUT_TOLERANCE = 2.0**-8 + SUM_TOLERANCE
# Without these, oneDNN refuses bfloat16, and OpenVINO cuts results off that it computes in float32.
_LEVELS = ("avx512", "avxvnniint8", "neon")
_BF16: Mapping[str, Any] = MappingProxyType({"precision": "bf16"})


class PplconvNhwcBf16(PplconvNhwc):
    """NHWC float32 in and out, products of bfloat16."""

    name = "pplconv_nhwc_bf16"
    tolerance = SUM_TOLERANCE
    extra = _BF16


class PplconvNchwBf16(PplconvNchw):
    """NCHW float32 in and out, products of bfloat16."""

    name = "pplconv_bf16"
    tolerance = SUM_TOLERANCE
    extra = _BF16


class PplconvNhwcBf16Arrays(PplconvNhwc):
    """NHWC arrays of bfloat16 in and out, as the peers have them."""

    name = "pplconv_nhwc_bf16_arrays"
    tolerance = OUTPUT_TOLERANCE

    def __init__(
        self, search: str | None = None, asked: float | None = None, algorithm: str = ""
    ) -> None:
        super().__init__(search, asked, algorithm)
        self.note += ", arrays of bfloat16"

    def element(self) -> Any:
        """NumPy's own types lack it."""
        import ml_dtypes

        return ml_dtypes.bfloat16


class TorchNhwcBf16(Torch):
    """Eager ``torch.conv2d`` on channels_last bfloat16."""

    name = "torch_nhwc_bf16"
    note = "eager conv2d, channels_last, bfloat16 tensors, inference mode"
    layout = "NHWC"
    channels_last = True
    dtype = "bfloat16"
    tolerance = OUTPUT_TOLERANCE


class OneDnnBf16(OneDnn):
    """oneDNN through PyTorch's mkldnn tensors of bfloat16."""

    name = "onednn_bf16"
    note = "through torch: reordered weights, blocked bfloat16 tensors in and out"
    dtype = "bfloat16"
    levels = _LEVELS
    tolerance = OUTPUT_TOLERANCE


class OpenVinoBf16(Engine):
    """OpenVINO told to infer in bfloat16, bfloat16 in and out, NHWC: its own order of these."""

    name = "openvino_nhwc_bf16"
    layout = "NHWC"
    modules = ("openvino",)
    levels = _LEVELS
    distribution = "openvino"
    note = "NHWC bfloat16 tensors, LATENCY, NUM_STREAMS 1, INFERENCE_PRECISION_HINT bf16"
    tolerance = OUTPUT_TOLERANCE

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Compile the model, and fill its input."""
        import openvino as ov
        from openvino.preprocess import PrePostProcessor

        wrapped = PrePostProcessor(convolution_model(problem, x, w))
        for end in (wrapped.input(), wrapped.output()):
            end.tensor().set_element_type(ov.Type.bf16).set_layout(ov.Layout("NHWC"))
            end.model().set_layout(ov.Layout("NCHW"))
        config = {"INFERENCE_PRECISION_HINT": "bf16"}
        _, request, call = compiled_call(wrapped.build(), threads, config)
        bits = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).view(np.uint32) >> 16
        request.get_input_tensor().data.view(np.uint16)[...] = bits

        def to_nchw(tensor: Any) -> NDArray[np.generic]:
            y = (tensor.data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
            nchw: NDArray[np.generic] = y.transpose(0, 3, 1, 2)
            return nchw

        return Prepared(call, to_nchw)


ENGINES: Sequence[Engine] = (
    PplconvNhwcBf16(),
    PplconvNchwBf16(),
    PplconvNhwcBf16Arrays(),
    TorchNhwcBf16(),
    OneDnnBf16(),
    OpenVinoBf16(),
)
