"""What a process imports until a network answers, and what only some networks need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import children

# Large packages that no network needs, or few.
LATE = ("numpy.random", "onnx.reference", "onnx_ir.passes.common", "onnxscript", "sympy")

BEGIN = """
import sys
import numpy as np, onnx, onnx.helper as h, onnx.numpy_helper as nh
import pplconv

def session(nodes, constants=(), shape=("n", 3, "h", "w"), result=None):
    value = lambda name, shape: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    known = [nh.from_array(array, name) for name, array in dict(constants).items()]
    graph = h.make_graph(nodes, "g", [value("x", shape)], [value("y", result)], known)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    return pplconv.InferenceSession(model.SerializeToString(), fallback="silent")
"""

SMALL = """
(y,) = session([h.make_node("Relu", ["x"], ["y"])]).run(
    None, {"x": np.arange(-6, 6, dtype=np.float32).reshape(1, 3, 2, 2)}
)
assert y.ravel().tolist() == [0.0] * 7 + [1.0, 2.0, 3.0, 4.0, 5.0]
"""

# As exporters write a classifier: a batch of any size, kept by Shape and Gather, and a result that
# has a name of its own.
TYPICAL = """
ones = lambda *shape: np.ones(shape, np.float32)
nodes = [
    h.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
    h.make_node("BatchNormalization", ["c", "one", "zero", "zero", "one"], ["n"], epsilon=0.0),
    h.make_node("Clip", ["n", "low", "high"], ["r"]),
    h.make_node("Dropout", ["r"], ["d"]),
    h.make_node("GlobalAveragePool", ["d"], ["p"]),
    h.make_node("Shape", ["p"], ["s"]),
    h.make_node("Gather", ["s", "first"], ["b"]),
    h.make_node("Unsqueeze", ["b", "axis"], ["u"]),
    h.make_node("Concat", ["u", "rest"], ["t"], axis=0),
    h.make_node("Reshape", ["p", "t"], ["f"]),
    h.make_node("Gemm", ["f", "m"], ["g"]),
    h.make_node("Identity", ["g"], ["i"]),
    h.make_node("Softmax", ["i"], ["o"]),
    h.make_node("Identity", ["o"], ["y"]),
]
constants = {
    "w": ones(8, 3, 3, 3), "one": ones(8), "zero": 0 * ones(8),
    "low": 0 * ones(1)[0], "high": 6 * ones(1)[0], "m": ones(8, 4),
    "first": np.array(0), "axis": np.array([0]), "rest": np.array([-1]),
}
(y,) = session(nodes, constants).run(None, {"x": np.ones((2, 3, 8, 8), np.float32)})
assert y.tolist() == [[0.25] * 4] * 2
"""

# ONNX's reference alone computes this operator.
RARE = """
x = np.ones((1, 4), np.float32)
(y,) = session([h.make_node("ThresholdedRelu", ["x"], ["y"], alpha=0.5)], shape=(1, 4)).run(
    None, {"x": x}
)
assert y.tolist() == [[1.0] * 4]
"""


def loaded(*programs: str, before: str = "") -> set[str]:
    """Run programs in a process of their own; give the late packages that it has imported."""
    code = before + BEGIN + "".join(programs) + f"print(*({{*{LATE!r}}} & sys.modules.keys()))"
    # Beside this file, since the root of the repository holds sources of the package.
    here = Path(__file__).parent
    done = children.python("-W", "ignore", "-c", code, cwd=here, env=children.environment())
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("program", [SMALL, TYPICAL], ids=["small", "typical"])
def test_a_network_imports_nothing_that_it_does_not_need(program):
    assert not loaded(program)


def test_an_operator_that_only_the_reference_computes_imports_it():
    assert "onnx.reference" in loaded(RARE)


def test_onnxscript_need_not_be_there():
    absent = "import sys\nsys.modules['onnxscript'] = None\n"
    assert loaded(TYPICAL, RARE, before=absent) >= {"onnx.reference"}
