"""Quantized convolutions, pools, Resize and Pad: one layer each, of any number of axes.

A case is a function of the number of spatial axes, and the type of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper

from tests.network.models import model_of
from tests.network.quantizing import drawn_weights

__all__ = ["BYTES_CASES", "BytesCase"]

_SIZES = (7, 9, 8)
_SCALE, _STORED = np.float32(0.02), np.float32(0.3)
_OUT = 12


class BytesCase(NamedTuple):
    """A model, its feed, and by how many units a result may differ from onnxruntime's."""

    model: onnx.ModelProto
    feed: dict[str, np.ndarray]
    units: int


_WINDOWS: Mapping[str, Mapping[str, Any]] = {
    "plain": {}, "pads": {"pads": (1, 0, 2, 1, 2, 0), "strides": (2, 1, 2)},
    "dilations": {"dilations": (2, 1, 2), "pads": (1,) * 6}, "one": {"kernel": 1},
    "groups": {"group": 3, "pads": (1,) * 6}, "depthwise": {"group": 6, "pads": (1,) * 6},
    "same": {"auto_pad": "SAME_UPPER", "strides": (2, 2, 2)},
}  # fmt: skip


def _rng() -> np.random.Generator:
    return np.random.default_rng(8)


def _x(axes: int, dtype: Any) -> np.ndarray:
    bounds = np.iinfo(dtype)
    return _rng().integers(bounds.min, bounds.max + 1, (2, 6, *_SIZES[:axes])).astype(dtype)


def _zeros(dtype: Any) -> tuple[Any, Any]:
    """Zero points of the input and of the output."""
    return (dtype(3), dtype(-2)) if dtype == np.int8 else (dtype(128), dtype(120))


def _of(axes: int, value: Any) -> Any:
    if not isinstance(value, tuple):
        return value
    return [*value[:axes], *value[3 : 3 + axes]]


def _product(
    nodes: Callable[[dict[str, Any]], list[onnx.NodeProto]], result: Any, units: int,
    window: Mapping[str, Any], axes: int, dtype: Any, *, fed: tuple[str, ...] = ("x",),
    floats: bool = False, zeros: bool = False,
) -> BytesCase:  # fmt: skip
    """A convolution by weights with a scale for each channel."""
    rng = _rng()
    attributes = {name: _of(axes, value) for name, value in window.items()}
    kernel = attributes.pop("kernel", 3)
    x = _x(axes, dtype)
    x_zero, y_zero = _zeros(dtype)
    scales = rng.uniform(0.002, 0.01, _OUT).astype(np.float32)
    inner = (6 // attributes.get("group", 1), *(kernel,) * axes)
    arrays = {
        "x": rng.standard_normal(x.shape).astype(np.float32) if floats else x,
        "w": drawn_weights(rng, np.int8, (_OUT, *inner)),
        "b": rng.integers(-500, 500, _OUT).astype(np.int32), "sx": _SCALE, "zx": x_zero,
        "sw": scales, "zw": np.zeros(_OUT, np.int8), "sb": _SCALE * scales, "sy": _STORED,
        "zy": y_zero,
    }  # fmt: skip
    if zeros:
        arrays["zw"] = np.array(-9, np.int8)
    made = nodes(attributes)
    read = {name for node in made for name in node.input}
    feed = {name: np.asarray(arrays[name]) for name in fed}
    constants = {name: x for name, x in arrays.items() if name in read and name not in feed}
    model = model_of(made, feed, constants, {"y": dtype if result is None else result})
    return BytesCase(model, feed, units)


def _pairs(attributes: dict[str, Any]) -> list[onnx.NodeProto]:
    return [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["fx"]),
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["fw"], axis=0),
        helper.make_node("DequantizeLinear", ["b", "sb"], ["fb"], axis=0),
        helper.make_node("Conv", ["fx", "fw", "fb"], ["c"], **attributes),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "sy", "zy"], ["y"]),
    ]


def _quantized(attributes: dict[str, Any]) -> list[onnx.NodeProto]:
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    return [helper.make_node("QLinearConv", names, ["y"], **attributes)]


def _integers(attributes: dict[str, Any]) -> list[onnx.NodeProto]:
    return [helper.make_node("ConvInteger", ["x", "w", "zx"], ["y"], **attributes)]


def _integers_of_zeros(attributes: dict[str, Any]) -> list[onnx.NodeProto]:
    names = ["x", "w", "zx", "zw"]
    return [helper.make_node("ConvInteger", names, ["y"], **attributes)]


def _weights_alone(attributes: dict[str, Any]) -> list[onnx.NodeProto]:
    return [
        helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["fw"], axis=0),
        helper.make_node("Conv", ["x", "fw"], ["y"], **attributes),
    ]


