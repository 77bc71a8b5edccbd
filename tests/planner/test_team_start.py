"""The cost of starting a team: how it is used."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pplconv.planner import Request, estimating, make_plan
from pplconv.problem import ConvProblem

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
    for threads, wanted in [(1, 8), (2, 8), (5, 8), (9, 8)]:
        problem = ConvProblem.parse("mb1ic1ih1oc1kh1")
        scaled = replace(problem, batch=int((threads + 0.5) * least / problem.flops))
        got = estimating.team(scaled, replace(around, threads=wanted), 4)
        assert got == min(threads, wanted)


def test_small_problems_run_in_the_callers_thread(monkeypatch):
    monkeypatch.delenv("PPLCONV_TEAM_START_US")
    small = ConvProblem.parse("mb1ic4ih8oc4kh3")
    assert Request(small, threads=8).context().threads == 1
    assert Request(LAYER, threads=1).context().threads == 1
    assert Request(LAYER, threads=8).context().threads > 1


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
