"""Memory of the arrays that NumPy makes at a cut, within ``max_memory``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from .programs import refuse_memory
from .storage import Array, Shape
from .subgraphs import is_flow

__all__ = ["Held", "result_bytes"]

# Operands of up to so many elements may be sizes.
_MOST_SIZES = 64


class Held:
    """Bytes that arrays at a cut hold in one run.

    Parameters
    ----------
    shapes : mapping of str to tuple
        Of the inputs, for messages.
    most : int
        Bytes that they may hold.
    known : iterable of array
        Arrays that were there before.
    """

    def __init__(self, shapes: Mapping[str, Shape], most: int, known: Sequence[Any]) -> None:
        self._shapes, self._most, self._size = shapes, most, 0
        # By the objects themselves, whose addresses are used again otherwise.
        self._owners = {id(owner): owner for owner in map(_owner, known)}

    def expect(self, size: int) -> None:
        """Refuse results before they are made."""
        self._refuse(self._size + size)

    def add(self, results: Sequence[Any]) -> None:
        """Count results, views of known arrays apart."""
        for result in results:
            for array in result if isinstance(result, list) else (result,):
                owner = _owner(array)
                if id(owner) not in self._owners:
                    self._owners[id(owner)] = owner
                    self._size += getattr(owner, "nbytes", 0)
        self._refuse(self._size)

    def _refuse(self, size: int) -> None:
        if size > self._most:
            refuse_memory(self._shapes, size, self._most)


def _owner(array: Any) -> Any:
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def result_bytes(
    node: ir.Node, opsets: Mapping[str, int], operands: Mapping[str, Array | None]
) -> int:
    """Give the bytes of a node's results, as far as ONNX infers them from its operands.

    Parameters
    ----------
    node : ir.Node
        A node at a cut.
    opsets : mapping of str to int
        Of its model.
    operands : mapping of str to ndarray
        By name.

    Returns
    -------
    int
        0 where elements decide the sizes.
    """
    arrays = {name: array for name, array in operands.items() if isinstance(array, np.ndarray)}
    if is_flow(node) or len(arrays) < sum(value is not None for value in node.inputs):
        return 0
    types, data = {}, {}
    for name, array in arrays.items():
        dtype = ir.DataType.from_numpy(array.dtype)
        types[name] = onnx.helper.make_tensor_type_proto(int(dtype), array.shape)
        if array.size <= _MOST_SIZES and dtype != ir.DataType.STRING:
            data[name] = onnx.helper.make_tensor(
                name, int(dtype), array.shape, np.ascontiguousarray(array).tobytes(), raw=True
            )
    try:
        schema = onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain)
        found = onnx.shape_inference.infer_node_outputs(
            schema, ir.serde.serialize_node(node), types, data
        )
    except MemoryError:
        raise
    except Exception:
        # The node says itself what is wrong.
        return 0
    total = 0
    for result in found.values():
        tensor = result.tensor_type
        sizes = [dim.dim_value if dim.HasField("dim_value") else 0 for dim in tensor.shape.dim]
        if tensor.HasField("shape") and tensor.elem_type:
            total += math.prod(sizes) * math.ceil(ir.DataType(tensor.elem_type).itemsize)
    return max(total, 0)
