"""The end of a pool: in time, with every future answered."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
import weakref
from concurrent.futures import CancelledError, wait

import pytest

import pplconv
from pplconv.instances import PoolClosed
from tests.instances.gates import Gate, pool_of
from tests.patience import PATIENCE, eventually
from tests.programs import ran
from tests.threads import at_once


def open_once_closed(pool, gate):
    """Open a gate once a pool takes no more requests; earlier requests still wait then."""

    def opens():
        eventually(lambda: pool._queue.stopped, "the closing of the pool")
        gate.opened.set()

    threading.Thread(target=opens, daemon=True).start()


def test_what_waits_is_answered():
    gate = Gate()
    with pool_of(gate) as pool:
        futures = [pool.submit(i) for i in range(20)]
        open_once_closed(pool, gate)
    assert [f.result(0) for f in futures] == list(range(20))
    pool.close()
    with pytest.raises(PoolClosed, match="closed"):
        pool.submit(1)


def test_what_waits_can_be_cancelled():
    gate = Gate()
    pool = pool_of(gate, instances=1)
    futures = [pool.submit(i) for i in range(20)]
    gate.wait_entered()
    open_once_closed(pool, gate)
    pool.close(PATIENCE, cancel_pending=True)
    assert futures[0].result(0) == 0
    assert all(f.cancelled() for f in futures[1:])
    assert wait(futures, 0).not_done == set()


def test_a_block_left_by_an_exception_cancels():
    gate = Gate()
    with pytest.raises(ZeroDivisionError), pool_of(gate, instances=1) as pool:
        futures = [pool.submit(i) for i in range(5)]
        gate.wait_entered()
        open_once_closed(pool, gate)
        _ = 1 // 0
    assert futures[0].result(0) == 0
    for future in futures[1:]:
        with pytest.raises(CancelledError):
            future.result(0)


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_the_time_limit(timeout):
    gate = Gate()
    pool = pool_of(gate, instances=1)
    running, waiting = pool.submit(1), pool.submit(2)
    gate.wait_entered()
    # The gate stays shut: if `close` waited for the request, the future would hold its error.
    with pytest.warns(RuntimeWarning, match="1 running and 1 waiting requests were given up"):
        pool.close(timeout)
    with pytest.raises(PoolClosed, match=f"limit of {timeout:g} s was over while this ran"):
        running.result(0)
    with pytest.raises(PoolClosed, match="before an instance came to this"):
        waiting.result(0)
    gate.opened.set()  # its late answer changes nothing
    eventually(lambda: not pool._dispatchers[0].thread.is_alive(), "the end of the thread")
    assert isinstance(running.exception(0), PoolClosed)
    pool.close()


def test_a_closed_pool_keeps_no_model():
    class Model:
        def __call__(self):
            return 1

    with pplconv.InstancePool(Model, instances=2, threads=1) as pool:
        assert pool.submit().result(PATIENCE) == 1
        alive = [weakref.ref(o) for o in gc.get_objects() if type(o) is Model]
        assert len(alive) == len({s.node for s in pool.statistics()})
    eventually(lambda: all(ref() is None for ref in alive), "the end of the models")
    assert len(pool.statistics()) == 2


def test_a_callback_may_close_the_pool():
    closed = threading.Event()

    def close(future):
        pool.close()
        closed.set()

    gate = Gate()
    pool = pool_of(gate)
    future = pool.submit(1)
    future.add_done_callback(close)
    gate.opened.set()
    assert closed.wait(PATIENCE)
    with pytest.raises(PoolClosed):
        pool.submit(2)


def test_close_by_many_threads_at_once():
    pool = pool_of(lambda x: x)
    futures = [pool.submit(i) for i in range(30)]
    at_once(4, lambda _: pool.close())
    assert [f.result(0) for f in futures] == list(range(30))


def test_no_request_is_lost_between_submit_and_close():
    """Every future gets an answer."""
    for _ in range(20):
        pool = pool_of(lambda x: x, queue_size=1000)
        futures = []

        def submit(pool=pool, futures=futures):
            try:
                while True:
                    futures.append(pool.submit(len(futures)))
            except PoolClosed:
                pass

        thread = threading.Thread(target=submit)
        thread.start()
        eventually(lambda futures=futures: len(futures) > 3, "some requests")
        pool.close()
        thread.join(PATIENCE)
        assert [f.result(0) for f in futures] == list(range(len(futures)))


EXIT = """
import threading, pplconv
entered = threading.Semaphore(0)
def model(x):
    if x:
        entered.release()
        threading.Event().wait()
    return x
pool = pplconv.InstancePool(lambda: model, instances=2, threads=1, shutdown_timeout={limit})
print(pool.submit(0).result(), flush=True)
if {hang}:
    futures = [pool.submit(1) for _ in range(9)]
    entered.acquire(), entered.acquire()
"""


@pytest.mark.parametrize(("hang", "limit"), [(False, 1e9), (True, 0.1)])
def test_a_program_ends_though_its_pool_is_not_closed(hang, limit):
    done = ran("-I", "-c", EXIT.format(hang=hang, limit=limit), check=True)
    assert done.stdout == "0\n"
    assert ("2 running and 0 waiting requests were given up" in done.stderr) is hang
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_is_told_and_does_not_hang():
    def child(results):
        try:
            pool.submit(1)
        except PoolClosed as error:
            results.put(str(error))
        pool.close()

    with pool_of(lambda x: x) as pool:
        pool.submit(1).result(PATIENCE)
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        process = context.Process(target=child, args=(results,))
        process.start()
        process.join(PATIENCE)
        assert process.exitcode == 0
        assert "belongs to the process that made it" in results.get()
        process.close()
        assert pool.submit(2).result(PATIENCE) == 2
