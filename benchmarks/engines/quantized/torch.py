"""PyTorch's quantized convolutions: weights prepacked by FBGEMM and by oneDNN."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Availability, Prepared
from benchmarks.engines.quantized.base import Quantized, QuantizedEngine
from benchmarks.problems import Problem


class TorchFbgemm(QuantizedEngine):
    """``torch.ops.quantized.conv2d``, channels_last, weights packed by FBGEMM.

    PyTorch's engine ``"x86"`` takes one of these two by the shape.
    """

    name = "torch_fbgemm"
    layout = "NHWC"
    modules = ("torch",)
    distribution = "torch"
    note = "quantized.conv2d, channels_last, quint8 x qint8 per channel, prepacked by FBGEMM"
    engine = "fbgemm"

    def available(self) -> Availability:
        """Tell whether this PyTorch has the engine."""
        found = super().available()
        if found.ok:
            import torch

            if self.engine not in torch.backends.quantized.supported_engines:
                return Availability(ok=False, reason=f"this torch has no engine {self.engine}")
        return found

    def prepare_quantized(self, problem: Problem, layer: Quantized, threads: int) -> Prepared:
        """Pack the weights; packed weights remember the engine."""
        import torch

        torch.set_num_threads(threads)
        stride, padding = [problem.sh, problem.sw], [problem.ph, problem.pw]
        dilation, groups = [problem.dh, problem.dw], problem.groups
        before = torch.backends.quantized.engine
        with warnings.catch_warnings(), torch.inference_mode():
            # Quantized tensors are deprecated, but these operators take nothing else.
            warnings.simplefilter("ignore")
            torch.backends.quantized.engine = self.engine
            try:
                x = torch._make_per_tensor_quantized_tensor(
                    torch.from_numpy(layer.x).clone(), layer.x_scale, layer.x_zero
                ).contiguous(memory_format=torch.channels_last)
                w = torch._make_per_channel_quantized_tensor(
                    torch.from_numpy(layer.w).clone(),
                    torch.from_numpy(layer.w_scale.astype(np.float64)),
                    torch.zeros(problem.oc, dtype=torch.int64),
                    0,
                )
                bias = torch.from_numpy(layer.real_bias)
                packed = torch.ops.quantized.conv2d_prepack(
                    w, bias, stride, padding, dilation, groups
                )
            finally:
                torch.backends.quantized.engine = before
        conv2d, inference = torch.ops.quantized.conv2d, torch.inference_mode
        y_scale, y_zero = layer.y_scale, layer.y_zero

        def call() -> Any:
            with inference():
                return conv2d(x, packed, y_scale, y_zero)

        return Prepared(call, _to_numpy)


class TorchOneDnn(TorchFbgemm):
    """The same, weights packed by oneDNN."""

    name = "torch_onednn"
    note = "quantized.conv2d, channels_last, quint8 x qint8 per channel, prepacked by oneDNN"
    engine = "onednn"


def _to_numpy(y: Any) -> NDArray[np.generic]:
    array: NDArray[np.generic] = y.int_repr().contiguous().numpy()
    return array
