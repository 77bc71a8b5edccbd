"""Prunes a network's weights by magnitude, to try how much sparse weights would gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from .._records import record
from ..ops.sparse.sparse_weights import is_depthwise, stored_weights
from ..problem import ConvProblem
from ..prune import magnitude
from ..sparsity import Sparsity
from .report import NetworkPlan, StepPlan

__all__ = ["PrunedLayer", "prune_model", "steps_of"]

Array = npt.NDArray[Any]

_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE)
_OPERATORS = ("Conv", "Gemm", "MatMul")


@record(frozen=True)
class PrunedLayer:
    """A convolution or product whose weights were pruned.

    Parameters
    ----------
    name : str
        Of the node, or of its output.
    output : str
        Its output.
    operator : str
        ``"Conv"``, ``"Gemm"`` or ``"MatMul"``.
    shape : tuple of int
        Of the weights, output channels first.
    sparsity : Sparsity
        Block and density.
    norm : float
        L2 norm of the remaining weights, divided by the norm of all.
    """

    name: str
    output: str
    operator: str
    shape: tuple[int, ...]
    sparsity: Sparsity
    norm: float


@record(frozen=True)
class _Weight:
    """Weights of a node in a model."""

    node: onnx.NodeProto
    tensor: onnx.TensorProto
    groups: int
    turned: bool  # output channels are the last dimension

    def seen(self, array: Array) -> Array:
        """Output channels first, and back."""
        return np.swapaxes(array, 0, 1) if self.turned else array


def prune_model(
    model: onnx.ModelProto,
    density: float,
    width: int,
    progress: Callable[[float, str], None] | None = None,
) -> list[PrunedLayer]:
    """Prune the weights of convolutions and of products by known matrices, in place.

    Depthwise convolutions stay as they are, and so do weights that the caller of the network may
    replace.

    Parameters
    ----------
    model : onnx.ModelProto
        A network of floating point; its weights are changed.
    density : float
        Share of the weights of each layer that stays, as for `pplconv.prune.magnitude`.
    width : int
        Output channels of a block.
    progress : callable, optional
        Called with the share that is done and a text.

    Returns
    -------
    list of PrunedLayer
        In the order of the nodes; shared weights appear once for each node.

    Raises
    ------
    ValueError
        If there are no such weights.
    """
    found = list(_weights(model.graph))
    if not found:
        raise ValueError(
            "model has no convolution or product by known weights of floating point, but for "
            "depthwise ones"
        )
    layers: list[PrunedLayer] = []
    done: dict[str, PrunedLayer] = {}
    for number, weight in enumerate(found):
        name = weight.node.name or weight.node.output[0]
        if progress is not None:
            progress(number / len(found), f"{number + 1}/{len(found)} {name}")
        known = done.get(weight.tensor.name)
        shape = tuple(weight.tensor.dims)
        if known is None:
            kept, norm = _pruned(weight, density, width)
        else:  # of another node, and pruned already
            kept, norm = known.sparsity, known.norm
        layers.append(
            PrunedLayer(
                name,
                weight.node.output[0],
                weight.node.op_type,
                shape[::-1] if weight.turned else shape,
                kept,
                norm,
            )
        )
        done[weight.tensor.name] = layers[-1]
    return layers


def _pruned(weight: _Weight, density: float, width: int) -> tuple[Sparsity, float]:
    """Prune a tensor; give its sparsity and remaining norm."""
    before = weight.seen(numpy_helper.to_array(weight.tensor))
    after = magnitude(before, density, (1, width), groups=weight.groups)
    stored = stored_weights(after, weight.groups, (width,))[width]
    norms = [float(np.linalg.norm(a.astype(np.float64).ravel())) for a in (after, before)]
    array = np.ascontiguousarray(weight.seen(after))
    replaced = numpy_helper.from_array(array, weight.tensor.name)
    weight.tensor.CopyFrom(replaced)
    return Sparsity.of(width, stored, after.size), norms[0] / norms[1] if norms[1] else 1.0


def _weights(graph: onnx.GraphProto) -> Iterator[_Weight]:
    """The weights that are pruned, by the nodes that read them."""
    given = {value.name for value in graph.input}
    constants = {t.name: t for t in graph.initializer if t.name not in given}
    for node in graph.node:
        if node.op_type == "Constant" and not node.domain:
            for attribute in node.attribute:
                if attribute.name == "value":
                    attribute.t.name = node.output[0]
                    constants[node.output[0]] = attribute.t
    for node in graph.node:
        if node.domain not in ("", "ai.onnx") or node.op_type not in _OPERATORS:
            continue
        tensor = constants.get(node.input[1])
        if tensor is None or tensor.data_type not in _FLOATS or 0 in tensor.dims:
            continue
        numbers = {a.name: a.i for a in node.attribute}
        groups = numbers.get("group", 1) if node.op_type == "Conv" else 1
        matrix = node.op_type != "Conv"
        if len(tensor.dims) < 2 or (matrix and len(tensor.dims) != 2):
            continue
        if groups < 1 or tensor.dims[0] % groups or is_depthwise(tuple(tensor.dims), groups):
            continue
        yield _Weight(node, tensor, groups, matrix and not numbers.get("transB", 0))


def steps_of(layers: list[PrunedLayer], plan: NetworkPlan) -> list[StepPlan | None]:
    """Find the step of each layer.

    A step that also computes the nodes after a layer has the name of the last node. Such steps are
    matched by the size of their weights, and by their order if sizes are equal.

    Parameters
    ----------
    layers : list of PrunedLayer
        Layers of a network.
    plan : NetworkPlan
        The network's plan.

    Returns
    -------
    list of StepPlan or None
        For each layer; None where that is not known, or it has no step of its own.
    """
    steps: list[StepPlan | None] = [None] * len(layers)
    rest: dict[tuple[int, int], list[StepPlan]] = {}
    at = {layer.output: number for number, layer in enumerate(layers)}
    for step in plan.steps:
        size = _weights_of(step)
        number = next((at[name] for name in step.outputs if name in at), None)
        if size is None:
            continue
        if number is not None and steps[number] is None and size == _size(layers[number].shape):
            steps[number] = step
        else:
            rest.setdefault(size, []).append(step)
    for size, found in rest.items():
        missing = [
            number
            for number, layer in enumerate(layers)
            if steps[number] is None and _size(layer.shape) == size
        ]
        if len(missing) == len(found):
            for number, step in zip(missing, found, strict=True):
                steps[number] = step
    return steps


def _weights_of(step: StepPlan) -> tuple[int, int] | None:
    """Output channels and size of a step's weights; None if it has no constant weights."""
    if step.plan is None or step.plan.layout.startswith(("mk", "km")):  # two computed matrices
        return None
    return _size(ConvProblem.parse(step.plan.problem).weight_shape)


def _size(shape: tuple[int, ...]) -> tuple[int, int]:
    return shape[0], math.prod(shape)
