"""Names of values: whether they differ, and new ones."""

from __future__ import annotations

from collections.abc import Iterator

from .onnx_later import ir
from .subgraphs import subgraphs_of

__all__ = ["all_names", "have_unique_names", "unused_name"]


def all_names(graph: ir.Graph) -> Iterator[str | None]:
    """Give the names of the inputs, initializers and results of a graph and of its subgraphs.

    Parameters
    ----------
    graph : ir.Graph
        Any graph.

    Yields
    ------
    str or None
        None or empty where a value has none.
    """
    for value in graph.inputs:
        if value.name not in graph.initializers:
            yield value.name
    yield from graph.initializers
    for node in graph:
        for value in node.outputs:
            yield value.name
        for inner in subgraphs_of(node):
            yield from all_names(inner)


def have_unique_names(graph: ir.Graph) -> bool:
    """Tell whether each value of a graph and its subgraphs has a name that no other has.

    Parameters
    ----------
    graph : ir.Graph
        Any graph.

    Returns
    -------
    bool
        False also where two subgraphs use one name, which ONNX permits.
    """
    names = list(all_names(graph))
    return all(names) and len(set(names)) == len(names)


def unused_name(name: str, names: set[str | None]) -> str:
    """Give a name that no value has yet.

    Parameters
    ----------
    name : str
        The name, or what it begins with.
    names : set of str
        Names of all values; gets the new one.

    Returns
    -------
    str
    """
    unique, count = name, 0
    while unique in names:
        count += 1
        unique = f"{name}_{count}"
    names.add(unique)
    return unique
