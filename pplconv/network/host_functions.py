"""Functions of arrays for nodes that no loop serves: of `numpy_operators`, or ONNX's reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from .lone_steps import Alone, in_loops
from .nodes import Node
from .numpy_operators.sequence_values import TAKERS
from .numpy_operators.transposed_sums import conv_transpose
from .numpy_operators.types import Compute
from .onnx_later import ir
from .operators.table import row_of
from .operators.table_row import Python
from .operators.unfused import unfused
from .opsets import OPSET
from .refusals import check_operands
from .storage import Array, Shape
from .texts import printable

__all__ = ["function_of"]


class ConvTranspose(OpRun):
    """The same operator for a `ReferenceEvaluator`, which runs fused nodes in pieces."""

    op_domain = ""

    def _run(self, *operands: Array | None, **attributes: Any) -> tuple[Array, ...]:
        """See `OpRun`."""
        return tuple(conv_transpose(attributes, operands, ()))


# Parts of fused nodes that ONNX's `ReferenceEvaluator` computes wrongly.
_NEW_OPERATORS = [ConvTranspose]


def function_of(
    node: Node, shapes: Sequence[Shape], alone: Alone | None = None
) -> Callable[..., Sequence[Any]]:
    """Give the function that computes a node in Python.

    Parameters
    ----------
    node : Node
        A node that no loop serves.
    shapes : sequence of tuple of int
        Of its results; empty if they depend on data.
    alone : Alone, optional
        For nodes at a cut, which loops may serve once they see the operands.

    Returns
    -------
    callable
        Takes an array for each name that the node reads, once each, in their order; gives those of
        the names that it writes.

    Raises
    ------
    ValueError
        If ONNX's reference cannot run the node.
    """
    python = row_of(node.op).python
    assert python is not Python.NOBODY, f"{node.op} was made where no loop serves it"
    call = _in_reference(node) if isinstance(python, Python) else _in_numpy(python, node, shapes)
    return call if alone is None else in_loops(node, call, alone)


def _in_numpy(compute: Compute, node: Node, shapes: Sequence[Shape]) -> Callable[..., Any]:
    names = list(dict.fromkeys(name for name in node.inputs if name))
    places = [names.index(name) if name else None for name in node.inputs]
    attributes, takes_arrays = node.attributes, node.op not in TAKERS

    def call(*arrays: Array) -> Sequence[Any]:
        operands = [None if place is None else arrays[place] for place in places]
        if takes_arrays:
            _check_arrays(names, arrays)
        results = compute(attributes, operands, shapes)
        # Outputs that nobody wants have no name, or are missing.
        return [result for name, result in zip(node.outputs, results, strict=False) if name]

    return call


def _check_arrays(names: Sequence[str], given: Sequence[Any]) -> None:
    """Refuse sequences and optionals where an operator takes arrays alone."""
    for name, item in zip(names, given, strict=True):
        if not isinstance(item, np.ndarray):
            kind = "a sequence" if isinstance(item, list) else "an optional without an element"
            raise ValueError(f"{name!r} is {kind}, expected an array")


def _in_reference(node: Node) -> Callable[..., Any]:
    names = list(dict.fromkeys(name for name in node.inputs if name))
    written = [name for name in node.outputs if name]
    try:
        evaluator = ReferenceEvaluator(_proto(node), new_ops=_NEW_OPERATORS)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(
            f"model has {printable(node.op)} of {written[0]!r}, which onnx.reference cannot run: "
            f"{printable(error)}"
        ) from error

    def call(*arrays: Array) -> list[Any]:
        given = dict(zip(names, arrays, strict=True))
        _check_arrays(names, arrays)
        check_operands(node, [given[name] for name in node.inputs if name])
        return evaluator.run(written, given)  # type: ignore[no-any-return]

    return call


def _proto(node: Node) -> onnx.ModelProto:
    """A model of one node, for ONNX's reference."""
    assert node.source is not None
    protos = unfused(node) if node.op.startswith("pplconv.") else [ir.to_proto(node.source)]
    inputs = [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.inputs) if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    graph = onnx.helper.make_graph(protos, "one", inputs, outputs)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)])
