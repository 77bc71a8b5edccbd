"""The warning names each operator that ONNX's reference computes; others run without it."""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import pytest
from onnx import parser

from pplconv.network.operators.table import ROWS
from pplconv.network.refusals import check_operators
from pplconv.network.session import InferenceSession
from tests.network.running import by_onnxruntime, needs_onnxruntime

HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
X = np.float32([[0, 1, -1, 3e38, -2.5], [np.inf, -np.inf, np.nan, 0.5, -0.0]])
FREE = "float[n, 5] x"
# Behind a NonZero, sizes depend on data: nothing is folded there.
MODELS = {
    "softsign": f"g ({FREE}) => (float[] y) {{ y = Softsign(x) }}",
    "softsign of float16": """g (float[n, 5] x) => (float16[] y) {
        h = Cast<to=10>(x)
        y = Softsign(h) }""",
    "shape and size": f"g ({FREE}) => (int64[] y, int64 s) {{ y = Shape(x)\n s = Size(x) }}",
    "parts of a shape": f"""g ({FREE}) => (int64[] y, int64 s, int64[] last, int64[] none) {{
        k = NonZero(x)
        y = Shape(k)
        s = Size(k)
        last = Shape<start = -1, end = 9>(k)
        none = Shape<start = 2>(k) }}""",
    "dropout": f"g ({FREE}) => (float[] y, bool[] m) {{ y, m = Dropout(x) }}",
    "dropout that is told": f"""g ({FREE}, bool t) => (float[] y, bool[] m) <float r = {{0.5}}> {{
        y, m = Dropout(x, r, t) }}""",
    "constants": f"""g ({FREE}) => (float[] a, int64[] b, float c) {{
        a = Constant<value_floats = [1.5, 2.5]>()
        b = Constant<value_ints = [3, 4, 5]>()
        c = Constant<value_float = 2.0>() }}""",
}


def model(name: str) -> bytes:
    return bytes(parser.parse_model(HEAD + MODELS[name]).SerializeToString())


@needs_onnxruntime
@pytest.mark.parametrize("name", MODELS)
def test_run_without_the_reference(name):
    # Numbers that float16 has: onnxruntime leaves the Cast out.
    feed = {"x": X.clip(-6e4, 6e4) if "float16" in name else X}
    if " t)" in MODELS[name]:
        feed["t"] = np.array(False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = InferenceSession(model(name), threads=1).run(None, feed)
    judged = by_onnxruntime(onnx.load_from_string(model(name)), feed)
    for ours, theirs in zip(found, judged, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-3 if ours.dtype == np.float16 else 2e-7)


def test_dropout_in_training_is_refused():
    session = InferenceSession(model("dropout that is told"), threads=1)
    with pytest.raises(ValueError, match=r"cannot run Dropout of 'y'.* in training mode"):
        session.run(None, {"x": X, "t": np.array(True)})


def test_every_row_of_the_reference_is_named():
    """Those of the table, too: a row is no promise of loops."""
    import onnx_ir as ir

    named = set()
    for op in ROWS:
        if "." in op or op in ("If", "Loop", "Scan", "SequenceMap"):
            continue
        schema = onnx.defs.get_schema(op, 24)
        node = ir.node(op, [ir.val(f"x{i}") for i in range(schema.min_input)])
        graph = ir.Graph(list(node.inputs), list(node.outputs), nodes=[node])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            check_operators(graph, "warn", set())
        if caught:
            assert op in str(caught[0].message)
            named.add(op)
    assert named <= {"RNN"}
