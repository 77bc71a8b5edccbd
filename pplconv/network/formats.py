"""Storage types of float16 and float32 values, and the conversions between them.

A program may store a float16 value as float32, or the reverse: a node reads and writes the type
that it computes in, and our node ``pplconv.Reformat`` converts between neighbours. Inputs and
outputs of the network, and steps in Python, keep ONNX's type.

If the CPU computes in half precision, and the settings permit it, convolutions and products by
known matrices read and write float16, and so do nodes after them that can. Otherwise everything is
float32: convolutions would convert each slab, which takes longer than storing float32 between them.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .. import planner
from ..numerics import numerics_of
from .fusion import is_elementwise
from .narrow_storage import seen_as
from .nodes import Constants, Graph, Node, as_type, stored_name
from .operators.table import row_of
from .operators.table_row import Format
from .plan_settings import Settings

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
_BOTH = (HALF, SINGLE)


def half_level() -> str | None:
    """Instruction set that computes in half precision; None if this CPU has none."""
    return planner.best_isa(numerics_of("f16", "f16"))


def may_be_half(dtype: np.dtype[Any], precision: str) -> bool:
    """Whether values of a type may be stored as float16, if the CPU computes in it."""
    return precision != "fp32" if dtype == HALF else precision in ("fp16", "low")


def with_formats(graph: Graph, settings: Settings, level: str | None) -> Graph:
    """Decide the storage type of each value.

    Parameters
    ----------
    graph : Graph
        With ONNX's types.
    settings : Settings
        Its precision permits half precision, or not.
    level : str or None
        Instruction set that computes in half precision, if there is one.

    Returns
    -------
    Graph
        The graph itself, if nothing changes.
    """
    types = {dtype for dtype in graph.dtypes.values() if dtype in _BOTH}
    half = level is not None and any(may_be_half(dtype, settings.precision) for dtype in types)
    if HALF not in types and not half:
        return graph
    return _Formats(graph, settings.precision, half).decided()


class _Formats:
    """The new graph, built node by node."""

    def __init__(self, graph: Graph, precision: str, half: bool) -> None:
        self.graph, self.precision, self.half = graph, precision, half
        self.seen_as = {dtype: seen_as(graph, _BOTH, dtype) for dtype in _BOTH}
        self.nodes: list[Node] = []
        self.shapes, self.dtypes = dict(graph.shapes), dict(graph.dtypes)
        self.constants = Constants()
        for name in graph.constants:
            self.constants.add_as(name, graph.constants, name, graph.dtypes[name])
        # Types in which each computed value exists; the first is its node's own.
        self.there = {name: [graph.dtypes[name]] for name in graph.inputs}

    def decided(self) -> Graph:
        """Decide for all nodes, in their order."""
        graph = self.graph
        for node in graph.nodes:
            if not self.floats(node.inputs) and not self.floats(node.outputs):
                self.nodes.append(node)
            elif node.op == "Cast" and self.floats(node.inputs) and self.floats(node.outputs):
                self.cast(node)
            else:
                self.compute(node, self.type_of(node))
        for name in self.floats(graph.outputs):
            self.stored(name, graph.dtypes[name])
        return Graph(
            self.nodes, self.shapes, self.dtypes, self.constants, graph.inputs, graph.outputs
        )

    def floats(self, names: list[str]) -> list[str]:
        """Names of values of float16 or float32."""
        return [name for name in names if name and self.graph.dtypes[name] in _BOTH]

    def type_of(self, node: Node) -> np.dtype[Any] | None:
        """The type that a node reads and writes; None: ONNX's types."""
        if not self.is_served(node, SINGLE):
            return None
        if not self.half or not self.is_served(node, HALF):
            return SINGLE
        given = [*self.floats(node.outputs), *self.floats(self.arrays(node))]
        if not all(may_be_half(self.graph.dtypes[name], self.precision) for name in given):
            return SINGLE
        format = row_of(node.op).format
        if format is Format.LEADS and node.inputs[1] in self.graph.constants:
            # `Conv2d` takes weights of either type.
            return HALF if self.survives(node.inputs[2:]) else SINGLE
        if format is not Format.FOLLOWS and not is_elementwise(node, self.seen_as[HALF]):
            return SINGLE
        return HALF if self.mostly_half(node) and self.survives(self.arrays(node)) else SINGLE

    def is_served(self, node: Node, dtype: np.dtype[Any]) -> bool:
        """Whether our loops compute a node in a type."""
        graph = self.seen_as[dtype]
        return is_elementwise(node, graph) or row_of(node.op).is_served(node, graph)

    def survives(self, names: list[str]) -> bool:
        """Whether all constants of a node survive in float16."""
        known = [name for name in self.floats(names) if name in self.graph.constants]
        return all(
            self.graph.dtypes[name] == HALF or _survives(self.graph.constants[name])
            for name in known
        )

    def arrays(self, node: Node) -> list[str]:
        """Inputs that are stored in the node's type."""
        return node.inputs[: row_of(node.op).arrays]

    def mostly_half(self, node: Node) -> bool:
        """Whether most inputs of a node were computed as float16.

        Inputs of the network decide alone: a mask does not narrow scores of float32.
        """
        names = [
            name for name in self.floats(self.arrays(node)) if name not in self.graph.constants
        ]
        computed = [name for name in names if name not in self.graph.inputs]
        sizes = {HALF: 0, SINGLE: 0}
        for name in computed or names:
            sizes[self.there[name][0]] += math.prod(self.graph.shapes[name])
        return sizes[HALF] > 0 and sizes[HALF] >= sizes[SINGLE]

    def compute(self, node: Node, dtype: np.dtype[Any] | None) -> None:
        """Add a node that reads and writes a type."""
        arrays = set(self.arrays(node))

        def taken(name: str) -> str:
            if not name or self.graph.dtypes[name] not in _BOTH:
                return name
            wanted = dtype if name in arrays else None
            return self.stored(name, wanted or self.graph.dtypes[name])

        def given(name: str) -> str:
            if not name:
                return name
            own = self.graph.dtypes[name]
            stored = dtype if dtype is not None and own in _BOTH else own
            self.there[name] = [stored]
            return self.named(name, stored)

        inputs = [taken(name) for name in node.inputs]
        outputs = [given(name) for name in node.outputs]
        self.nodes.append(replace(node, inputs=inputs, outputs=outputs))

    def cast(self, node: Node) -> None:
        """Give a value in the model's type, converted if necessary."""
        source, result = node.inputs[0], node.outputs[0]
        wanted = self.graph.dtypes[result]
        if source in self.graph.constants:
            name = self.stored(source, wanted)
        else:
            own = wanted in self.there[source]
            name = self.named(source, wanted if own else self.there[source][0])
        self.nodes.append(Node("pplconv.Reformat", [name], [result], {}, node.source))
        self.there[result] = [wanted]

    def named(self, name: str, dtype: np.dtype[Any]) -> str:
        """Name of a value in a type; a name of its own unless it is the model's type."""
        if dtype == self.graph.dtypes[name]:
            return name
        stored = stored_name(name, dtype)
        self.shapes[stored], self.dtypes[stored] = self.graph.shapes[name], dtype
        return stored

    def stored(self, name: str, dtype: np.dtype[Any]) -> str:
        """Name of a value in a type; a conversion is added if the value lacks that type."""
        stored = self.named(name, dtype)
        if name in self.graph.constants:
            if stored not in self.constants:
                self.constants.add_as(stored, self.graph.constants, name, dtype)
        elif dtype not in self.there[name]:
            source = self.named(name, self.there[name][0])
            self.nodes.append(Node("pplconv.Reformat", [source], [stored], {}, None))
            self.there[name].append(dtype)
        return stored


def _survives(array: np.ndarray[Any, Any]) -> bool:
    """Whether float16 keeps an array's finite numbers finite, and its non-zero numbers non-zero."""
    halves = as_type(array, HALF)
    lost = (np.isfinite(array) & ~np.isfinite(halves)) | ((array != 0) & (halves == 0))
    return not bool(lost.any())
