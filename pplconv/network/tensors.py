"""Weights taken out of the protobuf that they came in."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

__all__ = ["own_tensors"]


def own_tensors(model: ir.Model) -> None:
    """Make arrays of a model's initializers.

    A protobuf gives a new copy of its bytes each time that they are read, and may be changed by
    whoever has it.  Weights in files of their own stay there.

    Parameters
    ----------
    model : ir.Model
        Changed in place.
    """
    for graph in (model.graph, *model.graph.subgraphs()):
        for value in graph.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.TensorProtoTensor) and tensor.dtype != ir.DataType.STRING:
                array = np.ascontiguousarray(tensor.numpy()).reshape(tuple(tensor.shape))
                value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)
