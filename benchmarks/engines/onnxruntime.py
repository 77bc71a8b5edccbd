"""ONNX Runtime: a session of one Conv, its input and output bound beforehand."""

from __future__ import annotations

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
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = ort.InferenceSession(
            conv_model(problem, w), options, providers=["CPUExecutionProvider"]
        )
        # It computes on these arrays where they lie, and does not hold them: `call` does.
        arrays = aligned_copy(x), aligned(problem.output_shape)
        x_value, y_value = (ort.OrtValue.ortvalue_from_numpy(array) for array in arrays)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x_value)
        binding.bind_ortvalue_output("y", y_value)

        def call(_arrays: Any = arrays) -> Any:
            session.run_with_iobinding(binding)
            return y_value

        def to_nchw(value: Any) -> NDArray[np.generic]:
            array: NDArray[np.generic] = value.numpy()
            return array

        return Prepared(call, to_nchw)
