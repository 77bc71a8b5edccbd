"""Weights taken out of the protobuf that they came in, and those in files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ..memory.mapping import map_file, release, unchanged
from .scaling import ScaledTensor

__all__ = ["arrays_of", "check_files", "map_tensors", "own_tensors", "release_files"]

Array = npt.NDArray[Any]


def own_tensors(model: ir.Model) -> None:
    """Make arrays of a model's initializers.

    A protobuf gives a new copy of its bytes each time that they are read, and may be changed by
    whoever has it.  Weights in files of their own stay there.

    Parameters
    ----------
    model : ir.Model
        Changed in place.
    """
    for value in _initializers(model):
        tensor = value.const_value
        if isinstance(tensor, ir.TensorProtoTensor) and tensor.dtype != ir.DataType.STRING:
            array = np.ascontiguousarray(tensor.numpy()).reshape(tuple(tensor.shape))
            value.const_value = ir.Tensor(array, dtype=tensor.dtype, name=tensor.name)


def map_tensors(model: ir.Model) -> None:
    """Make arrays of the initializers that lie in files beside the model: one mapping a file.

    Parameters
    ----------
    model : ir.Model
        A checked model that knows its folder; changed in place.
    """
    files: dict[str, npt.NDArray[np.uint8]] = {}
    for value in _initializers(model):
        tensor = value.const_value
        # Others may lie otherwise than arrays of their type.
        if not isinstance(tensor, ir.ExternalTensor) or tensor.dtype.bitwidth % 8:
            continue
        dtype = np.dtype(tensor.dtype.numpy())
        shape = tuple(tensor.shape.numpy())
        if dtype.kind not in "iuf" or not tensor.size:
            continue
        if tensor.path not in files:
            files[tensor.path] = map_file(Path(tensor.path))
        array = np.frombuffer(files[tensor.path], dtype, tensor.size, tensor.offset or 0)
        value.const_value = ir.Tensor(array.reshape(shape), name=tensor.name)


def arrays_of(model: ir.Model) -> Iterator[Array]:
    """Give the arrays of a model's initializers, and those that scaled ones are computed of.

    Parameters
    ----------
    model : ir.Model
        A model.

    Yields
    ------
    ndarray
    """
    for value in _initializers(model):
        tensor = value.const_value
        while isinstance(tensor, ScaledTensor):
            tensor = tensor.source
        if isinstance(tensor, ir.Tensor) and isinstance(tensor.raw, np.ndarray):
            yield tensor.raw


def release_files(model: ir.Model) -> None:
    """Let go of the pages of files that the weights of a model were read from.

    Parameters
    ----------
    model : ir.Model
        A model; what it says stays the same.
    """
    for array in arrays_of(model):
        release(array)


def check_files(model: ir.Model) -> None:
    """Refuse a model whose weights are no longer what they were.

    Parameters
    ----------
    model : ir.Model
        A model.

    Raises
    ------
    RuntimeError
        If a file that weights lie in was written to.
    """
    for array in arrays_of(model):
        unchanged(array)


def _initializers(model: ir.Model) -> Iterator[ir.Value]:
    for graph in (model.graph, *model.graph.subgraphs()):
        yield from graph.initializers.values()
