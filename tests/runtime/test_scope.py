"""`pplconv.runtime.team`: the default team of a block of code."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest

import pplconv
from pplconv.config import Settings
from pplconv.machine import Machine
from pplconv.runtime import default_threads, explain_default_threads, scoped_team, team

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
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)
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
