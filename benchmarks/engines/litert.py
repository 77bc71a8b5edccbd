"""LiteRT (the former TensorFlow Lite), which runs XNNPACK: NHWC in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared, Unsupported
from benchmarks.engines.tflite_model import conv_model
from benchmarks.problems import Problem


class LiteRt(Engine):
    """LiteRT's interpreter with its default delegate, XNNPACK."""

    name = "litert"
    layout = "NHWC"
    modules = ("ai_edge_litert.interpreter", "flatbuffers", "tflite")
    distribution = "ai-edge-litert"
    note = "XNNPACK, NHWC, change of layout not timed"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Build the interpreter, and fill its input in NHWC."""
        from ai_edge_litert.interpreter import Interpreter

        # It refers to the bytes of the model as long as it lives, and keeps them alive itself.
        model = conv_model(problem, w)
        try:
            interpreter = Interpreter(model_content=model, num_threads=threads)
            interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise Unsupported(f"LiteRT refuses the model: {error}") from None
        source = interpreter.get_input_details()[0]["index"]
        target = interpreter.get_output_details()[0]["index"]
        interpreter.set_tensor(source, np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
        invoke = interpreter.invoke

        def to_nchw(_: Any) -> NDArray[np.generic]:
            nchw: NDArray[np.generic] = interpreter.get_tensor(target).transpose(0, 3, 1, 2)
            return nchw

        return Prepared(invoke, to_nchw)
