"""The cheapest way to give every node of a graph one of two labels."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

__all__ = ["source_side"]


def source_side(
    count: int, source: int, sink: int, edges: Iterable[tuple[int, int, float]]
) -> set[int]:
    """Find the nodes on the source's side of a minimum cut.

    By shortest augmenting paths (Edmonds and Karp, "Theoretical improvements in algorithmic
    efficiency for network flow problems", 1972).

    Parameters
    ----------
    count : int
        Nodes are numbered from 0.
    source, sink : int
        Two of them.
    edges : iterable of (int, int, float)
        From, to, and the cost of having only the first on the source's side; may be infinite.

    Returns
    -------
    set of int
        As few nodes as possible among all minimum cuts; the source is one of them.
    """
    left: list[dict[int, float]] = [{} for _ in range(count)]
    for begin, end, cost in edges:
        if begin != end and cost > 0:
            left[begin][end] = left[begin].get(end, 0.0) + cost
            left[end].setdefault(begin, 0.0)
    while True:
        before = _search(left, source, sink)
        if sink not in before:
            return set(before)
        path = [sink]
        while path[-1] != source:
            path.append(before[path[-1]])
        pairs = list(zip(path[1:], path[:-1], strict=True))
        flow = min(left[a][b] for a, b in pairs)
        if math.isinf(flow):
            raise ValueError("no cut of finite cost parts the source from the sink")
        for a, b in pairs:
            # A rounding remainder must not keep an edge open for ever.
            left[a][b] = 0.0 if left[a][b] == flow else left[a][b] - flow
            left[b][a] += flow


def _search(left: list[dict[int, float]], source: int, sink: int) -> dict[int, int]:
    """Search over edges with capacity left, until the sink; give each node's predecessor."""
    before = {source: source}
    queue = deque([source])
    while queue and sink not in before:
        node = queue.popleft()
        for other, room in left[node].items():
            if room > 0 and other not in before:
                before[other] = node
                queue.append(other)
    return before
