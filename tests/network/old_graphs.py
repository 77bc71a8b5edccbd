"""Models of old opsets, written as new ones are: inputs become the attributes that they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.network.graphs import Graph

# Before which opset inputs were attributes, and what they were called.
BEFORE: dict[str, tuple[int, dict[int, str]]] = {
    "Clip": (11, {1: "min", 2: "max"}),
    "Dropout": (12, {1: "ratio"}),
    "Pad": (11, {1: "pads", 2: "value"}),
    "ReduceSum": (13, {1: "axes"}),
    "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}),
    "Split": (13, {1: "split"}),
    "Squeeze": (13, {1: "axes"}),
    "TopK": (10, {1: "k"}),
    "Unsqueeze": (13, {1: "axes"}),
    "Upsample": (9, {1: "scales"}),
    **{
        f"Reduce{kind}": (18, {1: "axes"})
        for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    },
}
_TYPES = onnx.defs.OpSchema.AttrType
_KINDS: dict[Any, Callable[[np.ndarray], Any]] = {
    _TYPES.FLOAT: lambda x: float(x.reshape(())),
    _TYPES.INT: lambda x: int(x.reshape(())),
    _TYPES.FLOATS: np.ndarray.tolist,
    _TYPES.INTS: np.ndarray.tolist,
}


def as_attributes(op: str, opset: int, known: Mapping[int, np.ndarray]) -> dict[str, Any] | None:
    """Give inputs as the attributes that an opset has; None if it has them as inputs."""
    before, names = BEFORE.get(op, (0, {}))
    if opset >= before:
        return None
    schema = onnx.defs.get_schema(op, opset)
    found = {
        name: _KINDS[schema.attributes[name].type](known[at])
        for at, name in names.items()
        if at in known
    }
    # Over no axes would be over all, which is said by none.
    return {name: value for name, value in found.items() if value != []}


class OldGraph(Graph):
    """A model whose constants become attributes where its opset has them."""

    def __getattr__(self, operator: str) -> Any:
        add = super().__getattr__(operator)

        def added(x: str, *inputs: str, **attributes: Any) -> Any:
            constants = {tensor.name: tensor for tensor in self.weights}
            known = {
                at: numpy_helper.to_array(constants[name])
                for at, name in enumerate(inputs, 1)
                if name in constants
            }
            more = as_attributes(operator, self.opset, known)
            return (
                add(x, **attributes, **more) if more is not None else add(x, *inputs, **attributes)
            )

        return added
