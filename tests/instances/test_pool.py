"""What goes in comes out: results, exceptions, order, statistics."""

from __future__ import annotations

import functools
import gc
import logging
import operator
import threading
import time
import weakref
from concurrent.futures import CancelledError, as_completed, wait
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import nullcontext
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

import pplconv
from pplconv.instances import PoolClosed, dispatcher, requests
from pplconv.instances.statistics import WINDOW, Record, percentile
from pplconv.runtime import scoped_team, scoped_tolerance, tolerance
from tests.instances.gates import Gate, pool_of
from tests.patience import PATIENCE, eventually
from tests.programs import output
from tests.threads import at_once


def test_arguments_and_results_are_handed_over_as_they_are():
    def model(*args, **kwargs):
        return args, kwargs

    thing = object()
    with pool_of(model) as pool:
        args, kwargs = pool.submit(1, thing, self=3, timeout=4, name=thing).result(PATIENCE)
        assert args == (1, thing) and kwargs == {"self": 3, "timeout": 4, "name": thing}
        assert args[1] is thing
        assert pool.submit().result(PATIENCE) == ((), {})


def test_a_cancelled_request_lets_go_of_its_arguments():
    gate = Gate()
    with pool_of(lambda array=None, name=None: gate(), instances=1) as pool:
        running = pool.submit()
        gate.wait_entered()
        one, two = np.zeros(5), np.zeros(5)
        kept = [weakref.ref(one), weakref.ref(two)]
        waiting = pool.submit(one, name=two)
        del one, two
        assert all(reference() is not None for reference in kept)
        assert waiting.cancel()
        assert [reference() for reference in kept] == [None, None]
        gate.opened.set()
        running.result(PATIENCE)


def test_the_factory_is_called_once_for_a_node():
    calls = []

    def factory():
        calls.append(threading.current_thread().name)
        return len

    with pplconv.InstancePool(factory, instances=5, threads=1) as pool:
        assert list(pool.map(["a", "bc"])) == [1, 2]
    nodes = {s.node for s in pool.statistics()}
    assert len(calls) == len(nodes)
    assert all(name.startswith("pplconv-instance") for name in calls)


def test_instances_run_side_by_side():
    barrier = threading.Barrier(4)
    with pool_of(lambda: barrier.wait(PATIENCE), instances=4) as pool:
        futures = [pool.submit() for _ in range(4)]
        assert sorted(f.result(PATIENCE) for f in futures) == [0, 1, 2, 3]
        assert [s.served for s in pool.statistics()] == [1] * 4


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_what_a_model_raises_goes_to_its_future(error):
    def model(bad):
        if bad:
            raise error
        return "fine"

    with pool_of(model, instances=1) as pool:
        assert pool.submit(True).exception(PATIENCE) is error
        assert pool.submit(False).result(PATIENCE) == "fine"
        (statistics,) = pool.statistics()
        assert (statistics.served, statistics.errors, statistics.replaced) == (1, 1, 0)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_callback_that_raises_harms_nothing(error, caplog):
    def callback(future):
        raise error

    gate = Gate()
    with pool_of(gate, instances=1) as pool, caplog.at_level(logging.CRITICAL + 1):
        first = pool.submit(1)
        first.add_done_callback(callback)
        gate.opened.set()
        assert first.result(PATIENCE) == 1
        assert [pool.submit(i).result(PATIENCE) for i in range(20)] == list(range(20))


def test_a_callback_may_submit():
    answers = []
    done = threading.Event()

    def again(future):
        answers.append(future.result())
        if answers[-1] < 50:
            pool.submit(answers[-1] + 1).add_done_callback(again)
        else:
            done.set()

    with pool_of(lambda x: x, queue_size=1) as pool:
        pool.submit(0).add_done_callback(again)
        assert done.wait(PATIENCE)
    assert answers == list(range(51))


def test_a_future_can_be_cancelled_while_it_waits():
    gate = Gate()
    with pool_of(gate, instances=1) as pool:
        running, waiting, last = pool.submit(1), pool.submit(2), pool.submit(3)
        gate.wait_entered()
        assert waiting.cancel() and not running.cancel()
        gate.opened.set()
        assert (running.result(PATIENCE), last.result(PATIENCE)) == (1, 3)
        with pytest.raises(CancelledError):
            waiting.result(0)
        # Waits for several futures notice it, too.
        assert wait([running, waiting, last], PATIENCE).not_done == set()
        assert len(list(as_completed([running, waiting, last], PATIENCE))) == 3
    assert pool.statistics()[0].served == 2


