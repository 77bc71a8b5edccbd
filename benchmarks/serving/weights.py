"""A model's file that is replaced, under a server, by one with other weights."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

__all__ = ["Weights"]


class Weights:
    """A copy of a model's file, whose weights change.

    Parameters
    ----------
    model : Path
        An ONNX file that holds its weights itself.
    folder : Path
        Where to put the copy.

    Attributes
    ----------
    path : Path
        The copy.
    contents : tuple of bytes
        Its contents, in turns: the model as it is, first.
    """

    def __init__(self, model: Path, folder: Path) -> None:
        self.path = folder / model.name
        content = model.read_bytes()
        self.contents = content, _with_other_weights(content)
        self._turn = 0
        self.path.write_bytes(content)

    def change(self) -> None:
        """Put the other content in the file's place, as a whole."""
        self._turn = 1 - self._turn
        new = self.path.with_suffix(".new")
        new.write_bytes(self.contents[self._turn])
        os.replace(new, self.path)


def _with_other_weights(content: bytes) -> bytes:
    """Change the largest array of a model a little."""
    model = onnx.ModelProto.FromString(content)
    arrays = [array for array in model.graph.initializer if array.data_type == array.FLOAT]
    constants = [
        attribute.t for node in model.graph.node if node.op_type == "Constant"
        for attribute in node.attribute if attribute.t.data_type == attribute.t.FLOAT
    ]  # fmt: skip
    largest = max([*arrays, *constants], key=lambda array: len(array.raw_data))
    values = numpy_helper.to_array(largest)
    largest.CopyFrom(numpy_helper.from_array(np.float32(0.9) * values, largest.name))
    changed: bytes = model.SerializeToString()
    return changed
