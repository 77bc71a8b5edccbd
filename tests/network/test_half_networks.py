"""Networks of float16, and those of float32 in half precision or by narrower products."""

from __future__ import annotations

import pickle

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.networks.retyping import retyped
from pplconv.network import kept_weights
from pplconv.network.formats import half_level
from pplconv.network.session import InferenceSession
from pplconv.numerics import numerics_of
from pplconv.planner import best_isa
from pplconv.sharing import prepared
from tests.emulation import is_emulated
from tests.network.graphs import Graph
from tests.network.random_networks import Network
from tests.network.running import agree, alike, copies, on_host, referred, session_of, step_kinds
from tests.network.small_models import SMALL

ULP = 2.0**-11  # half of the distance of two neighbours, relative to the larger one
# Error of results that were rounded once; weights that a rule has scaled are rounded too.
STORED = 4 * ULP
# Error of networks whose every array is float16.
COMPUTED = 64 * ULP
# Of operands that have lost sixteen bits.
ROUNDED = 2.0**-8
EXAMPLES = 2 if is_emulated() else max(settings.default.max_examples // 8, 10)


def in_double(model, feed):
    """Outputs of a float16 network for these very inputs and weights, without rounding."""
    wide = retyped(model, np.float16, np.float64)
    inputs = {k: x.astype(np.float64) if x.dtype == np.float16 else x for k, x in feed.items()}
    found = referred(wide, inputs)
    with np.errstate(over="ignore"):
        return [y.astype(np.float16) if y.dtype == np.float64 else y for y in found]


def allowed() -> float:
    """Error of a network that amplifies none, as the CPU computes it."""
    return COMPUTED if half_level() else STORED


def accurate(got, model, feed) -> None:
    """Compare results with exact ones: they are as near as one operator at a time in float16.

    Errors of networks that amplify them are not bounded otherwise.
    """
    exact = in_double(model, feed)
    for x, y, z in zip(got, exact, referred(model, feed), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        if x.dtype != np.float16:
            np.testing.assert_array_equal(x, y)
            continue
        x, y, z = (array.astype(np.float64) for array in (x, y, z))
        known = np.isfinite(y) & np.isfinite(z)
        # Beyond float16 lies what one operator at a time may have lost as well.
        np.testing.assert_array_equal(x[~np.isfinite(y)], y[~np.isfinite(y)])
        scale = max(1.0, float(np.abs(y[known]).max(initial=0)))
        error = float(np.abs(z - y)[known].max(initial=0))
        np.testing.assert_allclose(x[known], y[known], rtol=0, atol=allowed() * scale + error)


def conversions(session, feed) -> list[tuple[str, ...]]:
    plan = session.plan_for({name: x.shape for name, x in feed.items()}).by_operators()
    return [(*s.outputs, s.detail.partition(",")[0]) for s in plan.steps if s.kind == "Reformat"]


def halved(name):
    model, feed = SMALL[name]()
    return (
        retyped(model, np.float32, np.float16),
        {k: x.astype(np.float16) if x.dtype == np.float32 else x for k, x in feed.items()},
    )


def test_clips_of_old_models_are_refused():
    """ONNX's converter gives bounds that were attributes as float32, whatever they bound."""
    model, feed = halved("old")
    with pytest.raises(ValueError, match=r"Clip.*inconsistent type"):
        InferenceSession(model).run(None, feed)


@pytest.mark.parametrize("name", sorted(set(SMALL) - {"old"}))
def test_small_networks(name):
    model, feed = halved(name)
    sessions = [InferenceSession(model, threads=n) for n in (1, 2, 3)]
    accurate(alike(sessions, feed), model, feed)
    # As many steps in Python as of float32.
    plain, numbers = SMALL[name]()
    single = InferenceSession(plain, threads=1)
    single.run(None, numbers)
    assert on_host(sessions[0]) == on_host(single)


@pytest.mark.parametrize("free", [False, True])
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_random_networks(free, data):
    network = Network(data.draw, free=free, dtype=np.float16)
    model = network.g.model(*network.outputs)
    sessions = [InferenceSession(model, threads=threads) for threads in (1, 3)]
    for feed in (*network.feeds, network.feeds[0]):
        accurate(alike(sessions, feed), model, feed)
    # Of numbers that shapes are made of, whatever the type of the arrays is.
    assert set(on_host(sessions[0])) <= {"Constant"}


def image(dtype=np.float16) -> tuple[Graph, str]:
    """Convolutions, what follows them, a reduction, and rows."""
    g = Graph(2, dtype=dtype)
    y = g.Relu(g.conv(g.input(1, 3, 12, 10, free=True), 16, (3, 3, 3), pads=[1] * 4))
    y = g.Add(g.HardSwish(g.conv(y, 16, (1, 3, 3), group=16, pads=[1] * 4)), y)
    y = g.conv(g.MaxPool(y, kernel_shape=[2, 2], strides=[2, 2]), 8, (16, 1, 1))
    flat = g.Flatten(g.GlobalAveragePool(g.Sigmoid(y)))
    return g, g.Softmax(g.MatMul(flat, g.random(8, 7)))


def test_conversions_are_at_the_borders():
    g, y = image()
    session = session_of(g, y)
    found = conversions(session, g.feed)
    if half_level():
        # Sums are float32, and what follows them does not go back for a few numbers.
        assert all(name != "x1" for name, _ in found)
    else:
        assert found == [("x1", "float16 to float32"), (y, "float32 to float16")]
    assert on_host(session) == []


def test_float32_in_half_precision():
    """As `Conv2d` does it: where the CPU has no such kernels, nothing changes."""
    g, y = image(np.float32)
    half, single = session_of(g, y, precision="fp16"), session_of(g, y)
    (got,), (expected,) = half.run(None, g.feed), single.run(None, g.feed)
    assert got.dtype == np.float32
    if half_level():
        agree([got], [expected], COMPUTED)
        found = conversions(half, g.feed)
        assert found[0] == ("x1", "float32 to float16")
        # Between the first convolution and the sum nothing is converted.
        steps = step_kinds(half, {"x1": g.feed["x1"]})
        first, last = steps.index("Reformat"), steps.index("GlobalAveragePool")
        assert steps[first + 1 : last].count("Reformat") == 1
    else:
        assert got.tobytes() == expected.tobytes()
        assert conversions(half, g.feed) == []
    agree(session_of(g, y, precision="fp32").run(None, g.feed), [expected])


def test_fp32_computes_float16_networks_in_float32():
    g, y = image()
    session = session_of(g, y, precision="fp32")
    agree(session.run(None, g.feed), in_double(g.model(y), g.feed), STORED)
    assert conversions(session, g.feed) == [
        ("x1", "float16 to float32"), (y, "float32 to float16")
    ]  # fmt: skip


def test_other_shapes_share_weights():
    g, y = image()
    session = session_of(g, y)
    packed = None
    for height, width in ((12, 10), (9, 16), (12, 10), (5, 5)):
        x = np.random.default_rng(height).standard_normal((2, 3, height, width))
        feed = {"x1": x.astype(np.float16)}
        agree(session.run(None, feed), in_double(g.model(y), feed), allowed())
        constants = {key[0] for key in session._network.shared.packed}
        packed = packed or constants
        assert constants == packed


def test_out_profile_and_pickles():
    g, y = image()
    session = session_of(g, y)
    (expected,) = session.run(None, g.feed)
    out = np.empty_like(expected)
    assert session.run(None, g.feed, out=[out])[0] is out
    assert out.tobytes() == expected.tobytes()
    plan = session.profile(g.feed)
    assert all(step.seconds > 0 for step in plan.steps)
    alike([session, *copies(session)], g.feed)


def test_prepared_weights_are_not_packed_again(monkeypatch):
    g, y = image()
    session = session_of(g, y)
    (expected,) = session.run(None, g.feed)
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(prepared(session, threads=1), 5, buffer_callback=buffers.append)
    packed = kept_weights.packed

    def small_ones(made, weight):
        # They travel inside the model.
        assert weight.nbytes < 1024
        return packed(made, weight)

    monkeypatch.setattr(kept_weights, "packed", small_ones)
    there = pickle.loads(stream, buffers=buffers).model()
    assert there.run(None, g.feed)[0].tobytes() == expected.tobytes()


def test_what_is_too_large_is_infinite():
    g = Graph(1, dtype=np.float16)
    x = g.input(1, 4)
    y = g.Mul(x, g.constant(60000))
    feed = {x: np.array([[1, 1.5, -2, 0]], np.float16)}
    (got,) = session_of(g, y).run(None, feed)
    np.testing.assert_array_equal(got, np.array([[60000, np.inf, -np.inf, 0]], np.float16))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 2, 1, 0)])
