"""Requests joined along their first dimension: which, how many, and who gets what."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, wait
from types import SimpleNamespace

import numpy as np
import pytest

import pplconv
from pplconv.instances import PoolClosed, WorkerDied
from pplconv.instances import pool as pool_module
from pplconv.instances.joined_requests import Batching, gather, kind_of, rows_of, split
from pplconv.instances.requests import Request, RequestQueue
from pplconv.instances.worker import Worker
from tests.patience import PATIENCE


class Doubling:
    """Records the shapes of its calls; its first call waits until a test opens the gate."""

    def __init__(self, answer=lambda given: given * 2):
        self.seen = []
        self.answer = answer
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, given):
        if not self.entered.is_set():
            self.entered.set()
            assert self.opened.wait(PATIENCE)
        shapes = {k: v.shape for k, v in given.items()} if isinstance(given, dict) else given.shape
        self.seen.append(shapes)
        return self.answer(given)


def rows(n, value=1.0, width=3, dtype=np.float32):
    return np.full((n, width), value, dtype)


def behind_a_gate(model, requests, **settings):
    """Submit a request that blocks the only instance, and then others, which all wait."""
    settings = {"instances": 1, "threads": 1, "max_batch": 8, **settings}
    with pplconv.InstancePool(lambda: model, **settings) as pool:
        first = pool.submit(rows(1, -1, width=1))
        assert model.entered.wait(PATIENCE)
        futures = [pool.submit(request) for request in requests]
        model.opened.set()
        wait([first, *futures], PATIENCE)
        statistics = pool.statistics()
    return futures, statistics[0]


def test_what_waits_is_joined_and_each_gets_its_rows():
    model = Doubling()
    futures, statistics = behind_a_gate(model, [rows(1, i) for i in range(8)])
    for i, future in enumerate(futures):
        result = future.result()
        np.testing.assert_array_equal(result, rows(1, 2 * i))
        assert result.base is None, "an answer keeps no other alive"
    assert model.seen[1:] == [(8, 3)]
    assert statistics.served == 9 and statistics.errors == 0


def test_calls_have_a_power_of_two_of_rows():
    model = Doubling()
    futures, _ = behind_a_gate(model, [rows(1, i) for i in range(7)])
    assert [f.result()[0, 0] for f in futures] == [2 * i for i in range(7)]
    assert model.seen[1:] == [(4, 3), (2, 3), (1, 3)]


def test_the_bound_need_be_no_power_of_two():
    model = Doubling()
    behind_a_gate(model, [rows(1) for _ in range(6)], max_batch=6)
    assert model.seen[1:] == [(6, 3)]


def test_nothing_is_joined_unless_asked():
    model = Doubling()
    behind_a_gate(model, [rows(1) for _ in range(4)], max_batch=1)
    assert model.seen[1:] == [(1, 3)] * 4


def test_other_kinds_are_calls_of_their_own():
    model = Doubling()
    requests = [
        rows(1), rows(1), rows(1, width=4), rows(1, dtype=np.float64), rows(1), rows(1),
        rows(2)[0], np.float32(3), rows(1),
    ]  # fmt: skip
    futures, statistics = behind_a_gate(model, requests)
    for request, future in zip(requests, futures, strict=True):
        np.testing.assert_array_equal(future.result(), request * 2)
        assert future.result().dtype == request.dtype
    # The seventh has one dimension, of three rows; the eighth is no array.
    assert model.seen[1:] == [(2, 3), (1, 4), (1, 3), (2, 3), (3,), (), (1, 3)]
    assert statistics.errors == 0


def test_dicts_are_joined_by_name():
    model = Doubling(
        lambda given: (
            {"a2": given["a"] * 2, "b1": given["b"] + 1} if isinstance(given, dict) else given
        )
    )
    requests = [{"a": rows(1, i), "b": rows(1, -i, width=2)} for i in range(4)]
    requests.append({"a": rows(1), "b": rows(2, width=2)})  # not the same number of rows
    futures, _ = behind_a_gate(model, requests[:4])
    for i, future in enumerate(futures):
        assert list(future.result()) == ["a2", "b1"]
        np.testing.assert_array_equal(future.result()["a2"], rows(1, 2 * i))
        np.testing.assert_array_equal(future.result()["b1"], rows(1, 1 - i, width=2))
    assert model.seen[1:] == [{"a": (4, 3), "b": (4, 2)}]
    assert kind_of(Request((requests[4],), {})) is None


def test_a_request_with_more_rows_than_allowed_is_run():
    model = Doubling()
    futures, _ = behind_a_gate(model, [rows(11), rows(3), rows(1), rows(9)], max_batch=4)
    assert [len(f.result()) for f in futures] == [11, 3, 1, 9]
    assert model.seen[1:] == [(11, 3), (4, 3), (9, 3)]


def test_one_mistake_harms_no_other_request():
    def answer(given):
        if (given == 3).any():
            raise ValueError("three")
        return given * 2

    futures, statistics = behind_a_gate(Doubling(answer), [rows(1, i) for i in range(4)])
    for i, future in enumerate(futures):
        if i == 3:
            with pytest.raises(ValueError, match="three"):
                future.result()
        else:
            np.testing.assert_array_equal(future.result(), rows(1, 2 * i))
    assert (statistics.served, statistics.errors) == (4, 1)


@pytest.mark.parametrize("answer", [
    lambda given: given.sum(axis=0), lambda given: given[:1], lambda given: [given, given[:1]],
    lambda given: {"n": len(given)}, lambda given: None, lambda given: list(given.shape),
])  # fmt: skip
def test_results_without_the_rows_of_all_are_computed_one_by_one(answer):
    futures, _ = behind_a_gate(Doubling(answer), [rows(1, i) for i in range(4)])
    for i, future in enumerate(futures):
        expected = answer(rows(1, i))
        assert type(future.result()) is type(expected)
        np.testing.assert_equal(future.result(), expected)


def test_a_request_waits_for_others_no_longer_than_it_may():
    model = Doubling()
    model.entered.set()
    settings = {"instances": 1, "threads": 1, "max_batch": 2}
    with pplconv.InstancePool(lambda: model, max_delay=10 * PATIENCE, **settings) as pool:
        first = pool.submit(rows(1))
        second = pool.submit(rows(1))
        wait([first, second], PATIENCE)
        assert first.done() and second.done()
    assert model.seen == [(2, 3)], "one waited for the other, and the full call for nobody"
    with pplconv.InstancePool(lambda: model, max_delay=0.05, **settings) as pool:
        pool.submit(rows(1)).result(PATIENCE)
    assert model.seen[1:] == [(1, 3)]


def test_a_closed_pool_waits_for_nobody():
    model = Doubling()
    model.entered.set()
    with pplconv.InstancePool(
        lambda: model, instances=2, threads=1, max_batch=4, max_delay=10 * PATIENCE
    ) as pool:
        futures = [pool.submit(rows(1)) for _ in range(2)]
    assert all(future.done() for future in futures)
    with pytest.raises(PoolClosed):
        pool.submit(rows(1))


def test_cancelled_requests_are_left_out():
    model = Doubling()
    with pplconv.InstancePool(lambda: model, instances=1, threads=1, max_batch=8) as pool:
        first = pool.submit(rows(1, width=1))
        assert model.entered.wait(PATIENCE)
        futures = [pool.submit(rows(1, i)) for i in range(5)]
        assert futures[2].cancel()
        model.opened.set()
        wait([first, *futures], PATIENCE)
    with pytest.raises(CancelledError):
        futures[2].result()
    assert model.seen[1:] == [(4, 3)]
    assert [f.result()[0, 0] for i, f in enumerate(futures) if i != 2] == [0, 2, 6, 8]


def test_all_running_requests_are_given_up_when_the_time_is_over():
    entered, release = threading.Event(), threading.Event()

    def model(given):
        if len(given) > 1:
            entered.set()
            release.wait(PATIENCE)
        return given

    gate = Doubling(model)
    pool = pplconv.InstancePool(lambda: gate, instances=1, threads=1, max_batch=4)
    pool.submit(rows(1, width=1))
    assert gate.entered.wait(PATIENCE)
    futures = [pool.submit(rows(1)) for _ in range(6)]
    gate.opened.set()
    assert entered.wait(PATIENCE)
    with pytest.warns(RuntimeWarning, match="4 running and 2 waiting"):
        pool.close(0.05)
    for future in futures:
        with pytest.raises(PoolClosed):
            future.result(0)
    release.set()


class Dying(Worker):
    """Dies of joined calls, `deaths` times in all."""

    deaths = 0
    node, cores = None, ()

    def __init__(self, gate):
        self.gate = gate

    def run(self, args, kwargs):
        if len(args[0]) > 1 and Dying.deaths:
            Dying.deaths -= 1
            raise WorkerDied("gone")
        return self.gate(*args)

    def close(self, timeout):
        pass


@pytest.mark.parametrize(("deaths", "retries"), [(1, 1), (1, 0), (2, 1), (2, 2)])
def test_a_worker_that_dies_of_a_joined_call(deaths, retries, monkeypatch):
    gate = Doubling()
    Dying.deaths = deaths
    monkeypatch.setattr(pool_module, "_maker", lambda mode: lambda *_: lambda i: Dying(gate))
    futures, statistics = behind_a_gate(gate, [rows(1, i) for i in range(4)], retries=retries)
    for i, future in enumerate(futures):
        if deaths > retries:
            with pytest.raises(WorkerDied, match="died"):
                future.result()
        else:
            np.testing.assert_array_equal(future.result(), rows(1, 2 * i))
    assert statistics.retried == min(deaths, retries)
    assert gate.seen[1:] == ([(4, 3)] if deaths <= retries else [])
    assert statistics.served + statistics.errors == 5


def test_a_model_with_a_fixed_batch_is_refused():
    class Fixed:
        def get_inputs(self):
            return [SimpleNamespace(name="x", shape=["N", 3]), self.second]

        def __call__(self, feed):
            return feed

    model = Fixed()
    for shape in ([1, 3], []):
        model.second = SimpleNamespace(name="second", shape=shape)
        with pytest.raises(ValueError, match=r"max_batch: .*'second'"):
            pplconv.InstancePool(lambda: model, instances=1, threads=1, max_batch=2)
        pplconv.InstancePool(lambda: model, instances=1, threads=1).close()
    model.second = SimpleNamespace(name="second", shape=[None])
    pplconv.InstancePool(lambda: model, instances=1, threads=1, max_batch=2).close()


@pytest.mark.parametrize(
    "settings",
    [{"max_batch": 0}, {"max_batch": 2.5}, {"max_delay": -1}, {"max_delay": float("nan")},
     {"max_delay": "1"}, {"max_batch": True}],
)  # fmt: skip
def test_arguments_that_are_none_are_refused(settings):
    (name,) = settings
    with pytest.raises((TypeError, ValueError), match=name):
        pplconv.InstancePool(lambda: len, instances=1, threads=1, **settings)


def test_what_is_put_back_comes_first_and_in_order():
    queue = RequestQueue(10)
    for value in range(4):
        queue.put(Request((value,), {}), 0)
    taken = [queue.take() for _ in range(3)]
    queue.put_back(taken[1:])
    queue.put(Request((4,), {}), 0)
    queue.stop(2)
    assert queue.take_within(0).args == (1,)
    assert [queue.take().args[0] for _ in range(3)] == [2, 3, 4]
    assert queue.take_within(0) is None
    queue.put_back(taken[:2])
    assert queue.take() is taken[0]
    assert [request.args[0] for request in queue.drain()] == [1]
    assert queue.take() is None and queue.take() is None


def test_calls_are_whole_requests_in_order(rng):
    for _ in range(300):
        most = int(rng.integers(2, 20))
        requests = [
            Request((rows(int(rng.integers(0, 6)), width=int(rng.integers(1, 3))),), {})
            for _ in range(int(rng.integers(1, 12)))
        ]
        queue = RequestQueue(len(requests))
        for request in requests:
            queue.put(request, 0)
        queue.stop(1)
        seen = []
        while (first := queue.take()) is not None:
            call = gather(queue, first, Batching(most))
            assert len(call) == 1 or sum(map(rows_of, call)) <= most
            assert len(call) == 1 or len({kind_of(r) for r in call}) == 1
            seen += call
        assert seen == requests


def test_empty_and_odd_results_are_not_divided():
    requests = [Request((rows(2),), {}), Request((rows(1),), {})]
    assert split([], requests) == [[], []]
    assert split({}, requests) == [{}, {}]
    assert split(np.zeros(()), requests) is None
    assert split([np.zeros(3), np.zeros(2)], requests) is None
    one, other = split((np.arange(3), np.ones((3, 2))), requests)
    assert one[0].tolist() == [0, 1] and other[0].tolist() == [2] and one[1].shape == (2, 2)


def test_joined_in_processes():
    with pplconv.InstancePool(
        lambda: np.negative, instances=1, threads=1, mode="process", max_batch=4, max_delay=0.2
    ) as pool:
        futures = [pool.submit(rows(1, i)) for i in range(8)]
        for i, future in enumerate(futures):
            np.testing.assert_array_equal(future.result(PATIENCE), rows(1, -i))
