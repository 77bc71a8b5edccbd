"""`Machine` itself: what it derives from its fields, and what it does not accept."""

from __future__ import annotations

from typing import Any

import pytest

from pplconv.machine import Machine

# Two nodes, which the system numbers 0 and 8, of two cores with two threads.
POWER = Machine(
    cores=((0, 1), (2, 3), (4, 5), (6, 7)),
    affinity=(1, 2, 3, 6),
    numa_nodes=((0, 1, 2, 3), (4, 5, 6, 7)),
    node_ids=(0, 8),
    node_memory=(1 << 30, 2 << 30),
)


def test_usable_cores() -> None:
    assert POWER.usable_cores() == ((1,), (2, 3), (6,))
    assert POWER.usable_cores(0) == ((1,), (2, 3))
    assert POWER.usable_cores(node=8) == ((6,),)


def test_a_cpu_that_no_core_lists_counts_as_one() -> None:
    found = Machine(cores=((0, 1),), affinity=(1, 5, 4), numa_nodes=((0, 1, 5),))
    assert found.usable_cores() == ((1,), (4,), (5,))
    assert found.usable_cores(0) == ((1,), (5,))


@pytest.mark.parametrize("node", [1, 2, -1])
def test_unknown_node(node: int) -> None:
    with pytest.raises(ValueError, match=f"node is {node}: expected one of 0, 8"):
        POWER.usable_cores(node)


def test_node_of() -> None:
    assert [POWER.node_of(cpu) for cpu in (0, 3, 4, 7, 8, -1)] == [0, 0, 8, 8, None, None]


def test_nodes_are_numbered_where_nothing_is_said() -> None:
    found = Machine(numa_nodes=((0,), (1,), (2,)))
    assert (found.node_ids, found.node_memory) == ((0, 1, 2), (0, 0, 0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"node_ids": (0, 1, 2)}, r"node_ids is \(0, 1, 2\): expected one for each of 2"),
        ({"node_memory": (5,)}, r"node_memory is \(5,\): expected one for each of 2"),
    ],
)
def test_as_many_ids_as_nodes(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Machine(numa_nodes=((0,), (1,)), **wrong)
