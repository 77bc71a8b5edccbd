"""The timing core, with a clock that only moves when the test says so."""

from __future__ import annotations

import gc

import pytest

from benchmarks.timing import (
    MIN_SAMPLES,
    Settings,
    calls_per_sample,
    interleave,
    no_garbage_collection,
    settle,
    visit,
)


def test_a_round_is_the_median_of_its_calls(fake_time):
    # One warm-up call, then calls until 20 ms have been timed.
    costs = iter([0.5, 0.003, 0.005, 0.009, 0.004])
    result = visit(
        lambda: fake_time.pass_by(next(costs)), 1, Settings(min_seconds=0.02), fake_time.clock
    )
    assert result == pytest.approx((0.004 + 0.005) / 2)


@pytest.mark.parametrize(
    ("cost", "settings", "least", "most"),
    [
        (1.0, Settings(), MIN_SAMPLES, MIN_SAMPLES),
        (1e-3, Settings(min_seconds=0.05, warm_seconds=0.0), 50, 51),
    ],
    ids=["least samples", "least time"],
)
def test_a_round_has_enough_samples_and_lasts_as_long_as_asked(
    fake_time, cost, settings, least, most
):
    calls = []

    def call():
        calls.append(None)
        fake_time.pass_by(cost)

    assert visit(call, 1, settings, fake_time.clock) == pytest.approx(cost)
    assert least <= len(calls) - 1 <= most


def test_warm_up_is_not_timed(fake_time):
    costs = iter([9.0] + [0.001] * 100)
    settings = Settings(min_seconds=0.01, warm_seconds=0.0)
    result = visit(lambda: fake_time.pass_by(next(costs)), 1, settings, fake_time.clock)
    assert result == pytest.approx(0.001)


@pytest.mark.parametrize("cost", [1e-9, 3e-8, 2e-6, 4.9e-5])
def test_tiny_calls_share_a_sample(fake_time, cost):
    number = calls_per_sample(lambda: fake_time.pass_by(cost), fake_time.clock)
    assert number > 1
    # Rounding the sum of many small steps may lose a little.
    assert 50e-6 * (1 - 1e-6) <= number * cost <= 10 * 50e-6


def test_long_calls_are_samples_of_their_own(fake_time):
    assert calls_per_sample(lambda: fake_time.pass_by(1e-3), fake_time.clock) == 1


def test_candidates_take_turns_and_the_best_round_counts(fake_time):
    visits = []
    cost = {"a": 0.010, "b": 0.020}
    turn = {"now": 0}

    def call_of(name):
        def call():
            if not visits or visits[-1] != (turn["now"], name):
                visits.append((turn["now"], name))
            # The second round is disturbed, for both.
            fake_time.pass_by(cost[name] * (3 if turn["now"] == 2 else 1))

        return call

    def on_round(number):
        turn["now"] = number

    timings = interleave(
        {"a": call_of("a"), "b": call_of("b")}, Settings(rounds=3), fake_time.clock, on_round
    )
    in_rounds = [entry for entry in visits if entry[0]]
    assert in_rounds == [(1, "a"), (1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")]
    assert timings["a"].rounds == pytest.approx((0.01, 0.03, 0.01))
    assert timings["a"].best == pytest.approx(0.01)
    assert timings["b"].best == pytest.approx(0.02)
    assert timings["b"].spread == pytest.approx(2.0)


def test_no_rounds_are_refused(fake_time):
    with pytest.raises(ValueError, match="rounds is 0, expected at least 1"):
        interleave({}, Settings(rounds=0), fake_time.clock)


@pytest.mark.parametrize(
    ("spins", "longest", "least", "most"),
    [(0.030, 0.5, 0.029, 0.05), (1e9, 0.5, 0.49, 0.51), (1.0, 0.0, 0.0, 0.0)],
    ids=["until nothing spins", "though something spins for ever", "not for one thread"],
)
def test_settling_waits(fake_time, spins, longest, least, most):
    fake_time.spin_left = spins
    settle(Settings(settle_seconds=longest), fake_time.clock)
    assert least <= sum(fake_time.sleeps) <= most
    assert fake_time.spin_left == pytest.approx(max(spins - sum(fake_time.sleeps), 0.0))


def test_every_turn_begins_quiet(fake_time):
    quiet_at_start = []

    def spinning():
        fake_time.pass_by(0.01)
        fake_time.spin_left = 0.1

    def next_one():
        quiet_at_start.append(fake_time.spin_left == 0.0)
        fake_time.pass_by(0.01)

    interleave(
        {"spinning": spinning, "next": next_one},
        Settings(rounds=2, settle_seconds=0.5),
        fake_time.clock,
        on_round=lambda _: quiet_at_start.append(fake_time.spin_left == 0.0),
    )
    # The calls that find the number a sample needs come before all rounds, in no quiet.
    assert all(quiet_at_start[2:])
    assert len(quiet_at_start) > 6


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ZeroDivisionError), no_garbage_collection():
            1 / gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