def _between(op: str, attributes: Mapping[str, Any], axes: int, dtype: Any) -> BytesCase:
    """An operator between pairs of one scale."""
    zero, _ = _zeros(dtype)
    own = {
        name: value if name == "count_include_pad"
        else _of(axes, value) if isinstance(value, tuple) else [value] * axes
        for name, value in attributes.items()
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["fx"]),
        helper.make_node(op, ["fx"], ["fy"], **own),
        helper.make_node("QuantizeLinear", ["fy", "sx", "zx"], ["y"]),
    ]
    x = _x(axes, dtype)
    return BytesCase(model_of(nodes, {"x": x}, {"sx": _SCALE, "zx": zero}), {"x": x}, 1)


def _alone(
    op: str, operands: Callable[[int], list[Any]], attributes: Callable[[int], dict[str, Any]],
    axes: int, dtype: Any,
) -> BytesCase:  # fmt: skip
    """An operator of bytes."""
    x = _x(axes, dtype)
    given = dict(enumerate(operands(axes), 1))
    names = ["x", *(f"k{i}" if a is not None else "" for i, a in given.items())]
    constants = {f"k{i}": a for i, a in given.items() if a is not None}
    node = helper.make_node(op, names, ["y"], **attributes(axes))
    return BytesCase(model_of([node], {"x": x}, constants), {"x": x}, 0)


def _amounts(before: int, after: int) -> Callable[[int], list[Any]]:
    return lambda axes: [np.array([0, 0, *[before] * axes, 0, 0, *[after] * axes], np.int64)]


def _twice(axes: int) -> list[Any]:
    return [None, np.array([1, 1, *[2] * axes], np.float32)]


BYTES_CASES: Mapping[str, Callable[[int, Any], BytesCase]] = {
    **{
        f"{kind} {name}": partial(_product, nodes, result, units, window, **more)
        for kind, nodes, result, units, more in (
            ("pairs", _pairs, None, 1, {}), ("QLinearConv", _quantized, None, 1, {}),
            ("ConvInteger", _integers, np.int32, 0, {}),
            ("ConvInteger of a computed zero point", _integers, np.int32, 0, {"fed": ("x", "zx")}),
            ("ConvInteger by computed weights", _integers, np.int32, 0, {"fed": ("x", "w")}),
            ("ConvInteger by computed weights and zero points", _integers_of_zeros, np.int32, 0,
             {"fed": ("x", "w", "zx", "zw"), "zeros": True}),
            ("ConvInteger by computed weights of known zero points", _integers_of_zeros, np.int32,
             0, {"fed": ("x", "w"), "zeros": True}),
            ("ConvInteger of computed zero points", _integers_of_zeros, np.int32, 0,
             {"fed": ("x", "zw"), "zeros": True}),
            ("quantized weights", _weights_alone, np.float32, 0, {"floats": True}),
            ("pairs by computed weights", _pairs, None, 1, {"fed": ("x", "w")}),
            ("QLinearConv by computed weights", _quantized, None, 1, {"fed": ("x", "w")}),
            ("QLinearConv by computed weights and bias", _quantized, None, 1,
             {"fed": ("x", "w", "b")}),
        )
        for name, window in _WINDOWS.items()
    },
    "MaxPool in pairs": partial(_between, "MaxPool", {"kernel_shape": 2, "strides": 2}),
    # An odd number of places: no ties.
    "AveragePool in pairs": partial(_between, "AveragePool", {"kernel_shape": 3, "strides": 2}),
    "AveragePool with padding in pairs": partial(
        _between, "AveragePool", {"kernel_shape": 3, "count_include_pad": 1, "pads": (1,) * 6}
    ),
    "GlobalAveragePool in pairs": partial(_between, "GlobalAveragePool", {}),
    "MaxPool": partial(
        _alone, "MaxPool", lambda axes: [],
        lambda axes: {"kernel_shape": [3] * axes, "strides": [2] * axes, "pads": [1] * 2 * axes},
    ),
    "Resize": partial(_alone, "Resize", _twice, lambda axes: {"mode": "nearest"}),
    "Resize by linear sums": partial(_alone, "Resize", _twice, lambda axes: {"mode": "linear"}),
    "Resize of a region": partial(
        _alone, "Resize",
        lambda axes: [
            np.array([0, 0, *[0.1] * axes, 1, 1, *[1.2] * axes], np.float32),
            np.array([1, 1, *[1.5] * axes], np.float32),
        ],
        lambda axes: {"coordinate_transformation_mode": "tf_crop_and_resize"},
    ),
    "Pad": partial(_alone, "Pad", _amounts(1, -1), lambda axes: {}),
    "Pad by reflection": partial(_alone, "Pad", _amounts(1, 2), lambda axes: {"mode": "reflect"}),
}  # fmt: skip
"""The cases by name."""
