"""Progress of the searches for a network's plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .nodes import Graph
from .operators.table import row_of

if TYPE_CHECKING:
    from ..planner.racing import Progress

__all__ = ["in_parts"]


def in_parts(progress: Progress, graph: Graph) -> Callable[[str], Progress]:
    """Divide the reported share among the plans of a graph, in turn.

    Parameters
    ----------
    progress : callable
        Called with the share done of all, and a text.
    graph : Graph
        Convolutions and products ask for about one plan each, other nodes for none.

    Returns
    -------
    callable
        Takes the text of a plan, and gives the callable that its search reports to.
    """
    total = max(sum(row_of(node.op).planned for node in graph.nodes), 1)
    begun = 0

    def part(text: str) -> Progress:
        nonlocal begun
        begun += 1
        before = begun - 1

        def tell(share: float, how: str) -> None:
            progress(min((before + share) / total, 1.0), f"{before + 1}/{total} {text}: {how}")

        return tell

    return part
