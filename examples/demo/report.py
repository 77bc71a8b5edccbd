"""Tables of the demo: texts, times of the page, and the convolutions in the evaluator."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from examples.demo.measure import Call
from examples.demo.reading import STAGES, Line, Page
from pplconv import Plan

__all__ = ["Layer", "layers_of", "page_table", "seconds", "table", "text_table"]

ILLEGIBLE = "(illegible)"


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


def layers_of(plans: Sequence[Plan], ours: Sequence[Call], own: Sequence[Call]) -> list[Layer]:
    """Gather the convolutions of a network by problem.

    Parameters
    ----------
    plans : sequence of Plan
        One for each convolution.
    ours : sequence of Call
        The convolutions as pplconv ran them.
    own : sequence of Call
        The same convolutions as the evaluator's own operator ran them.

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
        layer.own += own[index].seconds
    return list(layers.values())


def table(layers: Sequence[Layer], facts: Sequence[tuple[str, str]]) -> str:
    """Make the table of the convolutions.

    Parameters
    ----------
    layers : sequence of Layer
        A row for each.
    facts : sequence of tuple of str
        Names and values of facts about the whole run, below the rows.

    Returns
    -------
    str
        Lines without a newline at the end.
    """
    head = ["problem", "count", "algorithm", "kernel", "threads"]
    head += ["own Conv s", "pplconv s", "ratio"]
    rows = []
    for layer in layers:
        plan = layer.plan
        row = [plan.problem, str(layer.count), plan.algorithm, plan.kernel, str(plan.threads)]
        rows.append(row + _times(layer.own, layer.ours))
    count = str(sum(layer.count for layer in layers))
    ours, own = sum(layer.ours for layer in layers), sum(layer.own for layer in layers)
    total = ["all convolutions", count, "", "", "", *_times(own, ours)]
    cells = [head, *rows, total]
    lines = _columns(cells, {0, 2, 3})
    rule = "-" * len(lines[0])
    return "\n".join([lines[0], rule, *lines[1:-1], rule, lines[-1], rule, *_facts(facts)])


def text_table(engines: Sequence[str], pages: Sequence[Sequence[Line]]) -> str:
    """Make the table of the texts, of one engine or of several side by side.

    Parameters
    ----------
    engines : sequence of str
        Their names.
    pages : sequence of sequence of Line
        The lines of each engine; missing lines are empty.

    Returns
    -------
    str
        Lines without a newline at the end.
    """
    rows = [["line", "score", *engines]]
    for number in range(max(map(len, pages))):
        lines = [page[number] if number < len(page) else None for page in pages]
        score = next(line.score for line in lines if line is not None)
        texts = ["" if line is None else line.text or ILLEGIBLE for line in lines]
        rows.append([str(number + 1), f"{score:.3f}", *texts])
    return _ruled(rows, set(range(2, 2 + len(engines))))


def page_table(
    engines: Sequence[str], pages: Sequence[Page], facts: Sequence[tuple[str, str]]
) -> str:
    """Make the table of the times of each stage.

    Parameters
    ----------
    engines : sequence of str
        Their names; ours first.
    pages : sequence of Page
        The page of each engine, with its times.
    facts : sequence of tuple of str
        Names and values of facts about the whole run, below the rows.

    Returns
    -------
    str
        Lines without a newline at the end.
    """
    compared = len(pages) > 1
    rows = [["stage", *(f"{engine} ms" for engine in engines), *(["ratio"] if compared else [])]]
    for name in (*STAGES, "whole page"):
        times = [page.seconds.get(name, page.total) for page in pages]
        ratio = f"{times[1] / times[0]:.2f}x" if compared and times[0] > 0 else "-"
        rows.append([name, *(f"{1e3 * t:.3f}" for t in times), *([ratio] if compared else [])])
    lines = _ruled(rows, {0}).split("\n")
    rule = lines[1]
    return "\n".join([*lines[:-1], rule, lines[-1], rule, *_facts(facts)])


def _facts(facts: Sequence[tuple[str, str]]) -> list[str]:
    width = max(len(name) for name, _ in facts)
    return [f"{name.ljust(width)}  {value}" for name, value in facts]


def _ruled(rows: Sequence[Sequence[str]], left: set[int]) -> str:
    head, *lines = _columns(rows, left)
    rule = "-" * max(map(_width, (head, *lines)))
    return "\n".join([head, rule, *lines])


def _columns(rows: Sequence[Sequence[str]], left: set[int]) -> list[str]:
    """Align columns, those of `left` to the left."""
    widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    found = []
    for row in rows:
        cells = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (width - _width(cell))
            cells.append(cell + gap if column in left else gap + cell)
        found.append("  ".join(cells).rstrip())
    return found


def _width(text: str) -> int:
    """Cells that a text takes on a terminal: Chinese letters take two."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _times(own: float, ours: float) -> list[str]:
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
