"""The float64 reference against six nested loops, and the measure of error."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks.problems import parse
from benchmarks.reference import error_of, make_data, reference


def by_definition(problem, x, w):
    p = problem
    oc_group, ic_group = p.oc // p.groups, p.ic // p.groups
    y = np.zeros(p.output_shape)
    for n, oc, oh, ow in itertools.product(*map(range, p.output_shape)):
        for ic, kh, kw in itertools.product(range(ic_group), range(p.kh), range(p.kw)):
            row, column = oh * p.sh - p.ph + kh * p.dh, ow * p.sw - p.pw + kw * p.dw
            if 0 <= row < p.ih and 0 <= column < p.iw:
                channel = oc // oc_group * ic_group + ic
                y[n, oc, oh, ow] += float(x[n, channel, row, column]) * float(w[oc, ic, kh, kw])
    return y


@pytest.mark.parametrize(
    "text",
    [
        "mb1ic3ih7oc4kh3ph1",
        "mb2ic2ih6iw9oc3kh1",
        "mb1ic2ih9iw7oc2kh3kw2sh2sw1ph1pw0",
        "mb1g3ic6ih5oc9kh3ph2dh1",
        "mb1g4ic4ih6oc4kh3sh2ph1",
        "mb1g2ic2ih8iw6oc4kh2kw3dh2dw0pw2ph0",
    ],
)
def test_reference_is_the_definition(text):
    problem = parse(text)
    x, w = make_data(problem)
    np.testing.assert_allclose(
        reference(problem, x, w), by_definition(problem, x, w), rtol=0, atol=1e-13
    )


def test_data_is_the_same_in_every_run_and_nowhere_zero():
    problem = parse("mb1ic8ih9oc8kh3")
    x, w = make_data(problem)
    again_x, again_w = make_data(problem)
    assert np.array_equal(x, again_x)
    assert np.array_equal(w, again_w)
    assert x.dtype == w.dtype == np.float32
    assert x.all()
    assert w.all()
    assert not np.array_equal(x[0, 0, :3, :3], make_data(parse("mb1ic8ih9oc9kh3"))[0][0, 0, :3, :3])


def test_error_is_relative_to_the_largest_output():
    expected = np.array([[1.0, -4.0]])
    assert error_of(np.array([[1.0, -4.0]], np.float32), expected) == 0.0
    assert error_of(np.array([[1.5, -4.0]], np.float32), expected) == 0.125
    assert error_of(np.array([[1.0, np.nan]], np.float32), expected) == float("inf")
    assert error_of(np.array([[1.0, np.inf]], np.float32), expected) == float("inf")
    assert error_of(np.array([1.0, -4.0], np.float32), expected) == float("inf")
