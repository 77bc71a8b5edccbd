"""The planner's estimates, term by term, beside measured times."""

from __future__ import annotations

from ...drawing.figures import milliseconds, percent, round_number, short
from ...drawing.svg import Axis, chart, grid, tag, text
from ..report import StepPlan
from .measured import Profile

# Number of steps to draw, the longest ones.
MOST = 24
# Terms of the cost model for each colour, in stacking order.
TERMS = {
    "products": ("fma",),
    "calls and tasks": ("tile", "tasks"),
    "transforms": ("pre", "post"),
    "packing, conversions": ("pack", "convert"),
    "operands on their way": ("stream",),
    "weights from memory": ("cold",),
    "stores": ("store",),
    "the team and all else": ("team",),
}
_LANE, _BAR = 40, 16


def estimated(profile: Profile) -> list[tuple[int, dict[str, float], float]]:
    """Steps with a plan and a time, the longest first: number, seconds of each group, measured."""
    found = [
        (number, _grouped(step, profile.hertz), step.seconds)
        for number, step in enumerate(profile.plan.steps)
        if step.plan is not None and step.seconds
    ]
    return sorted(found, key=lambda one: -one[2])


def draw_estimates(profile: Profile) -> str:
    """Draw a bar for each of the longest steps: its estimate in parts, and a line at its time."""
    found = estimated(profile)[:MOST]
    most = max(max(sum(terms.values()), took) for _, terms, took in found)
    unit, words = (1e3, "ms") if most >= 1e-3 else (1e6, "µs")
    x = Axis(0.0, most * unit * 1.02)
    height = _LANE * len(found) + 6
    drawn = grid(x, height, f"{words}: coloured the estimate, the line what it took")
    for lane, (number, terms, took) in enumerate(found):
        step, total = profile.plan.steps[number], sum(terms.values())
        top, at = lane * _LANE + _LANE - _BAR, 0.0
        name = short(f"{number}: {step.kind} {step.method} {'x'.join(map(str, step.shape))}", 40)
        ratio = f"{milliseconds(took)}, {took / total:.2f} x" if total else milliseconds(took)
        drawn.append(
            tag("rect", x=0, width="100%", y=top, height=_BAR, class_="lane")
            + tag("text", text(name), x=4, y=top - 5)
            + tag("text", text(ratio), x="100%", dx=-4, y=top - 5, class_="axis end")
        )
        for colour, (group, seconds) in enumerate(terms.items()):
            if seconds <= 0:
                continue
            said = f"{number}: {group}, {milliseconds(seconds)} of {milliseconds(total)}"
            drawn.append(tag(
                "rect", tag("title", text(said)), x=percent(x.at(at * unit)),
                width=percent(x.at(seconds * unit)), y=top, height=_BAR, class_=f"term k{colour}",
            ))  # fmt: skip
            at += seconds
        place = percent(x.at(took * unit))
        drawn.append(tag("line", x1=place, x2=place, y1=top, y2=top + _BAR + 3, class_="took"))
    return chart(height + 34, "Estimates and times", *drawn, frame=height)


def estimates_key(profile: Profile) -> str:
    """Draw the legend of colours."""
    shown = {group for _, terms, _ in estimated(profile)[:MOST] for group in terms if terms[group]}
    items = [
        tag("li", tag("i", class_=f"k{colour}"), text(group))
        for colour, group in enumerate(TERMS)
        if group in shown
    ]
    clock = text(f"at {round_number(round(profile.hertz / 1e9, 2))} GHz")
    return tag("ul", *items, tag("li", clock), class_="key")


def _grouped(step: StepPlan, hertz: float) -> dict[str, float]:
    *named, last = TERMS
    cost = step.cost
    found = {group: sum(cost.get(term, 0.0) for term in TERMS[group]) / hertz for group in named}
    # Terms without a colour of their own are shown, too.
    return {**found, last: sum(cost.values()) / hertz - sum(found.values())}
