"""Pickles of sessions for other processes: models without weights, weights as arrays.

Arrays shared by several models are one object here, so that a pickle holds them once, or out of
band (`pplconv.sharing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pickle import PickleBuffer
from typing import Any

import numpy as np
import onnx_ir as ir

from .. import planner
from .._records import NamedTuple
from .kept_weights import Kept
from .scaling import ScaledTensor
from .storage import Array

# Smaller tensors stay in the protobuf.
_LEAST_BYTES = 1024


class Sent(NamedTuple):
    """A model taken apart.

    Parameters
    ----------
    proto : bytes
        The model, with empty arrays in place of its weights.
    arrays : dict
        The weights, by the names of their initializers.
    """

    proto: bytes
    arrays: dict[str, Array]


def taken_apart(model: ir.Model) -> Sent:
    """Take the large arrays out of a model, which is left as it is."""
    model = model.clone()
    arrays: dict[str, Array] = {}
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype == ir.DataType.STRING:
            continue
        if tensor.nbytes < _LEAST_BYTES and not isinstance(tensor, ir.ExternalTensor):
            continue
        array = tensor.numpy()
        if array.dtype.kind in "biuf" and array.dtype.isnative:
            arrays[name] = array
            value.const_value = ir.Tensor(np.empty(0, array.dtype), name=name)
        elif isinstance(tensor, ir.ExternalTensor):
            value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=name)
    return Sent(ir.to_proto(model).SerializeToString(), arrays)


def put_together(sent: Sent) -> ir.Model:
    """Rebuild the model on the arrays in place."""
    model = ir.from_proto(_proto(sent.proto))
    for name, array in sent.arrays.items():
        value = model.graph.initializers[name]
        value.const_value = ir.Tensor(array, name=name)
        value.shape = ir.Shape(array.shape)
        value.dtype = value.const_value.dtype
    return model


def _proto(content: bytes) -> Any:
    import onnx

    return onnx.ModelProto.FromString(content)


class Packs(NamedTuple):
    """Packed weights of one constant.

    Parameters
    ----------
    constant : ndarray
        The unpacked constant.
    key : tuple
        Part of the constant, and the packing.
    weight : ndarray, tuple of int or None
        The weights before packing; their shape if they are the constant's memory; None if they are
        not kept.
    packed : PickleBuffer
        The packed weights.
    """

    constant: Array
    key: tuple[Any, ...]
    weight: Any
    packed: Any


def packs_of(packed: Mapping[Any, Kept]) -> list[Packs]:
    """List packed weights for another process."""
    found = []
    for (_, *key), kept in packed.items():
        constant = kept.constant
        if isinstance(constant, ScaledTensor):
            # The same array object as in the models, while this list is alive.
            constant = constant.numpy()
        weight: Any = kept.weight
        same = weight is not None and (
            constant.flags.c_contiguous
            and weight.dtype == constant.dtype
            and weight.size == constant.size
            and weight.ctypes.data == constant.ctypes.data
        )
        shape = weight.shape if same else weight
        found.append(Packs(constant, tuple(key), shape, PickleBuffer(kept.packed)))
    return found


def kept_of(packs: list[Packs]) -> dict[Any, Kept]:
    """Keep the packed weights that `packs_of` listed, for plans that need them."""
    found = {}
    for constant, key, weight, packed in packs:
        if isinstance(weight, tuple):
            weight = constant.reshape(weight)
        found[(id(constant), *key)] = Kept(constant, weight, packed)
    return found


def plans_that_run_here(planned: Mapping[Any, Any]) -> dict[Any, Any]:
    """Drop plans of another instruction set: they are planned, and their weights packed, again."""
    return {
        key: (plan, fields)
        for key, (plan, fields) in planned.items()
        if plan.isa == planner.best_isa(plan.numerics)
    }
