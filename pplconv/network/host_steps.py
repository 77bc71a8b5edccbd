"""Steps that run in Python: operators without loops of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .storage import Array, Step, Value
from .texts import printable


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
    # Overflow gives infinity without a warning, as in our loops.
    with np.errstate(all="ignore"):
        try:
            results = step.work(*(views(value) for value in step.reads))
            for value, result in zip(step.writes, results, strict=True):
                views(value)[...] = result
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(
                f"the network cannot run {printable(step.kind)} of "
                f"{', '.join(map(repr, step.nodes))}: {type(error).__name__}: {printable(error)}"
            ) from error
