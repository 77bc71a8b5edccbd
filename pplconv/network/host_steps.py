"""Steps that run in Python: operators without loops of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._records import record
from .storage import Array, Step, Value
from .texts import printable


@record(frozen=True)
class Same:
    """The function of a copy."""

    def __call__(self, x: Array) -> Sequence[Array]:
        """Give the array."""
        return (x,)


def host_step(
    kind: str,
    function: Callable[..., Sequence[Any]],
    reads: list[Value],
    writes: list[Value],
    nodes: list[str],
) -> Step:
    """Make a step that calls a Python function of arrays.

    Parameters
    ----------
    kind : str
        Kind of step, for people.
    function : callable
        Takes the arrays to read, and gives the arrays to write.
    reads, writes : list of Value
        Values that it reads and writes.
    nodes : list of str
        Names of its nodes.
    """
    return Step(function, reads, writes, {}, kind, nodes, "in Python", host=True)


def run_host(step: Step, views: Callable[[Value], Array]) -> None:
    """Run such a step on arrays.

    Parameters
    ----------
    step : Step
        One of `host_step`.
    views : callable
        Gives the array of a value.

    Raises
    ------
    ValueError
        If the function refuses the arrays: indices out of range, for example.
    """

    def work(*arrays: Array) -> Sequence[Any]:
        results: Sequence[Any] = step.work(*arrays)
        for value, result in zip(step.writes, results, strict=True):
            views(value)[...] = result
        return results

    with quietly():
        called(work, [views(value) for value in step.reads], step.kind, step.nodes)


def quietly() -> np.errstate:
    """Give the context of calls: overflow gives infinity without a warning, as in our loops."""
    return np.errstate(all="ignore")


def called(
    function: Callable[..., Sequence[Any]],
    arrays: Sequence[Array | None],
    kind: str,
    nodes: Sequence[str],
) -> Sequence[Any]:
    """Call a function of arrays that computes a node, in the context `quietly`.

    Parameters
    ----------
    function : callable
        Takes the arrays.
    arrays : sequence of ndarray or None
        Its operands.
    kind : str
        The operator.
    nodes : sequence of str
        Names of the results, for messages.

    Raises
    ------
    ValueError
        If the function refuses the arrays: indices out of range, for example.
    """
    try:
        return function(*arrays)
    except MemoryError:
        raise
    except Exception as error:
        raise refusal(kind, nodes, error) from error


def refusal(kind: str, nodes: Sequence[str], error: Exception) -> ValueError:
    """Make the error that says which node refuses its operands, and why."""
    return ValueError(
        f"the network cannot run {printable(kind)} of {', '.join(map(repr, nodes))}: "
        f"{type(error).__name__}: {printable(error)}"
    )
