"""The engines that run whole networks, each at its documented settings for latency.

A worker imports this module, so it imports nothing itself but NumPy. The library of an engine is
imported when the engine loads its first model, and counts as a part of that.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.names import pick

Array = NDArray[Any]
Feed = Mapping[str, Array]
Shapes = Mapping[str, Sequence[int]]

_SESSION = "InferenceSession"


class Engine(ABC):
    """An engine that runs a network; a new object for each network.

    Attributes
    ----------
    name : str
        How options and tables call it.
    ours : bool
        Whether it is pplconv; all others are its peers.
    module : str
        What must be importable.
    distribution : str
        Whose version is reported.
    note : str
        Settings, for the head of a report.
    """

    name: str
    ours: bool = False
    module: str = ""
    distribution: str = ""
    note: str = ""

    @classmethod
    def reference(cls) -> str:
        """Name the class for a worker, which imports it."""
        return f"{cls.__module__}:{cls.__qualname__}"

    @classmethod
    def missing(cls) -> str:
        """Tell why the engine cannot be used; empty if nothing is known against it."""
        found = importlib.util.find_spec(cls.module) if cls.module else True
        return "" if found else f"{cls.module} is not installed"

    @classmethod
    def version(cls) -> str:
        """Give the installed version."""
        try:
            return importlib.metadata.version(cls.distribution)
        except importlib.metadata.PackageNotFoundError:
            return "unknown"

    @classmethod
    def convert(cls, path: Path, folder: Path) -> Path:
        """Give the file to load; one in `folder` where the engine wants another format.

        This happens once, before anything is timed, and not in the worker.
        """
        return path

    @abstractmethod
    def load(self, path: str, shapes: Shapes, threads: int) -> None:
        """Make a session: all that a user does once.

        Parameters
        ----------
        path : str
            The file that `convert` gave.
        shapes : mapping of str to sequence of int
            Shape of each input.
        threads : int
            Threads that the engine may use.
        """

    @abstractmethod
    def run(self, feed: Feed) -> Sequence[Array]:
        """Run the network: arrays by the names of inputs in, arrays out in the model's order."""


class Pplconv(Engine):
    """pplconv's session."""

    name = "pplconv"
    ours = True
    module = "pplconv"
    distribution = "pplconv"
    note = "InferenceSession(path, threads=n), run(None, feed)"
    settings: Mapping[str, str] = {}
    """Further arguments of the session."""

    @classmethod
    def missing(cls) -> str:
        """Tell why the engine cannot be used: also a version without sessions."""
        without = super().missing()
        if not without:
            import pplconv

            if not hasattr(pplconv, _SESSION):
                without = f"the installed pplconv has no {_SESSION}"
        return without

    def load(self, path: str, shapes: Shapes, threads: int) -> None:
        """Open a session."""
        import pplconv

        # By name: type checkers accept this file also with a version without sessions.
        make = getattr(pplconv, _SESSION)
        self.session: Any = make(path, threads=threads, **self.settings)

    def run(self, feed: Feed) -> Sequence[Array]:
        """Run it."""
        outputs: list[Array] = self.session.run(None, feed)
        return outputs


class OnnxRuntime(Engine):
    """ONNX Runtime's CPU provider (MLAS)."""

    name = "onnxruntime"
    module = "onnxruntime"
    distribution = "onnxruntime"
    note = (
        "CPU provider, all graph optimisations, intra_op n, inter_op 1, sequential, spinning as by "
        "default, run(None, feed)"
    )
    _level = "ORT_ENABLE_ALL"

    def load(self, path: str, shapes: Shapes, threads: int) -> None:
        """Open a session."""
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, self._level)
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(self, feed: Feed) -> Sequence[Array]:
        """Run it; the outputs are new arrays."""
        outputs: list[Array] = self.session.run(None, feed)
        return outputs


class Unoptimised(OnnxRuntime):
    """The reference of all engines: onnxruntime, with each operator as the model has it."""

    name = "reference"
    note = "ORT_DISABLE_ALL"
    _level = "ORT_DISABLE_ALL"


