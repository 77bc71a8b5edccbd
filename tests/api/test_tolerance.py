"""Who says how much error may be spent: the call, the code around it, the environment, nobody.

Winograd needs some tolerance even by name. Whether it serves thus tells what a call may spend,
whatever the machine would choose by itself.
"""

from __future__ import annotations

import inspect
import itertools
import pickle

import numpy as np
import pytest

import pplconv
import pplconv.planner
from pplconv.planner import default_tolerance
from pplconv.runtime import team, tolerance
from tests.reference import conv2d_reference

WEIGHT = np.ones((5, 3, 3, 3), np.float32)
_widths = itertools.count(9)


@pytest.fixture
def x():
    """An input of a width that no kept plan has."""
    return np.ones((1, 3, 9, next(_widths)), np.float32)


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch):
    monkeypatch.delenv("PPLCONV_TOLERANCE", raising=False)


@pytest.fixture
def planned(monkeypatch):
    """Tolerances that plans were asked for with."""
    asked = []
    make_plan = pplconv.planner.make_plan

    def noting(problem, **settings):
        asked.append(settings["tolerance"])
        return make_plan(problem, **settings)

    monkeypatch.setattr(pplconv.planner, "make_plan", noting)
    return asked


def once(x, **options):
    return pplconv.conv2d(x, WEIGHT, algorithm="winograd", **options)


def prepared(x, **options):
    return pplconv.Conv2d(WEIGHT, algorithm="winograd", **options)(x)


either = pytest.mark.parametrize("compute", [once, prepared])


def refuses(compute, *arguments, **options):
    """Whether Winograd is too imprecise for a call; all else is a failure."""
    try:
        compute(*arguments, **options)
    except ValueError as error:
        assert "its stated error is" in str(error)
        return True
    return False


@either
def test_nobody_says(compute, x):
    assert default_tolerance() == 1e-5
    assert not refuses(compute, x)


@either
def test_the_environment(compute, x, monkeypatch):
    monkeypatch.setenv("PPLCONV_TOLERANCE", "0")
    assert refuses(compute, x)
    assert not refuses(compute, x, tolerance=1e-5)
    with tolerance(1e-5):
        assert not refuses(compute, x)


@either
@pytest.mark.parametrize("text", ["-1", "nan", "tight"])
def test_an_environment_that_says_nonsense(compute, x, text, monkeypatch):
    monkeypatch.setenv("PPLCONV_TOLERANCE", text)
    with pytest.raises(ValueError, match=f"PPLCONV_TOLERANCE is '{text}': expected a number"):
        compute(x)


@either
def test_the_code_around_the_call(compute, x):
    for _ in range(2):  # the plan of the other block is kept, and not taken
        with tolerance(0):
            assert refuses(compute, x)
            assert not refuses(compute, x, tolerance=1e-5)
            with tolerance(1e-5):
                assert not refuses(compute, x)
            assert refuses(compute, x)
        assert not refuses(compute, x)


def test_a_prepared_convolution_follows_each_call(x):
    conv = pplconv.Conv2d(WEIGHT, algorithm="winograd")
    for _ in range(2):
        assert not refuses(conv, x)
        assert not refuses(conv, x)  # the plan that ran last
        with tolerance(0):
            assert refuses(conv, x)
            assert refuses(conv.plan_for, x.shape)
    fixed = pplconv.Conv2d(WEIGHT, algorithm="winograd", tolerance=1e-5)
    with tolerance(0):
        assert not refuses(fixed, x)


def test_plans_are_kept_for_each_scope(x, planned):
    conv = pplconv.Conv2d(WEIGHT)
    scopes = [(1, 0.0), (1, 1e-5), (2, 0.0), (2, 1e-5)]
    for threads, error in [*scopes, *scopes]:
        with team(threads), tolerance(error):
            conv(x)
            conv(x)
    assert len(planned) == 4
    del planned[:]
    for threads, error in [*scopes, *scopes]:
        with tolerance(error), team(threads):
            pplconv.conv2d(x, WEIGHT)
    assert planned == [error for _, error in scopes]


def test_a_scope_that_has_no_say_makes_no_plan(x, planned):
    conv = pplconv.Conv2d(WEIGHT, tolerance=1e-5, threads=1)
    conv(x)
    with team(2), tolerance(0):
        conv(x)
    assert planned == [1e-5]
    conv = pplconv.Conv2d(WEIGHT, tolerance=1e-5)
    for error in (0, 1e-4):
        with team(2), tolerance(error):
            conv(x)
    assert planned == [1e-5, 1e-5]


@pytest.mark.parametrize("exact", [0, 0.0, None])
def test_a_plan_is_kept_however_the_number_is_written(x, planned, exact):
    for _ in range(3):
        pplconv.conv2d(x, WEIGHT, tolerance=exact)
    assert planned == [exact]


@pytest.mark.parametrize("wrong", [False, True, "0", (0,), -1, float("nan")])
def test_a_kept_plan_is_no_way_around_the_check(x, wrong):
    pplconv.conv2d(x, WEIGHT, tolerance=0)
    for _ in range(2):
        with pytest.raises((TypeError, ValueError), match="tolerance must be"):
            pplconv.conv2d(x, WEIGHT, tolerance=wrong)


def test_a_pickle_is_open_where_the_convolution_was(x):
    free, fixed = (
        pickle.loads(pickle.dumps(pplconv.Conv2d(WEIGHT, algorithm="winograd", **options)))
        for options in ({}, {"tolerance": 1e-5})
    )
    with tolerance(0):
        assert refuses(free, x)
        assert not refuses(fixed, x)


def test_the_default_is_to_ask():
    for public in (pplconv.conv2d, pplconv.Conv2d):
        assert inspect.signature(public).parameters["tolerance"].default is None


def test_integers_stay_integers_by_direct_sums(rng):
    """What README and docs/accuracy.md promise of images: exact sums, and zeros that stay zero."""
    x = rng.integers(0, 256, (1, 16, 40, 44))
    x[..., 20:] = 0
    w = rng.integers(-3, 4, (24, 16, 3, 3))
    right = conv2d_reference(x, w, padding=1)
    with tolerance(0):
        y = pplconv.conv2d(x.astype(np.float32), w.astype(np.float32), padding=1)
    assert np.array_equal(y, right)
    assert np.array_equal(y.astype(int), right)
    assert not y[..., 21:].any()
