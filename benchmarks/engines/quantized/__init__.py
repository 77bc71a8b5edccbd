"""Engines that convolve in int8, in the order of the tables: pplconv first, then its peers."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.engines.quantized.base import QuantizedEngine
from benchmarks.engines.quantized.onnxruntime import (
    OnnxRuntimeInt8,
    OnnxRuntimeInt8Nhwc,
    OnnxRuntimeSigned,
    OnnxRuntimeSignedNhwc,
)
from benchmarks.engines.quantized.openvino import (
    OpenVinoInt8,
    OpenVinoInt8Nhwc,
    OpenVinoSignedNhwc,
)
from benchmarks.engines.quantized.pplconv import (
    PplconvNchwS8,
    PplconvNchwU8,
    PplconvNhwcS8,
    PplconvNhwcU8,
)
from benchmarks.engines.quantized.torch import TorchFbgemm, TorchOneDnn

ENGINES: Sequence[QuantizedEngine] = (
    PplconvNhwcU8(),
    PplconvNhwcS8(),
    PplconvNchwU8(),
    PplconvNchwS8(),
    TorchFbgemm(),
    TorchOneDnn(),
    OnnxRuntimeInt8(),
    OnnxRuntimeInt8Nhwc(),
    OnnxRuntimeSigned(),
    OnnxRuntimeSignedNhwc(),
    OpenVinoInt8(),
    OpenVinoInt8Nhwc(),
    OpenVinoSignedNhwc(),
)
