"""Which cores a pin can have, on machines of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pplconv.runtime
from pplconv.machine import Machine
from pplconv.runtime.places import choose_places
from tests.pinning_case import TWO_NODES, machine

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
