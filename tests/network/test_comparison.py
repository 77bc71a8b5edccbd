"""`InferenceSession.compare`: figures beside NumPy's, special numbers, shapes, bad arguments."""

from __future__ import annotations

import math
import pickle
import threading

import numpy as np
import pytest

from pplconv import runtime
from pplconv.network import comparison
from pplconv.network.comparison import compared
from pplconv.network.low_precision import narrow_types
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import copies, session_of
from tests.network.value_cases import OVERRIDES, X


def classifier(batch: int = 3) -> tuple[Graph, str]:
    g = Graph(5)
    x = g.Relu(g.conv(g.input(batch, 8, 10, 12), 32, (8, 3, 3), pads=[1] * 4))
    return g, g.Softmax(g.Gemm(g.Flatten(g.GlobalAveragePool(x)), g.random(32, 7)), axis=1)


def of_arrays(value: object, other: object, batches: tuple[int, ...] = ()) -> list:
    """The comparison of one output named ``"y"``."""
    return list(compared(lambda: {"y": value}, lambda: {"y": other}, 1, batches)[0])


def decibels(x: np.ndarray, y: np.ndarray) -> float:
    x, y = x.astype(np.float64), y.astype(np.float64)
    return 10 * math.log10((x**2).sum() / ((x - y) ** 2).sum())


def test_figures_are_those_of_two_sessions():
    g, y = classifier()
    (want,), (got,) = (
        session_of(g, y, precision=word).run(None, g.feed) for word in ("fp32", "low_bf16")
    )
    session = session_of(g, y)
    found = session.compare(g.feed, precision="low_bf16", repeats=2)
    (one,) = found.outputs
    assert (found.precision, found.other_precision, found.repeats) == ("auto", "low_bf16", 2)
    assert found.seconds > 0 and found.gain == found.seconds / found.other_seconds
    assert (one.name, one.dtype, one.shape, one.other_shape) == (y, "float32", (3, 7), (3, 7))
    # Rounded operands show; without such products nothing is rounded.
    assert (one.different > 0) == ("bfloat16" in narrow_types())
    assert one.largest == np.abs(want).max()
    assert one.largest_difference == np.abs(want.astype(float) - got.astype(float)).max()
    if one.different:
        assert one.signal_to_noise == pytest.approx(decibels(want, got))
        assert 25 < one.signal_to_noise < 90
    else:
        assert one.signal_to_noise == math.inf
    assert one.same_argmax == (want.argmax(1) == got.argmax(1)).mean()
    assert one.special == 0 and one.comparable


def test_a_session_equals_itself():
    g, y = classifier()
    found = session_of(g, y, precision="low").compare(g.feed, precision="low", repeats=1)
    (one,) = found.outputs
    assert (one.signal_to_noise, one.largest_difference, one.different) == (math.inf, 0, 0)
    assert one.same_argmax == 1
    text = str(found)
    assert 'precision "low", the reference' in text and "one run of each" in text
    assert "inf dB" in text and "equal, same argmax in 100 % of the rows" in text


def test_the_other_session_is_made_once_and_late():
    g, y = classifier()
    session = session_of(g, y, threads=2)
    assert session._other is None
    session.compare(g.feed, repeats=1)
    other = session._other
    assert other._network.shared.settings.threads == 2
    assert other._network.shared.settings.precision == "low"
    session.compare(g.feed, repeats=1)
    assert session._other is other
    session.compare(g.feed, precision="fp16", repeats=1)
    assert session._other is not other
    # Nothing is compared with what a pickle lacks.
    for copy in (*copies(session), pickle.loads(pickle.dumps(session))):
        assert copy._other is None
        copy.compare(g.feed, repeats=1)


def test_weights_that_both_read_are_packed_once():
    g = Graph(6)
    x = g.conv(g.input(1, 16, 8, 8), 16, (1, 3, 3), group=16)
    session = session_of(g, x)
    session.compare(g.feed, precision="fp32", repeats=1)
    first, second = (s._network.shared.packed for s in (session, session._other))
    assert first.keys() == second.keys() and first
    assert all(first[key].packed is second[key].packed for key in first)


