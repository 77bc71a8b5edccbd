"""How many threads the program of a graph deserves."""

from __future__ import annotations

from dataclasses import replace

from .. import planner
from .builder import Settings
from .nodes import Graph, Node
from .operators.table import row_of


def flops_of(node: Node, graph: Graph) -> int:
    """Estimate the floating-point operations of a node; an element that is moved counts as some."""
    return row_of(node.op).flops(node, graph)


def with_team(settings: Settings, graph: Graph) -> Settings:
    """Give the settings with the threads that pay: each step costs a wait for the others.

    Parameters
    ----------
    settings : Settings
        Its team is the largest.
    graph : Graph
        Whose nodes are about as many as the steps of its program.
    """
    wanted = planner.team_size(settings.threads)
    flops = sum(flops_of(node, graph) for node in graph.nodes)
    pays = planner.paying_team(flops / max(len(graph.nodes), 1), wanted)
    return settings if pays == wanted else replace(settings, threads=pays)
