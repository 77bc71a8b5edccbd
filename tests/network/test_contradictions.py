"""Attributes that contradict operands are refused by name, before anything is computed of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from pplconv.network.session import InferenceSession
from tests.network.models import model_of
from tests.network.running import agree, by_onnxruntime, needs_onnxruntime

F32, U8 = np.float32, np.uint8


class One:
    """A model of one node: its operands in order, which are constants, computed or inputs."""

    def __init__(self, op: str, *operands: Any, opset: int = 17, outputs: int = 1, **attributes):
        self.op, self.operands, self.opset = op, list(operands), opset
        self.outputs, self.attributes = outputs, attributes

    def but(self, *operands: tuple[int, Any], **attributes: Any) -> One:
        """The same with some operands and attributes changed; None leaves an attribute out."""
        kept = {**self.attributes, **attributes}
        changed = {name: value for name, value in kept.items() if value is not None}
        other = One(self.op, *self.operands, opset=self.opset, outputs=self.outputs, **changed)
        for place, value in operands:
            other.operands[place] = value
        return other

    def model(self, kind: str = "constant") -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
        """The first operand is an input; the others are as `kind` says."""
        arrays = {f"x{i}": np.asarray(a) for i, a in enumerate(self.operands) if a is not None}
        names = [f"x{i}" if a is not None else "" for i, a in enumerate(self.operands)]
        outputs = [f"y{i}" for i in range(self.outputs)]
        fed = list(arrays) if kind == "input" else ["x0"]
        nodes = [helper.make_node(self.op, names, outputs, "wrong", **self.attributes)]
        weights = {name: array for name, array in arrays.items() if name not in fed}
        if kind == "computed":
            # Transposed on the way, so that shapes are known after inference alone.
            for name, array in list(weights.items()):
                if array.dtype == F32 and array.ndim > 1:
                    weights[f"{name}_t"] = weights.pop(name).T
                    nodes.insert(0, helper.make_node("Mul", [f"{name}_t", "one"], [f"{name}_m"]))
                    nodes.insert(1, helper.make_node("Transpose", [f"{name}_m"], [name]))
        feed = {name: arrays[name] for name in fed}
        if kind == "computed":
            feed["one"] = np.ones(1, F32)
        weights = {name: np.ascontiguousarray(array) for name, array in weights.items()}
        return model_of(nodes, feed, weights, dict.fromkeys(outputs), opset=self.opset), feed


_rng = np.random.default_rng(34)


def f(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape).astype(F32)


def u(*shape: int) -> np.ndarray:
    return _rng.integers(0, 9, shape).astype(U8)


def conv(axes: int, groups: int = 1) -> One:
    size, kernel = (6, 7, 5)[:axes], (3, 2, 2)[:axes]
    w = f(4 * groups, 2, *kernel)
    return One(
        "Conv", f(1, 2 * groups, *size), w, f(4 * groups), group=groups, kernel_shape=kernel,
        strides=[1] * axes, dilations=[1] * axes, pads=[1] * 2 * axes,
    )  # fmt: skip


def transposed(axes: int, groups: int = 1) -> One:
    size, kernel = (6, 7, 5)[:axes], (3, 2, 2)[:axes]
    return One(
        "ConvTranspose", f(1, 2 * groups, *size), f(2 * groups, 4, *kernel), f(4 * groups),
        group=groups, kernel_shape=kernel, strides=[2] * axes, dilations=[1] * axes,
        pads=[1] * 2 * axes, output_padding=[1] * axes,
    )  # fmt: skip


QCONV = One(
    "QLinearConv", u(1, 4, 6, 7), F32(0.5), U8(3), u(4, 2, 3, 2), f(4) ** 2 + F32(0.1),
    np.full(4, 2, U8), F32(0.5), U8(1), np.arange(4, dtype=np.int32),
    group=2, kernel_shape=[3, 2], strides=[1, 1], pads=[1] * 4,
)  # fmt: skip
ICONV = One(
    "ConvInteger", u(1, 4, 6, 7), u(4, 2, 3, 2), U8(3), U8(2),
    group=2, kernel_shape=[3, 2], pads=[1] * 4,
)  # fmt: skip


def recurrent(op: str, gates: int) -> One:
    return One(
        op, f(5, 2, 3), f(1, gates * 4, 3), f(1, gates * 4, 4), f(1, 2 * gates * 4),
        hidden_size=4, outputs=2,
    )  # fmt: skip


def changes_of_convolutions(base: One, axes: int, transposed: bool) -> dict[str, One]:
    weights, ones = base.operands[1], [1] * axes
    found = {
        "kernel_shape": base.but(kernel_shape=ones),
        "kernel_shape ": base.but(kernel_shape=[5] * axes),
        "kernel_shape  ": base.but(kernel_shape=[1] * (axes + 1)),
        "strides": base.but(strides=[1] * (axes + 1)),
        "strides ": base.but(strides=[0] * axes),
        "dilations": base.but(dilations=[-1] * axes),
        "pads": base.but(pads=[1] * axes),
        "pads ": base.but(pads=[-1] * 2 * axes),
        "auto_pad": base.but(auto_pad="SAME_UPPER"),
        "group": base.but(group=0),
        "group ": base.but(group=-1),
        "group  ": base.but(group=7),
        "bias": base.but((2, f(3))),
        "bias ": base.but((2, base.operands[2][None])),
        "weights": base.but((1, weights[:, :, None])),
        **({} if transposed else {"smaller than the kernel": base.but(dilations=[9] * axes)}),
        "weights ": base.but((1, np.concatenate([weights, weights[:1]]))),
    }
    if transposed:
        found |= {
            "output_padding": base.but(output_padding=[2] * axes),
            "output_padding ": base.but(output_padding=[0] * (axes + 1)),
            "output_shape": base.but(output_shape=[0] * axes),
            "output_shape ": base.but(output_shape=[9] * (axes + 1)),
            "output_shape  ": base.but(output_shape=[1, 99, *[9] * axes]),
        }
    return found


def wrong() -> dict[str, One]:
    """Nodes that contradict themselves, by operator, with words of the message."""
    found: dict[str, One] = {}
    for axes in (1, 2, 3):
        for groups in (1, 2):
            for make in (conv, transposed):
                base = make(axes, groups)
                changed = changes_of_convolutions(base, axes, make is transposed)
                found |= {f"{base.op} {axes} {groups}: {k}": v for k, v in changed.items()}
    norm = [f(4) for _ in range(4)]
    pool = One("MaxPool", f(1, 2, 6, 7), kernel_shape=[3, 2], strides=[1, 1], pads=[0] * 4)
    layer = One("LayerNormalization", f(2, 3, 4), f(3, 4), f(3, 4), axis=1)
    split = One("Split", f(6, 4), np.array([2, 4]), outputs=2, axis=0)
    quantize = One("QuantizeLinear", f(2, 3, 4), f(3) ** 2 + 1, np.zeros(3, U8), axis=1)
    gemm = One("Gemm", f(3, 4), f(4, 5), f(5), transA=0, transB=0)
    product = One(
        "QLinearMatMul", u(3, 4), F32(0.5), U8(1), u(4, 5), f(5) ** 2 + F32(0.1), np.ones(5, U8),
        F32(0.5), U8(3),
    )  # fmt: skip
    cases: dict[str, list[tuple[str, One]]] = {
        "QLinearConv": [
            ("kernel_shape", QCONV.but(kernel_shape=[1, 1])),
            ("group", QCONV.but(group=3)),
            ("strides", QCONV.but(strides=[1])),
            ("smaller than the kernel", QCONV.but(dilations=[1, 9])),
            ("'x4' has the shape", QCONV.but((4, f(3) ** 2))),
            ("'x5' has the shape", QCONV.but((5, np.zeros(3, U8)))),
            ("'x6' has the shape", QCONV.but((6, np.ones(4, F32)))),
            ("bias", QCONV.but((8, np.zeros(3, np.int32)))),
        ],
        "ConvInteger": [
            ("kernel_shape", ICONV.but(kernel_shape=[1, 1])),
            ("kernel_shape", ICONV.but(kernel_shape=[5, 5])),
            ("group", ICONV.but(group=0)),
            ("smaller than the kernel", ICONV.but(dilations=[9, 1])),
            ("'x2' has the shape", ICONV.but((2, np.zeros(4, U8)))),
            ("'x3' has the shape", ICONV.but((3, np.zeros(3, U8)))),
        ],
        "MaxPool": [
            ("kernel_shape", pool.but(kernel_shape=[3])),
            ("kernel_shape", pool.but(kernel_shape=[3, 0])),
            ("strides", pool.but(strides=[1, 1, 1])),
            ("strides", pool.but(strides=[0, 1])),
            ("pads", pool.but(pads=[0, 0])),
            ("pads", pool.but(pads=[0, -1, 0, 0])),
            ("dilations", pool.but(dilations=[1])),
            ("auto_pad", pool.but(auto_pad="SAME", pads=None)),
            ("ceil_mode", pool.but(ceil_mode=2)),
        ],
        "BatchNormalization": [
            (f"'x{i}' has the shape", One("BatchNormalization", f(2, 4, 3), *norm).but((i, f(3))))
            for i in (1, 2, 3, 4)
        ],
        "InstanceNormalization": [
            ("'x1' has the shape", One("InstanceNormalization", f(2, 4, 3), f(3), f(4))),
            ("'x2' has the shape", One("InstanceNormalization", f(2, 4, 3), f(4), f(4, 1))),
        ],
        "GroupNormalization": [
            ("num_groups", One("GroupNormalization", f(2, 4, 3), f(4), f(4), opset=21, **how))
            for how in ({"num_groups": 0}, {"num_groups": 3})
        ],
        "LayerNormalization": [
            ("axis", layer.but(axis=3)), ("axis", layer.but(axis=-4)),
            ("scale", layer.but((1, f(2, 4)))), ("bias", layer.but((2, f(3, 3)))),
        ],
        "RMSNormalization": [
            ("axis", One("RMSNormalization", f(2, 3, 4), f(4), opset=23, axis=3)),
            ("scale", One("RMSNormalization", f(2, 3, 4), f(3), opset=23)),
        ],
        "Split": [
            ("axis", split.but(axis=2)), ("split", split.but((1, np.array([2, 3])))),
            ("split", split.but((1, np.array([2, 2, 2])))),
            ("split", split.but((1, np.array([7, -1])))),
            ("num_outputs", One("Split", f(6, 4), outputs=2, opset=18, num_outputs=3)),
        ],
        "QuantizeLinear": [
            ("axis", quantize.but(axis=3)), ("scales", quantize.but(axis=2)),
            ("zero points", quantize.but((2, np.zeros(2, U8)))),
        ],
        "Gemm": [
            ("transA", gemm.but(transA=1)), ("transA", gemm.but(transA=2)),
            ("transB", gemm.but(transB=1)),
            ("third operand", gemm.but((2, f(4)))), ("second operand", gemm.but((1, f(4, 5, 1)))),
        ],
        "QLinearMatMul": [
            ("'x1' has the shape", product.but((1, np.ones(3, F32)))),
            ("'x4' has the shape", product.but((4, np.ones(4, F32)))),
            ("operands", product.but((3, u(5, 5)))),
        ],
        "Transpose": [
            ("perm", One("Transpose", f(2, 3, 4), perm=perm))
            for perm in ([0, 1], [0, 1, 1], [0, 1, 3], [-1, 0, 1])
        ],
        "Slice": [
            ("starts, ends", One("Slice", f(4, 5), np.array([0]), np.array([1, 2]))),
            ("'x1' has the shape", One("Slice", f(4, 5), np.array([[0]]), np.array([[1]]))),
        ],
        "DepthToSpace": [
            ("blocksize", One("DepthToSpace", f(1, 8, 4, 6), blocksize=n)) for n in (0, -2, 3)
        ],
        "SpaceToDepth": [("blocksize", One("SpaceToDepth", f(1, 2, 4, 6), blocksize=4))],
        "Pad": [("pads", One("Pad", f(2, 3), np.array([0, 1, 1])))],
        "Clip": [("max", One("Clip", f(3), F32(0), np.ones(3, F32)))],
        "ConstantOfShape": [("'x0' has the shape", One("ConstantOfShape", np.array([[2, 3]])))],
        "CumSum": [
            ("reverse", One("CumSum", f(2, 3), np.array(0), reverse=-1)),
            *[("axis", One("CumSum", f(2, 3), np.array(at)))
              for at in (2, -3, [5], [0, 1], [[1]], np.zeros(0, np.int64))],
            ("axis", One("CumSum", f(), np.array(0))),
        ],
        "PRelu": [("slope", One("PRelu", f(2, 3), f(4)))],
        "LRN": [("size", One("LRN", f(1, 4, 2, 2), size=n)) for n in (0, -3, 2)],
        "LpNormalization": [("p is", One("LpNormalization", f(2, 3), p=n)) for n in (0, -1, 3)],
        "OneHot": [("axis", One("OneHot", np.array([[0]]), np.array(3), f(2), axis=3))],
    }  # fmt: skip
    for flag in ("keepdims", "noop_with_empty_axes"):
        cases[f"ReduceSum {flag}"] = [(flag, One("ReduceSum", f(2, 3), **{flag: 2}))]
    for op in (
        "ArgMax", "Gather", "GatherElements", "LogSoftmax", "ScatterElements", "Softmax", "TopK",
    ):  # fmt: skip
        index = np.zeros((2, 3), np.int64)
        operands = {
            "Gather": [np.array([0])], "GatherElements": [index],
            "ScatterElements": [index, f(2, 3)], "TopK": [np.array([1])],
        }  # fmt: skip
        more = operands.get(op, [])
        outputs = 2 if op == "TopK" else 1
        cases[op] = [("axis", One(op, f(2, 3), *more, axis=n, outputs=outputs)) for n in (2, -3)]
    for op in ("Expand", "Reshape", "Squeeze", "Tile", "ReduceSum", "ReduceMean"):
        cases[op] = [("'x1' has the shape", One(op, f(1, 1), np.array([[0]]), opset=18))]
    for op, gates in (("GRU", 3), ("LSTM", 4), ("RNN", 1)):
        base = recurrent(op, gates)
        cases[op] = [
            ("hidden_size", base.but(hidden_size=5)), ("direction", base.but(direction="up")),
            ("layout", base.but(layout=2)), ("bias", base.but((3, f(1, 3)))),
            ("input weights", base.but((1, f(1, gates * 4, 2)))),
            ("recurrent weights", base.but((2, f(1, gates * 4 + 1, 4)))),
            ("recurrent weights", base.but(direction="bidirectional")),
        ]  # fmt: skip
    for op, listed in cases.items():
        found |= {f"{op} {i}: {word}": case for i, (word, case) in enumerate(listed)}
    return found


WRONG = wrong()


def refusal(case: One, kind: str) -> str:
    model, feed = case.model(kind)
    with pytest.raises(ValueError) as caught:
        InferenceSession(model, threads=1, fallback="silent").run(None, feed)
    return str(caught.value)


@pytest.mark.sampled(148)
@pytest.mark.parametrize("name", WRONG)
def test_refused(name: str) -> None:
    case, word = WRONG[name], name.partition(": ")[2].strip()
    said = refusal(case, "constant")
    assert "'wrong'" in said and word in said


@pytest.mark.sampled(139)
@pytest.mark.parametrize("kind", ["computed", "input"])
@pytest.mark.parametrize(
    "name", [name for name in WRONG if name.split()[0] in ("Conv", "ConvTranspose", "GRU", "Gemm")]
)
def test_refused_of_operands_that_are_known_later(name: str, kind: str) -> None:
    assert "'wrong'" in refusal(WRONG[name], kind)


@pytest.mark.parametrize("axis", [2, -3, [5], [0, 1]])
def test_an_axis_of_each_run_that_is_not_there(axis: int | list[int]) -> None:
    model, feed = One("CumSum", f(2, 3), np.array(axis)).model("input")
    with pytest.raises(ValueError, match=r"CumSum.*axis"):
        InferenceSession(model, threads=1).run(None, feed)


def right() -> dict[str, One]:
    """Nodes that look odd and are taken, by onnxruntime too."""
    found = {f"{make.__name__} {axes} {groups}": make(axes, groups)
             for make in (conv, transposed) for axes in (1, 2, 3) for groups in (1, 2)}  # fmt: skip
    layer = One("LayerNormalization", f(2, 3, 4), f(4), axis=-1)
    # With `auto_pad` a pool ignores pads.
    found |= {
        f"{op} {auto} {pads}": One(
            op, f(1, 2, 6, 7), kernel_shape=[3, 2], strides=[2, 1], auto_pad=auto, pads=pads
        )
        for op in ("AveragePool", "LpPool", "MaxPool")
        for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")
        for pads in ([0] * 4, [2, 0, 1, 1])
    }  # fmt: skip
    for op in ("AveragePool", "LpPool", "MaxPool"):
        pool = One(op, f(1, 2, 7), kernel_shape=[3], strides=[2], opset=22)
        # Windows that do not fit.
        found[f"{op} of nothing"] = pool.but(kernel_shape=[9], ceil_mode=1)
        found[f"{op} of one part"] = pool.but(kernel_shape=[8], ceil_mode=1)
    return found | {
        "no kernel_shape": conv(2, 2).but(kernel_shape=None),
        "QLinearConv": QCONV,
        "ConvInteger": ICONV,
        "one scale": QCONV.but((4, np.ones(1, F32)), (5, np.full(1, 2, U8))),
        "an axis of one scale": One(
            "QuantizeLinear", f(2, 3), F32(0.5), U8(3), axis=7, opset=13
        ),
        "a scale of all axes": layer.but((1, f(2, 3, 4))),
        "one scale of a layer": layer.but((1, f(1))),
        "a bound of one element": One("Clip", f(3, 3), np.zeros(1, F32), np.ones(1, F32)),
        "Flatten behind the last axis": One("Flatten", f(2, 3), axis=2),
        "one axis": One("Unsqueeze", f(2, 3), np.array(0)),
        **{f"CumSum {at}": One("CumSum", f(2, 3), np.array(at)) for at in (1, -2, [-1])},
        "a column": One("Gemm", f(3, 4), f(4, 5), f(3, 1)),
        "recurrent": recurrent("GRU", 3).but(linear_before_reset=1),
    }  # fmt: skip


RIGHT: dict[str, One] = right()


@needs_onnxruntime
@pytest.mark.parametrize("kind", ["constant", "computed"])
@pytest.mark.parametrize("name", RIGHT)
def test_taken(name: str, kind: str) -> None:
    model, feed = RIGHT[name].model(kind)
    got = InferenceSession(model, threads=1, fallback="silent").run(None, feed)
    agree(got, by_onnxruntime(model, feed))
