"""ONNX's own tests of nodes: those whose operators all are ours.

Modules of cases are imported by the tests that run them, not when tests are collected: two of them
compute for a second, which under emulation is half a minute.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as cases
import pytest

from pplconv.network.operators.table import ROWS
from pplconv.network.session import InferenceSession

_NO_TENSOR = "sequences and optionals are no tensors"
_TEXT = "networks compute no text"
_OPSET = "a model of opset 1, older than those that are read"
_LENGTH = "align_corners takes the length of the output, not input length times scale"
# Cases that are not served as ONNX's reference does it, by module, and why. The second reason is
# what the text of Resize says, and what onnxruntime does.
EXCLUDED = {
    "equal": {
        "test_equal_string": _TEXT,
        "test_equal_string_broadcast": _TEXT,
    },
    "identity": {
        "test_identity_sequence": _NO_TENSOR,
        "test_identity_opt": _NO_TENSOR,
    },
    "not_": {
        "test_not_2d": _OPSET,
        "test_not_3d": _OPSET,
        "test_not_4d": _OPSET,
    },
    "resize": {
        "test_resize_downsample_scales_linear_align_corners": _LENGTH,
        "test_resize_downsample_scales_cubic_align_corners": _LENGTH,
    },
}
OURS = {op for op, row in ROWS.items() if row.loops or row.expression} | {"QLinearConv"}
# Operators of ONNX that are functions of ours.
FUNCTIONS = {"reducel1", "reducelogsum", "swiglu"}


def operators_of(model: onnx.ModelProto) -> set[str]:
    """Operators of a model, with their domains."""
    return {f"{node.domain}::{node.op_type}".removeprefix("::") for node in model.graph.node}


def modules() -> list[str]:
    """Modules of cases of our operators."""
    wanted = FUNCTIONS | {name.lower() for name in OURS}
    found = (module.name for module in pkgutil.iter_modules(cases.__path__))
    return [name for name in found if name.replace("_", "") in wanted]


@cache
def cases_of(module: str) -> dict[str, Any]:
    """Cases of a module by name, those of our operators."""
    before = len(cases._NodeTestCases)
    with warnings.catch_warnings():
        # They compute what overflows, on purpose.
        warnings.simplefilter("ignore")
        importlib.import_module(f"{cases.__name__}.{module}")
    found = {
        case.name: case
        for case in cases._NodeTestCases[before:]
        if operators_of(case.model) <= OURS and in_numpy(case)
    }
    # Nobody else may have imported the module: its import is what lists its cases.
    assert found, module
    return found


def array_of(x: Any) -> Any:
    """An operand or a result; some cases have them as they are stored."""
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def in_numpy(case: Any) -> bool:
    """Whether NumPy has the types of all arrays: not of 4 bits, and not of floating point of 8."""
    stored = [
        array_of(x) for data in case.data_sets for part in data for x in part
        if isinstance(x, onnx.TensorProto)
    ]  # fmt: skip
    return all(array.dtype.isbuiltin == 1 and array.dtype.kind != "O" for array in stored)


def with_scales(
    model: onnx.ModelProto, feed: dict[str, Any]
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model whose scales, zero points and weights are constants, which have to be, and its rest.

    What is quantized, or to be, stays an input: the first operand, and both of MatMuls.
    """
    (node, *_) = model.graph.node
    if "quantize" not in node.op_type.lower() and not node.op_type.startswith("QLinear"):
        return model, feed
    operands = {node.input[0]}
    if node.op_type == "QLinearMatMul":
        operands.add(node.input[3])
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    del fixed.graph.input[:]
    fixed.graph.input.extend(i for i in model.graph.input if i.name in operands)
    for name, array in feed.items():
        if name not in operands:
            fixed.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return fixed, {name: array for name, array in feed.items() if name in operands}


def compare(case: Any) -> None:
    """Run a case and compare its outputs."""
    names = [value.name for value in case.model.graph.input]
    for inputs, expected in case.data_sets:
        given = dict(zip(names, map(array_of, inputs), strict=True))
        model, feed = with_scales(case.model, given)
        session = InferenceSession(model, threads=1)
        outputs = session.run(None, feed)
        for x, y in zip(outputs, map(array_of, expected), strict=True):
            assert x.shape == y.shape and x.dtype == y.dtype
            np.testing.assert_allclose(x, y, rtol=case.rtol, atol=case.atol)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("module", modules())
def test_nodes(module):
    failed = []
    for name, case in cases_of(module).items():
        if name in EXCLUDED.get(module, {}):
            continue
        try:
            compare(case)
        except Exception as error:
            failed.append((name, error))
    if failed:
        raise AssertionError(f"of {module}: {failed}") from failed[0][1]


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in EXCLUDED.items() for name in names]
)
def test_what_is_left_out_would_fail(module, name):
    """The list stays as short as it can be."""
    with pytest.raises((AssertionError, ValueError)):
        compare(cases_of(module)[name])


@pytest.mark.unemulated("counts cases, of which each module's test has some")
def test_there_are_enough():
    left_out = sum(map(len, EXCLUDED.values()))
    assert sum(len(cases_of(module)) for module in modules()) - left_out >= 450
