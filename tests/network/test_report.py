"""What a plan of a network tells: methods, weights, what runs in Python, and the arena."""

from __future__ import annotations

import numpy as np
import pytest
import threadpoolctl

import pplconv
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph


@pytest.fixture(scope="module")
def plan():
    g = Graph(3)
    x = g.input(1, 8, 12, 10)
    y = g.Relu(g.conv(x, 16, (8, 3, 3), pads=[1, 1, 1, 1]))
    z = g.conv(y, 16, (1, 5, 5), pads=[2, 2, 2, 2], group=16)
    z = g.Softmax(g.Mul(z, g.Sigmoid(y)), axis=1)
    z = g.CumSum(z, g.constant(1, np.int64))
    session = InferenceSession(g.model(z), threads=1)
    return session.profile(g.feed)


def steps(plan, kind):
    found = [step for step in plan.steps if step.kind == kind]
    assert found
    return found


def test_convolutions_name_their_algorithm(plan):
    first, second = steps(plan, "Conv")
    assert first.method in ("direct", "winograd", "im2col")
    assert second.method == "depthwise"
    assert all(step.detail.startswith(f"{step.method} ") for step in (first, second))
    (softmax,) = steps(plan, "Softmax")
    assert softmax.method == ""


def test_plans_have_the_threads_that_a_limit_leaves(g):
    x = g.input(4, 16, 64, 64)
    y = g.conv(g.conv(x, 64, (16, 3, 3), pads=[1, 1, 1, 1]), 64, (64, 1, 1))
    session = InferenceSession(g.model(y), threads=2)
    shapes = {x: (4, 16, 64, 64)}

    def threads():
        return [step.plan.threads for step in steps(session.plan_for(shapes), "Conv")]

    before = threads()
    with threadpoolctl.threadpool_limits(1):
        assert set(threads()) == {1}
        assert session.profile(g.feed, repeats=1).threads == 1
    assert threads() == before
    with pplconv.runtime.pin(cores=1) as pin:
        assert set(threads()) == ({1} if pin.cores else set(before))


def test_weights_are_counted_apart(plan):
    first, second = steps(plan, "Conv")
    # Packed weights have the weights in them, and padding; Winograd's are larger.
    assert first.weight_bytes >= 16 * 8 * 9 * 4
    assert second.weight_bytes >= 16 * 25 * 4
    assert second.bytes == 2 * 16 * 12 * 10 * 4
    (softmax,) = steps(plan, "Softmax")
    assert softmax.weight_bytes == 0


def test_what_runs_in_python_says_so(plan):
    (sums,) = steps(plan, "CumSum")
    assert sums.host and "Python" in sums.detail
    assert not any(step.host for step in steps(plan, "Conv"))


def test_buffers_lie_in_the_arena_and_never_on_one_another(plan):
    assert plan.buffers
    for number, a in enumerate(plan.buffers):
        assert a.offset >= 0 and a.offset + a.size <= plan.arena_bytes
        assert 0 <= a.first <= a.last < len(plan.steps)
        for b in plan.buffers[:number]:
            together = a.first <= b.last and b.first <= a.last
            apart = a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
            assert apart or not together


def test_buffers_follow_their_first_steps(plan):
    firsts = [buffer.first for buffer in plan.buffers]
    assert firsts == sorted(firsts)
    assert np.prod((1, 16, 12, 10)) * 4 in {buffer.size for buffer in plan.buffers}
