"""A search chooses the method by one thread's times and the team's blocks after it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import pplconv
from pplconv._trial import Trial
from pplconv.activations import COST_CLASSES
from pplconv.algorithms import ALGORITHMS
from pplconv.planner import searching
from pplconv.planner.estimating import estimate_plan
from pplconv.planner.racing import MOST_RUNS
from pplconv.planner.searching import search_plan
from pplconv.problem import ConvProblem
from tests.patience import eventually
from tests.planner.planner_case import LAYER, Bench, request


def search(asked, effort="measure", **more):
    return search_plan(asked, *estimate_plan(asked, math.inf), effort, 1.0, **more)


def own_bits(asked):
    return estimate_plan(asked, math.inf)[0][0].candidate.bits


@pytest.mark.parametrize("threads", [1, 2])
def test_the_fastest_wins(threads, monkeypatch):
    wanted = own_bits(request())
    others = {r.candidate.bits for r in estimate_plan(request(), math.inf)[0]} - {wanted}
    assert others
    for bits in others:
        bench = Bench(lambda c, n, bits=bits: 1e-3 if c.bits == bits else 2e-3)
        bench.install(monkeypatch)
        found = search(request(threads), effort="exhaustive")
        assert found.best.ranked.candidate.bits == bits
        assert found.own.seconds == 2e-3


@pytest.mark.parametrize("effort", ["measure", "exhaustive"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_estimates_own_choice_is_among_the_measured(effort, threads, monkeypatch):
    single, teamed = estimate_plan(request(threads), math.inf)
    bench = Bench(lambda c, n: 1e-3).install(monkeypatch)
    found = search_plan(request(threads), single, teamed, effort, 1.0)
    assert single[0].candidate in [c for c, n in bench.prepared if n == 1]
    assert teamed[0].candidate in [c for c, n in bench.prepared if n > 1 or threads == 1]
    # All are equally fast, so the estimate's choice stays.
    assert found.best.ranked.candidate == teamed[0].candidate
    assert found.own.ranked.candidate == teamed[0].candidate


def test_the_own_choice_is_timed_even_where_its_bits_are_ruled_out(monkeypatch):
    bits = own_bits(request())
    other = next(
        r.candidate.bits for r in estimate_plan(request(), math.inf)[0] if r.candidate.bits != bits
    )
    # On one thread another method is faster; the team would like the estimate's better.
    Bench(lambda c, n: 1e-3 if (c.bits == other) == (n == 1) else 2e-3).install(monkeypatch)
    found = search(request(2), effort="exhaustive")
    assert found.best.ranked.candidate.bits == other
    assert (found.own.ranked.candidate.bits, found.own.seconds) == (bits, 1e-3)
    assert {t.ranked.candidate.bits for t in found.timed} == {other}


def test_the_team_has_no_say_in_the_bits(monkeypatch):
    """The bits are the choice of one thread, whatever is fast for a team."""
    single = estimate_plan(request(), math.inf)[0]
    for bits in {r.candidate.bits for r in single}:
        for threads in (1, 2, 3, 8):
            bench = Bench(
                lambda c, n, bits=bits: 1e-3 if n > 1 else 1e-2 if c.bits == bits else 5e-2
            ).install(monkeypatch)
            found = search(request(threads), effort="exhaustive")
            assert found.best.ranked.candidate.bits == bits
            assert {n for _, n in bench.prepared} <= {1, *range(2, threads + 1)}


def test_known_bits_are_kept(monkeypatch):
    bits = estimate_plan(request(), math.inf)[0][-1].candidate.bits
    for threads in (1, 2):
        bench = Bench(lambda c, n: 1e-3).install(monkeypatch)
        found = search(request(threads), bits=bits)
        assert found.best.ranked.candidate.bits == bits
        # One thread's choice is made: only this team is timed.
        assert len({n for _, n in bench.prepared}) == 1


def test_exhaustive_measures_everything(monkeypatch):
    single = estimate_plan(request(), math.inf)[0]
    bench = Bench(lambda c, n: 1e-3).install(monkeypatch)
    search(request(), effort="exhaustive")
    assert [c for c, _ in bench.prepared] == [r.candidate for r in single]


@pytest.mark.parametrize("context", ["hot", "cold"])
@pytest.mark.parametrize("threads", [1, 2])
def test_real_candidates_are_timed_within_the_time(threads, context, monkeypatch):
    """The fake clock advances by a second at each look, that is before each turn."""
    asked = request(threads)
    runs = []

    class Noted(Trial):
        def seconds(self, x, y, count=1, cold=False):
            runs.append((count, cold))
            return super().seconds(x, y, count, cold)

    monkeypatch.setattr(searching, "Trial", Noted)
    looks = itertools.count()
    found = search_plan(
        asked, *estimate_plan(asked, math.inf), "measure", 60.0, context=context,
        clock=lambda: next(looks) * 1.0,
    )  # fmt: skip
    assert next(looks) < 60 + 10, "a race whose time is up times what it has to, and ends"
    assert {cold for _, cold in runs} == {context == "cold"}
    assert len(runs) < 3 * 60 and max(count for count, _ in runs) <= MOST_RUNS
    assert 0 < found.best.seconds <= found.own.seconds
    assert len(found.timed) > 1


def data(problem):
    bench = searching.Bench(problem, {}, "none")
    return bench.x, bench.weight(bench.problem.dtype), bench.y


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("layout", "block"), [("NCHW", 0), ("NHWC", 0), ("NCHWc", 8)])
def test_what_is_timed_is_finite_and_random(dtype, layout, block):
    problem = ConvProblem.parse("mb2g2ic12ih9oc10kh3ph1", dtype, layout, block)
    x, weight, y = data(problem)
    assert x.shape == problem.input_shape
    assert y.shape == problem.output_shape
    assert weight.shape == (10, 6, 3, 3)
    for array in (x, weight):
        assert array.dtype == {"f32": np.float32, "f64": np.float64}[dtype]
        assert np.all(np.isfinite(array))
        assert np.mean(array == 0) < 0.01
        assert array.min() < -0.4 < 0.4 < array.max()
        assert len(np.unique(array)) > 0.9 * array.size


@pytest.mark.parametrize("epilogue", COST_CLASSES)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_trial_computes_what_a_call_does(epilogue, dtype):
    """A trial times the convolution with an epilogue of the class."""
    problem = ConvProblem.parse("mb1ic16ih10oc16kh3ph1", dtype)
    asked = request(problem=problem)
    x, weight, y = data(problem)
    candidate = estimate_plan(asked, math.inf)[0][0].candidate
    trial = Trial(candidate.fields(1), asked.context().isa, weight, epilogue)
    assert trial.seconds(x, y) > 0
    activation = {"none": None, "slope": ("leaky_relu", 0.125), "exp": "silu"}[epilogue]
    expected = pplconv.Conv2d(weight, padding=1, activation=activation, threads=1)(x)
    np.testing.assert_array_equal(y, expected)


def trial_of(problem, threads=1):
    asked = request(threads, problem=problem)
    candidate = estimate_plan(asked, math.inf)[0][0].candidate
    bench = searching.Bench(problem, {asked.context().numerics: asked.context().isa}, "none")
    fields = candidate.fields(threads) | {"threads": threads}
    return Trial(fields, asked.context().isa, bench.weight(asked.problem.dtype)), bench


# Few sums for many cache lines, in portable C too, at distances that no prefetcher follows: pixels
# that are far apart, and one tap of 49 whose weights are 2 KiB at a time. With portable C a Zen 3
# takes 3.4 times as long when the input is cold, and 1.9 times when the weights are; the second
# reads two cache lines of input.
@pytest.mark.unemulated("emulation has no caches")
@pytest.mark.parametrize(
    ("text", "longer"),
    [("mb1ic16ih1024oc1kh1sh64", 2), ("mb1ic32ih1oc512kh7ph3", 1.4)],
    ids=["input", "weights"],
)
def test_a_cold_run_finds_nothing_in_the_caches(text, longer):
    trial, bench = trial_of(ConvProblem.parse(text))
    hot, cold = [], []

    def differ():  # in turns, as other tests run beside this one
        hot.append(trial.seconds(bench.x, bench.y, 20))
        cold.append(trial.seconds(bench.x, bench.y, 5, True))
        return len(hot) >= 20 and min(cold) > longer * min(hot)

    eventually(differ, f"cold runs that take {longer} times as long as hot ones")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", ["mb1ic16ih10oc16kh3ph1", "mb2ic5ih7iw9oc3kh3"])
def test_a_cold_run_computes_the_same(text, threads):
    """Cache lines that are shared with other data are written back, not lost."""
    trial, bench = trial_of(ConvProblem.parse(text), threads)
    around = np.full(bench.y.size + 34, 3, np.float32)
    y = around[17:-17].reshape(bench.y.shape)  # begins and ends within a cache line
    assert trial.seconds(bench.x, bench.y) > 0
    y[...] = np.nan
    assert trial.seconds(bench.x, y, 3, True) > 0
    np.testing.assert_array_equal(y, bench.y)
    assert (around[:17] == 3).all() and (around[-17:] == 3).all()


def test_packed_weights_are_shared_by_format_only(monkeypatch):
    """Fewer packed weights are kept than there are formats."""
    monkeypatch.setattr(searching, "PACKED_KEPT", 1)
    asked = request(algorithm="winograd", tolerance=1e-4)
    single = estimate_plan(asked, math.inf)[0]
    around = asked.context()
    bench = searching.Bench(LAYER, {around.numerics: around.isa}, "none")
    assert len({r.candidate.packing for r in single}) > 1
    expected = pplconv.conv2d(bench.x, bench.weight("f32"), padding=1, tolerance=0, threads=1)
    for r in single:
        bench.y.fill(np.nan)
        bench.prepare(r.candidate, 1)(1)
        np.testing.assert_allclose(bench.y, expected, atol=1e-3)


def test_every_algorithm_can_be_measured():
    problems = {
        "depthwise": "mb1g16ic16ih12oc16kh3ph1",
        "pointwise": "mb1ic16ih12oc16kh1",
        "winograd": "mb1ic16ih12oc16kh3ph1",
        "direct": "mb1ic3ih12oc16kh3sh2ph1",
        "im2col": "mb1ic16ih12oc16kh3ph1",
        "sparse": "mb1ic16ih12oc16kh3ph1sb4sd250",
    }
    assert set(problems) == set(ALGORITHMS)
    for name, text in problems.items():
        asked = request(problem=ConvProblem.parse(text), algorithm=name)
        found = search_plan(asked, *estimate_plan(asked, math.inf), "measure", 0.02)
        assert found.best.ranked.candidate.algorithm == name
