"""How cores are divided among instances."""

from __future__ import annotations

import pytest

from pplconv.instances.splitting import split
from pplconv.instances.worker_placement import Placement
from pplconv.machine import Machine


def machine(*nodes: int, quota: float | None = None, mask: tuple[int, ...] = ()) -> Machine:
    """Describe nodes of so many cores each, which have one hardware thread each."""
    numbers = iter(range(1000))
    cpus = tuple(tuple(next(numbers) for _ in range(count)) for count in nodes)
    everyone = tuple(cpu for node in cpus for cpu in node)
    cores = tuple((cpu,) for cpu in everyone)
    return Machine(numa_nodes=cpus, affinity=mask or everyone, quota=quota, cores=cores)


@pytest.mark.parametrize(
    ("nodes", "instances", "threads", "team", "placed"),
    [
        ((4,), None, None, 1, [(0, [0]), (0, [1]), (0, [2]), (0, [3])]),
        ((4,), None, 2, 2, [(0, [0, 1]), (0, [2, 3])]),
        ((5,), None, 2, 2, [(0, [0, 1]), (0, [2, 3])]),
        ((4,), 1, None, 4, [(0, [0, 1, 2, 3])]),
        ((4,), 2, None, 2, [(0, [0, 1]), (0, [2, 3])]),
        ((4,), 3, None, 1, [(0, [0]), (0, [1]), (0, [2])]),
        ((4,), 2, 1, 1, [(0, [0]), (0, [1])]),
        ((4,), 2, 4, 4, [(None, []), (None, [])]),
        ((2,), 3, None, 1, [(None, [])] * 3),
        ((2,), None, 4, 4, [(None, [])]),
        ((2, 2), None, None, 1, [(0, [0]), (0, [1]), (1, [2]), (1, [3])]),
        ((2, 2), None, 2, 2, [(0, [0, 1]), (1, [2, 3])]),
        ((2, 2), 2, None, 2, [(0, [0, 1]), (1, [2, 3])]),
        ((2, 2), 1, None, 2, [(0, [0, 1])]),
        ((3, 3), None, 2, 2, [(0, [0, 1]), (1, [3, 4])]),
        ((2, 2), None, 4, 4, [(None, [])]),
        ((6, 2), 4, None, 2, [(0, [0, 1]), (0, [2, 3]), (0, [4, 5]), (1, [6, 7])]),
    ],
)
def test_splits(nodes, instances, threads, team, placed):
    found = split(machine(*nodes), instances, threads)
    assert found.threads == team
    assert found.placements == tuple(Placement(node, tuple(cores)) for node, cores in placed)


@pytest.mark.parametrize("instances", [None, 1, 2, 3, 7, 64])
@pytest.mark.parametrize("threads", [None, 1, 2, 5])
@pytest.mark.parametrize("nodes", [(1,), (2,), (32, 32, 32, 32), (4, 0, 4), (7, 3)])
def test_no_core_is_given_twice_and_no_team_spans_nodes(nodes, instances, threads):
    described = machine(*nodes)
    found = split(described, instances, threads)
    given = [cpu for placement in found.placements for cpu in placement.cores]
    assert len(given) == len(set(given))
    assert set(given) <= set(described.affinity)
    assert instances is None or len(found.placements) == instances
    assert threads is None or found.threads == threads
    for placement in found.placements:
        assert len(placement.cores) in (0, found.threads)
        assert (placement.node is None) is not placement.cores
        assert not placement.cores or set(placement.cores) <= set(
            described.numa_nodes[placement.node]
        )


@pytest.mark.parametrize(
    ("quota", "instances", "threads", "count", "team"),
    [
        (1.5, None, None, 2, 1),
        (0.5, None, None, 1, 1),
        (2.0, None, 2, 1, 2),
        (2.0, 1, None, 1, 2),
        (2.0, 4, None, 4, 1),
    ],
)
def test_a_quota_below_the_mask_binds_nobody(quota, instances, threads, count, team):
    """Containers side by side would all bind to the same cores."""
    found = split(machine(8, quota=quota), instances, threads)
    assert found.threads == team
    assert found.placements == (Placement(None, ()),) * count


def test_a_quota_above_the_mask_changes_nothing():
    assert split(machine(4, quota=16.0), None, None) == split(machine(4), None, None)


@pytest.mark.parametrize(
    ("nodes", "share", "instances", "threads", "team", "placed"),
    [
        ((4,), 1, None, None, 1, [(0, [0])]),
        ((4,), 1, 2, None, 1, [(0, [0]), (0, [1])]),
        ((4,), 1, None, 2, 2, [(0, [0, 1])]),
        ((4,), 2, 1, None, 2, [(0, [0, 1])]),
        ((4,), 3, None, 2, 2, [(0, [0, 1])]),
        ((4,), 6, None, None, 1, [(None, [])] * 6),
        ((4,), 6, 1, None, 6, [(None, [])]),
        ((2, 2), 3, None, None, 1, [(0, [0]), (0, [1]), (1, [2])]),
        ((2, 2), 4, 1, None, 2, [(0, [0, 1])]),
        ((3, 3), 6, None, 2, 2, [(0, [0, 1]), (1, [3, 4])]),
    ],
)
def test_the_share_counts(nodes, share, instances, threads, team, placed):
    found = split(machine(*nodes), instances, threads, share)
    assert found.threads == team
    assert found.placements == tuple(Placement(node, tuple(cores)) for node, cores in placed)


@pytest.mark.parametrize(
    ("instances", "threads", "taken", "busy", "team", "placed"),
    [
        (None, None, {0, 5}, (), 1, [(1,), (2,), (3,), (4,), (6,), (7,)]),
        (1, None, {0, 5, 6}, (), 3, [(1, 2, 3)]),
        (1, None, range(8), (), 4, [()]),
        (2, 2, (), {0}, 2, [(1, 2), (4, 5)]),
        (1, 3, (), {0, 1}, 3, [(4, 5, 6)]),
        (2, 3, (), {0, 1, 6}, 3, [(2, 3, 0), (4, 5, 7)]),
        (2, 3, {0, 1}, (), 3, [(), ()]),
        (None, None, (), range(8), 1, [(cpu,) for cpu in range(8)]),
    ],
)
def test_taken_cores_are_left_alone_and_busy_ones_come_last(
    instances, threads, taken, busy, team, placed
):
    found = split(machine(4, 4), instances, threads, None, taken, busy)
    assert found.threads == team
    assert [placement.cores for placement in found.placements] == placed


def test_the_mask_counts():
    found = split(machine(4, 4, mask=(1, 6, 7)), None, None)
    assert [p.cores for p in found.placements] == [(1,), (6,), (7,)]
    assert [p.node for p in found.placements] == [0, 1, 1]
