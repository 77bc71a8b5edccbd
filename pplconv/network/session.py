"""`InferenceSession`: an ONNX network, from NumPy."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

try:
    import onnx_ir as ir
    import onnxscript  # noqa: F401
except ImportError as error:  # pragma: no cover - tests have both
    raise ImportError(
        f"InferenceSession needs {error.name}: pip install 'pplconv[onnx]'", name=error.name
    ) from error

from .. import planner
from ..api import arguments
from ..memory.array_like import array_of
from ..memory.arrays import empty_aligned
from ..runtime import ForkableLock
from .builder import Settings
from .compiling import Compiled, compile_model
from .loading import load
from .preparing import prepare, specialize
from .refusals import check_operators
from .report import NetworkPlan, plan_of

Array = npt.NDArray[Any]
# Sets of input shapes whose programs are kept.
PROGRAMS_KEPT = 8
# Operands that shapes follow from: inputs that are such become constants of a program, unless they
# have more elements than any shape.
_SHAPE_OPERANDS = {
    "ConstantOfShape": (0,), "Expand": (1,), "OneHot": (1,), "Pad": (1, 3), "Range": (0, 1, 2),
    "Reshape": (1,), "Resize": (1, 2, 3), "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,),
    "Tile": (1,), "TopK": (1,), "Unsqueeze": (1,),
}  # fmt: skip
_MOST_SHAPE_ELEMENTS = 64

_TYPES = {
    "bool": "tensor(bool)", "float16": "tensor(float16)", "float32": "tensor(float)",
    "float64": "tensor(double)", "int8": "tensor(int8)", "int16": "tensor(int16)",
    "int32": "tensor(int32)", "int64": "tensor(int64)", "uint8": "tensor(uint8)",
    "uint16": "tensor(uint16)", "uint32": "tensor(uint32)", "uint64": "tensor(uint64)",
}  # fmt: skip


class NodeArg(NamedTuple):
    """An input or an output of a network.

    Parameters
    ----------
    name : str
        Its name.
    shape : list of int, str or None
        Its dimensions; a text or None where any size will do.
    type : str
        As ONNX Runtime writes it: ``"tensor(float)"``.
    """

    name: str
    shape: list[int | str | None]
    type: str


class InferenceSession:
    """An ONNX network, ready to run on NumPy arrays.

    Safe to call from many threads at once; the GIL is released while it computes. Picklable.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        The network. Opsets 7 to the newest.
    threads : int, optional
        Size of the team; as for `Conv2d`.
    tolerance : float, optional
        Largest error that each convolution may spend on speed; as for `Conv2d`.
    precision : {"auto", "fp32", "fp16"}, optional
        Precision of the computation: as the arrays are, or as for `Conv2d`.
    search : {"estimate", "measure", "exhaustive"}, optional
        How plans are made; as for `Conv2d`, with operands outside the caches.
    max_workspace : int, optional
        Bytes of scratch of each convolution.
    fallback : bool, optional
        Whether `onnx.reference` may run operators that pplconv does not know.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described, or the model is no network that can run.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> session = pplconv.InferenceSession("model.onnx")  # doctest: +SKIP
    >>> (y,) = session.run(None, {"x": x})  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        *,
        threads: int | None = None,
        tolerance: float | None = 1e-5,
        precision: str = "auto",
        search: str = "estimate",
        max_workspace: int | None = None,
        fallback: bool = False,
    ) -> None:
        if precision not in ("auto", "fp32", "fp16"):
            raise ValueError(f'precision must be "auto", "fp32" or "fp16", got {precision!r}')
        checked = arguments.check_tolerance(tolerance)
        self._settings = Settings(
            arguments.check_threads(threads),
            planner.default_tolerance() if checked is None else checked,
            precision, planner.check_search(search), arguments.check_max_workspace(max_workspace),
        )  # fmt: skip
        prepared = prepare(load(model))
        check_operators(prepared.model.graph, fallback)
        self._model = prepared.model
        self._fired = prepared.fired
        self._fallback = bool(fallback)
        self._lock = ForkableLock()
        self._shape_inputs = _shape_inputs(self._model.graph)
        self._programs: OrderedDict[Any, tuple[Compiled, dict[str, list[str]]]] = OrderedDict()
        self._packed: dict[Any, Any] = {}

    def get_inputs(self) -> list[NodeArg]:
        """List the inputs, in the order of the model."""
        return [_told(value) for value in self._model.graph.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """List the outputs, in the order of the model."""
        return [_told(value) for value in self._model.graph.outputs]

    def run(
        self,
        output_names: Sequence[str] | None,
        feed: Mapping[str, npt.ArrayLike],
        *,
        out: Sequence[Array | None] | None = None,
    ) -> list[Array]:
        """Compute the outputs.

        Parameters
        ----------
        output_names : sequence of str or None
            Which outputs, in which order; None: all.
        feed : mapping of str to array_like
            The inputs by name.
        out : sequence of ndarray or None, optional
            Where outputs go, in the order of the result; C-contiguous and apart from the inputs.
            None makes an array.

        Returns
        -------
        list of ndarray

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit the network.
        """
        inputs = self._inputs(feed)
        compiled, _, inputs = self._compiled(inputs)
        names = [name for name, _, _ in compiled.outputs]
        wanted = list(output_names) if output_names is not None else names
        for name in wanted:
            if name not in names:
                raise ValueError(f"output_names: the network has no output {name!r}, only {names}")
        if out is not None and len(out) != len(wanted):
            raise ValueError(f"out: {len(out)} arrays for {len(wanted)} outputs")
        given = dict(zip(wanted, out, strict=True)) if out is not None else {}
        if out is not None and len(given) != len(wanted):
            raise ValueError(f"output_names: each output goes into one array, got {wanted}")
        kept = [array for array in given.values() if isinstance(array, np.ndarray)]
        if any(np.may_share_memory(a, b) for i, a in enumerate(kept) for b in kept[:i]):
            raise ValueError("out: two arrays share memory")
        outputs = []
        for name, shape, dtype in compiled.outputs:
            array = given.get(name)
            outputs.append(
                empty_aligned(shape, dtype) if array is None
                else _checked_out(array, name, shape, dtype, inputs)
            )  # fmt: skip
        compiled.run([*inputs, *outputs])
        by_name = dict(zip(names, outputs, strict=True))
        return [by_name[name] for name in wanted]

    def _inputs(self, feed: Mapping[str, npt.ArrayLike]) -> list[Array]:
        """Check the inputs, and give them as contiguous arrays."""
        if not isinstance(feed, Mapping):
            raise TypeError(f"feed must map names to arrays, got {type(feed).__name__}")
        values = self._model.graph.inputs
        names = [value.name for value in values]
        for name in feed:
            if name not in names:
                raise ValueError(f"feed: the network has no input {name!r}, only {names}")
        found = []
        for value in values:
            name = value.name or ""
            if name not in feed:
                raise ValueError(f"feed: input {name!r} is missing")
            wanted = _dtype(value)
            given = feed[name]
            if wanted.kind == "f" or hasattr(given, "dtype"):
                array = array_of(given, f"feed: input {name!r}", wanted)
            else:
                array = np.asarray(given, wanted)
            if array.dtype != wanted:
                raise TypeError(f"feed: input {name!r} must be {wanted}, got {array.dtype}")
            _check_shape(name, value, array.shape)
            found.append(np.require(array, requirements=("A", "C")).reshape(array.shape))
        return found

    def _compiled(
        self, inputs: Sequence[Array]
    ) -> tuple[Compiled, dict[str, list[str]], list[Array]]:
        """Find or make the program for these inputs; with the rules that it is due to.

        Inputs that are shapes are constants of a program; the others are given back.
        """
        names = [value.name or "" for value in self._model.graph.inputs]
        shapes: dict[str, tuple[int, ...]] = {}
        constants: dict[str, Array] = {}
        rest = []
        for name, array in zip(names, inputs, strict=True):
            if name in self._shape_inputs and array.size <= _MOST_SHAPE_ELEMENTS:
                constants[name] = array
            else:
                shapes[name] = array.shape
                rest.append(array)
        key = (
            tuple(array.shape for array in inputs),
            tuple(array.tobytes() for array in constants.values()),
        )
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                special = specialize(self._model, shapes, constants)
                compiled = compile_model(special.model, self._settings, self._packed)
                fired = {**self._fired}
                for rule, outputs in special.fired.items():
                    fired[rule] = [*fired.get(rule, []), *outputs]
                found = self._programs[key] = compiled, fired
            self._programs.move_to_end(key)
            while len(self._programs) > PROGRAMS_KEPT:
                self._programs.popitem(last=False)
                used = {key for compiled, _ in self._programs.values() for key in compiled.packed}
                self._packed = {key: self._packed[key] for key in used}
            return *found, rest

    def plan_for(self, inputs: Mapping[str, Any]) -> NetworkPlan:
        """Show how inputs of certain shapes are computed.

        Parameters
        ----------
        inputs : mapping of str to tuple of int or array_like
            A shape, or an array of it, for each input.

        Returns
        -------
        NetworkPlan
            Its ``str`` is a table of the steps.

        Raises
        ------
        TypeError, ValueError
            If inputs of these shapes could not be computed.
        """
        values = self._model.graph.inputs
        names = [value.name or "" for value in values]
        if set(inputs) != set(names):
            raise ValueError(f"inputs: a shape for each of {names}, got {inputs!r}")
        arrays = []
        for value in values:
            given = inputs[value.name or ""]
            is_shape = isinstance(given, (tuple, list)) and all(
                isinstance(n, (int, np.integer)) for n in given
            )
            if is_shape and value.name not in self._shape_inputs:
                # Of an array whose elements nobody reads, the shape is all there is.
                given = np.broadcast_to(np.zeros((), _dtype(value)), tuple(map(int, given)))
            array = np.asarray(given, _dtype(value))
            _check_shape(value.name or "", value, array.shape)
            arrays.append(array)
        compiled, fired, _ = self._compiled(arrays)
        return plan_of(compiled, fired)

    def profile(self, feed: Mapping[str, npt.ArrayLike], *, repeats: int = 5) -> NetworkPlan:
        """Time each step by itself.

        Parameters
        ----------
        feed : mapping of str to array_like
            The inputs by name.
        repeats : int, optional
            Runs; each step's shortest time counts.

        Returns
        -------
        NetworkPlan
            With seconds. Steps start a team each here, which they do not in `run`.

        Raises
        ------
        TypeError, ValueError
            If an argument does not fit the network.
        """
        repeats = arguments.integer("repeats", repeats, 1)
        inputs = self._inputs(feed)
        compiled, fired, inputs = self._compiled(inputs)
        outputs = [empty_aligned(shape, dtype) for _, shape, dtype in compiled.outputs]
        best = np.full(len(compiled.steps), np.inf)
        for _ in range(repeats):
            seconds = np.zeros(len(compiled.steps))
            compiled.run([*inputs, *outputs], seconds)
            best = np.minimum(best, seconds)
        return plan_of(compiled, fired, best.tolist())

    def __repr__(self) -> str:
        inputs = ", ".join(f"{i.name}: {i.type[7:-1]}{i.shape}" for i in self.get_inputs())
        outputs = ", ".join(f"{o.name}: {o.type[7:-1]}{o.shape}" for o in self.get_outputs())
        nodes = sum(1 for _ in self._model.graph)
        return (
            f"<InferenceSession of {nodes} nodes, {inputs} -> {outputs}, "
            f"programs for {len(self._programs)} sets of shapes>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The prepared model travels; programs are made again.
        model = ir.to_proto(self._model).SerializeToString()
        settings = self._settings
        return _rebuild, (type(self), model, {
            "threads": settings.threads, "tolerance": settings.tolerance,
            "precision": settings.precision, "search": settings.search,
            "max_workspace": settings.max_workspace, "fallback": self._fallback,
        })  # fmt: skip


def _shape_inputs(graph: ir.Graph) -> frozenset[str]:
    """Name the inputs that are shapes, axes or the like of some node."""
    return frozenset(
        value.name or ""
        for value in graph.inputs
        for node, operand in value.uses()
        if operand
        in _SHAPE_OPERANDS.get(node.op_type, (1,) if node.op_type.startswith("Reduce") else ())
    )


def _rebuild(kind: type[InferenceSession], model: bytes, options: dict[str, Any]) -> Any:
    return kind(model, **options)


def _dtype(value: ir.Value) -> np.dtype[Any]:
    """Type of the elements of an input."""
    return np.dtype(value.dtype.numpy() if value.dtype is not None else np.float32)


def _told(value: ir.Value) -> NodeArg:
    shape: list[int | str | None] = []
    for dimension in value.shape or ():
        shape.append(dimension if isinstance(dimension, int) else getattr(dimension, "value", None))
    kind = value.dtype.numpy().name if value.dtype is not None else "float32"
    return NodeArg(value.name or "", shape, _TYPES.get(kind, f"tensor({kind})"))


def _check_shape(name: str, value: ir.Value, shape: tuple[int, ...]) -> None:
    """Refuse a shape that the network does not declare."""
    declared = value.shape
    if declared is None:
        return
    fits = len(declared) == len(shape) and all(
        not isinstance(wanted, int) or wanted == got
        for wanted, got in zip(declared, shape, strict=True)
    )
    if not fits:
        raise ValueError(f"feed: input {name!r} must have shape {list(declared)}, got {shape}")


def _checked_out(
    array: Any, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], inputs: Sequence[Array]
) -> Array:
    """Refuse an array that the output cannot be written to."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"out: {name!r} must be an ndarray, got {type(array).__name__}")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"out: {name!r} must have shape {shape} and dtype {dtype}, "
            f"got {array.shape} and {array.dtype}"
        )
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        raise ValueError(f"out: {name!r} must be C-contiguous, aligned and writeable")
    if any(np.may_share_memory(array, other) for other in inputs):
        raise ValueError(f"out: {name!r} overlaps an input")
    return array