class OpenVino(Engine):
    """OpenVINO's CPU plug-in."""

    name = "openvino"
    module = "openvino"
    distribution = "openvino"
    note = (
        "LATENCY, INFERENCE_NUM_THREADS n, NUM_STREAMS 1, precision f32, static shapes, "
        "share_inputs, share_outputs"
    )
    settings: Mapping[str, str] = {"INFERENCE_PRECISION_HINT": "f32"}
    """Further properties of the compiled model."""

    def load(self, path: str, shapes: Shapes, threads: int) -> None:
        """Read, reshape and compile the model."""
        import openvino as ov

        core = ov.Core()
        model = core.read_model(path)
        model.reshape({name: list(shape) for name, shape in shapes.items()})
        config = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": str(threads),
            "NUM_STREAMS": "1",
            **self.settings,
        }
        compiled = core.compile_model(model, "CPU", config)
        self._outputs = compiled.outputs
        self._request = compiled.create_infer_request()

    def run(self, feed: Feed) -> Sequence[Array]:
        """Run it; input and outputs are not copied, so the next run overwrites the outputs."""
        found = self._request.infer(dict(feed), share_inputs=True, share_outputs=True)
        return [np.asarray(found[output]) for output in self._outputs]


class Mnn(Engine):
    """MNN's CPU backend, through its module interface.

    Its sessions take the memory of the input for other tensors, so that only the first run of a
    session is right; the module interface keeps the input.
    """

    name = "mnn"
    module = "MNN"
    distribution = "MNN"
    note = (
        "converted from ONNX beforehand for speed (--optimizePrefer 2), module interface, static "
        "graph, rearrange, precision high (float32), power high, numThread n; resized at the first "
        "run, input wrapped once, outputs read"
    )

    @classmethod
    def convert(cls, path: Path, folder: Path) -> Path:
        """Convert the model with MNN's own converter, in a process of its own."""
        import onnx

        from benchmarks.engines.mnn import convert

        target = folder / f"{path.stem}.mnn"
        # 2: prefer speed.
        convert(path, target, "--optimizePrefer", "2")
        # MNN's file does not keep the order of the outputs.
        graph = onnx.load(str(path), load_external_data=False).graph
        target.with_suffix(".outputs").write_text("\n".join(one.name for one in graph.output))
        return target

    def load(self, path: str, shapes: Shapes, threads: int) -> None:
        """Load the converted model."""
        import MNN.expr
        import MNN.nn

        self._expr = MNN.expr
        self._inputs = list(shapes)
        self._wrapped: tuple[Array, ...] = ()
        outputs = Path(path).with_suffix(".outputs").read_text().split("\n")
        config = {"backend": "CPU", "numThread": threads, "precision": "high", "power": "high"}
        # Kept here: the module holds no reference to it.
        self._runtime = MNN.nn.create_runtime_manager((config,))
        self._module = MNN.nn.load_module_from_file(
            path,
            self._inputs,
            outputs,
            runtime_manager=self._runtime,
            shape_mutable=False,
            # MNN 3.6.1 without `rearrange` was off by 4e-3 on PP-OCR's detector, and hardly faster.
            rearrange=True,
        )

    def run(self, feed: Feed) -> Sequence[Array]:
        """Run it. Arrays that were there at the last run are not copied again."""
        expr = self._expr
        arrays = tuple(feed[name] for name in self._inputs)
        if len(self._wrapped) != len(arrays) or any(
            one is not other for one, other in zip(arrays, self._wrapped, strict=True)
        ):
            self._wrapped = arrays
            self._variables = [expr.const(one, list(one.shape), expr.NCHW) for one in arrays]
        found = self._module.forward(self._variables)
        found = found if isinstance(found, (list, tuple)) else [found]
        return [self._read(one) for one in found]

    def _read(self, variable: Any) -> Array:
        expr = self._expr
        if variable.data_format == expr.NC4HW4:
            variable = expr.convert(variable, expr.NCHW)
        array: Array = np.asarray(variable.read())
        return array


INT8 = "_int8"
"""Part of the name of a quantized file; the name of the float32 file lacks it."""


def _plain(path: Path) -> Path:
    return path.with_name(path.name.replace(INT8, ""))


class Plain(Pplconv):
    """pplconv with the float32 network that was quantized."""

    name = "pplconv float32"
    note = "the network that was quantized"

    @classmethod
    def convert(cls, path: Path, folder: Path) -> Path:
        """Give the other file."""
        return _plain(path)


class PlainReference(Unoptimised):
    """The reference, with the float32 network that was quantized."""

    @classmethod
    def convert(cls, path: Path, folder: Path) -> Path:
        """Give the other file."""
        return _plain(path)


ENGINES: dict[str, type[Engine]] = {
    engine.name: engine for engine in (Pplconv, OnnxRuntime, OpenVino, Mnn)
}


def select(names: Sequence[str]) -> list[type[Engine]]:
    """Give the named engines in the order of the tables; none means all.

    Raises
    ------
    ValueError
        If a name is unknown.
    """
    return list(pick("engine", names, ENGINES).values())
