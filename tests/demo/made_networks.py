"""Small stand-ins for the published networks; they read bars of ink as the letter I."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from examples.models import ppocr
from tests.network.models import model_of

ALPHABET = ("", "I", " ")


def _model(nodes, output, shape, **weights) -> onnx.ModelProto:
    inputs, outputs = {"x": ("f4", ["n", 3, "h", "w"])}, {output: ("f4", shape)}
    return model_of(nodes, inputs, weights, outputs, opset=17, ir_version=8)


def detector() -> onnx.ModelProto:
    """Marks dark pixels: one convolution to blur, two that change nothing.

    Every other weight is 0: on CPUs without VNNI onnxruntime saturates the sum of two products of
    uint8 and int8, and would be no reference for the network in int8.
    """
    nodes = [
        helper.make_node("Conv", ["x", "blur"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "same"], ["b"]),
        helper.make_node("Conv", ["b", "again"], ["c"]),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    one = np.ones((1, 1, 1, 1), np.float32)
    blur = (1 - np.indices((1, 3, 3, 3)).sum(0) % 2).astype(np.float32)
    blur *= -2 / blur.sum()
    return _model(nodes, "y", [1, 1, None, None], blur=blur, same=one, again=one)


def classifier(upright: float = 5.0) -> onnx.ModelProto:
    """Classifies every line as upright, or, if `upright` is negative, as upside down."""
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["a"]),
        helper.make_node("Conv", ["a", "w", "b"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Softmax", ["d"], ["y"], axis=1),
    ]
    bias = np.array([upright, -upright], np.float32)
    return _model(nodes, "y", [None, 2], w=np.zeros((2, 3, 1, 1), np.float32), b=bias)


def recogniser() -> onnx.ModelProto:
    """Reads dark places as I, and bright or grey places as nothing."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["a"], strides=[48, 8]),
        helper.make_node("Squeeze", ["a", "axis"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Softmax", ["t"], ["y"], axis=-1),
    ]
    weight = np.zeros((3, 3, 48, 8), np.float32)
    # Only the middle rows: above and below them is paper.
    weight[0, :, 20:28], weight[1, :, 20:28] = 8 / (3 * 8 * 8), -8 / (3 * 8 * 8)
    bias = np.array([1, 0, -9], np.float32)
    model = _model(nodes, "y", None, w=weight, b=bias, axis=np.array([2], np.int64))
    model.metadata_props.add(key="character", value="\n".join(ALPHABET[1:-1]))
    return model


def keep(folder: Path, monkeypatch) -> Path:
    """Write the three models under their published names, and let the demo expect their hashes."""
    folder.mkdir()
    made = {"DETECTOR": detector(), "CLASSIFIER": classifier(), "RECOGNISER": recogniser()}
    for name, model in made.items():
        content = model.SerializeToString()
        expected = replace(getattr(ppocr, name), sha256=hashlib.sha256(content).hexdigest())
        monkeypatch.setattr(ppocr, name, expected)
        (folder / expected.name).write_bytes(content)
    return folder