def test_every_number_of_half_precision_is_moved_as_it_is(order):
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    numbers[np.isnan(numbers)] = np.nan
    x = numbers.reshape(4, 16, 32, 32)
    g = Graph(1, dtype=np.float16)
    name = g.input(*x.shape)
    y = g.Transpose(g.Concat(name, name, axis=1), perm=order)
    session = session_of(g, y)
    (got,) = session.run(None, {name: x})
    expected = np.concatenate([x, x], 1).transpose(order)
    assert got.tobytes() == np.ascontiguousarray(expected).tobytes()
    assert on_host(session) == []


def test_steps_in_python_are_between_conversions():
    g = Graph(1, dtype=np.float16)
    x = g.input(1, 4, 6, 6)
    y = g.Hardmax(g.conv(x, 4, (4, 1, 1)))
    z = g.conv(y, 3, (4, 3, 3))
    session = session_of(g, z)
    agree(session.run(None, g.feed), in_double(g.model(z), g.feed), allowed())
    assert on_host(session) == ["Hardmax"]
    if not half_level():
        assert [kind for _, kind in conversions(session, g.feed)] == [
            "float16 to float32", "float32 to float16", "float16 to float32", "float32 to float16"
        ]  # fmt: skip


def test_integers_beside_half_precision():
    g = Graph(1, dtype=np.float16)
    x = g.input(3, 4)
    y = g.Gather(g.Tanh(x), g.constant([2, 0], np.int64), axis=0)
    z = g.Mul(y, y)
    agree(session_of(g, z).run(None, g.feed), in_double(g.model(z), g.feed), STORED)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_recurrent_networks(name):
    g = Graph(4, dtype=np.float16)
    x = g.input(6, 2, 5)
    gates = {"LSTM": 4, "GRU": 3}[name]
    w, r = g.random(2, gates * 3, 5), g.random(2, gates * 3, 3)
    y, h, *_ = getattr(g, name)(
        x, w, r, g.random(2, 2 * gates * 3), hidden_size=3, direction="bidirectional", outputs=2
    )
    session = session_of(g, y, h)
    agree(session.run(None, g.feed), in_double(g.model(y, h), g.feed), STORED)
    assert on_host(session) == []


