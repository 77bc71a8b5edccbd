"""Threads of teams are bound, read back, and put back exactly as they were."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pplconv
from pplconv.runtime import Pin, pin, pinning
from tests.patience import PATIENCE, eventually
from tests.pinning_case import TWO_NODES, System, Work, machine, replaced_system
from tests.programs import finding, ran
from tests.runtime.processes import run
from tests.threads import begun, ended

pytestmark = pytest.mark.unemulated(
    "binds threads to CPUs of the host, which no emulated instruction sees"
)

CPUS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
needs_linux = pytest.mark.skipif(not CPUS, reason="this system has no affinity masks")
needs_two = pytest.mark.skipif(len(CPUS) < 2, reason="one CPU leaves nothing to choose")


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    left = list(pinning._pins)
    for each in left:
        each.unpin()
    assert left == []


@pytest.fixture(scope="module")
def work() -> Work:
    made = Work(2)
    assert made.team == 2
    return made


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    with replaced_system(monkeypatch, TWO_NODES) as made:
        yield made


def masks() -> dict[int, set[int]]:
    """Read what each thread of this process may run on."""
    found = {}
    for name in os.listdir("/proc/self/task"):
        try:
            found[int(name)] = os.sched_getaffinity(int(name))
        except ProcessLookupError:  # ended meanwhile
            continue
    return found


def same_for_survivors(before: dict[int, set[int]]) -> bool:
    now = masks()
    return all(now[tid] == mask for tid, mask in before.items() if tid in now)


def bound(held: Pin) -> dict[int, tuple[int, ...]]:
    return {thread.thread_id: thread.cpus for thread in held.threads()}


@needs_linux
@needs_two
def test_each_thread_of_a_team_has_a_core_of_its_own(work: Work) -> None:
    expected = work.run()
    before = masks()
    with pin(cores=CPUS[:2]) as held:
        assert os.sched_getaffinity(0) == {CPUS[0]}
        assert work.run() == expected
        assert sorted(bound(held).values()) == [(CPUS[0],), (CPUS[1],)]
        assert {tid: os.sched_getaffinity(tid) for tid in bound(held)} == {
            tid: set(cpus) for tid, cpus in bound(held).items()
        }
        others = {tid: mask for tid, mask in before.items() if tid not in bound(held)}
        assert same_for_survivors(others)
    assert same_for_survivors(before)
    assert not held.active
    assert held.threads() == ()
    assert work.run() == expected


@needs_linux
@needs_two
def test_a_thread_that_appears_under_the_pin_is_put_back_to_all(work: Work) -> None:
    """It inherited the leader's one core; without the pin it would have had all CPUs."""
    found: list[set[int]] = []

    def lead() -> None:
        with pin(cores=CPUS[:2], everyone=False) as held:
            work.run()  # its first team: the worker starts here
            tids = list(bound(held))
        found.extend(os.sched_getaffinity(tid) for tid in tids)

    ended(begun([lead]))
    assert found == [set(CPUS)] * 2


@needs_linux
def test_a_team_has_no_more_threads_than_cores(work: Work) -> None:
    expected = work.run()
    with pin(cores=[CPUS[-1]]) as held:
        assert work.run() == expected
        assert list(bound(held)) == [threading.get_native_id()]


@needs_linux
def test_nothing_is_bound_unless_asked(work: Work) -> None:
    before = masks()
    work.run()
    assert same_for_survivors(before)
    # Threads of earlier tests, bound ones among them, may end meanwhile; new ones are the caller's.
    own = os.sched_getaffinity(0)
    assert all(mask == own for thread, mask in masks().items() if thread not in before)


@needs_linux
def test_as_a_call_until_unpin(work: Work) -> None:
    held = pin(cores=CPUS[:1])
    try:
        assert held.active
        assert os.sched_getaffinity(0) == {CPUS[0]}
    finally:
        held.unpin()
    held.unpin()
    assert os.sched_getaffinity(0) == set(CPUS)


@needs_linux
def test_a_mask_of_its_own_comes_back(work: Work) -> None:
    """A thread that was restricted before is restricted in the same way afterwards."""
    found = []

    def lead() -> None:
        os.sched_setaffinity(0, {CPUS[-1]})
        with pin(cores=[CPUS[0]]):
            work.run()
            found.append(os.sched_getaffinity(0))
        found.append(os.sched_getaffinity(0))

    ended(begun([lead]))
    assert found == [{CPUS[0]}, {CPUS[-1]}]


