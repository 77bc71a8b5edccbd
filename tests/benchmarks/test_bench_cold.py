"""Cold calls: the eviction before them, empty caches, and tables of them beside hot calls."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest

from benchmarks import run
from benchmarks.candidates import (
    FAILED,
    OK,
    WRONG,
    check_again,
    make_case,
    prepare_checked,
    prepare_second,
)
from benchmarks.cold import LEAST_BYTES, MOST_BYTES, Evictor, evict_bytes
from benchmarks.engines import ENGINES, choose
from benchmarks.engines.base import Engine, Prepared
from benchmarks.hot_and_cold import side_by_side
from benchmarks.problems import parse
from benchmarks.recorded import load
from benchmarks.report import tables
from benchmarks.results import from_json, to_json
from benchmarks.runner import Progress, run_layer
from benchmarks.timing import COLD_SAMPLES, Settings, interleave, visit_cold
from tests.benchmarks.known_runs import Named, layer
from tests.patience import eventually

SMALL = "mb1ic8ih8oc8kh3ph1"
MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize(
    ("caches", "memory", "expected"),
    [
        ({1: 32 << 10, 2: MIB, 3: 32 * MIB}, 24 * GIB, 96 * MIB),
        ({1: 32 << 10, 2: MIB}, 24 * GIB, LEAST_BYTES),
        ({}, 24 * GIB, LEAST_BYTES),
        ({3: 480 * MIB}, 512 * GIB, MOST_BYTES),
        ({3: 32 * MIB}, 256 * MIB, 32 * MIB),
    ],
)
def test_several_times_the_last_cache_is_read(caches, memory, expected):
    assert evict_bytes(caches, memory) == expected


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_is_left_in_the_caches(threads):
    """Reading 512 KiB takes longer then; not so after reading as much from a cache."""
    array = np.arange(MIB // 16, dtype=np.int64)
    evict = Evictor(threads)

    def read_after(before):
        array.max()
        before()
        start = time.perf_counter()
        array.max()
        return time.perf_counter() - start

    few = Evictor(1, 16 << 10)
    hot, cold = [], []

    def differ():  # in turns, as other tests run beside this one
        hot.append(read_after(few))
        cold.append(read_after(evict))
        return len(hot) >= 15 and min(cold) > 1.5 * min(hot)

    eventually(differ, "reading that takes longer after the eviction")


def test_each_cold_call_follows_one_of_another_instance(fake_time):
    """It is a sample of its own; the call before is not timed, and its result lives meanwhile."""
    log = []

    class Result:
        def __del__(self):
            log.append("dropped")

    def before():
        log.append("before")
        fake_time.pass_by(0.5)
        return Result()

    def call():
        log.append("call")
        fake_time.pass_by(next(costs))

    costs = iter([0.003, 0.001, 0.002, 0.005, 0.004])
    found = visit_cold(call, before, Settings(min_seconds=0.1), fake_time.clock)
    assert found == pytest.approx(0.003)
    assert log == ["before", "call", "dropped"] * COLD_SAMPLES


def test_a_cold_visit_ends_when_enough_was_timed_or_time_is_up(fake_time):
    calls = []

    def call(cost):
        calls.append(cost)
        fake_time.pass_by(cost)

    settings = Settings(min_seconds=0.02)
    nothing = partial(fake_time.pass_by, 0.0)
    visit_cold(partial(call, 1e-3), nothing, settings, fake_time.clock)
    assert 20 <= len(calls) <= 21
    calls.clear()
    visit_cold(partial(call, 1e-5), partial(fake_time.pass_by, 0.003), settings, fake_time.clock)
    assert 32 <= len(calls) <= 35
    calls.clear()
    visit_cold(partial(call, 1.0), nothing, settings, fake_time.clock)
    assert len(calls) == COLD_SAMPLES


def test_a_team_is_quiet_before_a_cold_call(fake_time):
    """Else workers of the second instance would spin on beside it."""

    def before():
        fake_time.spin_left = 0.040

    def call():
        assert fake_time.spin_left <= 0.001
        fake_time.pass_by(0.001)

    visit_cold(call, before, Settings(settle_seconds=0.5), fake_time.clock)
    assert fake_time.sleeps


def test_hot_and_cold_visits_take_turns(fake_time):
    order = []

    def call(name, cost):
        if order[-1:] != [name]:
            order.append(name)
        fake_time.pass_by(cost)

    def before(name):
        order.append(f"before {name}")

    calls = {name: partial(call, name, 0.01) for name in "ab"}
    found = interleave(calls, Settings(rounds=2), fake_time.clock, cold={"b": partial(before, "b")})
    assert found["a"].cold == ()
    assert len(found["a"].rounds) == len(found["b"].rounds) == len(found["b"].cold) == 2
    # Both are called once to find how many make a sample.
    cold = ["before b", "b"] * COLD_SAMPLES
    assert order == ["a", "b", *(["a", "b", *cold] * 2)]


TESTED = [name for name, engine in ENGINES.items() if engine.available().ok]


@pytest.mark.parametrize("name", TESTED)
def test_every_engine_has_a_right_second_instance_apart_from_the_first(name):
    case = make_case(parse(SMALL))
    candidate, call = prepare_second(prepare_checked(ENGINES[name], case, 1), case, 1)
    assert candidate.status == OK, candidate.detail
    # It has its own arrays: the first one still gives its result.
    call()
    assert check_again(candidate, case).status == OK


class Odd(Engine):
    """Right the first time only."""

    name = "odd"

    def __init__(self, second):
        self.second = second

    def prepare(self, problem, x, w, threads):
        return ENGINES["numpy"].prepare(problem, x, w, threads)

    def prepare_second(self, problem, x, w, threads):
        if self.second is None:
            raise RuntimeError("only one is allowed")
        y = np.asarray(self.second, np.float32)
        return Prepared(lambda: y, lambda y: np.broadcast_to(y, problem.output_shape))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "status", "detail"),
    [(None, FAILED, "a second instance: RuntimeError: only one"), (0.0, WRONG, "of the largest")],
)
def test_a_wrong_second_instance_is_never_timed(second, status, detail):
    result = run_layer(
        parse(SMALL), [Odd(second)], 1, Settings(rounds=1), None, Progress(1), Evictor(1, MIB)
    )
    entry = result.entries["odd"]
    assert (entry.status, entry.rounds, entry.cold) == (status, (), ())
    assert detail in entry.detail


@pytest.mark.slow
def test_a_layer_is_timed_hot_and_cold():
    engines = [ENGINES["pplconv"], ENGINES["numpy"]]
    settings = Settings(rounds=2, min_seconds=0.001)
    evict = Evictor(1, MIB)
    result = run_layer(parse(SMALL), engines, 1, settings, None, Progress(1), evict)
    for entry in result.entries.values():
        assert entry.status == OK
        assert len(entry.rounds) == len(entry.cold) == 2
        assert entry.cold_seconds == min(entry.cold) > 0
    assert from_json(to_json(result)) == result
    without = run_layer(parse(SMALL), engines, 1, settings, None, Progress(1))
    assert all(entry.cold == () and entry.rounds for entry in without.entries.values())


POINTWISE = 'mb1ic50ih10oc100kh1n"net:one*2"'
DEPTHWISE = 'mb1g50ic50ih10oc50kh1n"net:dw"'
LAYERS = [
    layer(POINTWISE, {"us": 2e-3, "peer": 4e-3}, cold={"us": 3e-3, "peer": 4e-3}),
    layer(DEPTHWISE, {"us": 1e-3, "peer": 2e-3}, cold={"us": 2e-3, "peer": 5e-3}),
]


def test_the_table_has_both_and_their_ratio():
    table = side_by_side("net", LAYERS, ["us", "peer"], ["peer"])
    rows = {row[0]: row[1:] for row in table.rows}
    one, all_peer = ("2.00", "3.00", "1.50"), ("4.00", "4.00", "1.00")
    assert rows["one"] == ("2", *one, *all_peer, *all_peer)
    dw, peer = ("1.00", "2.00", "2.00"), ("2.00", "5.00", "2.50")
    assert rows["dw"] == ("1", *dw, *peer, *peer)
    total, peer = ("5.00", "8.00", "1.60"), ("10.00", "13.00", "1.30")
    assert rows["all"] == ("", *total, *peer, *peer)


def test_reports_of_cold_runs_have_two_more_tables():
    engines = [Named("us", ours=True), Named("peer")]
    made = tables("net", LAYERS, engines)
    assert [table.title for table in made][2:] == [
        "net, 1 thread: hot and cold, ms",
        "net, 1 thread: sums over the network, cold, ms",
    ]
    rows = {row[0]: row[1:] for row in made[3].rows}
    assert rows["all"][1:] == ("8.00", "13.00", "13.00")
    hot = [layer(POINTWISE, {"us": 2e-3, "peer": 4e-3})]
    assert len(tables("net", hot, engines)) == 2


def test_json_has_cold_calls_where_there_were_some():
    plain = to_json(LAYERS[0])
    assert plain["engines"]["us"]["cold_rounds"] == [3e-3]
    assert plain["engines"]["us"]["cold_seconds"] == 3e-3
    assert from_json(plain) == LAYERS[0]
    hot = layer(POINTWISE, {"us": 2e-3, "peer": 4e-3})
    plain = to_json(hot)
    assert set(plain["engines"]["us"]) == {"status", "detail", "error", "seconds", "rounds"}
    assert from_json(plain) == hot


def test_the_tool_from_start_to_finish(monkeypatch, ran):
    monkeypatch.setattr("benchmarks.cold.TIMES", 0)
    monkeypatch.setattr("benchmarks.cold.LEAST_BYTES", 4 * MIB)
    monkeypatch.setattr("benchmarks.ceilings.measure", lambda threads: {"memory": 1e10})
    layers = ["--nets", "resnet_50", "--layers", "fc|res5a_branch2a"]
    timing = ["--cold", "--rounds", "1", "--min-ms", "1"]
    found = ran(run.main, *layers, *timing, "--engines", "pplconv,numpy")
    assert "note: cold, 1 thread: before each call one core reads 4 MiB" in found.out
    assert "resnet_50, 1 thread: hot and cold, ms" in found.out
    read = load(found.record)
    assert all(entry.cold for one in read.layers for entry in one.entries.values())


def test_plans_that_are_ranked_cold_are_engines_of_their_own():
    engine = choose(["pplconv"], ["measure-cold"])[0]
    assert (engine.name, engine.search) == ("pplconv@measure-cold", "measure-cold")
    conv = engine._make(np.ones((8, 8, 1, 1), np.float32), threads=1)
    assert (conv.search, conv.search_context) == ("measure", "cold")
    conv = choose(["pplconv"], ["measure"])[0]._make(np.ones((8, 8, 1, 1), np.float32), threads=1)
    assert (conv.search, conv.search_context) == ("measure", "hot")


def test_a_second_pplconv_has_the_plan_of_the_first(monkeypatch):
    """A search of its own might choose another plan, whose code would then be warm."""
    import pplconv

    monkeypatch.setenv("PPLCONV_WISDOM", "off")
    case = make_case(parse("mb1ic32ih20oc32kh3ph1"))
    engine = choose(["pplconv"], ["measure"])[0]
    candidate = prepare_checked(engine, case, 1)
    found = pplconv.wisdom.export()
    candidate, call = prepare_second(candidate, case, 1)
    assert candidate.status == OK and call is not None
    assert len(found["entries"]) == 1
    assert pplconv.wisdom.export() == found
