"""Weights that stay in the file or the bytes that a model came in."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from pplconv.network import large_weights
from pplconv.network.large_weights import lift_data
from pplconv.network.loading import load
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph

PLAIN = [np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int64, np.uint64]


def of(*tensors: TensorProto, constants: bool = False) -> onnx.ModelProto:
    """A model that gives its weights: initializers, or values of Constant nodes."""
    nodes, results, weights = [], [], []
    for i, tensor in enumerate(tensors):
        source = tensor.name
        if constants:
            nodes.append(helper.make_node("Constant", [], [source], value=tensor))
        else:
            weights.append(tensor)
        nodes.append(helper.make_node("Identity", [source], [f"y{i}"]))
        results.append(helper.make_tensor_value_info(f"y{i}", tensor.data_type, None))
    graph = helper.make_graph(nodes, "test", [], results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def arrays(model) -> dict[str, np.ndarray]:
    found = {name: v.const_value.numpy() for name, v in model.graph.initializers.items()}
    for node in model.graph:
        if node.op_type == "Constant":
            found[node.outputs[0].name] = node.attributes["value"].value.numpy()
    return found


def lifted_count(content: bytes) -> int:
    return len(lift_data(np.frombuffer(content, np.uint8)).arrays)


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("kind", PLAIN)
def test_large_weights_lie_where_they_came(kind, constants, rng):
    array = rng.integers(0, 100, (3, 70, 99)).astype(kind)
    small = rng.integers(0, 100, (5, 7)).astype(kind)
    tensors = [numpy_helper.from_array(a, name) for a, name in ((array, "a"), (small, "b"))]
    content = of(*tensors, constants=constants).SerializeToString()
    assert lifted_count(content) == 1
    model = load(content)
    found = arrays(model)
    assert np.shares_memory(found["a"], np.frombuffer(content, np.uint8))
    for name, want in (("a", array), ("b", small)):
        np.testing.assert_array_equal(found[name], want)
        assert found[name].dtype == want.dtype
    if not constants:
        assert tuple(model.graph.initializers["a"].shape) == array.shape


@pytest.mark.parametrize("constants", [False, True])
def test_floats_in_their_typed_field(constants, rng):
    array = rng.standard_normal((40, 50)).astype(np.float32)
    tensor = helper.make_tensor("a", TensorProto.FLOAT, array.shape, array.reshape(-1).tolist())
    content = of(tensor, constants=constants).SerializeToString()
    assert lifted_count(content) == 1
    np.testing.assert_array_equal(arrays(load(content))["a"], array)


def changed(change, kind=np.float32) -> TensorProto:
    tensor = numpy_helper.from_array(np.ones((30, 50), kind), "a")
    change(tensor)
    return tensor


@pytest.mark.parametrize(
    "tensor",
    [
        numpy_helper.from_array(np.ones((90, 50), bool), "a"),
        numpy_helper.from_array(np.full((90, 50), b"text", object), "a"),
        helper.make_tensor("a", TensorProto.INT64, (90, 50), [1] * 4500),
        helper.make_tensor("a", TensorProto.BFLOAT16, (90, 50), b"\0\1" * 4500, raw=True),
        helper.make_tensor("a", TensorProto.INT4, (90, 100), b"\1" * 4500, raw=True),
    ],
)
def test_other_types_are_read_as_ever(tensor):
    content = of(tensor).SerializeToString()
    assert lifted_count(content) == 0
    found, want = (arrays(load(source))["a"] for source in (content, of(tensor)))
    assert found.dtype == want.dtype and (found == want).all()


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.dims.append(2),
        lambda t: t.dims.__setitem__(0, -30),
        lambda t: t.dims.extend([1 << 62] * 2000),
        lambda t: setattr(t, "data_type", 999),
        lambda t: setattr(t, "data_type", TensorProto.DOUBLE),
        lambda t: setattr(t, "data_type", TensorProto.STRING),
        lambda t: t.ClearField("data_type"),
        lambda t: t.segment.CopyFrom(TensorProto.Segment(begin=0, end=3)),
        lambda t: setattr(t, "raw_data", t.raw_data[:-1]),
    ],
)
def test_what_contradicts_itself_is_refused_as_ever(change, constants):
    model = of(changed(change), constants=constants)
    with pytest.raises(ValueError) as want:
        load(model)
    with pytest.raises(ValueError) as found:
        load(model.SerializeToString())
    assert str(found.value) == str(want.value)


def test_a_text_that_looks_like_a_reference_is_a_text(rng):
    array = rng.standard_normal((40, 50)).astype(np.float32)
    forged = numpy_helper.from_array(np.zeros(0, np.float32), "b")
    forged.doc_string = f"{'0' * 32} 0"
    model = of(numpy_helper.from_array(array, "a"), forged)
    found = arrays(load(model.SerializeToString()))
    assert found["b"].size == 0


def field(number: int, content: bytes) -> bytes:
    return large_weights._tag(number, 2) + large_weights._varint(len(content)) + content


@pytest.mark.parametrize(
    "tensor",
    [
        lambda raw: field(9, raw) + field(9, raw),
        lambda raw: field(9, raw) + field(4, raw),
        lambda raw: field(9, raw) + b"\x10\x01",  # the type again
        lambda raw: field(9, raw) + field(13, b""),
        lambda raw: field(9, raw) + b"\x70\x00",  # where the data are
        lambda raw: b"\x4b" + raw,  # a group
        lambda raw: field(9, raw) + b"\x09",  # cut
        lambda raw: field(9, raw) + b"\x80" * 11,
        lambda raw: b"\x4a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + raw,
        lambda raw: b"\x48\x05" + raw[:0],
    ],
)
def test_odd_messages_are_left_to_the_parser(tensor):
    start = b"\x08\x1e\x08\x32\x10\x01" + field(8, b"a")  # (30, 50) of float, its name
    raw = np.ones((30, 50), np.float32).tobytes()
    good = of(numpy_helper.from_array(np.ones((30, 50), np.float32), "a")).graph
    good.ClearField("initializer")
    for body, lifts in ((start + field(9, raw), True), (start + tensor(raw), False)):
        graph = good.SerializeToString() + field(5, body)
        content = field(7, graph) + field(8, b"\x10\x15") + b"\x08\x0a"
        try:
            assert bool(lifted_count(content)) == lifts
        except Exception as error:
            assert not lifts and type(error).__name__ == "DecodeError"


def convolution(rng, channels: int = 128) -> tuple[Graph, onnx.ModelProto]:
    g = Graph()
    x = g.input(1, 32, 8, 8, free=True)
    y = g.conv(x, channels, (32, 3, 3), pads=[1] * 4)
    scale = [g.positive(channels) for _ in range(4)]
    y = g.Relu(g.BatchNormalization(y, *scale))
    # Its weights stay as they are, for Winograd's direct sums too.
    y = g.conv(y, 64, (channels, 3, 3), pads=[1] * 4)
    return g, g.model(g.conv(y, 8, (64, 1, 1)))


@pytest.mark.parametrize("odd", range(4))
def test_sessions_of_files_give_the_bits_of_sessions_of_protobufs(odd, rng, tmp_path):
    """Wherever the data lie, aligned or not."""
    _, model = convolution(rng)
    model.producer_name = "x" * odd
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    sessions = [InferenceSession(source, threads=1) for source in (model, path)]
    for size in (8, 14):
        x = rng.standard_normal((1, 32, size, size)).astype(np.float32)
        for special in (0.0, np.inf):
            x[0, 3, 2, 2] += special
            want, found = (session.run(None, {"x1": x})[0] for session in sessions)
            np.testing.assert_array_equal(want, found)


def test_files_that_change_beneath_a_session(rng, tmp_path):
    g, model = convolution(rng)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    os.utime(path, (1, 1))
    session = InferenceSession(path, threads=1)
    (want,) = session.run(None, g.feed)
    other = rng.standard_normal((1, 32, 5, 5)).astype(np.float32)
    onnx.save(convolution(rng, 16)[1], tmp_path / "new.onnx")
    os.replace(tmp_path / "new.onnx", path)
    first = session.run(None, {"x1": other})[0]
    np.testing.assert_array_equal(
        first, InferenceSession(model, threads=1).run(None, {"x1": other})[0]
    )
    path.unlink()
    onnx.save(model, path)
    os.utime(path, (1, 1))
    session = InferenceSession(path, threads=1)
    session.run(None, g.feed)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(RuntimeError, match="changed while it was in use"):
        session.run(None, {"x1": other})
    np.testing.assert_array_equal(session.run(None, g.feed)[0], want)
