"""Initializers that a caller overrides, beside onnxruntime; what is kept, and what is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from pplconv.network import overriding
from pplconv.network.session import InferenceSession
from tests.network.running import by_onnxruntime, copies, needs_onnxruntime
from tests.network.value_cases import OVERRIDES, ValueCase, X

W = np.arange(20, dtype=np.float32).reshape(4, 5)


def session_of(name: str = "a product", **options: object) -> InferenceSession:
    """A session of a case."""
    return InferenceSession(OVERRIDES[name].model, threads=1, **options)


@needs_onnxruntime
def test_open_sizes():
    model = OVERRIDES["a product"].model
    for dim in model.graph.input[1].type.tensor_type.shape.dim:
        dim.dim_param = "size"
    session = InferenceSession(model, threads=1)
    for w in (W, W[:, :3].copy(), W[:, :0].copy()):
        want = by_onnxruntime(model, {"x": X, "w": w})
        np.testing.assert_allclose(session.run(None, {"x": X, "w": w})[0], want[0], rtol=1e-5)


def test_an_override_is_compiled_once():
    """It is an input: other values need no other program."""
    session = session_of()
    for factor in range(5):
        (y,) = session.run(None, {"x": X, "w": factor * W})
        np.testing.assert_allclose(y, X @ (factor * W), rtol=1e-4, atol=1e-4)
    (network,) = session._overrides._known.values()
    assert len(network.programs) == 1


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(overriding, "_MOST_NETWORKS", 3)
    session = session_of("a scale")
    for number in range(1, 9):
        scale = np.array(number / 8, np.float32)
        (y,) = session.run(None, {"x": X, "s": scale})
        want = (np.clip(np.rint(X / scale) + 100, 0, 255) - 100) * scale
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)
    assert len(session._overrides._known) == 3
    (y,) = session.run(None, {"x": X})
    np.testing.assert_allclose(y, np.rint(X / np.float32(0.1)) * 0.1, rtol=1e-4, atol=1e-5)


def test_plans():
    """Of a shape, or of an array; scales have to be arrays."""
    session = session_of()
    assert not session.is_ready_for({"x": X, "w": W})
    assert dict(session.plan_for({"x": (2, 3, 4), "w": (4, 5)}).inputs)["w"] == (4, 5)
    assert session.is_ready_for({"x": X, "w": W})
    assert session.profile({"x": X, "w": W}, repeats=1).steps
    session = session_of("a scale")
    assert session.plan_for({"x": X, "s": np.array(0.5, np.float32)}).steps
    with pytest.raises(ValueError, match=r"cannot override the initializers \['s'\]: .*scale 's'"):
        session.plan_for({"x": X, "s": ()})


def test_travelling_sessions():
    session = session_of()
    session.run(None, {"x": X})
    for copy in copies(session):
        assert [v.name for v in copy.get_overridable_initializers()] == ["w"]
        np.testing.assert_allclose(copy.run(None, {"x": X, "w": W})[0], X @ W, rtol=1e-5)


def test_the_callers_array_is_read_each_time():
    session = session_of()
    w = W.copy()
    first = session.run(None, {"x": X, "w": w})[0]
    w *= 2
    np.testing.assert_allclose(session.run(None, {"x": X, "w": w})[0], 2 * first, rtol=1e-5)


REFUSED = [
    ({"x": X, "w": W[:, :3]}, ValueError, r"'w' must have shape \[4, 5\], got \(4, 3\)"),
    ({"x": X, "w": W.astype(np.float64)}, TypeError, "'w' must be float32, got float64"),
    ({"x": X, "v": W}, ValueError, "no input 'v'"),
    ({"w": W}, ValueError, "'x' is missing"),
]


@pytest.mark.parametrize(("feed", "error", "said"), REFUSED)
def test_refused(feed, error, said):
    with pytest.raises(error, match=said):
        session_of().run(None, feed)


def test_initializers_that_are_no_inputs():
    text = "g (float[N,C,4] x) => (float[] y) <float[4,1] w = {1, 2, 3, 4}> { y = MatMul(x, w) }"
    session = InferenceSession(ValueCase(text, ()).model)
    assert session.get_overridable_initializers() == []
    with pytest.raises(ValueError, match="no input 'w'"):
        session.run(None, {"x": X, "w": W[:, :1]})


def test_old_files():
    """Of IR 3, where all initializers are inputs: onnxruntime takes none of them either."""
    case = OVERRIDES["a product"]._replace(ir=3, opset=8)
    session = InferenceSession(case.model)
    assert session.get_overridable_initializers() == []
    with pytest.raises(ValueError, match="no input 'w'"):
        session.run(None, {"x": X, "w": W})


def test_many_threads():
    """One network is made for all of them."""
    session = session_of("of opset 8")
    failed = []

    def work(number: int) -> None:
        w = W + number
        (y,) = session.run(None, {"x": X, "w": w})
        if not np.allclose(y, X @ w + np.arange(1, 6), rtol=1e-4, atol=1e-4):
            failed.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(session._overrides._known) == 1
