"""Models run by sessions, beside ONNX's reference."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from pplconv.network.session import InferenceSession
from pplconv.sharing import prepared

if TYPE_CHECKING:
    from tests.network.graphs import Graph

# Relative to the largest element of a result; convolutions may spend 1e-5.
ALLOWED = {np.dtype(np.float32): 2e-5, np.dtype(np.float64): 1e-11, np.dtype(np.float16): 2e-3}
needs_onnxruntime = pytest.mark.unemulated("onnxruntime crashes there when it is imported")


def agree(
    got: Sequence[np.ndarray],
    expected: Sequence[Any],
    allowed: float | None = None,
    least: float = 1e-30,
) -> None:
    """Compare outputs: shape, type, where NaN and infinities are, and numbers.

    Errors are relative to the largest number of an output, or to `least`.
    """
    assert len(got) == len(expected)
    for x, y in zip(got, expected, strict=True):
        y = np.asarray(y)
        assert x.shape == y.shape and x.dtype == y.dtype
        if x.dtype not in ALLOWED:
            np.testing.assert_array_equal(x, y)
            continue
        finite = np.isfinite(y)
        np.testing.assert_array_equal(x[~finite], y[~finite])
        scale = max(least, float(np.abs(y[finite]).max(initial=0)))
        bound = (ALLOWED[x.dtype] if allowed is None else allowed) * scale
        np.testing.assert_allclose(x[finite], y[finite], rtol=0, atol=bound)


def referred(model: onnx.ModelProto, feed: Mapping[str, np.ndarray]) -> list[Any]:
    """Outputs of ONNX's reference."""
    with np.errstate(all="ignore"):
        results: list[Any] = ReferenceEvaluator(model).run(None, dict(feed))
    return results


def by_onnxruntime(model: onnx.ModelProto, feed: Mapping[str, np.ndarray]) -> list[Any]:
    """Outputs of onnxruntime, where the reference lacks something; see `needs_onnxruntime`."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    content = model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    results: list[Any] = session.run(None, dict(feed))
    return results


def compare_models(model: onnx.ModelProto, feed: Mapping[str, np.ndarray]) -> InferenceSession:
    """Run a model by a session and by onnxruntime, and compare all results."""
    session = InferenceSession(model, threads=1, fallback="silent")
    expected = by_onnxruntime(model, feed)
    for got, want in zip(session.run(None, feed), expected, strict=True):
        want = np.asarray(want)
        assert got.shape == want.shape and got.dtype == want.dtype
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want)
            continue
        finite = np.isfinite(want)
        np.testing.assert_array_equal(got[~finite], want[~finite])
        scale = max(1.0, float(np.abs(want[finite]).max(initial=0)))
        np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=2e-5 * scale)
    return session


def same(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Compare outputs: shape, type, and every bit."""
    assert len(got) == len(expected)
    for x, y in zip(got, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def alike(sessions: Iterable[InferenceSession], feed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of sessions, which are the same bits."""
    first, *others = (session.run(None, feed) for session in sessions)
    for other in others:
        same(other, first)
    return first


def run(
    model: Any, feed: Mapping[str, np.ndarray], teams: Sequence[int] = (1,), **options: Any
) -> list[np.ndarray]:
    """Outputs of a session, which are the same bits for each team of threads."""
    return alike((InferenceSession(model, threads=n, **options) for n in teams), feed)


def session_of(g: Graph, *outputs: str, **options: Any) -> InferenceSession:
    """A session of one thread, if nothing else is said, for the network that was written."""
    return InferenceSession(g.model(*outputs), **{"threads": 1, **options})


def copies(session: InferenceSession) -> Iterator[InferenceSession]:
    """Yield a session that was pickled, and one that travelled with its programs and weights."""
    yield pickle.loads(pickle.dumps(session))
    yield pickle.loads(pickle.dumps(prepared(session, threads=1))).model()


def step_kinds(session: InferenceSession, feed: Mapping[str, Any]) -> list[str]:
    """Kinds of the steps of a plan."""
    return [step.kind for step in session.plan_for(feed).by_operators().steps]


def on_host(session: InferenceSession) -> list[str]:
    """Kinds of the steps of a session's programs that run in Python."""
    programs = [compiled for compiled, _ in session._network.programs.values()]
    return [step.kind for program in programs for step in program.steps if step.host]


def check(
    model: onnx.ModelProto,
    feed: Mapping[str, np.ndarray],
    *,
    host: bool | None = False,
    allowed: float | None = None,
    expected: Any = referred,
    **options: Any,
) -> list[np.ndarray]:
    """Run a model, compare it with a reference, and see whether any step ran in Python.

    Where `host` is None, steps may run anywhere.
    """
    session = InferenceSession(model, **{"threads": 1, **options})
    got = session.run(None, feed)
    agree(got, expected(model, feed), allowed)
    assert host in (None, bool(on_host(session))), on_host(session)
    return got


def one(g: Graph, *outputs: str, **options: Any) -> list[np.ndarray]:
    """Compare the network that was written, as `check` does."""
    return check(g.model(*outputs), g.feed, **options)
