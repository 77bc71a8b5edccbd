"""MNN: converted from ONNX, precision high."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.engines.base import Array32, Engine, Prepared, Unsupported
from benchmarks.engines.onnx_model import conv_model
from benchmarks.problems import Problem

# The command `mnnconvert` without its front end, which installs a package for sending usage
# statistics and contacts a server. The converter has a process of its own: it writes a page of text
# to standard output and ends its process on an error.
_CONVERT = "import sys, _tools; _tools.mnnconvert(['mnnconvert', *sys.argv[1:]])"


class Mnn(Engine):
    """MNN's CPU backend, through its module interface.

    Its sessions take the memory of the input for other tensors, so that only the first run of a
    session is right; the module interface keeps the input.
    """

    name = "mnn"
    # Its Winograd transforms cost it three digits, at precision high too.
    tolerance = 3e-3
    modules = ("MNN", "onnx")
    distribution = "MNN"
    note = "converted from ONNX, module interface, precision high"

    def options(self, w: Array32, directory: Path) -> Sequence[str]:
        """More of the converter's options for these weights; files of theirs go to `directory`."""
        return ()

    def prepare(self, problem: Problem, x: Array32, w: Array32, threads: int) -> Prepared:
        """Convert the model, load it, and wrap the input."""
        import MNN.expr
        import MNN.nn

        with tempfile.TemporaryDirectory() as directory:
            source, model = Path(directory) / "conv.onnx", Path(directory) / "conv.mnn"
            source.write_bytes(conv_model(problem, w))
            convert(source, model, *self.options(w, Path(directory)))
            runtime = MNN.nn.create_runtime_manager(
                ({"backend": "CPU", "numThread": threads, "precision": "high"},)
            )
            module = MNN.nn.load_module_from_file(str(model), ["x"], ["y"], runtime_manager=runtime)
        image = MNN.expr.const(x, list(x.shape), MNN.expr.NCHW)
        forward = module.forward

        def call(_runtime: Any = runtime) -> Any:
            return forward(image)

        def to_nchw(y: Any) -> NDArray[np.generic]:
            return np.array(MNN.expr.convert(y, MNN.expr.NCHW).read())

        return Prepared(call, to_nchw)


def convert(source: Path, target: Path, *options: str) -> None:
    """Convert a model from ONNX with MNN's own converter.

    Parameters
    ----------
    source, target : Path
        Files in ONNX's format and in MNN's.
    *options : str
        More of the converter's options.

    Raises
    ------
    Unsupported
        If the converter fails.
    """
    arguments = ["-f", "ONNX", "--modelFile", str(source), "--MNNModel", str(target), *options]
    done = subprocess.run(
        [sys.executable, "-c", _CONVERT, *arguments, "--bizCode", "benchmark"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        # The converter leaves files in its working directory.
        cwd=os.fspath(target.parent),
    )
    if done.returncode or not target.exists():
        raise Unsupported(f"the converter failed: {done.stdout.strip()[-300:]}")
