"""A plan as bars: the terms of the estimate, the roofs, and the measured time."""

from __future__ import annotations

import html
import sys
from collections.abc import Sequence
from typing import TextIO

from ..drawing.bars import Row, draw, write
from ..drawing.figures import milliseconds
from ..machine import ceilings as roofs
from ..machine import current as current_machine
from .estimating import default_context
from .measuring import time_plan
from .plan_fields import PlanFields
from .roofs import clock, roofs_of

__all__ = ["page_part", "picture", "plan_title", "show", "show_parts"]

# A term below this share of the estimate has no line of its own.
_LEAST_SHARE = 0.002


def show(
    plan: PlanFields, measure: bool = False, width: int | None = None, file: TextIO | None = None
) -> None:
    """Print the bars of a plan; see `Plan.show`."""
    show_parts([plan], plan_title(plan), measure, width, file)


def show_parts(
    parts: Sequence[PlanFields], title: str, measure: bool, width: int | None, file: TextIO | None
) -> None:
    """Print the bars of plans that run one after the other."""
    seconds, found = None, None
    if measure:
        # Time the plans first, as that may raise an error.
        seconds = [time_plan(part) for part in parts]
        threads = max(part.threads for part in parts)
        # The measured loop multiplies float32, whatever the types of the plan.
        found = roofs.measure(default_context("f32").isa, threads, current_machine())
    write(picture(parts, title, seconds, found, width), sys.stdout if file is None else file)


def page_part(plan: PlanFields) -> str:
    """A plan's bars in a notebook."""
    text = picture([plan], plan_title(plan), None, None, 100)
    return f'<pre style="line-height:1.25">{html.escape(text)}</pre>'


def plan_title(plan: PlanFields) -> str:
    """Describe the problem and the method in two lines."""
    team = "1 thread" if plan.threads == 1 else f"{plan.threads} threads"
    return (
        f"{plan.problem} {plan.dtype} {plan.layout}\n"
        f"{plan.algorithm}, {plan.bits}, {plan.kernel}, {team}"
    )


def picture(
    parts: Sequence[PlanFields],
    title: str,
    seconds: Sequence[float] | None,
    found: roofs.Ceilings | None,
    width: int | None,
) -> str:
    """Lay the bars out.

    Parameters
    ----------
    parts : sequence of Plan
        Plans that run one after the other.
    title : str
        Title of the picture.
    seconds : sequence of float or None
        Measured time of each.
    found : Ceilings or None
        Measured ceilings of this machine, if any.
    width : int or None
        Columns; those of the terminal if None.
    """
    hertz = clock(found)
    cost: dict[str, float] = {}
    for part in parts:
        for name, cycles in part.cost.items():
            cost[name] = cost.get(name, 0.0) + cycles / hertz
    total = sum(cost.values())
    of = "the clock that a core had" if found else "a nominal clock"
    rows = [Row(f"estimate, term by term, at {hertz / 1e9:.3g} GHz ({of})")]
    for name, taken in sorted(cost.items(), key=lambda item: -item[1]):
        if taken > _LEAST_SHARE * total:
            rows.append(Row(f"  {name}", taken, f"{milliseconds(taken)} {_percent(taken, total)}"))
    rows.append(Row("  in all", total, f"{milliseconds(total)}     "))
    limits: dict[str, tuple[float, list[str]]] = {}
    for part in parts:
        for roof in roofs_of(part, found):
            so_far, words = limits.get(roof.name, (0.0, []))
            limits[roof.name] = so_far + roof.seconds, [*words, roof.text]
    took = sum(seconds) if seconds is not None else None
    if took is None and all(part.seconds is not None for part in parts):
        took = sum(part.seconds or 0.0 for part in parts)
    base = total if took is None else took
    if limits:
        rows.append(Row(f"roofs, {'measured' if found else 'of the cost model'}"))
    for name, (least, _) in limits.items():
        text = f"{milliseconds(least)} {_percent(least, base)}"
        rows.append(Row(f"  {name}", least, text))
    if took is not None:
        rows.append(Row("measured" if seconds is not None else "measured by the search"))
        rows.append(Row("  a run", took, f"{milliseconds(took)} {_percent(took, total)}"))
    notes = [f"{name}: {'; '.join(words)}" for name, (_, words) in limits.items()]
    share = "of the run" if took is not None else "of the estimate"
    if limits:
        notes.append(f"% of a roof is {share}")
    return "\n".join([title, draw(rows, width), *notes])


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:3.0f} %" if whole else "     "
