"""Pinned pools hold different cores, of this process and, where the system tells, of others."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from contextlib import ExitStack

import pytest

import pplconv
from pplconv.instances import claims
from pplconv.machine import Machine
from tests.instances.gates import Gate
from tests.patience import PATIENCE
from tests.programs import finding, started

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="no abstract names of sockets")


def machine(cores: int = 4, smt: int = 1, nodes: int = 1, **settings) -> Machine:
    """Nodes of `cores` cores each; the hardware threads of a core are far apart."""
    count = cores * nodes
    every = tuple(tuple(range(core, count * smt, count)) for core in range(count))
    settings.setdefault("affinity", tuple(range(count * smt)))
    return Machine(
        cores=every,
        numa_nodes=tuple(
            tuple(cpu for core in every[at * cores : (at + 1) * cores] for cpu in core)
            for at in range(nodes)
        ),
        **settings,
    )


@pytest.fixture(autouse=True)
def own_names(monkeypatch):
    """Use socket names of this test's own, and see no CPU that others have bound."""
    assert claims._held == {}
    name = f"\0pplconv-test-{uuid.uuid4().hex}-{{}}"
    monkeypatch.setattr(claims, "_NAME", name)
    monkeypatch.setattr(claims, "bound_cpus", lambda usable: frozenset())
    yield name
    assert claims._held == {}


@pytest.fixture
def take():
    """Claim cores, and release all of them at the end."""
    with ExitStack() as held:

        def claim(instances=None, threads=None, there=None, share=None):
            there = there or machine()
            share = share or len(there.usable_cores())
            found, hold = claims.claim(there, instances, threads, share)
            cpus = tuple(cpu for placement in found.placements for cpu in placement.cores)
            held.callback(hold.release, cpus)
            return found.threads, [placement.cores for placement in found.placements], hold

        yield claim


def test_claims_of_one_process_are_of_different_cores(take):
    assert take(1, 2)[:2] == (2, [(0, 1)])
    assert take(1, 1)[:2] == (1, [(2,)])
    assert take(1, 2)[:2] == (2, [()])  # one core is free, which is too few
    assert take(1, 1)[:2] == (1, [(3,)])
    assert take(1, 1)[:2] == (1, [()])


def test_auto_fills_the_cores_that_are_free(take):
    take(1, 1)
    assert take()[:2] == (1, [(1,), (2,), (3,)])
    assert take()[:2] == (1, [(), (), (), ()])  # no core is free: unbound instances


def test_released_cores_can_be_had_again(take):
    *_, first = take(2, 1)
    *_, second = take(2, 1)
    first.release((0,))
    assert take(1, 1)[1] == [(0,)]
    first.release((0, 1))  # core 0 belongs to another hold now
    assert take(1, 1)[1] == [(1,)]
    second.release((0, 1))  # it never held them
    assert take(1, 1)[1] == [()]


def test_a_hardware_thread_is_as_taken_as_its_core(take):
    assert take(1, 1, machine(2, smt=2))[1] == [(0,)]
    other_threads = machine(2, smt=2, affinity=(2, 3))
    assert take(1, 1, other_threads)[1] == [(3,)]


def test_cores_that_others_have_bound_are_taken_last(take, monkeypatch):
    there = machine(4, smt=2)
    monkeypatch.setattr(claims, "bound_cpus", lambda usable: frozenset({0, 5}))
    *_, hold = found = take(2, 1, there)
    assert found[1] == [(2,), (3,)]
    hold.release((2, 3))
    assert take(3, 1, there)[1] == [(2,), (3,), (0,)]


def test_a_node_that_others_have_bound_is_taken_last(take, monkeypatch):
    monkeypatch.setattr(claims, "bound_cpus", lambda usable: frozenset({0}))
    assert take(1, 4, machine(4, nodes=2))[1] == [(4, 5, 6, 7)]


def test_the_quota_and_more_threads_than_cores_claim_nothing(take):
    assert take(2, 1, machine(4, quota=2.0))[1] == [(), ()]
    assert take(5, 1)[1] == [()] * 5
    assert claims._held == {}


def another_process(name: str, body: str) -> subprocess.Popen[str]:
    """Start a process that runs `body` and lives until its input ends."""
    code = finding(
        "from pplconv.instances import claims\nfrom pplconv.machine import Machine\n"
        f"claims._NAME = {name!r}\n"
        "claims.bound_cpus = lambda usable: frozenset()\n"
        "there = Machine(cores=((0,), (1,), (2,), (3,)), numa_nodes=((0, 1, 2, 3),),\n"
        "                affinity=(0, 1, 2, 3))\n"
        f"{body}\n"
        "sys.stdin.read()\n"
    )
    return started("-c", code, stdin=subprocess.PIPE, stderr=None)


