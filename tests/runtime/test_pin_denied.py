"""What is denied or impossible: one warning, and the work goes on."""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections.abc import Iterator

import pytest

from pplconv._binding import Binding
from pplconv.memory.workspace import Buffer
from pplconv.runtime import pin, pinning
from tests.pinning_case import REFUSALS, TWO_NODES, System, Work, machine, replaced_system

PREFERRED = 1


@pytest.fixture(scope="module")
def work() -> Work:
    return Work(2)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    with replaced_system(monkeypatch, TWO_NODES) as made:
        yield made
    assert pinning._pins == []


def everything_is_as_before(system: System) -> bool:
    return all(mask == set(range(64)) for mask in system.masks.values())


@pytest.mark.parametrize("code", REFUSALS, ids=errno.errorcode.get)
def test_refused_masks(system: System, work: Work, code: int) -> None:
    expected = work.run()
    system.refuse_mask = code
    with pytest.warns(RuntimeWarning) as caught:
        held = pin()
    assert len(caught) == 1
    assert os.strerror(code) in str(caught[0].message)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert work.run() == expected
        held.unpin()
    assert (held.active, held.cores, held.threads()) == (False, (), ())
    assert everything_is_as_before(system)


def test_masks_that_cannot_be_read_are_not_changed(system: System, work: Work) -> None:
    system.refuse_read = errno.EPERM
    with pytest.warns(RuntimeWarning, match="refused"), pin() as held:
        work.run()
    assert not held.active
    assert system.told == []


def test_a_mask_that_is_taken_and_not_kept_is_noticed(system: System) -> None:
    """The mask that is read back differs."""
    system.obey = False
    with pytest.warns(RuntimeWarning, match="binding threads refused"):
        assert not pin().active


def test_refused_for_a_later_thread(system: System, work: Work) -> None:
    expected = work.run()
    with pin(node=1) as held:
        system.refuse_mask = errno.EPERM
        assert work.run() == expected
        with pytest.warns(RuntimeWarning, match="a thread could not be bound") as caught:
            for _ in range(3):
                assert work.run() == expected
        assert len(caught) == 1
        assert held.active
        system.refuse_mask = 0
    assert everything_is_as_before(system)


def test_a_refusal_inside_a_pin_leaves_that_pin(system: System) -> None:
    with pin(cores=[5]):
        system.refuse_mask = errno.EPERM
        with pytest.warns(RuntimeWarning):
            pin(cores=[6])
        system.refuse_mask = 0
        assert system.mask(threading.get_native_id()) == {5}
    assert everything_is_as_before(system)


def test_threads_that_cannot_be_put_back(system: System) -> None:
    held = pin()
    system.refuse_mask = errno.EPERM
    with pytest.warns(RuntimeWarning, match="could not be put back"):
        held.unpin()
    assert not held.active


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"node": 2}, "no NUMA node 2 here, only 0, 1"),
        ({"cores": [40]}, "not in the affinity mask: CPU 40"),
    ],
)
def test_nothing_to_be_had(
    system: System, work: Work, arguments: dict[str, object], message: str
) -> None:
    with pytest.warns(RuntimeWarning, match=message) as caught, pin(**arguments) as held:
        work.run()
    assert len(caught) == 1
    assert not held.active
    assert system.told == []


def test_part_of_it_to_be_had(system: System) -> None:
    with pytest.warns(RuntimeWarning, match="5 cores asked for"), pin(node=1, cores=5) as held:
        assert held.active
        assert held.cores == ((4,), (5,), (6,), (7,))


def test_warnings_that_are_errors_leave_nothing_bound(system: System) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning):
            pin(node=1, cores=5)
    assert pinning._pins == []
    assert everything_is_as_before(system)


def test_memory_of_the_node_is_preferred(system: System) -> None:
    with pin(node=1) as held:
        assert held.memory_node == 1
        system.memory.clear()
        small, large = Buffer(100), Buffer(5 << 20)
        assert (small.node, large.node) == (1, 1)
        assert system.memory == [
            (100, PREFERRED, frozenset({1})),
            (5 << 20, PREFERRED, frozenset({1})),
        ]
    assert Buffer(100).node == -1
    assert len(system.memory) == 2


def test_scratch_of_one_node_serves_no_other(system: System, work: Work) -> None:
    def nodes_asked() -> set[int]:
        system.memory.clear()
        work.run()
        return {node for _, _, nodes in system.memory for node in nodes}

    work.run()
    with pin(node=1):
        nodes_asked()
        assert nodes_asked() == set()  # the scratch is reused
        with pin(node=0):
            assert nodes_asked() <= {0}
    assert nodes_asked() == set()


def test_refused_memory(system: System, work: Work) -> None:
    expected = work.run()
    system.refuse_memory = errno.EPERM
    with pytest.warns(RuntimeWarning, match="memory of NUMA node 1 refused") as caught:
        held = pin(node=1)
    assert len(caught) == 1
    with held:
        assert held.active
        assert held.memory_node is None
        assert work.run() == expected
        assert Buffer(64).node == -1


def test_one_node_leaves_memory_alone(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinning, "current_machine", lambda: machine({0: (0, 1)}))
    with pin() as held:
        assert held.memory_node is None
        assert Buffer(64).node == -1
    assert system.memory == []


def test_the_real_system_takes_the_preference() -> None:
    """On this machine, whatever it is: the answer is granted, or one of the known refusals."""
    assert Binding(((0,),)).prefer_memory(0) in (0, *REFUSALS)
    assert Binding(((0,),)).prefer_memory(5000) == errno.EINVAL


@pytest.mark.skipif(not os.path.exists("/proc/self/numa_maps"), reason="no NUMA in this kernel")
def test_the_real_system_keeps_the_preference(monkeypatch: pytest.MonkeyPatch) -> None:
    if Binding(((0,),)).prefer_memory(0):
        pytest.skip("this sandbox refuses mbind")
    cpus = sorted(os.sched_getaffinity(0))
    there = machine({0: tuple(cpus), 1: (max(cpus) + 1,)}, affinity=tuple(cpus))
    monkeypatch.setattr(pinning, "current_machine", lambda: there)

    def preferring() -> int:
        with open("/proc/self/numa_maps") as maps:
            return sum(" prefer" in line for line in maps)

    before = preferring()
    with pin(node=0) as held:
        buffer = Buffer(8 << 20)
        assert held.memory_node == 0
        assert (buffer.node, preferring()) == (0, before + 1)
    del buffer
    assert preferring() == before
