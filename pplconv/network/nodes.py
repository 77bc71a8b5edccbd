"""The nodes of a specialised graph as operators see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._records import record
from .onnx_later import ir
from .storage import Array, Shape
from .values import elements_of, is_constant

if TYPE_CHECKING:
    from .scaling import ScaledTensor


@record(eq=False)
class Node:
    """An operator with the names of the values that it reads and writes.

    Parameters
    ----------
    op : str
        Its type; with a prefix unless it is ONNX's own, as in ``pplconv.Conv``.
    inputs : list of str
        Names; an empty name is an omitted input.
    outputs : list of str
        Names.
    attributes : dict
        By name: numbers, texts, lists of them, arrays.
    source : onnx_ir.Node or None
        The model's node, if there is one.
    """

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]
    source: ir.Node | None


class Constants(Mapping[str, Array]):
    """The constants, by name.

    Scaled weights are computed at each request, unless an earlier result is still alive. So are
    weights stored in another type than the model's.
    """

    def __init__(self) -> None:
        self._known: dict[str, Array | ScaledTensor] = {}
        self._types: dict[str, np.dtype[Any]] = {}

    def add(self, name: str, tensor: ir.TensorProtocol) -> None:
        """Add a constant, which keeps its name."""
        from .scaling import ScaledTensor

        self._known[name] = tensor if isinstance(tensor, ScaledTensor) else tensor.numpy()

    def add_array(self, name: str, array: Array) -> None:
        """Add a constant that is an array."""
        self._known[name] = array

    def add_as(self, name: str, other: Constants, source: str, dtype: np.dtype[Any]) -> None:
        """Add a constant of another `Constants`, in a floating-point type, perhaps not its own."""
        self._known[name] = other.origin(source)
        self._types[name] = dtype

    def origin(self, name: str) -> Array | ScaledTensor:
        """The object behind a constant: one object for the same elements, in all programs.

        Its type may differ from the constant's.
        """
        return self._known[name]

    def weights(self, name: str) -> Array:
        """Give a constant that is only packed in the model's type: packing converts it."""
        known = self._known[name]
        return known if isinstance(known, np.ndarray) else known.numpy()

    def __getitem__(self, name: str) -> Array:
        array = self.weights(name)
        return as_type(array, self._types.get(name, array.dtype))

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


# Separates a name from its storage type, if that is not the model's type.
_STORED_AS = "\0"


def stored_name(name: str, dtype: np.dtype[Any]) -> str:
    """Name a value in a storage type other than the model's."""
    return f"{name}{_STORED_AS}{dtype}"


def plain_name(name: str) -> str:
    """Give the model's name of a value."""
    return name.partition(_STORED_AS)[0]


def as_type(array: Array, dtype: np.dtype[Any]) -> Array:
    """Convert an array to a type; too large numbers become infinite."""
    with np.errstate(all="ignore"):
        return array.astype(dtype, copy=False)


@record(eq=False)
class Graph:
    """A graph whose shapes are all known.

    Parameters
    ----------
    nodes : list of Node
        In an order in which they can run.
    shapes, dtypes : dict
        Of every value, by name.
    constants : Constants
        The constants.
    inputs, outputs : list of str
        In the order of the model.
    """

    nodes: list[Node]
    shapes: dict[str, Shape]
    dtypes: dict[str, np.dtype[Any]]
    constants: Constants
    inputs: list[str]
    outputs: list[str]
    users: dict[str, list[Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the readers of each name."""
        for node in self.nodes:
            for name in dict.fromkeys(filter(None, node.inputs)):
                self.users.setdefault(name, []).append(node)


def attributes_of(node: ir.Node) -> Iterator[tuple[str, Any]]:
    """Give the attributes of a node as Python values and arrays."""
    for name, attribute in node.attributes.items():
        value = attribute.value
        if attribute.type == ir.AttributeType.TENSOR:
            value = elements_of(value)
        elif isinstance(value, (tuple, list)):
            value = list(value)
        yield name, value


def node_of(node: ir.Node) -> Node:
    """Give a model's node as operators see it."""
    prefix = f"{node.domain}." if node.domain else ""
    reads = [value.name or "" if value is not None else "" for value in node.inputs]
    written = [value.name or "" for value in node.outputs]
    return Node(prefix + node.op_type, reads, written, dict(attributes_of(node)), node)


def graph_of(model: ir.Model) -> Graph:
    """Read a specialised model.

    Raises
    ------
    ValueError
        If the shape or the type of a value is not known.
    """
    graph = model.graph
    shapes: dict[str, Shape] = {}
    dtypes: dict[str, np.dtype[Any]] = {}
    constants = Constants()

    def learn(value: ir.Value) -> str:
        name = value.name or ""
        tensor = value.const_value
        if tensor is not None and name not in constants:
            constants.add(name, tensor)
            origin = constants.origin(name)
            if isinstance(origin, np.ndarray):
                shapes[name], dtypes[name] = origin.shape, origin.dtype
            else:
                shapes[name] = tuple(origin.shape.numpy())
                dtypes[name] = np.dtype(origin.dtype.numpy())
        elif name not in shapes:
            if value.shape is None or not value.shape.is_static() or value.dtype is None:
                raise ValueError(f"the shape of {name!r} is not known before the network runs")
            shapes[name] = tuple(int(d) for d in value.shape)
            dtypes[name] = np.dtype(value.dtype.numpy())
        if dtypes[name].hasobject:
            # Elements of these types are pointers, and memory is uninitialised at first.
            raise ValueError(f"{name!r} is text, which no program of loops holds")
        return name

    inputs = [learn(value) for value in graph.inputs]
    nodes = []
    for node in graph:
        if node.op_type == "Constant" and not node.domain and is_constant(node.outputs[0]):
            learn(node.outputs[0])
            continue
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.name:
                learn(value)
        nodes.append(node_of(node))
    outputs = [learn(value) for value in graph.outputs]
    return Graph(nodes, shapes, dtypes, constants, inputs, outputs)
