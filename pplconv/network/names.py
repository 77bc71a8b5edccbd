"""Names of values: whether they differ, and new ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .onnx_later import ir
from .subgraphs import subgraphs_of

__all__ = ["all_names", "have_unique_names", "mend_names", "unused_name"]


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


def mend_names(model: ir.Model) -> None:
    """Give values and nodes other names where two have the same, or one has none.

    The names of inputs and outputs stay if they can. Other values keep the name that comes first;
    `onnx_ir` names them alike, in a pass of a package that is large to import.

    Parameters
    ----------
    model : ir.Model
        Changed in place; without local functions.
    """
    _Mending().mend(model.graph, frozenset())


class _Mending:
    """Names that are given to the values and nodes of a model."""

    def __init__(self) -> None:
        self._seen: set[ir.Value] = set()
        # How often a name was taken before: one count for the whole model.
        self._values: dict[str, int] = {}
        self._nodes: dict[str, int] = {}

    def mend(self, graph: ir.Graph, outside: Iterable[str]) -> None:
        """Name the values and nodes of a graph, which sees the names of `outside`."""
        values, nodes = set(outside), set[str]()
        self._name((*graph.inputs, *graph.outputs, *graph.initializers.values()), values)
        for node in graph:
            name = _free(node.name or "node", nodes, self._nodes)
            if name != node.name:
                node.name = name
            self._name((*node.inputs, *node.outputs), values)
            for inner in subgraphs_of(node):
                self.mend(inner, values)

    def _name(self, values: Iterable[ir.Value | None], taken: set[str]) -> None:
        for value in values:
            if value is None or value in self._seen:
                continue
            self._seen.add(value)
            name = _free(value.name or "v", taken, self._values)
            if name != value.name:
                value.name = name


def _free(name: str, taken: set[str], counts: dict[str, int]) -> str:
    """Give the name, or the next one with a number, that is not taken; take it."""
    free = name
    while free in taken:
        counts[name] = counts.get(name, 0) + 1
        free = f"{name}_{counts[name]}"
    taken.add(free)
    return free
