"""Small models for tests, and what their rewriting has to keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from pplconv.network.loading import load
from pplconv.network.preparing import Prepared, prepare, specialize
from tests.network.evaluating import evaluate
from tests.network.models import model_of


class Graph:
    """A model under construction: nodes are named after their outputs."""

    def __init__(self, seed: int = 0, *, dtype: Any = np.float32, opset: int = 24) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)
        self.opset = opset
        self.inputs: dict[str, tuple[Any, ...]] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.feed: dict[str, np.ndarray] = {}
        self._count = 0
        self.shared: str | None = None

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def input(self, *shape: int, free: bool = False, dtype: Any = None) -> str:
        name = self._name("x")
        wanted = np.dtype(dtype or self.dtype)
        self.inputs[name] = (
            wanted,
            tuple(f"{name}_{i}" for i in range(len(shape))) if free else shape,
        )
        drawn = self.rng.standard_normal(shape)
        # CPUs differ in casts of negative numbers to unsigned integers.
        self.feed[name] = (np.abs(drawn) if wanted.kind == "u" else drawn).astype(wanted)
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = self._name("c")
        array = np.asarray(value, dtype=dtype or self.dtype)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def random(self, *shape: int) -> str:
        return self.constant(self.rng.standard_normal(shape))

    def positive(self, *shape: int) -> str:
        return self.constant(self.rng.uniform(0.5, 1.5, shape))

    def __getattr__(self, operator: str) -> Any:
        if not operator[0].isupper():
            raise AttributeError(operator)

        def add(*inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
            names = [self._name(operator.lower()) for _ in range(outputs)]
            node = helper.make_node(operator, inputs, names, names[0], domain=domain, **attributes)
            self.nodes.append(node)
            return names[0] if outputs == 1 else names

        return add

    def conv(self, x: str, channels: int, w: Sequence[int], **attributes: Any) -> str:
        """A Conv with random weights and a bias."""
        bias = self.random(channels)
        return str(self.Conv(x, self.random(channels, *w), bias, **attributes))

    def batch_norm(self, x: str, channels: int, **attributes: Any) -> Any:
        """A BatchNormalization with random numbers."""
        numbers = [make(channels) for make in (self.positive, self.random, self.random)]
        return self.BatchNormalization(x, *numbers, self.positive(channels), **attributes)

    def array(self, constant: str) -> np.ndarray:
        """The elements of a constant."""
        (tensor,) = (tensor for tensor in self.weights if tensor.name == constant)
        return numpy_helper.to_array(tensor)

    def model(self, *outputs: str) -> onnx.ModelProto:
        told = dict.fromkeys(outputs, self.dtype)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("other", 1)]
        return model_of(self.nodes, self.inputs, self.weights, told, opset_imports=opsets)


def swap(swapped: bool, a: str, b: str) -> tuple[str, str]:
    """Two operands in either order."""
    return (b, a) if swapped else (a, b)


def stages(graph: Graph, *outputs: str) -> tuple[Prepared, Prepared]:
    """A model that was prepared, and specialised: `fired` of the latter counts both stages."""
    prepared = prepare(load(graph.model(*outputs)))
    special = specialize(prepared.model, {name: x.shape for name, x in graph.feed.items()})
    fired = {
        rule: [*prepared.fired.get(rule, ()), *special.fired.get(rule, ())]
        for rule in (*prepared.fired, *special.fired)
    }
    return prepared, Prepared(special.model, fired)


def rewritten(graph: Graph, *outputs: str, tolerance: float = 2e-5) -> Prepared:
    """The specialised model, its outputs compared with those of the model as it was written."""
    prepared, special = stages(graph, *outputs)
    expected = evaluate(load(graph.model(*outputs)), graph.feed)
    for stage in (prepared, special):
        for want, got in zip(expected, evaluate(stage.model, graph.feed), strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            scale = max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale)
    for node in special.model.graph:
        for value in node.outputs:
            if value.uses() or value.is_graph_output():
                assert value.shape is not None and value.shape.is_static()
                assert value.dtype is not None
    return special


def operators(prepared: Prepared) -> Counter[str]:
    """How many nodes of each operator there are."""
    return Counter(
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in prepared.model.graph
    )


def fused(prepared: Prepared) -> list[Any]:
    """The fused nodes."""
    return [node for node in prepared.model.graph if node.domain == "pplconv"]


def has(node: Any, *ports: Any) -> bool:
    """Whether a fused convolution takes exactly these inputs beside X, W and B."""
    from pplconv.network.fused_nodes import Port, inputs_of

    found = {Port(i) for i, value in enumerate(inputs_of(node)) if value is not None and i > 2}
    return found == set(ports)
