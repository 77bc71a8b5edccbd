"""ONNX Runtime: a session of one Conv, its input and output bound beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared
from benchmarks.engines.onnx_model import conv_model
from benchmarks.memory import aligned, aligned_copy
from benchmarks.problems import Problem


class OnnxRuntime(Engine):
    """ONNX Runtime's CPU provider (MLAS)."""

    name = "ort"
    modules = ("onnxruntime", "onnx")
    distribution = "onnxruntime"
    note = "single-Conv model, intra_op_num_threads, bound input and output"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Open a session, and bind its input and output."""
        model = conv_model(problem, w)
        call = bound_call(model, aligned_copy(x), aligned(problem.output_shape), threads)

        def to_nchw(value: Any) -> NDArray[np.generic]:
            array: NDArray[np.generic] = value.numpy()
            return array

        return Prepared(call, to_nchw)


def bound_call(model: bytes, x: NDArray[Any], y: NDArray[Any], threads: int) -> Callable[[], Any]:
    """Open a session of a model from ``x`` to ``y``, on these arrays, and give its call.

    Parameters
    ----------
    model : bytes
    x, y : ndarray
        It computes on them where they lie, and does not hold them: the callable does.
    threads : int

    Returns
    -------
    callable
        Gives the ``OrtValue`` of `y`.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x_value, y_value = (ort.OrtValue.ortvalue_from_numpy(array) for array in (x, y))
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", x_value)
    binding.bind_ortvalue_output("y", y_value)

    def call(_arrays: Any = (x, y)) -> Any:
        session.run_with_iobinding(binding)
        return y_value

    return call