@needs_linux
def test_another_thread_with_the_mask_of_a_bound_one_keeps_it(work: Work) -> None:
    """It was there before the pin: its mask is its own, though the pin uses the same core."""
    found = []
    go, ready, done = threading.Event(), threading.Event(), threading.Event()

    def lead() -> None:
        os.sched_setaffinity(0, {CPUS[0]})
        ready.set()
        go.wait(PATIENCE)
        work.run()
        done.set()
        ended.wait(PATIENCE)
        found.append(os.sched_getaffinity(0))

    ended = threading.Event()
    thread = threading.Thread(target=lead)
    thread.start()
    assert ready.wait(PATIENCE)
    with pin(cores=[CPUS[0]]):
        go.set()
        assert done.wait(PATIENCE)
    ended.set()
    thread.join()
    assert found == [{CPUS[0]}]
    assert os.sched_getaffinity(0) == set(CPUS)


@needs_linux
@needs_two
def test_a_thread_that_starts_as_the_pin_ends_has_the_cpus_from_before() -> None:
    """It cannot be bound any more, and its leader has not been put back yet."""
    assert run(
        "before, mine = set(os.listdir('/proc/self/task')), os.sched_getaffinity(0)\n"
        "conv = pplconv.Conv2d(w, threads=2)\n"
        "expected = pplconv.Conv2d(w, threads=1)(x)\n"
        "pin = pplconv.runtime.pin(cores=2)\n"
        "narrow = os.sched_getaffinity(0)\n"
        "pin.binding.end()\n"
        "assert np.array_equal(conv(x), expected)\n"
        "(worker,) = set(os.listdir('/proc/self/task')) - before\n"
        # It moves by itself, once it runs.
        "eventually(lambda: os.sched_getaffinity(int(worker)) == mine)\n"
        "print(narrow < mine, os.sched_getaffinity(int(worker)) == mine)\n"
        "pin.unpin()\n"
        "print(os.sched_getaffinity(0) == mine)",
        PPLCONV_TEAM_START_US="1",
    ) == ["True True", "True"]


@needs_linux
@needs_two
def test_an_exception_unpins(work: Work) -> None:
    before = masks()
    with pytest.raises(KeyError), pin(cores=CPUS[:2]):
        work.run()
        raise KeyError
    assert same_for_survivors(before)


@needs_linux
@needs_two
def test_nested_pins_come_back_one_by_one(work: Work) -> None:
    before = masks()
    with pin(cores=CPUS[:2]) as outer:
        work.run()
        at_outer = bound(outer)
        with pin(cores=[CPUS[1]]) as inner:
            work.run()
            assert bound(inner)[threading.get_native_id()] == (CPUS[1],)
        assert {tid: cpus for tid, cpus in bound(outer).items() if tid in at_outer} == {
            tid: cpus for tid, cpus in at_outer.items() if tid in bound(outer)
        }
        assert os.sched_getaffinity(0) == {CPUS[0]}
        work.run()
        assert sorted(bound(outer).values()) == [(CPUS[0],), (CPUS[1],)]
    assert same_for_survivors(before)


@needs_linux
@needs_two
def test_pins_may_end_in_any_order(work: Work) -> None:
    before = masks()
    first = pin(cores=[CPUS[0]])
    second = pin(cores=[CPUS[1]])
    first.unpin()
    assert os.sched_getaffinity(0) == {CPUS[1]}
    second.unpin()
    assert same_for_survivors(before)


@needs_linux
@needs_two
def test_another_thread_may_unpin(work: Work) -> None:
    before = masks()
    held = pin(cores=CPUS[:2])
    work.run()
    ended(begun([held.unpin]))
    assert same_for_survivors(before)


