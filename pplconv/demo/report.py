"""The table at the end of the demo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pplconv import Plan
from pplconv.demo.measure import Call

__all__ = ["Layer", "layers_of", "seconds", "table"]


@dataclass(slots=True)
class Layer:
    """All convolutions of a network that are the same problem.

    Parameters
    ----------
    plan : Plan
        How pplconv computes them.
    count : int
        How many there are.
    ours, own : float
        Seconds in all of them, with pplconv and with the evaluator's own operator.
    """

    plan: Plan
    count: int = 0
    ours: float = 0.0
    own: float = 0.0


def layers_of(
    plans: Sequence[Plan], ours: Sequence[Call], own: Sequence[Call] | None
) -> list[Layer]:
    """Gather the convolutions of a network by problem.

    Parameters
    ----------
    plans : sequence of Plan
        One for each convolution.
    ours : sequence of Call
        The convolutions as pplconv ran them.
    own : sequence of Call or None
        The same convolutions as the evaluator's own operator ran them, if it did.

    Returns
    -------
    list of Layer
        In the order of the network.
    """
    layers: dict[tuple[str, str, str, int], Layer] = {}
    for index, (plan, call) in enumerate(zip(plans, ours, strict=True)):
        key = (plan.problem, plan.algorithm, plan.kernel, plan.threads)
        layer = layers.setdefault(key, Layer(plan))
        layer.count += 1
        layer.ours += call.seconds
        if own is not None:
            layer.own += own[index].seconds
    return list(layers.values())


def table(layers: Sequence[Layer], facts: Sequence[tuple[str, str]], *, compared: bool) -> str:
    """Lay out what was measured.

    Parameters
    ----------
    layers : sequence of Layer
        A row for each.
    facts : sequence of tuple of str
        Names and values of what is said of the whole run, below the rows.
    compared : bool
        Whether the evaluator's own operator was timed too.

    Returns
    -------
    str
        Lines without a newline at the end.
    """
    head = ["problem", "count", "algorithm", "kernel", "threads"]
    head += ["own Conv s", "pplconv s", "ratio"] if compared else ["pplconv s"]
    rows = []
    for layer in layers:
        plan = layer.plan
        row = [plan.problem, str(layer.count), plan.algorithm, plan.kernel, str(plan.threads)]
        rows.append(row + _times(layer.own, layer.ours, compared))
    count = str(sum(layer.count for layer in layers))
    ours, own = sum(layer.ours for layer in layers), sum(layer.own for layer in layers)
    total = ["all convolutions", count, "", "", "", *_times(own, ours, compared)]
    cells = [head, *rows, total]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    left = {0, 2, 3}
    lines = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    name_width = max(len(name) for name, _ in facts)
    below = [f"{name.ljust(name_width)}  {value}" for name, value in facts]
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], rule, *below])


def _times(own: float, ours: float, compared: bool) -> list[str]:
    if not compared:
        return [seconds(ours)]
    return [seconds(own), seconds(ours), f"{own / ours:.1f}x" if ours > 0 else "-"]


def seconds(value: float) -> str:
    """Write a duration with microseconds as its last digit.

    Parameters
    ----------
    value : float
        Seconds.

    Returns
    -------
    str
    """
    return f"{value:.6f}"
