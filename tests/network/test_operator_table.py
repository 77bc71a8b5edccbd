"""The table of operators: complete rows, names and operands of the standard, and what docs say."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import onnx
import pytest

from pplconv.network.operators import families, movement
from pplconv.network.operators.batch_rules import images
from pplconv.network.operators.table import ROWS
from pplconv.network.operators.table_row import (
    Format,
    Layout,
    Loops,
    Moves,
    Python,
    Row,
    View,
    always,
)  # fmt: skip
from pplconv.network.opsets import OPSET
from pplconv.network.session import InferenceSession
from tests.documents import section, tables
from tests.network.drawing_cases import Case
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host

NETWORKS = Path(__file__).parents[2] / "docs" / "networks.md"
STANDARD = sorted(op for op in ROWS if "." not in op)
FIELDS = [field.name for field in dataclasses.fields(Row)]


@pytest.mark.parametrize("left_out", FIELDS)
def test_a_row_that_does_not_say_cannot_be_made(left_out):
    said = {name: getattr(ROWS["Relu"], name) for name in FIELDS if name != left_out}
    with pytest.raises(TypeError, match=left_out):
        Row(**said)


@pytest.mark.parametrize("left_out", ["batches", "format", "layout", "moves", "shapes"])
def test_loops_take_nothing_for_granted(left_out):
    said = {
        "batches": images(), "format": Format.SINGLE, "layout": Layout.ANY,
        "moves": Moves.NOTHING, "shapes": (),
    }  # fmt: skip
    loops = Loops(movement.lower_view, always)
    assert families.looped(loops, **said).view is View.NO
    del said[left_out]
    with pytest.raises(TypeError, match=left_out):
        families.looped(loops, **said)


@pytest.mark.parametrize("op", STANDARD)
def test_rows_are_of_the_standard(op):
    """Names are ONNX's, and operands that shapes follow from are no arrays of pixels."""
    schema = onnx.defs.get_schema(op, OPSET)
    allowed = {"tensor(int64)", "tensor(float)", "tensor(int32)"}
    for operand in ROWS[op].shapes:
        assert operand < len(schema.inputs)
        assert allowed & set(schema.inputs[operand].types)
    if ROWS[op].moves is Moves.ALL:
        assert schema.inputs[0].option == onnx.defs.OpSchema.FormalParameterOption.Variadic


def test_operands_that_shapes_follow_from_are_named():
    """Where the standard says `shape`, `axes`, `repeats`, `split` or the like, the row has it."""
    words = {"shape", "axes", "repeats", "split", "starts", "ends", "steps", "sizes", "pads", "K"}
    # Axes of sums that shapes do not depend on, keys, and sizes of what is cut out; sizes of
    # elements of a sequence.
    others = {"Attention": set(), "CumSum": set(), "Pad": {1, 3}, "SplitToSequence": set()}
    for op in STANDARD:
        schema = onnx.defs.get_schema(op, OPSET)
        wanted = {i for i, operand in enumerate(schema.inputs) if operand.name in words}
        assert set(ROWS[op].shapes) >= others.get(op, wanted), op


def by_whom(op: str) -> str:
    """Who computes an operator, as `docs/networks.md` has it."""
    row = ROWS[op]
    if row.expression is not None:
        return "instructions"
    if row.loops is not None:
        return "loops"
    if row.decomposition is not None:
        return "other operators"
    return "ONNX's reference" if row.python is Python.REFERENCE else "NumPy"


def test_the_documentation_lists_all_operators():
    by_computer, _ = tables(section(NETWORKS, "operators"))
    said = {name: set(operators.split(", ")) for name, operators in by_computer[1:]}
    want: dict[str, set[str]] = {}
    for op in STANDARD:
        want.setdefault(by_whom(op), set()).add(op)
    assert said == want


def local_response(x: np.ndarray, size: int, alpha: float, beta: float, bias: float) -> np.ndarray:
    """LRN by its text, in double precision."""
    wide = x.astype(np.float64)
    y = np.empty_like(wide)
    for c in range(x.shape[1]):
        first, last = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + size // 2)
        sums = np.square(wide[:, first : last + 1]).sum(1)
        y[:, c] = wide[:, c] / (bias + alpha / size * sums) ** beta
    return y


@pytest.mark.parametrize("shape", [(2, 7, 5, 3), (1, 4, 9), (3, 1, 2, 2), (2, 5)])
@pytest.mark.parametrize("size", [1, 3, 5, 13])
@pytest.mark.parametrize(
    ("dtype", "allowed"), [(np.float32, 1e-6), (np.float64, 1e-14), (np.float16, 1e-3)]
)
def test_local_response_normalization_runs_in_loops(shape, size, dtype, allowed, rng):
    """Squares beyond float16 are no infinities. Attributes are float32: these are exact."""
    x = (rng.standard_normal(shape) * 300).astype(dtype)
    given = {"size": size, "alpha": 0.25, "beta": 0.625, "bias": 1.5}
    case = Case([x], given, opset=13)
    session = InferenceSession(case.model("LRN"), threads=1)
    (y,) = session.run(None, case.feed())
    assert y.dtype == dtype and not on_host(session)
    np.testing.assert_allclose(y, local_response(x, **given), rtol=allowed, atol=allowed)


@needs_onnxruntime
@pytest.mark.parametrize(
    ("op", "dtype", "more"),
    [
        *(
            ("DepthToSpace", dtype, {"mode": mode})
            for dtype in (np.uint8, np.int32, np.int64) for mode in ("DCR", "CRD")
        ),
        ("SpaceToDepth", np.int8, {}),
    ],
)  # fmt: skip
def test_blocks_of_integers(op, dtype, more, rng):
    """They are reshaped and transposed; onnxruntime has no integers of 32 bits here."""
    shape = (2, 24, 3, 5) if op == "DepthToSpace" else (2, 3, 6, 10)
    x = rng.integers(-100 if dtype == np.int8 else 0, 100, shape).astype(dtype)
    case = Case([x], {"blocksize": 2, **more}, opset=13)
    session = InferenceSession(case.model(op), threads=1)
    (y,) = session.run(None, case.feed())
    case.inputs = [x.astype(np.float32)]
    (want,) = by_onnxruntime(case.model(op), case.feed())
    np.testing.assert_array_equal(y, want.astype(dtype))
    assert y.dtype == dtype and op not in on_host(session)
