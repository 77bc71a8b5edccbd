"""Sparse initializers, and sparse values of Constants: what they are, and what is refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from pplconv.network import sparse_tensors
from pplconv.network.session import InferenceSession
from tests.network.running import by_onnxruntime, needs_onnxruntime
from tests.network.value_cases import SPARSE, ValueCase, X, sparse

PRODUCT = SPARSE["counted"].text
FULL = sparse("w", [1, 2, 3], [1, 4, 7], [4, 2])


def model_of(tensor: onnx.SparseTensorProto) -> onnx.ModelProto:
    """A product by a sparse matrix."""
    return ValueCase(PRODUCT, (), sparse=(tensor,)).model


def constant(tensor: onnx.SparseTensorProto) -> onnx.ModelProto:
    """The same with a Constant."""
    model = ValueCase(PRODUCT, ()).model
    node = helper.make_node("Constant", [], ["w"], sparse_value=tensor)
    model.graph.node.insert(0, node)
    return model


def in_a_branch(tensor: onnx.SparseTensorProto) -> onnx.ModelProto:
    """The same in the branch of an If."""
    text = """g (float[N,C,4] x) => (float[] y) <bool c = {1}> {
        y = If (c) <
            then_branch = yes () => (float[] t) { t = MatMul(x, w) },
            else_branch = no () => (float[] e) { e = Identity(x) }
        >
    }"""
    model = ValueCase(text, ()).model
    graphs = [attribute.g for attribute in model.graph.node[-1].attribute]
    (branch,) = (graph for graph in graphs if graph.name == "yes")
    branch.sparse_initializer.append(tensor)
    return model


@needs_onnxruntime
@pytest.mark.parametrize("make", [constant, in_a_branch])
def test_where_else_they_are(make):
    model = make(FULL)
    before = model.SerializeToString()
    (y,) = InferenceSession(model, threads=1).run(None, {"x": X})
    np.testing.assert_allclose(y, by_onnxruntime(model, {"x": X})[0], rtol=1e-5)
    assert model.SerializeToString() == before


def test_in_a_function():
    functions = (
        '<domain: "own", opset_import: ["" : 18]> f (x) => (y) '
        "{ w = Constant <value_float = 1.0> () y = MatMul(x, w) }"
    )
    text = "g (float[N,C,4] x) => (float[] y) { y = own.f(x) }"
    model = ValueCase(text, (), functions).model
    node = model.functions[0].node[0]
    node.attribute[0].CopyFrom(helper.make_attribute("sparse_value", FULL))
    (y,) = InferenceSession(model, threads=1).run(None, {"x": X})
    w = np.array([[0, 1], [0, 0], [2, 0], [0, 3]], np.float32)
    np.testing.assert_allclose(y, X @ w, rtol=1e-5)


def test_texts():
    """onnxruntime has no such initializers."""
    values = helper.make_tensor("w", TensorProto.STRING, [2], ["a", "ä"])
    tensor = helper.make_sparse_tensor(values, FULL.indices, [4])
    tensor.indices.CopyFrom(sparse("i", [1, 2], [0, 2], [4]).indices)
    case = ValueCase("g () => (string[] t) { t = Identity(w) }", (), sparse=(tensor,))
    (t,) = InferenceSession(case.model).run(None, {})
    assert t.tolist() == ["a", "", "ä", ""]


def changed(**fields: object) -> onnx.SparseTensorProto:
    """The tensor with other fields."""
    tensor = onnx.SparseTensorProto()
    tensor.CopyFrom(FULL)
    for name, value in fields.items():
        part, _, field = name.partition("_")
        owner = getattr(tensor, part)
        if not field:
            del owner[:]
            owner.extend(value)
        elif field == "dims":
            del owner.dims[:]
            owner.dims.extend(value)
        else:
            setattr(owner, field, value)
    return tensor


REFUSED = {
    "beyond": (sparse("w", [1, 2], [1, 8], [4, 2]), r"the index \[8\] .*outside of \[4, 2\]"),
    "negative": (sparse("w", [1, 2], [-1, 3], [4, 2]), r"the index \[-1\]"),
    "beyond an axis": (
        sparse("w", [1, 2], [[0, 1], [0, 2]], [4, 2]), r"index \[0, 2\] in the sparse init.* 'w'"
    ),
    "negative on an axis": (sparse("w", [1], [[0, -1]], [4, 2]), r"index \[0, -1\]"),
    "twice": (sparse("w", [1, 2], [3, 3], [4, 2]), "an index twice in the sparse initializer 'w'"),
    "twice by axes": (sparse("w", [1, 2], [[1, 1], [1, 1]], [4, 2]), "an index twice"),
    "no place": (sparse("w", [1], [0], [0, 2]), r"the index \[0\]"),
    "more values": (changed(indices_dims=[2]), "the tensor 'indices'"),
    "fewer indices": (
        sparse("w", [1, 2, 3], [1, 4], [4, 2]), r"indices of the shape \[2\].*expected \[3\]"
    ),
    "other axes": (sparse("w", [1, 2], [[1, 1, 0], [1, 0, 0]], [4, 2]), r"expected \[2\] or"),
    "a matrix": (sparse("w", [[1], [2]], [1, 4], [4, 2]), r"values of the shape \[2, 1\]"),
    "a size": (
        changed(dims=[4, -2]), r"a negative size in the sparse initializer 'w'.*: \[4, -2\]"
    ),
    "large": (
        changed(dims=[1 << 20, 1 << 20]), "4398046511104 bytes as a dense tensor: .* 2147483648"
    ),
    "larger than numbers": (changed(dims=[1 << 40, 1 << 40]), "as a dense tensor"),
    "floats": (changed(indices_data_type=TensorProto.DOUBLE), "that are not int64"),
    "no type": (changed(values_data_type=0), "no type in the tensor 'w'"),
    "elsewhere": (
        changed(values_data_location=TensorProto.EXTERNAL), "keeps the values .* in another file"
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", [model_of, constant])
@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, make):
    tensor, said = REFUSED[case]
    if make is constant:
        said = said.replace("the sparse initializer 'w'", "the attribute 'sparse_value' of")
        said = said.replace("the sparse init.* 'w'", "the attribute 'sparse_value' of")
    with pytest.raises(ValueError, match=said):
        InferenceSession(make(tensor))


def test_all_of_them_are_bounded_together(monkeypatch):
    """Each of them would fit."""
    assert sparse_tensors._MOST_BYTES == 2 << 30
    # The two that fit are made: at the true bound, that takes two gigabytes.
    monkeypatch.setattr(sparse_tensors, "_MOST_BYTES", 2 << 20)
    tensors = tuple(changed(values_name=f"w{n}", dims=[1 << 8, 1 << 10]) for n in range(3))
    model = ValueCase(PRODUCT.replace("w)", "w0)"), (), sparse=tensors).model
    with pytest.raises(ValueError, match=r"'w2'.* all of them may take"):
        InferenceSession(model)


def test_a_name_of_two_kinds():
    model = model_of(FULL)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((4, 2), "f"), "w"))
    with pytest.raises(ValueError, match="'w' twice among the initializers"):
        InferenceSession(model)


def test_other_attributes_are_refused():
    model = ValueCase("g (float[N,C,4] x) => (float[] y) { y = Relu(x) }", ()).model
    model.graph.node[0].attribute.append(helper.make_attribute("sparse_value", FULL))
    with pytest.raises(ValueError, match=r"a sparse tensor at the node .*Relu"):
        InferenceSession(model)
