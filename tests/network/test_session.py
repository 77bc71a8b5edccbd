"""`InferenceSession`: what it takes and refuses, and what it gives."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.models import model_of
from tests.network.running import agree, check, needs_onnxruntime, referred, same, session_of
from tests.patience import PATIENCE


def small(free: bool = False) -> tuple[Graph, str, str, str]:
    """A network of two inputs, an image and numbers to add, and three outputs."""
    g = Graph(1)
    x, b = g.input(1, 4, 6, 5, free=free), g.input(3, 1, 1)
    y = g.conv(x, 3, (4, 3, 3), pads=[1, 1, 1, 1])
    return g, g.Relu(y), g.Add(y, b), g.ReduceMean(y, g.constant([2, 3], np.int64))


# Inputs


IMAGE, NUMBERS = "x1", "x2"


@pytest.fixture(scope="module")
def made():
    g, *outputs = small()
    return session_of(g, *outputs), g.feed, outputs


@pytest.fixture
def session(made):
    return made[0]


@pytest.fixture
def feed(made):
    return made[1]


@pytest.fixture
def outputs(made):
    return made[2]


def test_what_a_session_tells():
    g, *outputs = small(free=True)
    session = session_of(g, *outputs)
    image, numbers = session.get_inputs()
    assert image.type == numbers.type == "tensor(float)"
    assert len(image.shape) == 4 and not any(isinstance(n, int) for n in image.shape)
    assert numbers.shape == [3, 1, 1]
    assert [value.name for value in session.get_outputs()] == outputs


def described_model(claimed: list[int | str] | None) -> onnx.ModelProto:
    """A convolution of images of names and sizes, whose output claims a shape."""
    weights = onnx.numpy_helper.from_array(np.ones((8, 3, 3, 3), np.float32), "w")
    single = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], "net",
        [onnx.helper.make_tensor_value_info("x", single, ["batch", 3, "rows", 32])],
        [onnx.helper.make_tensor_value_info("y", single, claimed)], [weights],
    )  # fmt: skip
    model = onnx.helper.make_model(
        graph, producer_name="me", opset_imports=[onnx.helper.make_opsetid("", 17)]
    )
    model.ir_version, model.domain, model.model_version = 8, "here", 3
    model.doc_string, graph.doc_string = "of a model", "of a graph"
    model.graph.doc_string = graph.doc_string
    onnx.helper.set_model_props(model, {"a": "b"})
    return model


@needs_onnxruntime
@pytest.mark.parametrize("claimed", [None, ["batch", 8, "rows", 32]])
def test_a_session_tells_the_same_as_onnxruntimes(claimed):
    """Names of open sizes, sizes that follow, providers and texts; pickles keep them."""
    ort = pytest.importorskip("onnxruntime")
    model = described_model(claimed)
    theirs = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    made = InferenceSession(model, providers=["CPUExecutionProvider"])
    expected = theirs.get_modelmeta()
    for session in (made, pickle.loads(pickle.dumps(made))):
        for mine, other in (
            (session.get_inputs(), theirs.get_inputs()),
            (session.get_outputs(), theirs.get_outputs()),
        ):
            assert [tuple(one) for one in mine] == [(a.name, a.shape, a.type) for a in other]
        assert session.get_providers() == theirs.get_providers()
        found = session.get_modelmeta()
        assert found._asdict() == {name: getattr(expected, name) for name in found._fields}
    with pytest.raises(
        ValueError, match=r"must have shape \[batch, 3, rows, 32\], got \(1, 3, 32\)"
    ):
        made.run(None, {"x": np.zeros((1, 3, 32), np.float32)})


@pytest.mark.parametrize(
    ("providers", "error", "message"),
    [
        (["CUDAExecutionProvider", "CPUExecutionProvider"], ValueError, "not 'CUDAExecutionProv"),
        ("CPUExecutionProvider", TypeError, "providers must be a list"),
        (3, TypeError, "providers must be a list"),
        ([3], ValueError, "providers: .* not 3"),
    ],
)
def test_other_providers_are_refused(providers, error, message):
    with pytest.raises(error, match=message):
        InferenceSession(described_model(None), providers=providers)


def test_a_missing_input_is_named(session, feed):
    with pytest.raises(ValueError, match=f"{NUMBERS!r} is missing"):
        session.run(None, {IMAGE: feed[IMAGE]})
    with pytest.raises(ValueError, match=f"{IMAGE!r} is missing"):
        session.run(None, {})


def test_an_unknown_input_is_named(session, feed):
    with pytest.raises(ValueError, match="no input 'z'"):
        session.run(None, {**feed, "z": feed[IMAGE]})


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, np.bool_, np.complex64])
def test_another_type_is_refused(session, feed, dtype):
    with pytest.raises(TypeError, match=f"{IMAGE!r} must be float32"):
        session.run(None, {**feed, IMAGE: feed[IMAGE].astype(dtype)})


@pytest.mark.parametrize(
    "shape", [(1, 4, 6), (1, 4, 6, 5, 1), (1, 3, 6, 5), (1, 4, 6, 0), (), (2, 4, 6, 5)]
)
def test_another_shape_is_refused(session, feed, shape):
    with pytest.raises(ValueError, match=f"{IMAGE!r} must have shape"):
        session.run(None, {**feed, IMAGE: np.zeros(shape, np.float32)})


@pytest.mark.parametrize("wrong", [None, [], 3, "x"])
def test_a_feed_is_a_mapping(session, wrong):
    with pytest.raises(TypeError, match="feed must map"):
        session.run(None, wrong)


def test_lists_and_strided_arrays_are_taken(session, feed):
    expected = session.run(None, feed)
    wide = np.zeros((1, 8, 12, 10), np.float32)
    wide[:, ::2, ::2, ::2] = feed[IMAGE]
    given = {IMAGE: wide[:, ::2, ::2, ::2], NUMBERS: feed[NUMBERS].tolist()}
    for x, y in zip(session.run(None, given), expected, strict=True):
        np.testing.assert_array_equal(x, y)
    g, *outputs = small()
    agree(expected, referred(g.model(*outputs), feed))


def test_inputs_stay_as_they_are(session, feed):
    given = {name: array.copy() for name, array in feed.items()}
    for array in given.values():
        array.flags.writeable = False
    session.run(None, given)
    for name, array in feed.items():
        np.testing.assert_array_equal(given[name], array)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"precision": "fp8"}, "precision"),
        ({"search": "never"}, "search"),
        ({"threads": 0}, "threads"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"max_workspace": -1}, "max_workspace"),
    ],
)
def test_options_are_checked(options, text):
    g, *outputs = small()
    with pytest.raises((ValueError, TypeError), match=text):
        session_of(g, *outputs, **options)


# Outputs


def test_outputs_in_any_order(session, feed, outputs):
    everything = dict(zip(outputs, session.run(None, feed), strict=True))
    for wanted in ([outputs[2]], outputs[::-1], [outputs[1], outputs[0]], []):
        got = session.run(wanted, feed)
        assert len(got) == len(wanted)
        for name, array in zip(wanted, got, strict=True):
            np.testing.assert_array_equal(array, everything[name])


def test_an_unknown_output_is_named(session, feed):
    with pytest.raises(ValueError, match="no output 'z'"):
        session.run(["z"], feed)


def test_given_arrays_are_written(session, feed, outputs):
    expected = session.run(None, feed)
    given = [np.full_like(expected[0], np.nan), None, np.full_like(expected[2], np.nan)]
    got = session.run(None, feed, out=given)
    assert got[0] is given[0] and got[2] is given[2]
    for x, y in zip(got, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    one = np.empty_like(expected[1])
    assert session.run([outputs[1]], feed, out=[one])[0] is one
    np.testing.assert_array_equal(one, expected[1])


def test_arrays_that_cannot_be_written_are_refused(session, feed, outputs):
    y = session.run([outputs[0]], feed)[0]
    locked = y.copy()
    locked.flags.writeable = False
    overlapping = feed[IMAGE].reshape(-1)[: y.size].reshape(y.shape)
    wrong = [
        (y[..., :-1], "shape"),
        (y.astype(np.float64), "dtype"),
        (np.empty((*y.shape[:-1], 2 * y.shape[-1]), y.dtype)[..., ::2], "contiguous"),
        (locked, "writeable"),
        (overlapping, "overlaps an input"),
    ]
    for array, text in wrong:
        with pytest.raises(ValueError, match=text):
            session.run([outputs[0]], feed, out=[array])
    with pytest.raises(TypeError, match="ndarray"):
        session.run([outputs[0]], feed, out=[y.tolist()])
    with pytest.raises(ValueError, match="2 arrays for 1 outputs"):
        session.run([outputs[0]], feed, out=[y, y])


def test_results_are_not_shared(session, feed):
    first = session.run(None, feed)
    kept = [array.copy() for array in first]
    other = {name: array + 1 for name, array in feed.items()}
    second = session.run(None, other)
    for x, y, z in zip(first, kept, second, strict=True):
        np.testing.assert_array_equal(x, y)
        assert not np.shares_memory(x, z)


def test_outputs_that_nothing_computes(g):
    """Inputs, constants, views of both, and one thing under two names."""
    x = g.input(2, 3)
    same = g.Identity(x)
    turned = g.Transpose(x, perm=[1, 0])
    known = g.Identity(g.random(4, 5))
    y = g.Exp(x)
    model = g.model(same, turned, known, y, g.Identity(y), g.Reshape(y, g.constant([-1], np.int64)))
    got = check(model, g.feed)
    assert not any(np.shares_memory(array, g.feed[x]) for array in got)
    assert not np.shares_memory(got[3], got[4])


def test_an_output_that_is_an_input(g):
    x = g.input(2, 3)
    y = g.Exp(x)
    model = g.model(y)
    model.graph.output.append(model.graph.input[0])
    check(model, g.feed)


# Shapes


def test_shapes_make_programs_of_their_own():
    g, *outputs = small(free=True)
    session = session_of(g, *outputs)
    model = g.model(*outputs)
    for batch, height, width in [(1, 6, 5), (2, 6, 5), (1, 9, 3), (1, 6, 5)]:
        x = g.rng.standard_normal((batch, 4, height, width)).astype(np.float32)
        feed = {IMAGE: x, NUMBERS: g.feed[NUMBERS]}
        agree(session.run(None, feed), referred(model, feed))
    assert len(session._network.programs) == 3


def test_few_programs_are_kept(g):
    x = g.input(1, 3, free=True)
    session = session_of(g, g.Exp(x))
    first = session.run(None, {x: np.ones((1, 3), np.float32)})[0]
    for n in range(2 * InferenceSession.programs_kept):
        session.run(None, {x: np.ones((n + 2, 3), np.float32)})
        assert len(session._network.programs) <= InferenceSession.programs_kept
    again = session.run(None, {x: np.ones((1, 3), np.float32)})[0]
    np.testing.assert_array_equal(again, first)


def test_many_inputs_and_outputs(g):
    """A part behind a cut takes an array for each class of a detector: hundreds of them."""
    inputs = [g.input(1, 3) for _ in range(300)]
    outputs = [g.Sigmoid(x) for x in inputs[:50]]
    session = session_of(g, *outputs, g.Concat(*inputs, axis=0))
    *values, joined = session.run(None, g.feed)
    given = [g.feed[x] for x in inputs]
    same([joined], [np.concatenate(given)])
    wide = [1 / (1 + np.exp(-x.astype(np.float64))) for x in given[:50]]
    agree(values, [y.astype(np.float32) for y in wide], 1e-6)


def test_nothing_to_compute(g):
    x = g.input(0, 4, 6, 6, free=True)
    y = g.conv(x, 5, (4, 3, 3))
    outputs = [y, g.Relu(x), g.Concat(x, x, axis=1), g.Transpose(y, perm=[0, 2, 3, 1])]
    outputs += [g.MaxPool(x, kernel_shape=[2, 2]), g.Softmax(x), g.MatMul(x, g.random(6, 3))]
    session = session_of(g, *outputs)
    shapes = [array.shape for array in session.run(None, g.feed)]
    assert shapes == [
        (0, 5, 4, 4), (0, 4, 6, 6), (0, 8, 6, 6), (0, 4, 4, 5), (0, 4, 5, 5), (0, 4, 6, 6),
        (0, 4, 6, 3),
    ]  # fmt: skip


def test_inputs_that_are_shapes(g):
    """They become constants: one program for each value, and errors name what does not fit."""
    x, shape = g.input(2, 6), g.input(2, dtype=np.int64)
    y = g.Reshape(x, shape)
    session = session_of(g, y, g.Exp(y))
    for wanted in ([3, 4], [12, 1], [-1, 2], [3, 4]):
        feed = {x: g.feed[x], shape: np.array(wanted, np.int64)}
        got = session.run(None, feed)
        np.testing.assert_array_equal(got[0], feed[x].reshape(wanted))
        np.testing.assert_allclose(got[1], np.exp(got[0]), rtol=1e-6)
    assert len(session._network.programs) == 3
    with pytest.raises(ValueError):
        session.run(None, {x: g.feed[x], shape: np.array([5, 5], np.int64)})


def test_axes_and_sizes_that_are_inputs(g):
    x, axes = g.input(2, 3, 4), g.input(1, dtype=np.int64)
    starts, ends = g.input(1, dtype=np.int64), g.input(1, dtype=np.int64)
    y = g.ReduceSum(x, axes, keepdims=0)
    session = session_of(g, y, g.Slice(x, starts, ends))
    for axis, start, end in [(0, 0, 1), (2, 1, 2), (-1, 0, 2)]:
        numbers = {axes: axis, starts: start, ends: end}
        feed = {x: g.feed[x]} | {name: np.array([n], np.int64) for name, n in numbers.items()}
        total, part = session.run(None, feed)
        np.testing.assert_allclose(total, g.feed[x].sum(axis), rtol=1e-5)
        np.testing.assert_array_equal(part, g.feed[x][start:end])


# Threads


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_at_once_give_the_same_bits(threads):
    g, *outputs = small(free=True)
    session = session_of(g, *outputs, threads=threads)
    feeds = [
        {IMAGE: g.rng.standard_normal((1, 4, n, 7)).astype(np.float32), NUMBERS: g.feed[NUMBERS]}
        for n in (4, 6, 9)
    ]
    alone = session_of(g, *outputs, threads=threads)
    expected = [alone.run(None, feed) for feed in feeds]
    start = threading.Barrier(6)

    def calls(number):
        start.wait()
        return [(i % 3, session.run(None, feeds[i % 3])) for i in range(number, number + 20)]

    with ThreadPoolExecutor(6) as pool:
        for results in pool.map(calls, range(6)):
            for which, got in results:
                same(got, expected[which])
    assert len(session._network.programs) == 3


def test_known_programs_are_found_while_another_is_made(monkeypatch):
    """A client's new shape must not hold up all others: making takes up to seconds."""
    from pplconv.network import network as module

    session = InferenceSession(_conv_of_any_size(), threads=1)
    x = np.ones((1, 1, 8, 8), np.float32)
    right = session.run(None, {"x": x})[0]
    begun, go_on, real = threading.Event(), threading.Event(), module.compile_model

    def slowly(*args, **kwargs):
        begun.set()
        assert go_on.wait(PATIENCE)
        return real(*args, **kwargs)

    monkeypatch.setattr(module, "compile_model", slowly)
    made = []
    maker = threading.Thread(target=lambda: made.append(session.run(None, {"x": x[:, :, :5]})))
    maker.start()
    assert begun.wait(PATIENCE)
    results = []
    other = threading.Thread(target=lambda: results.append(session.run(None, {"x": x})[0]))
    other.start()
    other.join(PATIENCE)
    waited = not results
    ready = [session.is_ready_for({"x": shape}) for shape in ((1, 1, 8, 8), (1, 1, 5, 8))]
    go_on.set()
    maker.join(PATIENCE)
    other.join(PATIENCE)
    assert not waited, "a known program waits for nobody"
    assert (results[0] == right).all() and ready == [True, False]
    assert session.is_ready_for({"x": x[:, :, :5]})
    assert (made[0][0] == 9 * x[:, :, :5]).any()


def test_a_run_takes_no_more_than_its_bound():
    """One channel of float32: the output alone is four bytes a pixel."""
    session = InferenceSession(_conv_of_any_size(), threads=1, max_memory=200_000)
    small, large = np.ones((1, 1, 32, 32), np.float32), np.ones((1, 1, 224, 224), np.float32)
    assert session.run(None, {"x": small})[0].shape == small.shape
    for _ in range(2):
        with pytest.raises(ValueError, match="max_memory=200000"):
            session.run(None, {"x": large})
    assert len(session._network.programs) == 1 and not session.is_ready_for({"x": large})
    again = pickle.loads(pickle.dumps(session))
    with pytest.raises(ValueError, match="max_memory"):
        again.plan_for({"x": large.shape})
    for wrong in (0, -1, 1.5, True):
        with pytest.raises((TypeError, ValueError), match="max_memory"):
            InferenceSession(_conv_of_any_size(), max_memory=wrong)


def _conv_of_any_size() -> bytes:
    conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    inputs = {"x": (np.float32, [1, 1, "H", "W"])}
    constants = {"w": np.ones((1, 1, 3, 3), np.float32)}
    return model_of([conv], inputs, constants, opset=20).SerializeToString()
