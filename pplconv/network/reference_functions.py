"""Functions of arrays for nodes that only ONNX's reference computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from .nodes import Node
from .numpy_operators.transposed_sums import conv_transpose
from .onnx_later import ir
from .operators.unfused import unfused
from .opsets import OPSET
from .refusals import check_arrays, check_operands
from .storage import Array
from .texts import printable

__all__ = ["reference_function"]


class ConvTranspose(OpRun):
    """The same operator for a `ReferenceEvaluator`, which runs fused nodes in pieces."""

    op_domain = ""

    def _run(self, *operands: Array | None, **attributes: Any) -> tuple[Array, ...]:
        """See `OpRun`."""
        return tuple(conv_transpose(attributes, operands, ()))


# Parts of fused nodes that ONNX's `ReferenceEvaluator` computes wrongly.
_NEW_OPERATORS = [ConvTranspose]


def reference_function(node: Node) -> Callable[..., Any]:
    """Give the function of ONNX's reference that computes a node.

    Parameters
    ----------
    node : Node
        A node of ONNX's, or a fused one.

    Returns
    -------
    callable
        As `host_functions.function_of` gives it.

    Raises
    ------
    ValueError
        If the reference cannot run the node.
    """
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
        check_arrays(names, arrays)
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
