"""ncnn: a net of one convolution, in float32, Winograd allowed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared, Unsupported
from benchmarks.problems import Problem

# ncnn's text format opens with this number; a weight blob of plain float32 with a zero word.
_PARAM_MAGIC = 7767517
_RAW_FLOAT32 = np.zeros(1, np.uint32).tobytes()


class Ncnn(Engine):
    """ncnn on the CPU."""

    name = "ncnn"
    modules = ("ncnn",)
    distribution = "ncnn"
    note = "Winograd on, fp16 and bf16 off, batch 1"

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Write the net to a temporary directory, and load it."""
        import ncnn

        if problem.mb != 1:
            raise Unsupported("ncnn has no batch: it runs one image at a time")
        net = ncnn.Net()
        net.opt.num_threads = threads
        net.opt.use_winograd_convolution = True
        for option in ("fp16_packed", "fp16_storage", "fp16_arithmetic"):
            setattr(net.opt, f"use_{option}", False)
        for option in ("bf16_packed", "bf16_storage"):
            if hasattr(net.opt, f"use_{option}"):
                setattr(net.opt, f"use_{option}", False)
        with tempfile.TemporaryDirectory() as directory:
            param, weights = Path(directory, "conv.param"), Path(directory, "conv.bin")
            param.write_text(_param(problem), encoding="ascii")
            weights.write_bytes(_RAW_FLOAT32 + w.astype("<f4").tobytes())
            if net.load_param(str(param)) or net.load_model(str(weights)):
                raise RuntimeError("ncnn could not read the net")
        # Cloned: ncnn keeps a pointer to a NumPy array, but not the array.
        image = ncnn.Mat(x[0]).clone()
        create_extractor = net.create_extractor

        def call() -> Any:
            extractor = create_extractor()
            extractor.input("x", image)
            return extractor.extract("y")[1]

        def to_nchw(mat: Any) -> NDArray[np.generic]:
            return np.array(mat)[np.newaxis]

        return Prepared(call, to_nchw)


def _param(problem: Problem) -> str:
    """Write the net in ncnn's text format: the numbered keys are those of its Convolution."""
    p = problem
    options = {0: p.oc, 1: p.kw, 11: p.kh, 2: p.dw, 12: p.dh, 3: p.sw, 13: p.sh, 4: p.pw, 14: p.ph}
    options |= {5: 0, 6: p.oc * p.reduction}
    kind = "Convolution"
    if p.groups > 1:
        kind = "ConvolutionDepthWise"
        options[7] = p.groups
    settings = " ".join(f"{key}={value}" for key, value in options.items())
    return f"{_PARAM_MAGIC}\n2 2\nInput x 0 1 x\n{kind} y 1 1 x y {settings}\n"
