"""Chooses the number of threads for a graph's program."""

from __future__ import annotations

from dataclasses import replace

from .. import planner
from .nodes import Graph, Node
from .operators.table import row_of
from .plan_settings import Settings


def flops_of(node: Node, graph: Graph) -> int:
    """Estimate the floating-point operations of a node; a moved element counts as several."""
    return row_of(node.op).flops(node, graph)


def with_team(settings: Settings, graph: Graph) -> Settings:
    """Give the settings with the number of threads that pays: each step costs a barrier.

    Parameters
    ----------
    settings : Settings
        Its team is the largest.
    graph : Graph
        It has about as many nodes as its program has steps.
    """
    wanted = planner.team_size(settings.threads)
    flops = sum(flops_of(node, graph) for node in graph.nodes)
    pays = planner.paying_team(flops / max(len(graph.nodes), 1), wanted)
    return settings if pays == wanted else replace(settings, threads=pays)
