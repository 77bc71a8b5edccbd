"""Batches that run in parts: which networks allow it, when it pays, and that it changes nothing."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from pplconv.network import compiling
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import agree, referred, session_of

# Small caches: whatever can be divided is.
TINY = mock.patch.object(compiling.planner, "kept_bytes", lambda: 1 << 10)


@pytest.fixture
def g() -> Graph:
    return Graph(opset=18)


def times(session: InferenceSession, feed) -> int:
    return session.plan_for(feed).times


def body(g: Graph, batch: int = 6, *, free: bool = False) -> str:
    return g.Relu(g.conv(g.input(batch, 4, 24, 24, free=free), 8, (4, 3, 3), pads=[1] * 4))


SEPARATE = {
    "convolution": lambda g, y: g.conv(y, 4, (8, 1, 1)),
    "pool": lambda g, y: g.MaxPool(y, kernel_shape=[2, 2], strides=[2, 2]),
    "gate": lambda g, y: g.Mul(y, g.Sigmoid(g.GlobalAveragePool(y))),
    "constant": lambda g, y: g.Add(y, g.constant(np.ones((1, 8, 1, 1), np.float32))),
    "join": lambda g, y: g.Concat(y, g.Erf(y), axis=1),
    "split": lambda g, y: g.Add(*g.Split(y, axis=1, num_outputs=2, outputs=2)),
    "rows": lambda g, y: g.Softmax(g.Flatten(y), axis=-1),
    "shape": lambda g, y: g.Reshape(y, g.constant([0, 8, -1], np.int64)),
    "product": lambda g, y: g.MatMul(g.Flatten(y), g.constant(np.ones((4608, 3), np.float32))),
    "residual": lambda g, y: g.Relu(g.Add(y, g.MatMul(g.Tanh(y), g.random(24, 24)))),
    "turned residual": lambda g, y: g.Add(
        g.MatMul(y, g.random(24, 24)), g.Transpose(y, perm=[0, 1, 3, 2])
    ),
    "attention": lambda g, y: g.MatMul(y, g.Transpose(y, perm=[0, 1, 3, 2])),
    "mean": lambda g, y: g.ReduceMean(y, g.constant([1, 3], np.int64)),
    "sizes": lambda g, y: g.Resize(
        y, "", "", g.constant([6, 8, 31, 48], np.int64), mode="linear"
    ),
    "window": lambda g, y: g.Slice(
        y, *(g.constant([n], np.int64) for n in (1, 9, 2))
    ),
}  # fmt: skip
TOGETHER = {
    "softmax over images": lambda g, y: g.Softmax(y, axis=0),
    "mean over images": lambda g, y: g.ReduceMean(y, g.constant([0], np.int64), keepdims=1),
    "images turned": lambda g, y: g.Transpose(y, perm=[1, 0, 2, 3]),
    "images turned round": lambda g, y: g.Transpose(y),
    "images left out": lambda g, y: g.Slice(
        y, *(g.constant([n], np.int64) for n in (1, 5, 0))
    ),
    "images joined": lambda g, y: g.Concat(y, y, axis=0),
    "images parted": lambda g, y: g.Add(*g.Split(y, axis=0, num_outputs=2, outputs=2)),
    "a number for each image": lambda g, y: g.Mul(
        y, g.constant(np.arange(6.0, dtype="f").reshape(6, 1, 1, 1))
    ),
    "images as channels": lambda g, y: g.Reshape(y, g.constant([1, 48, 24, 24], np.int64)),
    "one image": lambda g, y: g.Gather(y, g.constant(np.array(2), np.int64), axis=0),
    "images multiplied": lambda g, y: g.MatMul(
        g.constant(np.ones((2, 6), np.float32)), g.Flatten(y)
    ),
    "a constant of each image": lambda g, y: g.Concat(
        g.constant(np.ones((6, 1, 24, 24), np.float32)), y, axis=1
    ),
    "numbers that lie along another dimension": lambda g, y: g.LayerNormalization(
        g.ReduceMean(y, g.constant([2, 3], np.int64), keepdims=0),
        g.ReduceMean(y, g.constant([0, 2, 3], np.int64), keepdims=0),
    ),
    "a residual of all images": lambda g, y: g.Add(
        g.MatMul(y, g.random(24, 24)),
        g.Expand(g.ReduceMean(y, g.constant([0], np.int64)), g.constant([6, 8, 24, 24], np.int64)),
    ),
    "in Python": lambda g, y: g.CumSum(y, g.constant(np.array(0), np.int64)),
}  # fmt: skip


def run_in(times: int, g: Graph, y: str, *, at_once: int) -> None:
    """Run a network in parts of so many images, if it can; it runs so many times."""
    with mock.patch.object(compiling, "images_at_once", lambda *_: at_once):
        session = session_of(g, y)
        agree(session.run(None, g.feed), referred(g.model(y), g.feed))
        assert session.plan_for(g.feed).times == times


@pytest.mark.parametrize("name", SEPARATE)
def test_images_by_themselves_run_in_parts(name, g):
    run_in(3, g, SEPARATE[name](g, body(g)), at_once=2)


def test_scales_as_many_as_images(g):
    """Scales follow from the input, and lie along the last dimension, as long as the batch."""
    x = g.input(4, 4)
    y = g.LayerNormalization(x, g.ReduceMean(x, g.constant([1], np.int64), keepdims=0))
    run_in(1, g, y, at_once=1)


@pytest.mark.parametrize("name", TOGETHER)
def test_images_that_meet_run_together(name, g):
    run_in(1, g, TOGETHER[name](g, body(g)), at_once=1)


def test_all_outputs_have_the_batch(g):
    """An output that follows from weights alone has no part for each image."""
    y = body(g)
    with TINY:
        fixed = g.Softmax(g.constant(np.ones((6, 3), np.float32)))
        session = session_of(g, y, g.Add(fixed, g.constant(np.float32(1))))
        assert times(session, g.feed) == 1


def test_inputs_of_different_batches(g):
    y = g.Add(body(g), g.input(1, 8, 1, 1))
    with TINY:
        session = session_of(g, y)
        agree(session.run(None, g.feed), referred(g.model(y), g.feed))
        assert times(session, g.feed) == 1


def test_what_the_caches_hold_runs_at_once(g):
    """A larger batch runs in parts as large as they hold: each part reads the weights once."""
    session = session_of(g, body(g, 8, free=True))
    (name,) = g.feed
    image = 4 * (4 + 8) * 24 * 24
    for cache, wanted in ((1 << 30, 1), (4 * image + 4096, 2), (image + 4096, 8)):
        with mock.patch.object(compiling.planner, "kept_bytes", lambda cache=cache: cache):
            session._network.programs.clear()
            assert times(session, {name: (8, 4, 24, 24)}) == wanted
            # Seven images have no halves.
            session._network.programs.clear()
            assert times(session, {name: (7, 4, 24, 24)}) == (1 if wanted == 1 else 7)
            assert times(session, {name: (1, 4, 24, 24)}) == 1


def test_heavy_weights_are_read_once(g):
    """The layer's weights are larger than all its results."""
    y = g.Flatten(body(g))
    weights = g.constant(g.rng.standard_normal((4608, 4000), "f"))
    session = session_of(g, g.MatMul(y, weights))
    with mock.patch.object(compiling.planner, "kept_bytes", lambda: 1 << 16):
        assert times(session, g.feed) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_profile_and_outputs_of_parts(threads, g):
    """Steps count for all parts; results go where the caller wants them."""
    y = g.conv(body(g), 4, (8, 1, 1))
    whole = session_of(g, y, threads=threads)
    (expected,) = whole.run(None, g.feed)
    with TINY:
        session = session_of(g, y, threads=threads)
        out = np.full(expected.shape, np.nan, np.float32)
        session.run(None, g.feed, out=[out])
        plan = session.profile(g.feed)
        again = InferenceSession(g.model(y), threads=threads)
        agree(again(g.feed), [expected])
    assert plan.times == 6 and "in 6 parts" in str(plan)
    assert sum(s.flops for s in plan.steps) == sum(s.flops for s in whole.plan_for(g.feed).steps)
    assert plan.arena_bytes < whole.plan_for(g.feed).arena_bytes
    assert all(step.seconds > 0 for step in plan.steps)
    agree([out], [expected])