def test_two_threads_compare_at_once():
    g, y = classifier()
    session, found = session_of(g, y), []

    def work(word: str) -> None:
        found.append(session.compare(g.feed, precision=word, repeats=2).other_precision)

    words = ["low", "bf16", "fp32", "low"]
    threads = [threading.Thread(target=work, args=(word,)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(words)


def test_in_a_team():
    g, y = classifier()
    session = session_of(g, y, threads=None)
    with runtime.team(1):
        (one,) = session.compare(g.feed, precision="fp32", repeats=1).outputs
    assert one.signal_to_noise == math.inf


def test_sizes_that_depend_on_data():
    g = Graph(7)
    x = g.input(1, 4, 6, 6)
    y = g.conv(x, 4, (4, 3, 3))
    places = g.Cast(g.NonZero(g.Relu(y)), to=1)
    found = session_of(g, places, y).compare(g.feed, repeats=1)
    assert [one.name for one in found.outputs] == [places, y]
    assert found.outputs[0].shape[0] == 4


def test_sequences_and_optionals():
    arrays = [np.float32([1, 2]), np.float32([3])]
    one, two = of_arrays(arrays, [arrays[0], np.float32([4])])
    assert (one.name, two.name) == ("y[0]", "y[1]")
    assert one.different == 0 and two.largest_difference == 1
    (longer,) = of_arrays(arrays, arrays[:1])
    assert not longer.comparable and (longer.shape, longer.other_shape) == ((2,), (1,))
    (nothing,) = of_arrays(None, None)
    assert not nothing.comparable and nothing.dtype == "None"
    (missing,) = of_arrays(arrays[0], None)
    assert not missing.comparable
    for each in (longer, nothing, missing):
        assert comparison._row(each)[-1]


def test_other_shapes_are_told():
    (one,) = of_arrays(np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32))
    assert not one.comparable and math.isnan(one.signal_to_noise)
    assert comparison._row(one)[-1] == "the other is 4x3"


def test_special_numbers():
    """What is finite in both outputs is measured, and what is not is counted."""
    nan, inf = math.nan, math.inf
    x = np.float32([1, nan, nan, inf, inf, -inf, 2, 3])
    y = np.float32([1, nan, 0.5, inf, -inf, 7, nan, 4])
    (one,) = of_arrays(x, y)
    assert (one.different, one.special) == (5, 4)
    assert (one.largest, one.largest_difference) == (3, 1)
    assert one.signal_to_noise == pytest.approx(10 * math.log10(10 / 1))
    assert "4 elements are NaN or infinite in one output alone" in comparison._row(one)[-1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_ends_of_the_range(dtype):
    """Squares of the largest numbers, and of the smallest, leave the range of float64."""
    largest = np.finfo(dtype).max
    (one,) = of_arrays(np.array([largest], dtype), np.array([largest / 2], dtype))
    assert one.signal_to_noise == pytest.approx(20 * math.log10(2), rel=1e-3)
    tiny = np.finfo(dtype).tiny
    (one,) = of_arrays(np.array([tiny], dtype), np.array([tiny / 2], dtype))
    assert one.signal_to_noise == pytest.approx(20 * math.log10(2), rel=1e-3)
    (one,) = of_arrays(np.array([largest], dtype), np.array([-largest], dtype))
    assert one.signal_to_noise == pytest.approx(-20 * math.log10(2))


def test_no_signal_and_no_elements():
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert of_arrays(zero, one)[0].signal_to_noise == -math.inf
    assert of_arrays(zero, zero)[0].signal_to_noise == math.inf
    (empty,) = of_arrays(zero[:0], zero[:0], (0,))
    assert (empty.signal_to_noise, empty.largest, empty.different) == (math.inf, 0, 0)
    (empty,) = of_arrays(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32), (0,))
    assert math.isnan(empty.same_argmax)


def test_brain_floats():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, y = (np.array([1, 2], ml_dtypes.bfloat16), np.array([1, 3], ml_dtypes.bfloat16))
    (one,) = of_arrays(x, y)
    assert (one.dtype, one.largest, one.largest_difference) == ("bfloat16", 2, 1)
    assert one.signal_to_noise == pytest.approx(10 * math.log10(5))


@pytest.mark.parametrize(
    ("x", "y", "different", "apart"),
    [
        (np.int64([2**63 - 1, 5]), np.int64([-(2**63), 5]), 1, float(2**64 - 1)),
        (np.uint8([0, 255]), np.uint8([255, 255]), 1, 255.0),
        (np.array([True, False]), np.array([True, True]), 1, math.nan),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), 1, math.nan),
        (np.int32([]), np.int32([]), 0, 0.0),
    ],
)
def test_what_is_no_floating_point_number(x, y, different, apart):
    (one,) = of_arrays(x, y)
    assert one.different == different and math.isnan(one.signal_to_noise)
    assert one.largest_difference == apart or math.isnan(apart)
    told = f"{different} of {x.size} elements differ" if different else "equal"
    assert comparison._row(one)[-1] == told


