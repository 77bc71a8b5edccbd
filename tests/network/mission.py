"""Convolutions, pools, Resize, Pad and normalizations: one node each, of any number of axes.

A case is a function of the number of spatial axes. It gives the operator, its operands and its
attributes; operands of floating point are then cast to the type that is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper

from tests.network.models import model_of

__all__ = ["CASES", "FLOATS", "Mission"]

FLOATS: Mapping[str, Any] = {
    "float16": np.float16, "float32": np.float32, "float64": np.float64,
    "bfloat16": ml_dtypes.bfloat16,
}  # fmt: skip
_SIZES = (7, 9, 8)
_I64 = np.int64


@dataclass
class Mission:
    """One node.

    Parameters
    ----------
    op : str
        Its operator.
    operands : list
        Arrays, by place; None where there is none.
    attributes : dict
        Of the node.
    weights : tuple of int
        Places of operands that may be known or computed; all others but the first are known.
    """

    op: str
    operands: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    weights: tuple[int, ...] = ()

    def model(self, dtype: Any, computed: bool) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The node as a model, with its feed."""
        arrays = {
            f"x{i}": x.astype(dtype) if x.dtype == np.float64 else x
            for i, x in enumerate(self.operands) if x is not None
        }  # fmt: skip
        names = ["" if x is None else f"x{i}" for i, x in enumerate(self.operands)]
        fed = {"x0", *(f"x{i}" for i in self.weights if computed)}
        node = helper.make_node(self.op, names, ["y"], **self.attributes)
        feed = {name: arrays[name] for name in arrays if name in fed}
        known = [
            onnx.numpy_helper.from_array(x, name) for name, x in arrays.items() if name not in fed
        ]
        opset = 23 if self.op == "RMSNormalization" else 21
        return model_of([node], feed, known, {"y": dtype}, opset=opset), feed

    def rounded(self, dtype: Any) -> Mission:
        """The same node of float32, with the numbers that a type can hold."""
        operands = [
            x.astype(dtype).astype(np.float32) if x is not None and x.dtype == np.float64 else x
            for x in self.operands
        ]
        return replace(self, operands=operands)


def _rng() -> np.random.Generator:
    return np.random.default_rng(37)


def _x(axes: int, channels: int = 6, batch: int = 2) -> np.ndarray:
    return _rng().standard_normal((batch, channels, *_SIZES[:axes]))


def _each(axes: int, *numbers: int) -> list[int]:
    return list(numbers[:axes])