def test_many_submitters_get_their_own_answers():
    each, submitters = 300, 8
    wrong = []

    def submitter(number):
        for i in range(each):
            value = number * each + i
            if pool.submit(value).result(PATIENCE) != (value, value * value):
                wrong.append(value)

    with pool_of(lambda x: (x, x * x), instances=3, queue_size=2) as pool:
        at_once(submitters, submitter)
        assert wrong == []
        assert sum(s.served for s in pool.statistics()) == each * submitters


def test_map_keeps_the_order_and_reads_no_further_than_needed():
    read = []

    def numbers():
        for i in count():
            read.append(i)
            yield i

    with pool_of(lambda x, y: x + y, queue_size=3) as pool:
        results = pool.map(numbers(), count(100))
        assert len(read) <= 2 + 3
        assert [next(results) for _ in range(40)] == [100 + 2 * i for i in range(40)]
        assert len(read) <= 40 + 2 + 3
        results.close()
        assert list(pool.map([1, 2, 3], [4, 5])) == [5, 7]
        assert list(pool.map([])) == []
        with pytest.raises(TypeError, match="iterable"):
            pool.map()


def test_map_passes_errors_on_and_keeps_its_time():
    gate = Gate()

    def model(x):
        return 1 // x if x < 5 else gate()

    with pool_of(model, instances=1) as pool:
        results = pool.map([1, 0, 5, 1])
        assert next(results) == 1
        with pytest.raises(ZeroDivisionError):
            next(results)
        results = pool.map([1, 5, 1], timeout=0.05)
        with pytest.raises(FutureTimeout):
            list(results)
        gate.opened.set()
        assert pool.submit(1).result(PATIENCE) == 1


def test_statistics():
    with pool_of(lambda x: x, instances=2) as pool:
        for statistics in pool.statistics():
            assert (statistics.served, statistics.errors) == (0, 0)
            assert statistics.p50 is None and statistics.p95 is None
        for i in range(100):
            pool.submit(i).result(PATIENCE)
        assert sum(s.served for s in pool.statistics()) == 100
        for index, statistics in enumerate(pool.statistics()):
            assert (statistics.index, statistics.threads) == (index, 1)
            if statistics.served:
                assert 0 < statistics.p50 <= statistics.p95 < PATIENCE


def test_latency_includes_the_wait(monkeypatch):
    now = [100.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0], monotonic=time.monotonic)
    monkeypatch.setattr(requests, "time", clock)
    monkeypatch.setattr(dispatcher, "time", clock)
    gate = Gate()
    with pool_of(gate, instances=1) as pool:
        futures = [pool.submit(), pool.submit()]
        gate.wait_entered()
        now[0] += 7.0
        gate.opened.set()
        wait(futures, PATIENCE)
        assert pool.statistics()[0].p50 == 7.0


def test_calls_inside_use_the_team_of_the_instance():
    with pool_of(scoped_team, instances=1, threads=3, pin=False) as pool:
        assert pool.submit().result(PATIENCE) == 3
        assert pool.threads == 3 and len(pool) == 1
    assert scoped_team() is None


def test_calls_inside_spend_the_tolerance_of_who_made_the_pool():
    for spent in (0.25, None):
        with tolerance(spent) if spent else nullcontext():
            made = pool_of(scoped_tolerance, instances=2, pin=False)
        with made as pool, tolerance(0.5):
            assert pool.submit().result(PATIENCE) == spent


def test_idle_instances_keep_nothing_alive():
    class Thing:
        pass

    def fail(thing):
        raise ValueError

    for model in (lambda thing: None, lambda thing: thing, fail):
        with pool_of(model, instances=1) as pool:
            thing = Thing()
            alive = weakref.ref(thing)
            future = pool.submit(thing)
            wait([future], PATIENCE)
            del thing, future
            eventually(lambda alive=alive: alive() is None, "the end of the argument")


def test_a_pool_that_is_dropped_answers_what_it_has():
    gate = Gate()
    pool = pool_of(gate, instances=1)
    futures = [pool.submit(i) for i in range(5)]
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    gate.opened.set()
    assert [f.result(PATIENCE) for f in futures] == list(range(5))