def test_leaders_begin_at_different_cores(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads of a server with a team of two each: eight threads on eight cores."""
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "8")  # that many may compute at once
    work = Work(2)
    there = machine({0: tuple(range(8))})
    together = threading.Barrier(4)
    seen: list[tuple[int, ...]] = []

    def lead(_: int) -> None:
        together.wait(PATIENCE)
        work.run()
        together.wait(PATIENCE)
        if together.wait(PATIENCE) == 0:
            seen.extend(bound(held).values())
        together.wait(PATIENCE)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pinning, "current_machine", lambda: there)
        with ThreadPoolExecutor(4) as pool:
            # The threads exist before the pin, and none of them starts it.
            list(pool.map(lambda _: together.wait(PATIENCE), range(4)))
            held = pin()
            list(pool.map(lead, range(4)))
            held.unpin()
    # The thread that asked for the pin is bound too, and leads nothing here.
    assert len(seen) == 9
    assert sorted(set(seen)) == [(cpu,) for cpu in range(8)]


@pytest.mark.parametrize("everyone", [True, False])
def test_whose_teams_are_bound(system: System, work: Work, everyone: bool) -> None:
    expected = work.run()
    with pin(node=1, everyone=everyone) as held, ThreadPoolExecutor(1) as pool:
        assert pool.submit(work.run).result(PATIENCE) == expected
        other = pool.submit(threading.get_native_id).result(PATIENCE)
        assert (other in bound(held)) is everyone
    assert all(system.mask(tid) == set(range(64)) for tid in bound(held))


def test_threads_of_their_own_go_before_everyones(system: System, work: Work) -> None:
    with pin(node=0, everyone=False) as own, pin(node=1) as all_of_them:
        work.run()
        assert threading.get_native_id() in bound(own)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(work.run).result(PATIENCE)
            other = pool.submit(threading.get_native_id).result(PATIENCE)
            assert other in bound(all_of_them)
            assert system.mask(other) <= {4, 5, 6, 7}


def test_teams_that_grow_and_shrink_stay_bound(system: System) -> None:
    """A smaller team leaves threads idle, and a larger one uses them again."""
    works = [Work(threads) for threads in (4, 2, 3, 4)]
    assert [each.team for each in works] == [4, 2, 3, 4]
    with pin(node=1) as held:
        for each in works:
            each.run()
            tids = {int(name) for name in os.listdir("/proc/self/task")}
            alive = [t for t in held.threads() if t.thread_id in tids]
            assert {t.cpus for t in alive} >= {(4 + i,) for i in range(each.team)}
            assert all(t.cpus == (4 + t.core,) for t in alive)
    assert all(mask == set(range(64)) for tid, mask in system.masks.items() if tid in masks())


def test_many_threads_that_end_leave_nothing(system: System, work: Work) -> None:
    with pin(node=0) as held:
        for _ in range(20):
            ended(begun([work.run]))
        # Workers end a moment after the thread that led them.
        eventually(lambda: len(held.threads()) <= 4, "the end of the workers")


FORK = """
import os, signal
import numpy as np, pplconv, pplconv.runtime
x = np.ones((1, 32, 56, 56), np.float32)
conv = pplconv.Conv2d(np.ones((64, 32, 3, 3), np.float32), padding=1, threads=2)
everything = os.sched_getaffinity(0)
with pplconv.runtime.pin(cores=1) as held:
    expected = conv(x)
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        assert not held.active
        assert os.sched_getaffinity(0) == everything
        import warnings
        warnings.simplefilter("ignore")
        assert np.array_equal(conv(x), expected)
        with pplconv.runtime.pin(cores=1) as again:
            assert len(os.sched_getaffinity(0)) == 1 and len(again.threads()) == 1
            assert np.array_equal(conv(x), expected)
        held.unpin()
        assert os.sched_getaffinity(0) == everything
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert held.active and len(os.sched_getaffinity(0)) == 1
    assert np.array_equal(conv(x), expected)
assert os.sched_getaffinity(0) == everything
print("fine")
"""


@needs_linux
def test_a_forked_child_is_not_pinned() -> None:
    done = ran("-c", finding(FORK))
    assert (done.stdout, done.stderr) == ("fine\n", "")


def test_a_plan_shows_the_team_that_the_pin_leaves(system: System) -> None:
    weight = np.ones((64, 64, 3, 3), np.float32)
    conv = pplconv.Conv2d(weight, padding=1, threads=3)

    def shown() -> int:
        return conv.plan_for((1, 64, 56, 56)).threads

    assert shown() == 3
    with pin(cores=2):
        told = len(system.told)
        assert shown() == 2
        assert len(system.told) == told, "to show a plan binds nobody"
        with ThreadPoolExecutor(1) as other, pin(cores=1, everyone=False):
            assert (shown(), other.submit(shown).result(PATIENCE)) == (1, 2)
    assert shown() == 3