CLAIM = """
print("ready", flush=True)
sys.stdin.readline()
found, hold = claims.claim(there, 1, 1, 4)
print(*found.placements[0].cores, flush=True)
"""


@LINUX
def test_processes_that_start_at_once_find_different_cores(own_names, take):
    with ExitStack() as running:
        others = [running.enter_context(another_process(own_names, CLAIM)) for _ in range(3)]
        running.callback(lambda: [other.stdin.close() for other in others])
        for other in others:
            assert other.stdout.readline() == "ready\n"
        for other in others:
            other.stdin.write("\n")
            other.stdin.flush()
        theirs = [int(other.stdout.readline()) for other in others]
        own = take(1, 1)[1][0]
        assert sorted([*theirs, *own]) == [0, 1, 2, 3]
        # All four are in use: others' cores are shared rather than refused.
        assert take(3, 1)[1] == [(cpu,) for cpu in range(4) if cpu not in own]


@LINUX
def test_a_killed_process_frees_its_cores(own_names, take):
    with another_process(own_names, CLAIM) as other:
        other.stdin.write("\n")
        other.stdin.flush()
        other.stdout.readline()
        assert other.stdout.readline() == "0\n"
        other.kill()
    assert take(1, 1)[1] == [(0,)]


FORK = """
import os
found, hold = claims.claim(there, 1, 1, 4)
inside = os.pipe()
over = os.pipe()
if os.fork() == 0:
    assert claims._held == {}
    again, _ = claims.claim(there, 1, 1, 4)
    os.write(inside[1], b"%d" % again.placements[0].cores[0])
    os.read(over[0], 1)
    os._exit(0)
print(os.read(inside[0], 9).decode(), end=" ")
hold.release((0,))
again, hold = claims.claim(there, 1, 1, 4)
print(again.placements[0].cores[0], flush=True)
os.write(over[1], b"1")
os.wait()
"""


@LINUX
def test_a_forked_child_holds_nothing_of_its_parent_s(own_names):
    with another_process(own_names, FORK) as parent:
        found = parent.stdout.readline()
        parent.stdin.close()
    # Core 0 is taken when the child looks; the parent can claim it again while the child lives.
    assert found == "1 0\n"
    assert parent.returncode == 0


@pytest.mark.parametrize("broken", ["socket", "bind"])
def test_a_system_that_tells_nothing_fails_no_claim(take, monkeypatch, broken):
    def refuse(*args):
        raise PermissionError("not here")

    if broken == "socket":
        monkeypatch.setattr(claims.socket, "socket", refuse)
    else:
        monkeypatch.setattr(claims.socket.socket, "bind", refuse, raising=False)
    assert take(1, 2)[1] == [(0, 1)]
    assert take(1, 2)[1] == [(2, 3)]


# Pools.


@pytest.fixture
def four_cores(monkeypatch):
    """Describe this machine as one of four cores."""
    there = machine(4, affinity=(0, 1, 2, 3))
    monkeypatch.setattr(claims, "current_machine", lambda: there)
    return there


def test_nothing_is_bound_unless_asked_for():
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no affinity here")
    before = os.sched_getaffinity(0)
    with ExitStack() as pools:
        for _ in range(2):
            model = lambda: os.sched_getaffinity(0)  # noqa: E731
            pool = pools.enter_context(pplconv.InstancePool(lambda model=model: model))
            answers = [pool.submit() for _ in range(4 * len(pool))]
            assert all(answer.result(PATIENCE) == before for answer in answers)
            assert {(s.node, s.cores) for s in pool.statistics()} == {(None, ())}
            assert claims._held == {}