@pytest.mark.parametrize("error", [LookupError("no such model"), TypeError("mine")])
@pytest.mark.parametrize("instances", [1, 3])
def test_the_factory_s_error_is_the_constructor_s(error, instances):
    def factory():
        raise error

    with pytest.raises(type(error), match=f"^{error}$"):
        pplconv.InstancePool(factory, instances=instances, threads=1)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"factory": 5}, TypeError, "factory must be callable, got int"),
        ({"instances": 0}, ValueError, "instances is 0: expected 1 to 65536"),
        ({"instances": "many"}, TypeError, "instances must be an integer, got 'many'"),
        ({"threads": 1.5}, TypeError, "threads must be an integer, got 1.5"),
        ({"threads": True}, TypeError, "threads must be an integer, got True"),
        ({"mode": "fiber"}, ValueError, "mode must be one of thread, process, got 'fiber'"),
        ({"full": "drop"}, ValueError, "full must be one of block, raise, got 'drop'"),
        ({"queue_size": 0}, ValueError, "queue_size is 0: expected 1 to 65536"),
        ({"retries": -1}, ValueError, "retries is -1: expected 0 to 65536"),
        ({"retries": 0.5}, TypeError, "retries must be an integer, got 0.5"),
        ({"retries": None}, TypeError, "retries must be an integer, got None"),
        ({"shutdown_timeout": -1}, ValueError, "shutdown_timeout is -1: expected 0 or more"),
        ({"shutdown_timeout": "1"}, TypeError, "shutdown_timeout must be a number of seconds"),
    ],
)
def test_bad_arguments_are_named(settings, error, message):
    with pytest.raises(error, match=message):
        pplconv.InstancePool(**{"factory": lambda: len, **settings})


class Says:
    """A model whose `__call__` takes any arguments, as PyTorch's do."""

    def __call__(self, *args):
        return self.forward(*args)

    def forward(self, x):
        return x


@pytest.mark.parametrize("mode", ["thread", "process"])
@pytest.mark.parametrize(
    "model",
    [
        pplconv.Conv2d(np.ones((2, 3, 1, 1), np.float32)),
        lambda x: x,
        functools.partial(operator.add, 1),
        Says(),
    ],
    ids=["Conv2d", "function", "partial", "instance"],
)
def test_a_model_is_no_factory(model, mode):
    kind = type(model).__name__
    with pytest.raises(TypeError, match=rf"factory .* this {kind} .*pass lambda: model"):
        pplconv.InstancePool(model, instances=1, threads=1, mode=mode)


@pytest.mark.parametrize("factory", [lambda x=len: x, functools.partial(getattr, "", "join")])
def test_factories_of_any_kind_are_called(factory):
    with pplconv.InstancePool(factory, instances=1, threads=1) as pool:
        assert pool.submit(["a", "b"]).result(PATIENCE) in (2, "ab")


@pytest.mark.parametrize(("factory", "kind"), [(lambda: 5, "int"), (dict, "dict")])
def test_what_is_no_model_is_named(factory, kind):
    with pytest.raises(TypeError, match=f"factory must return a callable, got {kind}"):
        pplconv.InstancePool(factory, instances=2, threads=1)


def test_repr():
    with pool_of(len, queue_size=7) as pool:
        assert repr(pool) == "<InstancePool: 2 x 1 threads, mode 'thread', queue of 7>"
    assert repr(pool).endswith("closed>")
    with pytest.raises(PoolClosed):
        pool.submit("x")


def test_the_package_loads_it_on_demand():
    code = (
        "import sys, pplconv; assert 'pplconv.instances' not in sys.modules\n"
        "names = {'InstancePool', 'PoolClosed', 'QueueFull', 'WorkerDied'}\n"
        "assert names | {'runtime'} <= set(dir(pplconv)) & set(pplconv.__all__)\n"
        "assert all(getattr(pplconv, n) is getattr(pplconv.instances, n) for n in names)\n"
        "assert callable(pplconv.runtime.team)\n"
        "try: pplconv.nothing\n"
        "except AttributeError as error: print(error)\n"
    )
    assert output("-I", "-c", code).strip() == "module 'pplconv' has no attribute 'nothing'"


@pytest.mark.parametrize("size", [1, 2, 3, 19, 20, 21, 100, 101, 1024])
@pytest.mark.parametrize("percent", [50, 95])
def test_percentiles_are_the_nearest_rank(size, percent, rng):
    values = sorted(rng.random(size).tolist())
    expected = np.percentile(values, percent, method="inverted_cdf")
    assert percentile(values, percent) == expected


def test_the_window_holds_the_latest():
    record = Record()
    assert record.percentiles() == (None, None)
    for _ in range(WINDOW):
        record.add(100.0, failed=False)
    for i in range(WINDOW):
        record.add(float(i), failed=i % 2 == 1)
    assert record.percentiles() == (WINDOW / 2 - 1, np.ceil(0.95 * WINDOW) - 1)
    assert (record.served, record.errors) == (WINDOW + WINDOW // 2, WINDOW // 2)
