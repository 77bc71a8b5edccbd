"""Which cores a pin can have on machines of all kinds, and one warning where it is denied."""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pplconv.runtime
from pplconv._binding import Binding
from pplconv.machine import Machine
from pplconv.memory.workspace import Buffer
from pplconv.runtime import pin, pinning
from pplconv.runtime.places import choose_places
from tests.pinning_case import REFUSALS, TWO_NODES, System, Work, machine, replaced_system

SMT = machine({0: (0, 1, 2, 3), 2: (4, 5, 6, 7)}, smt=2)
ONE = machine({0: (0, 1)})


@pytest.mark.parametrize(
    ("there", "node", "cores", "expected", "on"),
    [
        (ONE, None, None, ((0,), (1,)), 0),
        (ONE, 0, 1, ((0,),), 0),
        (TWO_NODES, None, None, ((0,), (1,), (2,), (3,)), 0),
        (TWO_NODES, 1, None, ((4,), (5,), (6,), (7,)), 1),
        (TWO_NODES, 1, 2, ((4,), (5,)), 1),
        (TWO_NODES, None, [6, 5], ((6,), (5,)), 1),
        (TWO_NODES, None, [0, 7], ((0,), (7,)), None),
        (TWO_NODES, 1, np.array([4]), ((4,),), 1),
        (SMT, None, None, ((0, 1), (2, 3)), 0),
        (SMT, 2, None, ((4, 5), (6, 7)), 2),
        (SMT, 2, [7, 4, 5], ((7,), (4, 5)), 2),
        # The affinity mask decides: it has more of node 1, and CPU 0 without its sibling.
        (machine({0: (0, 1), 1: (2, 3)}, affinity=(1, 2, 3)), None, None, ((2,), (3,)), 1),
        (machine({0: (0, 1, 2, 3)}, smt=2, affinity=(0, 2, 3)), None, None, ((0,), (2, 3)), 0),
    ],
)
def test_cores_of_one_node(
    there: Machine, node: Any, cores: Any, expected: Any, on: int | None
) -> None:
    places = choose_places(there, node, cores)
    assert (places.cores, places.node, places.complaint) == (expected, on, "")
    assert places.prefers_memory is (len(there.node_ids) > 1 and on is not None)


@pytest.mark.parametrize(
    ("there", "node", "cores", "expected", "complaint"),
    [
        (ONE, 1, None, (), "no NUMA node 1 here, only 0"),
        (ONE, None, 3, ((0,), (1,)), "3 cores asked for, but NUMA node 0 has 2 cores"),
        (TWO_NODES, 0, 5, ((0,), (1,), (2,), (3,)), "5 cores asked for, but NUMA node 0 has 4"),
        (ONE, None, [1, 9, 8], ((1,),), "not in the affinity mask: CPU 9, 8"),
        (ONE, None, [9], (), "not in the affinity mask: CPU 9"),
        (machine({0: (0,), 1: (1,)}, affinity=(0,)), 1, None, (), "no core of NUMA node 1"),
        (machine({0: (0,), 1: (1,)}, affinity=(0,)), None, [1], (), "affinity mask: CPU 1"),
    ],
)
def test_what_is_not_there(
    there: Machine, node: Any, cores: Any, expected: Any, complaint: str
) -> None:
    places = choose_places(there, node, cores)
    assert places.cores == expected
    assert complaint in places.complaint


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"node": -1}, ValueError, "node is -1: expected at least 0"),
        ({"node": True}, TypeError, "node is True: expected an int or None"),
        ({"node": 0.0}, TypeError, "node is 0.0: expected an int or None"),
        ({"node": "0"}, TypeError, "node is '0'"),
        ({"cores": 0}, ValueError, "cores is 0: expected at least 1"),
        ({"cores": False}, TypeError, "cores is False: expected an int, a sequence"),
        ({"cores": 1.5}, TypeError, "cores is 1.5"),
        ({"cores": "01"}, TypeError, "cores is '01'"),
        ({"cores": []}, ValueError, "cores is empty"),
        ({"cores": [0, -2]}, ValueError, "cores is -2: expected at least 0"),
        ({"cores": [0, None]}, TypeError, "cores is None"),
        ({"cores": [1, 0, 1]}, ValueError, "expected each CPU id once"),
    ],
)
def test_bad_arguments_are_named(
    arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message.replace(".", r"\.")):
        pplconv.runtime.pin(**arguments)


def test_cpus_of_another_node_contradict_the_node() -> None:
    with pytest.raises(ValueError, match="cores has CPU 4 of NUMA node 1: expected CPUs of node 0"):
        choose_places(TWO_NODES, 0, [0, 4])


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
