"""Operators and networks of opsets 7 to 17 beside onnxruntime."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.old_graphs import BEFORE
from tests.network.old_opsets import OPERATORS, OPSETS, draw_old
from tests.network.running import agree, by_onnxruntime, compare_models, needs_onnxruntime, run
from tests.network.small_models import older

pytestmark = needs_onnxruntime
# Attributes that became inputs, and meanings that changed.
CHANGED = {*BEFORE, "Hardmax", "LogSoftmax", "Resize", "Softmax"}


def compare_old(op: str, rng: np.random.Generator) -> None:
    """Compare the first case that onnxruntime takes: types were fewer, and axes counted up only."""
    from onnxruntime.capi.onnxruntime_pybind11_state import (
        Fail,
        InvalidArgument,
        InvalidGraph,
        NotImplemented,
    )

    for turn in itertools.count():
        opset = int(rng.choice(OPSETS))
        case = draw_old(op, opset, rng)
        if case is None:
            continue
        model, feed = case.model(op), case.feed()
        try:
            by_onnxruntime(model, feed)
        except (Fail, InvalidArgument, InvalidGraph, NotImplemented):
            assert turn < 100
            continue
        compare_models(model, feed)
        return


@pytest.mark.sampled(81)
@pytest.mark.parametrize("op", OPERATORS)
def test_operators(op, rng):
    for _ in range(4 if op in CHANGED else 1):
        compare_old(op, rng)


@pytest.mark.parametrize("opset", OPSETS)
def test_networks(opset):
    model, feed = older(opset)
    expected = by_onnxruntime(model, feed)
    agree(run(model, feed, teams=(1, 2)), expected, 1e-4)


@pytest.mark.parametrize("axis", [1, 2, 3, -1])
def test_the_largest_of_all_dimensions_from_an_axis_on(axis, rng):
    """One of each row of the matrix that the axis divides the dimensions into."""
    g = Graph(opset=12)
    x = g.input(2, 3, 4, 5)
    array = rng.permutation(120).reshape(2, 3, 4, 5).astype(np.float32)
    session = InferenceSession(g.model(g.Hardmax(x, axis=axis)), threads=1, fallback="silent")
    (y,) = session.run(None, {x: array})
    rows = array.reshape(int(np.prod(array.shape[:axis])), -1)
    largest = np.arange(rows.shape[1]) == rows.argmax(1)[:, np.newaxis]
    np.testing.assert_array_equal(y, largest.reshape(array.shape).astype(np.float32))


def test_a_mask_beside_what_reads_it():
    """Of inference, which leaves nothing out and fills no mask; numbers before opset 10."""
    g = Graph(opset=9)
    x = g.input(3, 4)
    y, mask = g.Dropout(x, ratio=0.3, outputs=2)
    got = InferenceSession(g.model(g.Add(y, mask), mask, y), threads=1).run(None, g.feed)
    for result, want in zip(got, (g.feed[x], np.zeros((3, 4)), g.feed[x]), strict=True):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, want)
