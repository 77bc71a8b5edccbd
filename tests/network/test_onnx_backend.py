"""ONNX's own tests of nodes, all of them; those left out are named, with the reason.

Modules of cases are imported by the tests that run them, not when tests are collected: two of them
compute for a second, which under emulation is half a minute.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as cases
import pytest
from onnx import numpy_helper

from pplconv.network.operators.table import ROWS
from pplconv.network.session import InferenceSession

_LENGTH = "align_corners takes the length of the output, not input length times scale"
_WIDE = "bfloat16 is computed in float32, and rounded at the outputs"
_TRAINING = "training"
_RANDOM = "random"
_COMPUTED = "a computed scale of a QuantizeLinear that is not DynamicQuantizeLinear's"
# Cases that are not served as ONNX's reference does it, by module and pattern, and why. The first
# reason is what the text of Resize says, and what onnxruntime does.
EXCLUDED: dict[str, dict[str, str]] = {
    "adagrad": {"*": _TRAINING},
    "adam": {"*": _TRAINING},
    "affinegrid": {
        "test_affine_grid_2d*_expanded": "a Range of lists of one, where it takes scalars",
    },
    "attention": {"test_attention_*_bf16*": _WIDE},
    "bernoulli": {"*": _RANDOM},
    "dropout": {"test_training_dropout*": _TRAINING},
    "dynamicquantizelinear": {"*_expanded": _COMPUTED},
    "flexattention": {"*": "a preview; where they are spelled out, they run"},
    "momentum": {"*": _TRAINING},
    "not_": {"*": "models of opset 1, older than those that are read"},
    "resize": {"test_resize_downsample_scales_*_align_corners": _LENGTH},
    "scan": {"test_scan_sum": "a Scan of opset 8 scans a batch"},
}
# Those of the patterns that are served nevertheless: what a reason is about does not show there.
SERVED = {
    "test_training_dropout_zero_ratio", "test_training_dropout_zero_ratio_mask",
}  # fmt: skip
# Operators that real models need, each with cases under its name.
NEEDED = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
    BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil
    Celu Clip Col2Im Compress Concat Constant ConstantOfShape Conv ConvInteger ConvTranspose Cos
    Cosh CumSum DFT DeformConv DepthToSpace DequantizeLinear Div Dropout DynamicQuantizeLinear
    Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND
    Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample
    GroupNormalization HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf
    IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop
    LpNormalization LpPool MatMul MatMulInteger Max MaxPool MaxUnpool Mean
    MeanVarianceNormalization MelWeightMatrix Min Mish Mod Mul Neg NonMaxSuppression NonZero
    OneHot Optional OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear
    RMSNormalization RNN Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
    ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare RegexFullMatch Relu
    Reshape Resize ReverseSequence RoiAlign RotaryEmbedding Round STFT Scan Scatter
    ScatterElements ScatterND Selu SequenceInsert SequenceMap Shape Shrink Sigmoid Sign Sin Sinh
    Size Slice Softmax Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze
    StringConcat StringNormalizer StringSplit Sub Sum Swish Tan Tanh TensorScatter
    ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Upsample Where Xor
"""


def modules() -> list[str]:
    """Modules of cases."""
    return [module.name for module in pkgutil.iter_modules(cases.__path__)]


@cache
def cases_of(module: str) -> dict[str, Any]:
    """Cases of a module by name."""
    before = len(cases._NodeTestCases)
    with warnings.catch_warnings():
        # They compute what overflows, on purpose.
        warnings.simplefilter("ignore")
        importlib.import_module(f"{cases.__name__}.{module}")
    # Nobody else may have imported the module: its import is what lists its cases.
    return {case.name: case for case in cases._NodeTestCases[before:]}


def is_left_out(module: str, name: str) -> bool:
    """Whether a case matches a pattern of those that are left out."""
    patterns = EXCLUDED.get(module, {})
    served = name in SERVED or (module == "flexattention" and "_expanded" in name)
    return not served and any(fnmatch(name, pattern) for pattern in patterns)


def item_of(x: Any) -> Any:
    """An operand or a result; some cases have them as they are stored."""
    if isinstance(x, onnx.TensorProto):
        return numpy_helper.to_array(x)
    if isinstance(x, onnx.SequenceProto):
        return numpy_helper.to_list(x)
    return numpy_helper.to_optional(x) if isinstance(x, onnx.OptionalProto) else x


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
            fixed.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    return fixed, {name: array for name, array in feed.items() if name in operands}


def check(case: Any, got: Any, want: Any) -> None:
    """Compare an output: an array, a sequence, or an optional."""
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want)
        for x, y in zip(got, want, strict=True):
            check(case, x, y)
        return
    if want is None:
        assert got is None
        return
    want = np.asarray(want)
    assert got.shape == want.shape
    if want.dtype.kind in "OU":
        assert got.tolist() == want.tolist()
        return
    assert got.dtype == want.dtype
    if want.dtype.isbuiltin != 1:
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    else:
        np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.atol)


def compare(case: Any) -> None:
    """Run a case and compare its outputs."""
    names = [value.name for value in case.model.graph.input]
    for inputs, expected in case.data_sets:
        given = dict(zip(names, map(item_of, inputs), strict=True))
        model, feed = with_scales(case.model, given)
        session = InferenceSession(model, threads=1, fallback="silent")
        outputs = session.run(None, feed)
        for x, y in zip(outputs, map(item_of, expected), strict=True):
            check(case, x, y)


@pytest.mark.sampled(11)
@pytest.mark.parametrize("module", modules())
def test_nodes(module):
    failed = []
    for name, case in cases_of(module).items():
        if is_left_out(module, name):
            continue
        try:
            compare(case)
        except Exception as error:
            failed.append((name, error))
    if failed:
        raise AssertionError(f"of {module}: {failed}") from failed[0][1]


@pytest.mark.parametrize("module", EXCLUDED)
def test_what_is_left_out_would_fail(module):
    """The list stays as short as it can be."""
    for pattern, reason in EXCLUDED[module].items():
        names = [name for name in cases_of(module) if fnmatch(name, pattern)]
        assert names, pattern
        # A draw of ten numbers is the expected one in one case of 200; twenty of them never are.
        draws = 20 if reason == _RANDOM else 1
        for name in names:
            if is_left_out(module, name):
                with pytest.raises((AssertionError, ValueError)):
                    for _ in range(draws):
                        compare(cases_of(module)[name])


def those_that_run() -> Iterator[tuple[str, set[str]]]:
    """Yield the cases that run, and the operators of each."""
    for module in modules():
        for name, case in cases_of(module).items():
            if not is_left_out(module, name):
                yield name, {node.op_type for node in case.model.graph.node}


@pytest.mark.unemulated("looks at all cases, which each module's test runs")
def test_needed_operators_have_cases():
    found = dict(those_that_run())
    operators = set().union(*found.values())
    rows = {op for op in ROWS if "." not in op}
    # ONNX has no case of these under their own name.
    without = {
        "GlobalLpPool", "OptionalGetElement", "SequenceAt", "SequenceConstruct", "SequenceEmpty",
        "SequenceErase", "SequenceLength", "ConcatFromSequence", "Optional",
    }  # fmt: skip
    assert operators >= ({*NEEDED.split()} | rows) - without
    assert len(found) >= 1800