def test_the_place_of_the_largest():
    """Of matrices with a row for each image alone: boxes are no classes."""
    x, y = np.float32([[1, 2, 0], [3, 2, 1]]), np.float32([[1, 2, 0], [1, 2, 3]])
    assert of_arrays(x, y, (2,))[0].same_argmax == 0.5
    assert math.isnan(of_arrays(x, y, (1,))[0].same_argmax)
    assert math.isnan(of_arrays(x[:, :1], y[:, :1], (2,))[0].same_argmax)


def test_times_are_medians_of_runs_in_turn(monkeypatch):
    clock = iter([0, 1, 1, 1.5, 10, 14, 14, 15, 20, 23, 23, 25])
    monkeypatch.setattr(comparison.time, "perf_counter", lambda: next(clock))
    order = []
    empty: dict = {}
    _, one, two = compared(
        lambda: order.append("a") or empty, lambda: order.append("b") or empty, 3, ()
    )
    assert "".join(order) == "abababab"
    assert (one, two) == (3, 1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"precision": "half"}, ValueError, "precision must be one of auto, fp32"),
        ({"precision": None}, (TypeError, ValueError), "precision must be one of auto, fp32"),
        ({"repeats": 0}, ValueError, "repeats must be"),
        ({"repeats": 2.5}, TypeError, "repeats must be"),
        ({"feed": {}}, ValueError, "feed: input 'x1' is missing"),
        ({"feed": None}, TypeError, "feed must map names to arrays"),
        ({"feed": {"x1": np.zeros((3, 8, 10, 12), int)}}, TypeError, "feed: input 'x1'"),
        ({"feed": {"x1": np.zeros((3, 9, 10, 12), np.float32)}}, ValueError, "must have shape"),
    ],
)
def test_bad_arguments(arguments, error, message):
    g, y = classifier()
    session = session_of(g, y)
    with pytest.raises(error, match=message):
        session.compare(**{"feed": g.feed, **arguments})
    with pytest.raises(ValueError, match="the network has no input 'z'"):
        session.compare({**g.feed, "z": np.zeros(1, np.float32)})


def test_a_demand_that_cannot_be_met():
    g = Graph(dtype=np.float64)
    y = g.conv(g.input(1, 4, 6, 6), 4, (4, 3, 3))
    with pytest.raises(ValueError, match=f"low_bf16.*Conv of '{y}' is of float64"):
        session_of(g, y).compare(g.feed, precision="low_bf16")


def test_overridden_weights():
    """A feed may have arrays for initializers that are inputs, too."""
    w = np.arange(20, dtype=np.float32).reshape(4, 5)
    session = InferenceSession(OVERRIDES["a product"].model, threads=1)
    (one,) = session.compare({"x": X, "w": w}, precision="fp32", repeats=1).outputs
    assert one.signal_to_noise == math.inf
    assert one.largest == pytest.approx(np.abs(X @ w).max())