def _conv(kernel: int = 3, groups: int = 1, bias: bool = True, **attributes: Any) -> Any:
    def case(axes: int) -> Mission:
        rng = _rng()
        w = rng.standard_normal((12, 6 // groups, *(kernel,) * axes)) / 8
        found = {name: _of(axes, value) for name, value in attributes.items()}
        operands = [_x(axes), w, *([rng.standard_normal(12)] if bias else [])]
        weights = (1, 2) if bias else (1,)
        return Mission("Conv", operands, {"group": groups, **found}, weights)

    return case


def _of(axes: int, value: Any) -> Any:
    """Take the numbers of the axes that there are; `pads` are pairs."""
    if not isinstance(value, tuple):
        return value
    if len(value) == 6:
        return [*value[:axes], *value[3 : 3 + axes]]
    return list(value[:axes])


def _transposed(kernel: int = 3, groups: int = 1, **attributes: Any) -> Any:
    def case(axes: int) -> Mission:
        rng = _rng()
        w = rng.standard_normal((6, 12 // groups, *(kernel,) * axes)) / 8
        found = {name: _of(axes, value) for name, value in attributes.items()}
        operands = [_x(axes), w, rng.standard_normal(12)]
        return Mission("ConvTranspose", operands, {"group": groups, **found}, (1, 2))

    return case


def _pool(op: str, **attributes: Any) -> Any:
    def case(axes: int) -> Mission:
        found = {name: _of(axes, value) for name, value in attributes.items()}
        return Mission(op, [_x(axes)], {"kernel_shape": [3] * axes, **found})

    return case


def _global(op: str, **attributes: Any) -> Any:
    return lambda axes: Mission(op, [_x(axes)], attributes)


def _resize(factors: Sequence[float], sizes: bool = False, **attributes: Any) -> Any:
    def case(axes: int) -> Mission:
        x = _x(axes)
        scales = np.array([1, 1, *factors[:axes]], np.float32)
        if sizes:
            shape = [int(n * s) for n, s in zip(x.shape, scales, strict=True)]
            return Mission("Resize", [x, None, None, np.array(shape, _I64)], attributes)
        return Mission("Resize", [x, None, scales], attributes)

    return case


def _crop(mode: str) -> Any:
    def case(axes: int) -> Mission:
        roi = np.array([0, 0, *(0.1, -0.2, 0.3)[:axes], 1, 1, *(1.3, 0.8, 0.9)[:axes]], np.float32)
        scales = np.array([1, 1, *(1.7, 0.6, 2.2)[:axes]], np.float32)
        where = {"coordinate_transformation_mode": "tf_crop_and_resize"}
        return Mission("Resize", [_x(axes), roi, scales], {"mode": mode, **where})

    return case


def _kept(policy: str) -> Any:
    def case(axes: int) -> Mission:
        sizes = np.array((11, 12, 15)[:axes], _I64)
        own = {"keep_aspect_ratio_policy": policy, "axes": list(range(2, 2 + axes))}
        return Mission("Resize", [_x(axes), None, None, sizes], {"mode": "linear", **own})

    return case


def _pad(*amounts: int, mode: str = "constant") -> Any:
    def case(axes: int) -> Mission:
        begin, end = amounts[:axes], amounts[3 : 3 + axes]
        pads = np.array([0, 0, *begin, 0, 0, *end], _I64)
        value = [np.array(1.5)] if mode == "constant" else []
        return Mission("Pad", [_x(axes), pads, *value], {"mode": mode})

    return case


def _batch(axes: int) -> Mission:
    rng = _rng()
    numbers = [rng.standard_normal(6) for _ in range(3)]
    return Mission(
        "BatchNormalization", [_x(axes), *numbers, rng.uniform(0.5, 2, 6)], {}, (1, 2, 3, 4)
    )


def _instance(axes: int) -> Mission:
    rng = _rng()
    return Mission(
        "InstanceNormalization", [_x(axes), *(rng.standard_normal(6) for _ in "ab")], {}, (1, 2)
    )


def _group(axes: int) -> Mission:
    rng = _rng()
    operands = [_x(axes), *(rng.standard_normal(6) for _ in "ab")]
    return Mission("GroupNormalization", operands, {"num_groups": 3}, (1, 2))


def _layer(op: str, axis: int = -1, offset: bool = True) -> Any:
    def case(axes: int) -> Mission:
        x, rng = _x(axes), _rng()
        operands = [x, rng.standard_normal(x.shape[axis:])]
        if offset:
            operands.append(rng.standard_normal(x.shape[axis:]))
        return Mission(op, operands, {"axis": axis}, (1, 2) if offset else (1,))

    return case


def _norm(op: str, **attributes: Any) -> Any:
    return lambda axes: Mission(op, [_x(axes)], attributes)


def _variance(axes: int) -> Mission:
    return Mission("MeanVarianceNormalization", [_x(axes)], {"axes": [0, *range(2, 2 + axes)]})


CASES: Mapping[str, Callable[[int], Mission]] = {
    "Conv": _conv(), "Conv pads": _conv(pads=(1, 0, 2, 1, 2, 0), strides=(2, 1, 2)),
    "Conv dilations": _conv(dilations=(2, 1, 2), pads=(1,) * 6), "Conv 1": _conv(1, bias=False),
    "Conv groups": _conv(groups=3, pads=(1,) * 6),
    "Conv depthwise": _conv(groups=6, pads=(1,) * 6),
    "Conv upper": _conv(auto_pad="SAME_UPPER", strides=(2, 2, 2)),
    "Conv lower": _conv(2, auto_pad="SAME_LOWER"), "Conv valid": _conv(auto_pad="VALID"),
    "ConvTranspose": _transposed(), "ConvTranspose strides": _transposed(strides=(2, 3, 2)),
    "ConvTranspose pads": _transposed(strides=(2, 2, 2), pads=(1, 0, 1, 0, 1, 1)),
    "ConvTranspose dilations": _transposed(strides=(3, 2, 1), dilations=(2, 1, 2)),
    "ConvTranspose groups": _transposed(groups=3, strides=(2, 2, 2)),
    "ConvTranspose depthwise": _transposed(groups=6, strides=(2, 2, 2)),
    "ConvTranspose more": _transposed(strides=(2, 3, 2), output_padding=(1, 2, 1)),
    "ConvTranspose same": _transposed(strides=(2, 2, 2), auto_pad="SAME_UPPER"),
    "ConvTranspose shape": _transposed(strides=(2, 2, 2), output_shape=(14, 18, 15)),
    "ConvTranspose exact": _transposed(2, strides=(2, 2, 2)),
    "ConvTranspose far": _transposed(2, strides=(9, 9, 9)),
    **{
        f"{op} {name}": _pool(op, **more, **attributes)
        for op, more in (
            ("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1}),
            ("LpPool", {"p": 2}), ("LpPool", {"p": 3}),
        )
        for name, attributes in {
            "plain" + "".join(f" {k} {v}" for k, v in more.items()): {},
            "pads" + str(more): {"strides": (2, 2, 2), "pads": (1, 0, 1, 1, 1, 0)},
            "dilations" + str(more): {"dilations": (2, 1, 2), "pads": (1,) * 6},
            "ceil" + str(more): {"strides": (2, 2, 2), "ceil_mode": 1},
            "ceil pads" + str(more): {"strides": (2, 3, 2), "ceil_mode": 1, "pads": (1,) * 6},
            "upper" + str(more): {"strides": (2, 2, 2), "auto_pad": "SAME_UPPER"},
            "lower" + str(more): {"auto_pad": "SAME_LOWER"},
            "valid" + str(more): {"auto_pad": "VALID"},
        }.items()
    },
    **{
        op: _global(op, **more)
        for op, more in (
            ("GlobalAveragePool", {}), ("GlobalMaxPool", {}), ("GlobalLpPool", {"p": 2})
        )
    },
    **{
        f"Resize {mode} {where}": _resize(
            (2, 1.5, 3), mode=mode, coordinate_transformation_mode=where
        )
        for mode in ("nearest", "linear", "cubic")
        for where in (
            "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
            "asymmetric",
        )
    },
    "Resize down": _resize((0.5, 0.7, 0.4), mode="linear"),
    "Resize down nearest": _resize((0.5, 0.7, 0.4), mode="nearest", nearest_mode="floor"),
    "Resize antialias": _resize((0.5, 0.7, 0.4), mode="linear", antialias=1),
    "Resize antialias cubic": _resize((0.5, 0.7, 0.4), mode="cubic", antialias=1),
    "Resize sizes": _resize((2, 1.5, 3), sizes=True, mode="linear"),
    "Resize sizes nearest": _resize((2, 1.5, 3), sizes=True, mode="nearest"),
    "Resize crop": _crop("linear"), "Resize crop nearest": _crop("nearest"),
    "Resize not larger": _kept("not_larger"), "Resize not smaller": _kept("not_smaller"),
    "Resize last": _resize((1, 1, 2), mode="linear"),
    "Resize first": _resize((2, 1, 1), mode="linear"),
    **{
        f"Pad {mode} {name}": _pad(*amounts, mode=mode)
        for mode in ("constant", "edge", "reflect", "wrap")
        for name, amounts in {
            "both": (1, 2, 3, 2, 0, 1), "negative": (-1, 2, 0, 1, -2, -1),
            "less": (-1, -2, 0, 0, -1, -2),
        }.items()
    },
    "BatchNormalization": _batch, "InstanceNormalization": _instance, "GroupNormalization": _group,
    "LRN": _norm("LRN", size=3), "LRN 5": _norm("LRN", size=5, alpha=0.01, bias=2.0),
    "LpNormalization": _norm("LpNormalization"),
    "LpNormalization 1": _norm("LpNormalization", p=1, axis=1),
    "MeanVarianceNormalization": _variance,
    "LayerNormalization": _layer("LayerNormalization"),
    "LayerNormalization two": _layer("LayerNormalization", -2, offset=False),
    "RMSNormalization": _layer("RMSNormalization", offset=False),
}  # fmt: skip
"""The cases by name."""
