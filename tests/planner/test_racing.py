"""Races of candidates: which take part, for how long, and which wins. Times are made up."""

from __future__ import annotations

import pytest

from pplconv.planner.racing import (
    CLEARLY,
    CLEARLY_AT_ONCE,
    LEAST_ROUNDS,
    MOST_MEASURED,
    PRUNE,
    PRUNE_METHODS,
    Timed,
    choose,
    pruned,
    race,
)
from tests.planner.planner_case import Clock, ranked


def names(found):
    return [r.candidate.name for r in found]


def test_pruning_keeps_what_is_near_and_one_of_each_method():
    found = [
        ranked("own"),
        ranked("near", PRUNE),
        ranked("far", PRUNE * 1.01),
        ranked("other method", PRUNE_METHODS, bits="b"),
        ranked("the same again", PRUNE_METHODS, bits="b"),
        ranked("hopeless", PRUNE_METHODS * 1.01, bits="c"),
    ]
    assert names(pruned(found, "measure")) == ["own", "near", "other method"]
    assert pruned(found, "exhaustive") == found


def test_pruning_is_bounded():
    found = [ranked(str(i)) for i in range(3 * MOST_MEASURED)]
    assert names(pruned(found, "measure")) == [str(i) for i in range(MOST_MEASURED)]


@pytest.mark.parametrize(
    ("other", "rounds", "wins"),
    [
        (CLEARLY * 0.999, LEAST_ROUNDS, True),
        (CLEARLY * 1.001, LEAST_ROUNDS, False),
        (1.0, LEAST_ROUNDS, False),
        (CLEARLY * 0.999, 1, False),
        (CLEARLY_AT_ONCE * 0.999, 1, True),
    ],
)
def test_the_estimates_own_choice_stays_unless_another_is_clearly_faster(other, rounds, wins):
    own, rival = ranked("own"), ranked("rival")
    timed = [Timed(other, rival, rounds), Timed(1.0, own)]
    assert choose(timed, own).ranked is (rival if wins else own)
    # Nothing slower is ever chosen.
    assert choose([Timed(1.0, own), Timed(1.2, rival)], own).ranked is own


class Track:
    """Candidates whose runs take a known time."""

    def __init__(self, times, preparation=0.0):
        self.clock = Clock()
        self.times, self.preparation = times, preparation
        self.prepared, self.runs = [], []
        self.ranked = [ranked(name) for name in times]

    def prepare(self, r):
        self.clock.now += self.preparation
        self.prepared.append(r.candidate.name)

        def runs(count):
            name = r.candidate.name
            self.runs.append(name)
            self.clock.now += count * self.times[name]
            return self.times[name]

        return runs

    def race(self, seconds, **more):
        timed = race(self.ranked, self.prepare, seconds, clock=self.clock, **more)
        return {t.ranked.candidate.name: t for t in timed}


def test_all_are_timed_fastest_first_and_in_turns():
    track = Track({"own": 0.10, "b": 0.101, "c": 0.099})
    timed = track.race(1.0)
    assert list(timed) == ["c", "own", "b"]
    assert track.runs[:9] == ["own", "b", "c"] * 3
    assert all(t.rounds >= LEAST_ROUNDS for t in timed.values())


def test_slow_ones_drop_out_and_the_estimates_own_never():
    track = Track({"own": 0.04, "fast": 0.01, "slow": 0.02})
    timed = track.race(1.0)
    assert track.runs.count("slow") == 1
    assert track.runs.count("own") > 5
    assert timed["slow"].seconds == 0.02
    assert list(timed) == ["fast", "slow", "own"]


def test_what_dropped_out_lets_go_of_its_memory():
    alive = set()

    class Memory:
        def __init__(self, r, seconds):
            self.name, self.seconds = r.candidate.name, seconds
            alive.add(self.name)

        def __call__(self, count):
            if self.name == "last":
                assert alive == {"own", "last"}
            return self.seconds

        def __del__(self):
            alive.discard(self.name)

    times = {"own": 1.0, "slow": 1.7, "slower": 9.0, "last": 1.0}
    found = [ranked(name) for name in times]
    race(found, lambda r: Memory(r, times[r.candidate.name]), 1.0)
    assert alive == set()


@pytest.mark.parametrize("count", [2, 5, 60])
@pytest.mark.parametrize("preparation", [0.0, 0.03])
def test_the_time_is_held(count, preparation):
    track = Track({str(i): 0.05 for i in range(count)}, preparation)
    track.race(1.0)
    # Only the candidate that runs at the end may finish.
    assert track.clock.now <= 1.0 + 0.05 + preparation
    # The first round leaves time for others.
    assert max(track.runs.count(name) for name in track.times) >= min(20 // count, 4) - 1


def test_a_huge_layer_times_the_own_choice_and_one_other():
    track = Track({"own": 30.0, "b": 20.0, "c": 1.0})
    timed = track.race(0.5)
    assert track.runs == ["own", "b"]
    assert {name: t.rounds for name, t in timed.items()} == {"own": 1, "b": 1}


def test_who_must_be_timed_is_timed_first():
    track = Track({"own": 30.0, "b": 20.0, "c": 1.0})
    assert set(track.race(0.5, keep=(0, 2))) == {"own", "c"}


def test_one_candidate_alone_is_timed_too():
    track = Track({"own": 0.01})
    assert track.race(10.0)["own"].rounds == LEAST_ROUNDS


def test_short_ones_run_several_times_a_turn_and_come_to_an_end():
    track = Track({"own": 1e-6, "b": 1e-6})
    timed = track.race(60.0)
    assert track.clock.now < 0.1
    assert all(t.seconds == 1e-6 for t in timed.values())


def test_progress_grows_and_stays_below_one():
    told = []
    track = Track({str(i): 0.05 for i in range(9)})
    track.race(1.0, progress=lambda share, text: told.append((share, text)))
    shares = [share for share, _ in told]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1
    assert told[0][1] == "1 of 9 candidates"


def test_an_interrupt_goes_through():
    def prepare(r):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        race([ranked("own")], prepare, 1.0)