@pytest.mark.parametrize("to", ["float16", "float32"])
def test_casts(to):
    g = Graph(1, dtype=to)
    other = "float32" if to == "float16" else "float16"
    x = g.input(2, 3, 4, 5, dtype=other)
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
    y = g.Cast(x, to=kind)
    z = g.Tanh(y)
    session = session_of(g, y, z)
    got = session.run(None, g.feed)
    assert got[0].tobytes() == g.feed[x].astype(to).tobytes()
    agree(got[1:], [np.tanh(g.feed[x].astype(to).astype(np.float64)).astype(to)], STORED)
    assert on_host(session) == []


def test_a_cast_rounds_though_float32_follows(g):
    x = g.input(50)
    y = g.Sub(x, g.Cast(g.Cast(x, to=onnx.TensorProto.FLOAT16), to=onnx.TensorProto.FLOAT))
    (got,) = session_of(g, y).run(None, g.feed)
    x = g.feed[x]
    np.testing.assert_array_equal(got, x - x.astype(np.float16).astype(np.float32))
    assert np.any(got)


def test_outputs_that_are_no_floats():
    """Beside those of float16: computed, converted and passed on."""
    g = Graph(opset=17, dtype=np.float16)
    x, n = g.input(1, 4, 6, 6), g.input(3, dtype=np.int64)
    y = g.conv(x, 5, (4, 3, 3))
    outputs = [
        y,
        g.ArgMax(y, axis=1),
        g.Identity(n),
        g.Cast(g.Greater(y, g.constant(np.zeros(()))), to=9),
    ]
    model = g.model(*outputs)
    got = InferenceSession(model, threads=1).run(None, g.feed)
    assert [a.dtype for a in got] == [np.float16, np.int64, np.int64, np.bool_]
    np.testing.assert_array_equal(got[2], g.feed[n])
    exact = in_double(model, g.feed)[0].astype(np.float64)
    np.testing.assert_allclose(got[0], exact, rtol=0, atol=allowed() * np.abs(exact).max())
    np.testing.assert_array_equal(got[3], got[0] > 0)
    np.testing.assert_array_equal(got[1], got[0].argmax(1)[:, None])


# Products of narrower floats than the arrays


@pytest.mark.narrow
@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("bf16", np.float32),
        ("low", np.float32),
        ("low_bf16", np.float32),
        ("bf16", np.float16),
        ("low_bf16", np.float16),
    ],
)
def test_products_of_narrower_floats(precision, dtype):
    """Permitted or insisted on; operands lose sixteen bits at most."""
    g, y = image(dtype)
    (got,) = session_of(g, y, precision=precision).run(None, g.feed)
    (expected,) = session_of(g, y).run(None, g.feed)
    assert got.dtype == dtype
    expected = expected.astype(np.float32)
    error = np.abs(got - expected).max() / np.abs(expected).max()
    assert error < 8 * ROUNDED
    if (precision, dtype) == ("low_bf16", np.float32):
        kinds = ("bf16t", "bf16m", "bf16")
        found = (best_isa(numerics_of("f32", kind)) for kind in kinds)
        # Rounded operands show; without such products nothing is rounded.
        assert (error > 1e-5) == any(isa not in (None, "portable") for isa in found)


@pytest.mark.narrow
def test_words_that_are_none():
    g, y = image(np.float32)
    with pytest.raises(ValueError, match="precision must be one of auto, fp32"):
        session_of(g, y, precision="half")
