"""The cost of starting a team: how it is measured, kept and used."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pplconv import config
from pplconv.config import Settings
from pplconv.planner import Request, estimating, make_plan, starting
from pplconv.planner.starting import rounded, team_start
from pplconv.problem import ConvProblem
from pplconv.schedules.team import time_start


@pytest.fixture(autouse=True)
def _nothing_measured(monkeypatch):
    monkeypatch.setattr(starting, "_measured", None)


@pytest.mark.parametrize(
    ("nanoseconds", "microseconds"),
    [(0, 1), (90, 1), (1000, 1), (1400, 1), (1500, 2), (2900, 4), (5700, 4), (10**9, 4)],
)
def test_times_are_rounded_to_powers_of_two(nanoseconds, microseconds):
    assert rounded(nanoseconds) == microseconds


def test_it_is_measured_once(monkeypatch):
    monkeypatch.setattr(starting, "largest_team", lambda wanted: wanted)
    times = iter([4500])
    assert [team_start(Settings(), lambda: next(times)) for _ in range(3)] == [4, 4, 4]


def test_it_is_measured_once_by_many_threads(monkeypatch):
    monkeypatch.setattr(starting, "largest_team", lambda wanted: wanted)
    times = iter([4000])
    barrier = threading.Barrier(8)

    def ask(_):
        barrier.wait(timeout=60)
        return team_start(Settings(), lambda: next(times))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [4] * 8


def test_a_setting_goes_before_a_measurement():
    def never() -> int:
        raise AssertionError("measured")

    assert team_start(Settings(team_start_us=37), never) == 37


def test_where_no_team_may_start_nothing_is_measured_or_kept(monkeypatch):
    monkeypatch.setattr(starting, "largest_team", lambda _wanted: 1)
    assert team_start(Settings(), lambda: 1 // 0) == 1
    monkeypatch.setattr(starting, "largest_team", lambda wanted: wanted)
    assert team_start(Settings(), lambda: 16_000) == 4


def test_the_real_measurement_is_a_time():
    """Between a few hundred instructions and what a machine that is very busy may take."""
    assert 100 < time_start(regions=8) < 10**9


# 2 * 32 * 32 * 9 * 40 * 40: 29.5 MFLOP.
LAYER = ConvProblem.parse("mb1ic32ih40oc32kh3ph1")


def team_of(start: int, monkeypatch: pytest.MonkeyPatch, **changes: object) -> int:
    monkeypatch.setenv("PPLCONV_TEAM_START_US", str(start))
    plan, _ = make_plan(LAYER, threads=2, **changes)
    return plan.threads


def test_a_start_that_costs_much_makes_teams_small(monkeypatch):
    assert team_of(1, monkeypatch) == 2
    assert team_of(1_000_000, monkeypatch) == 1


def test_each_thread_has_to_save_its_start(monkeypatch):
    """The team grows with the work over the cost, up to what was asked for."""
    around = estimating.default_context("f32")
    least = estimating.least_share(around, 4)
    settings = replace(config.current(), team_start_us=4)
    for threads, wanted in [(1, 8), (2, 8), (5, 8), (9, 8)]:
        problem = ConvProblem.parse("mb1ic1ih1oc1kh1")
        scaled = replace(problem, batch=int((threads + 0.5) * least / problem.flops))
        got, start = estimating.team(scaled, replace(around, threads=wanted), settings)
        assert (got, start) == (min(threads, wanted), 4)


def test_small_problems_measure_nothing(monkeypatch):
    """Whatever a start costs, it would not pay; so no thread is made to find it out."""
    monkeypatch.delenv("PPLCONV_TEAM_START_US")
    monkeypatch.setattr(estimating, "team_start", lambda _settings: 1 // 0)
    small = ConvProblem.parse("mb1ic4ih8oc4kh3")
    assert Request(small, threads=8).context().threads == 1
    assert Request(LAYER, threads=1).context().threads == 1
    with pytest.raises(ZeroDivisionError):
        Request(LAYER, threads=8).context()


@pytest.mark.parametrize("text", ["mb1ic32ih40oc32kh3ph1", "mb1ic64ih14oc64kh3ph1",
                                  "mb2g32ic32ih40oc32kh3ph1", "mb1ic128ih28oc128kh1"])  # fmt: skip
def test_the_cost_decides_no_bits(text, monkeypatch):
    problem = ConvProblem.parse(text)
    found = set()
    for start in (1, 8, 64, 10_000):
        monkeypatch.setenv("PPLCONV_TEAM_START_US", str(start))
        plan, _ = make_plan(problem, threads=4)
        found.add(plan.bits)
    assert len(found) == 1


def test_a_plan_shows_the_cost(monkeypatch):
    monkeypatch.setenv("PPLCONV_TEAM_START_US", "2")
    plan, _ = make_plan(LAYER, threads=2)
    assert (plan.threads, plan.cost["team"]) == (2, 6000.0)
