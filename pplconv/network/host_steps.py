"""Steps that run in Python: what no loop of ours computes."""

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
    """Make a step that calls a function of arrays.

    Parameters
    ----------
    kind : str
        What it is, for people.
    function : callable
        Takes the arrays that are read, and gives those that are written.
    reads, writes : list of Value
        What it works on.
    nodes : list of str
        What it stands for.
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
    # What overflows is infinite without a warning, as in our loops.
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
