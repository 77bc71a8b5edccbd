"""The gain of leaving zeros out, as estimated, measured and shown by plans."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pplconv.algorithms import sparse
from pplconv.matrix_problem import MatrixProblem
from pplconv.planner import plan_problem
from pplconv.planner.estimating import Request, estimate_plan
from pplconv.planner.pricing import least_cycles_of
from pplconv.planner.racing import PRUNE_METHODS, Timed, pruned
from pplconv.planner.sparsity_gains import measured_gain, predicted_gain
from pplconv.problem import ConvProblem
from tests.planner.planner_case import Bench

SIZES = "mb1ic128ih14oc128kh1"
FEW = ConvProblem.parse(SIZES + "sb16sd50")
MOST = ConvProblem.parse(SIZES + "sb1sd890")
PROBLEMS = {"few": FEW, "most": MOST, "rows": MatrixProblem.parse("m64n128k256sb4sd200")}


def is_sparse(ranked):
    return ranked.candidate.algorithm == sparse.NAME


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_predicted_gain_is_that_of_the_best_of_each(name, threads):
    request = Request(PROBLEMS[name], threads=threads)
    best = [r for r in replace(request, threads=1).ranked(1, slack=1e9) if is_sparse(r)]
    dense = Request(replace(request.problem, sparsity=None), threads=1).ranked(1)
    expected = dense[0].total / best[0].total
    for slack in (1.0, 1e9):
        single, _ = estimate_plan(request, slack)
        assert predicted_gain(request, single) == pytest.approx(expected)
    plan = plan_problem(request).plan
    assert plan.predicted_gain == pytest.approx(expected) and plan.measured_gain is None
    assert (plan.algorithm == sparse.NAME) == (expected > 1)
    if name != "rows":
        assert (expected > 1) == (name == "few")


def test_dense_weights_gain_nothing():
    request = Request(replace(FEW, sparsity=None))
    assert predicted_gain(request, estimate_plan(request)[0]) is None
    assert plan_problem(request).plan.predicted_gain is None


def test_a_gain_that_is_not_known():
    """Types without loops over sparse weights have no known gain."""
    request = Request(replace(FEW, dtype="u8", permitted=("s16",), destination="s32"))
    if least_cycles_of(replace(request, algorithm=sparse.NAME)) is not None:
        pytest.skip("these types have such loops")
    assert predicted_gain(request, estimate_plan(request)[0]) is None


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("problem", [FEW, MOST])
@pytest.mark.parametrize(("leaving_out", "dense"), [(1e-3, 4e-3), (3e-3, 2e-3)])
def test_a_search_measures_both(problem, leaving_out, dense, threads, monkeypatch):
    """Both kinds are timed, however far apart their estimates are."""
    Bench(lambda c, n: leaving_out if c.algorithm == sparse.NAME else dense).install(monkeypatch)
    request = Request(problem, threads=threads)
    planned = plan_problem(request, search="measure", search_seconds=5.0, again=True)
    plan = planned.plan
    assert plan.measured_gain == pytest.approx(dense / leaving_out)
    assert (plan.algorithm == sparse.NAME) == (leaving_out < dense)
    assert f"measured x{dense / leaving_out:.2f}" in str(plan)
    assert plan.predicted_gain == plan_problem(request).plan.predicted_gain
    # Wisdom remembers the choice, not the gain.
    known = plan_problem(request).plan
    assert known.algorithm == plan.algorithm and known.measured_gain is None


def test_the_best_of_both_kinds_are_measured():
    request = Request(FEW, threads=1)
    single, _ = estimate_plan(request, 1e9)
    found = pruned(single, "measure")
    for kind in (True, False):
        first = next(r for r in single if is_sparse(r) is kind)
        assert any(r is first for r in found)
    dense = next(r for r in single if not is_sparse(r))
    assert dense.total > PRUNE_METHODS * single[0].total, "else it would be there anyway"
    assert found[1] is dense, "among the first, whatever time there is"


def test_measured_gains():
    single, _ = estimate_plan(Request(FEW, threads=1), 1e9)
    out = next(r for r in single if is_sparse(r))
    dense = next(r for r in single if not is_sparse(r))
    assert measured_gain([Timed(1.0, out), Timed(2.0, out)]) is None
    assert measured_gain([Timed(2.0, dense)]) is None
    assert measured_gain([]) is None
    timed = [Timed(1.0, out), Timed(3.0, dense), Timed(2.0, out), Timed(4.0, dense)]
    assert measured_gain(timed) == 3.0
