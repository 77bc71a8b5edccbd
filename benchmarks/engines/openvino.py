"""OpenVINO: a model of one convolution, compiled for latency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        model = convolution_model(problem, x, w)
        _, request, call = compiled_call(model, threads, {"INFERENCE_PRECISION_HINT": "f32"})
        # Copied: a tensor of OpenVINO's own, which is aligned as the memory of all engines.
        request.get_input_tensor().data[...] = x

        def to_nchw(tensor: Any) -> NDArray[np.generic]:
            return np.array(tensor.data)

        return Prepared(call, to_nchw)


def convolution_model(problem: Problem, x: Array32, w: Array32) -> Any:
    """Make a model of one convolution in float32, NCHW."""
    import openvino as ov
    from openvino import opset13 as ops

    parameter = ops.parameter(list(x.shape), np.float32, name="x")
    shown = w if problem.groups == 1 else w.reshape(problem.groups, -1, *w.shape[1:])
    node = convolution(problem, parameter, ops.constant(shown))
    return ov.Model([node], [parameter], "conv")


def convolution(problem: Problem, x: Any, w: Any) -> Any:
    """Convolve two nodes of a model; with groups, they are the first axis of the weights."""
    from openvino import opset13 as ops

    convolve = ops.convolution if problem.groups == 1 else ops.group_convolution
    padding = [problem.ph, problem.pw]
    return convolve(x, w, [problem.sh, problem.sw], padding, padding, [problem.dh, problem.dw])


def compiled_call(
    model: Any, threads: int, config: Mapping[str, str]
) -> tuple[Any, Any, Callable[[], Any]]:
    """Compile a model for latency.

    Parameters
    ----------
    model : openvino.Model
        Of one input and one output.
    threads : int
    config : mapping of str to str
        More of the plug-in's settings.

    Returns
    -------
    compiled, request
        Of OpenVINO.
    call : callable
        Computes once, and gives the output's tensor.
    """
    import openvino as ov

    settings = {
        "INFERENCE_NUM_THREADS": str(threads),
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": "1",
        **config,
    }
    compiled = ov.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    infer = request.infer
    output = request.get_output_tensor()

    def call() -> Any:
        infer(share_outputs=True)
        return output

    return compiled, request, call
