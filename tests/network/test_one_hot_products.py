"""Products of one-hot rows: the rows of a matrix, beside NumPy."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import pplconv


def _session(nodes, constants, dtype=np.float32, index_type=TensorProto.INT64, axes=("n", "t")):
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes, "graph", [helper.make_tensor_value_info("i", index_type, axes)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return pplconv.InferenceSession(model, threads=1)


def _compared(w, count, *, flipped=False, expanded=True, to=TensorProto.FLOAT, step=1):
    """Nodes and constants of ``Cast(Equal(i, [0, 1, ...])) @ w``."""
    nodes = [helper.make_node("Unsqueeze", ["i", "last"], ["column"])]
    pair = ["column", "numbers"]
    if expanded:
        nodes += [
            helper.make_node("Shape", ["i"], ["sizes"]),
            helper.make_node("Concat", ["sizes", "count"], ["target"], axis=0),
            helper.make_node("Expand", ["column", "target"], ["wide"]),
        ]
        pair[0] = "wide"
    nodes += [
        helper.make_node("Equal", pair[::-1] if flipped else pair, ["same"]),
        helper.make_node("Cast", ["same"], ["hot"], to=to),
        helper.make_node("MatMul", ["hot", "w"], ["y"]),
    ]
    return nodes, {
        "last": np.array([-1]), "numbers": step * np.arange(count), "count": np.array([count]),
        "w": w,
    }  # fmt: skip


def _fired(session, i):
    return "one-hot product" in str(session.plan_for({"i": i.shape}))


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_of_a_matrix(dtype, expanded, flipped):
    rng = np.random.default_rng(0)
    w = rng.standard_normal((7, 5)).astype(dtype)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes, constants = _compared(w, 7, flipped=flipped, expanded=expanded, to=to)
    session = _session(nodes, constants, dtype)
    i = rng.integers(-2, 10, (3, 11))
    expected = np.where(((i >= 0) & (i < 7))[..., None], w[np.clip(i, 0, 6)], 0)
    (y,) = session.run(None, {"i": i})
    np.testing.assert_array_equal(y, expected)
    assert _fired(session, i)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_one_hot_counts_from_both_ends(index_type):
    rng = np.random.default_rng(1)
    w = rng.standard_normal((6, 4)).astype(np.float32)
    nodes = [
        helper.make_node("OneHot", ["i", "depth", "values"], ["hot"]),
        helper.make_node("MatMul", ["hot", "w"], ["y"]),
    ]
    constants = {"depth": np.array(6), "values": np.array([0, 1], np.float32), "w": w}
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(index_type))
    session = _session(nodes, constants, index_type=kind)
    i = rng.integers(-9, 9, (2, 30)).astype(index_type)
    expected = np.where(((i >= -6) & (i < 6))[..., None], w[np.clip(i, -6, 5)], 0)
    (y,) = session.run(None, {"i": i})
    np.testing.assert_array_equal(y, expected)
    assert _fired(session, i)


@pytest.mark.parametrize("shape", [(1, 1), (1, 0), (4, 0), (1, 300)])
def test_few_indices(shape):
    w = np.random.default_rng(2).standard_normal((3, 9)).astype(np.float32)
    session = _session(*_compared(w, 3))
    i = np.random.default_rng(3).integers(0, 3, shape)
    (y,) = session.run(None, {"i": i})
    assert y.shape == (*shape, 9)
    np.testing.assert_array_equal(y, w[i])


@pytest.mark.parametrize(
    ("step", "number"), [(2, 1.0), (1, np.inf), (1, np.nan)], ids=["step", "inf", "nan"]
)
def test_others_stay_products(step, number):
    w = np.random.default_rng(4).standard_normal((4, 2)).astype(np.float32)
    w[1, 1] = number
    session = _session(*_compared(w, 4, step=step))
    i = np.array([[0, 1, 2, 3, 4, 6]])
    hot = (i[..., None] == step * np.arange(4)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        expected = hot @ w
    (y,) = session.run(None, {"i": i})
    np.testing.assert_allclose(y, expected, 1e-6, 1e-6)
    assert not _fired(session, i)


def test_values_other_than_0_and_1_stay():
    w = np.random.default_rng(5).standard_normal((4, 2)).astype(np.float32)
    nodes = [
        helper.make_node("OneHot", ["i", "depth", "values"], ["hot"]),
        helper.make_node("MatMul", ["hot", "w"], ["y"]),
    ]
    values = np.array([0.5, 2], np.float32)
    session = _session(nodes, {"depth": np.array(4), "values": values, "w": w})
    i = np.array([[3, 0, -1]])
    hot = np.where(np.arange(4) == (i % 4)[..., None], 2, 0.5)
    np.testing.assert_allclose(session.run(None, {"i": i})[0], hot @ w, 1e-5, 1e-6)
    assert not _fired(session, i)
