"""OpenVINO: a model of one convolution, compiled for latency in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared
from benchmarks.problems import Problem


class OpenVino(Engine):
    """OpenVINO's CPU plug-in."""

    name = "openvino"
    modules = ("openvino",)
    distribution = "openvino"
    note = "INFERENCE_NUM_THREADS, LATENCY, NUM_STREAMS 1, precision f32"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Compile the model, and fill its input."""
        import openvino as ov
        from openvino import opset13 as ops

        parameter = ops.parameter(list(x.shape), np.float32, name="x")
        geometry: list[Any] = [
            [problem.sh, problem.sw],
            [problem.ph, problem.pw],
            [problem.ph, problem.pw],
            [problem.dh, problem.dw],
        ]
        if problem.groups == 1:
            node = ops.convolution(parameter, ops.constant(w), *geometry)
        else:
            grouped = w.reshape(problem.groups, -1, *w.shape[1:])
            node = ops.group_convolution(parameter, ops.constant(grouped), *geometry)
        config = {
            "INFERENCE_NUM_THREADS": str(threads),
            "PERFORMANCE_HINT": "LATENCY",
            "NUM_STREAMS": "1",
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = ov.Core().compile_model(ov.Model([node], [parameter], "conv"), "CPU", config)
        request = compiled.create_infer_request()
        # Copied: a tensor of OpenVINO's own, which is aligned as the memory of all engines.
        request.get_input_tensor().data[...] = x
        infer = request.infer
        output = request.get_output_tensor()

        def call() -> Any:
            infer(share_outputs=True)
            return output

        def to_nchw(tensor: Any) -> NDArray[np.generic]:
            return np.array(tensor.data)

        return Prepared(call, to_nchw)
