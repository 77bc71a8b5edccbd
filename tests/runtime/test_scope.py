"""`pplconv.runtime.team` and `tolerance`: the defaults of a block of code.

What a tolerance does to convolutions is in `tests/api/test_tolerance.py`.
"""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import warnings

import numpy as np
import pytest

import pplconv
import pplconv.planner
from pplconv.config import Settings
from pplconv.machine import Machine
from pplconv.runtime import (
    default_threads,
    default_tolerance,
    explain_default_threads,
    explain_default_tolerance,
    scoped_team,
    scoped_tolerance,
    team,
    tolerance,
)
from tests.patience import PATIENCE
from tests.threads import begun, ended

SHAPE = (1, 64, 56, 56)


def conv(**settings):
    weight = np.ones((64, 64, 3, 3), np.float32)
    return pplconv.Conv2d(weight, padding=1, **settings)


def test_it_decides_where_nothing_else_is_named():
    machine = Machine(affinity=(0, 1, 2, 3))
    with team(3):
        assert default_threads(Settings(), machine) == 3
        assert explain_default_threads(Settings(None, 7, 5), machine) == (
            3,
            "pplconv.runtime.team(3)",
        )
    assert default_threads(Settings(), machine) == 4


def test_blocks_nest_and_end_with_an_exception():
    assert scoped_team() is None
    with team(2):
        with pytest.raises(ZeroDivisionError), team(5):
            assert scoped_team() == 5
            _ = 1 // 0
        assert scoped_team() == 2
    assert scoped_team() is None


def test_each_thread_has_its_own():
    seen = []

    def other():
        with team(7):
            seen.append(scoped_team())

    with team(2):
        ended(begun([other]))
        assert scoped_team() == 2
    assert seen == [7]


def test_tasks_of_an_event_loop_do_not_see_one_another_s():
    async def task(threads):
        with team(threads):
            await asyncio.sleep(0)
            found = scoped_team()
            await asyncio.sleep(0)
        return found

    async def main():
        return await asyncio.gather(*(task(n) for n in (1, 2, 3)))

    assert asyncio.run(main()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("threads", "error", "message"),
    [
        (0, ValueError, "threads is 0: expected 1 to 65536"),
        (65537, ValueError, "threads is 65537"),
        (True, TypeError, "threads must be an integer, got True"),
        ("2", TypeError, "threads must be an integer, got '2'"),
        (1.0, TypeError, "threads must be an integer, got 1.0"),
    ],
)
def test_bad_teams_are_named(threads, error, message):
    with pytest.raises(error, match=message), team(threads):
        pass
    assert scoped_team() is None


def test_a_convolution_uses_it_and_keeps_plans_of_several():
    ours = conv()
    for threads in (1, 3, 2, 3, 1):
        with team(threads):
            assert ours.plan_for(SHAPE).threads == threads


def test_a_call_follows_it_whatever_was_planned_before(rng, monkeypatch):
    """The plan that ran last is not taken for another team."""
    planned = []
    make_plan = pplconv.planner.make_plan

    def noting(problem, **settings):
        plan, fields = make_plan(problem, **settings)
        planned.append(plan.threads)
        return plan, fields

    monkeypatch.setattr(pplconv.planner, "make_plan", noting)
    x = rng.standard_normal(SHAPE).astype(np.float32)
    ours = conv()
    results = []
    for threads in (1, 2, 1, 2):
        with team(threads):
            results.append(ours(x))
            results.append(ours(x))
    assert planned == [1, 2]
    assert all(np.array_equal(results[0], y) for y in results)
    planned.clear()
    w = np.ones((64, 64, 3, 3), np.float32)
    for threads in (1, 2, 1, 2):
        with team(threads):
            pplconv.conv2d(x, w, padding=1, tolerance=0.25)
    assert planned == [1, 2]


def test_threads_of_the_call_go_before_it():
    ours = conv(threads=2)
    with team(3):
        assert ours.plan_for(SHAPE).threads == 2


def test_a_tolerance_decides_where_nothing_else_is_named():
    assert explain_default_tolerance(Settings()) == (1e-5, "the default")
    settings = Settings(tolerance=1e-4)
    assert explain_default_tolerance(settings) == (1e-4, "PPLCONV_TOLERANCE is 0.0001")
    with tolerance(0):
        assert default_tolerance(settings) == scoped_tolerance() == 0.0
        assert explain_default_tolerance(settings)[1] == "pplconv.runtime.tolerance(0)"
    assert default_tolerance(settings) == 1e-4


def test_team_and_tolerance_do_not_touch_one_another():
    with team(2):
        with tolerance(0.5):
            with team(3):
                assert (scoped_team(), scoped_tolerance()) == (3, 0.5)
            assert (scoped_team(), scoped_tolerance()) == (2, 0.5)
        assert (scoped_team(), scoped_tolerance()) == (2, None)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (-1, ValueError, "tolerance must be at least 0, got -1"),
        (float("nan"), ValueError, "tolerance must be at least 0, got nan"),
        (True, TypeError, "tolerance must be a number, got True"),
        ("0", TypeError, "tolerance must be a number, got '0'"),
        (None, TypeError, "tolerance must be a number, got None"),
    ],
)
def test_bad_tolerances_are_named(value, error, message):
    with pytest.raises(error, match=message), tolerance(value):
        pass
    assert scoped_tolerance() is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("make", "call"),
    [
        (lambda: team(2), "pplconv.runtime.team(2)"),
        (lambda: tolerance(0), "pplconv.runtime.tolerance(0)"),
    ],
)
def test_a_block_that_nobody_enters_says_so(make, call):
    with pytest.warns(RuntimeWarning, match=re.escape(f"{call} does nothing by itself")) as caught:
        make()
        gc.collect()  # where an interpreter does not drop it at once
    assert [w.filename for w in caught] == [__file__]
    assert scoped_team() is None and scoped_tolerance() is None


@pytest.mark.slow
def test_a_block_that_is_used_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with team(2):
            pass

        @tolerance(0)
        def never_called():
            """Decorated, which is a use of it."""

        del never_called
        gc.collect()


def test_a_block_may_be_used_again_by_several_threads_at_once():
    block = team(2)
    both = threading.Barrier(2)
    seen = []

    @block
    def inside(depth=0):
        both.wait(PATIENCE) if depth == 0 else None
        seen.append(scoped_team())
        if depth < 3:
            inside(depth + 1)
        assert scoped_team() == 2

    def other():
        with team(5):
            inside()
            seen.append(scoped_team())

    ended(begun([other] * 2))
    assert sorted(seen) == [2] * 8 + [5] * 2
    with block, block:
        assert scoped_team() == 2
    assert scoped_team() is None