def can_bind() -> bool:
    try:
        os.sched_setaffinity(0, os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return False
    return True


@pytest.mark.filterwarnings("ignore:pplconv.runtime.pin")
def test_open_pools_have_cores_of_their_own():
    """On this machine, whether or not it lets threads be bound."""
    real = claims.current_machine()
    free = len(real.usable_cores())
    if real.quota is not None and real.quota <= free - 1:
        free = 0
    with ExitStack() as pools:
        seen = []
        for _ in range(min(3, free)):
            pool = pools.enter_context(pplconv.InstancePool(lambda: len, 1, 1, pin=True))
            seen += pool.statistics()[0].cores
        held = len(claims._held)
        assert held == min(3, free)
        assert len(set(seen)) == len(seen) == (held if can_bind() else 0)
        with pytest.warns(RuntimeWarning, match="run unbound"):
            last = pplconv.InstancePool(lambda: len, free - held + 1, 1, pin=True)
        with last:
            assert {s.cores for s in last.statistics()} == {()}
            assert len(claims._held) == held


def test_the_warning_says_what_does_not_suffice(four_cores, monkeypatch):
    with pytest.warns(RuntimeWarning, match=r"the free cores do not suffice for 5 x 1 threads"):
        pplconv.InstancePool(lambda: len, 5, 1, pin=True).close()
    limited = machine(4, quota=1.5)
    monkeypatch.setattr(claims, "current_machine", lambda: limited)
    with pytest.warns(RuntimeWarning, match=r"with a CPU quota of 1.5, do not suffice for 2 x 1"):
        pplconv.InstancePool(lambda: len, pin=True).close()


def pinned(factory, instances=2, **settings):
    return pplconv.InstancePool(factory, instances, 1, pin=True, **settings)


@pytest.fixture
def nothing_bound(four_cores, monkeypatch):
    """Claim cores without binding threads, so that nothing depends on this machine's CPUs."""
    from pplconv.instances import threaded, worker_pinning

    monkeypatch.setattr(threaded, "bound", lambda placement: worker_pinning.nullcontext())


def test_closed_pools_hold_nothing(nothing_bound):
    with pinned(lambda: len):
        assert sorted(claims._held) == [0, 1]
        with pinned(lambda: len):
            assert sorted(claims._held) == [0, 1, 2, 3]
        assert sorted(claims._held) == [0, 1]
    assert claims._held == {}


def test_a_model_that_goes_on_after_close_keeps_its_core(nothing_bound):
    gate = Gate()
    pool = pinned(lambda: gate)
    pool.submit()
    gate.wait_entered()
    with pytest.warns(RuntimeWarning, match="given up"):
        pool.close(0)
    assert len(claims._held) >= 1
    gate.opened.set()
    for dispatcher in pool._dispatchers:
        dispatcher.thread.join(PATIENCE)


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_pool_that_cannot_be_made_holds_nothing(nothing_bound, mode):
    def factory():
        raise LookupError("no such model")

    with pytest.raises(LookupError):
        pinned(factory, mode=mode)
    assert claims._held == {}


def test_an_instance_that_cannot_start_holds_nothing(nothing_bound, monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "pplconv-instance-1":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start"):
        pinned(lambda: len)
    assert claims._held == {}


@pytest.mark.parametrize(
    ("environment", "asked", "expected"),
    [
        ({}, {}, (4, 1)),
        ({"OMP_NUM_THREADS": "1"}, {}, (1, 1)),
        ({"OMP_NUM_THREADS": "1"}, {"instances": 3}, (3, 1)),
        ({"OMP_NUM_THREADS": "1"}, {"threads": 2}, (1, 2)),
        ({"OMP_NUM_THREADS": "2,1"}, {"instances": 1}, (1, 2)),
        ({"OMP_NUM_THREADS": "1", "PPLCONV_NUM_THREADS": "3"}, {}, (3, 1)),
        ({"OMP_NUM_THREADS": "1", "PPLCONV_NUM_THREADS": "2"}, {"instances": 1}, (1, 2)),
        ({"PPLCONV_NUM_THREADS": "6"}, {"threads": 3}, (2, 3)),
        ({"OMP_NUM_THREADS": "none"}, {"threads": 2}, (2, 2)),
    ],
)
@pytest.mark.parametrize("pin", [False, True])
def test_the_share_is_what_the_environment_says(
    nothing_bound, monkeypatch, environment, asked, expected, pin
):
    for name in ("OMP_NUM_THREADS", "PPLCONV_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:
        if pin and expected[0] * expected[1] > 4:
            stack.enter_context(pytest.warns(RuntimeWarning, match="2 x 3 threads"))
        pool = stack.enter_context(pplconv.InstancePool(lambda: len, pin=pin, **asked))
        assert (len(pool), pool.threads) == expected


def test_a_malformed_environment_is_named(four_cores, monkeypatch):
    monkeypatch.setenv("PPLCONV_NUM_THREADS", "two")
    with pytest.raises(ValueError, match="PPLCONV_NUM_THREADS is 'two'"):
        pplconv.InstancePool(lambda: len)
