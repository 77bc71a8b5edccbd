"""Steps over time, a lane for each kind, and the memory in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from ...drawing.figures import megabytes, milliseconds, percent, short
from ...drawing.svg import Axis, chart, grid, tag, text
from .measured import Group, Profile, live_bytes

_LANE = 40  # pixels, of which the lower part is the bar
_BAR = 18
_MEMORY = 120


def axis_of(profile: Profile) -> Axis:
    """Milliseconds from the first step to the last."""
    return Axis(0.0, max(profile.step_seconds * 1e3, 1e-6))


def starts_of(profile: Profile) -> list[float]:
    """Start of each step, and end of the last one, in milliseconds."""
    times = (1e3 * (step.seconds or 0.0) for step in profile.plan.steps)
    return list(accumulate(times, initial=0.0))


def draw_groups(profile: Profile, edge: Callable[[int], float], height: float) -> list[str]:
    """Draw a box around the steps of each group that runs band by band.

    Parameters
    ----------
    profile : Profile
        What was measured.
    edge : callable
        Gives the place of a step's left edge, in percent of the width.
    height : float
        Of the boxes.
    """
    return [
        tag("rect", tag("title", text(f"steps {group.first} to {group.last}: {group}")),
            x=percent(edge(group.first)), width=percent(edge(group.last + 1) - edge(group.first)),
            y=0, height=height, class_="group")
        for group in profile.plan.groups
    ]  # fmt: skip


def draw_steps(profile: Profile, kinds: Sequence[Group]) -> str:
    """Draw the steps, one after the other.

    Parameters
    ----------
    profile : Profile
        What was measured.
    kinds : sequence of Group
        A lane for each group, in its colour.
    """
    x, starts = axis_of(profile), starts_of(profile)
    height = _LANE * max(len(kinds), 1) + 6
    drawn = grid(x, height, "ms, steps one by one")
    # Boxes lie under the steps, which have words of their own.
    drawn += [
        tag("rect", x=0, width="100%", y=lane * _LANE + _LANE - _BAR, height=_BAR, class_="lane")
        for lane in range(len(kinds))
    ]  # fmt: skip
    drawn += draw_groups(profile, lambda number: x.at(starts[number]), height)
    for lane, group in enumerate(kinds):
        top = lane * _LANE + _LANE - _BAR
        drawn.append(
            tag("text", text(short(group.name)), x=4, y=top - 5)
            + tag(
                "text", text(f"{milliseconds(group.seconds)} in {len(group.numbers)}"), x="100%",
                dx=-4, y=top - 5, class_="axis end",
            )
        )  # fmt: skip
        for number in group.numbers:
            step = profile.plan.steps[number]
            words = (
                f"{number}: {step.kind} {'x'.join(map(str, step.shape))}, "
                f"{milliseconds(step.seconds or 0.0)}\n{step.detail}"
            )
            drawn.append(tag(
                "rect", tag("title", text(words)), x=percent(x.at(starts[number])),
                width=percent(x.at(starts[number + 1]) - x.at(starts[number])), y=top, height=_BAR,
                class_=f"step k{lane}",
            ))  # fmt: skip
    return chart(height + 34, "Steps over time", *drawn, frame=height)


def draw_memory(profile: Profile) -> str:
    """Draw how much of the arena is in use at each time."""
    x, starts = axis_of(profile), starts_of(profile)
    live = live_bytes(profile.plan)
    most = max(profile.plan.arena_bytes, max(live, default=0), 1)
    y = Axis(0.0, most * 1.08)
    line = [(0.0, 0.0)]
    for number, size in enumerate(live):
        line += [(starts[number], size), (starts[number + 1], size)]
    line.append((starts[-1], 0.0))
    points = " ".join(f"{10 * x.at(a):.2f},{100 - y.at(b):.3f}" for a, b in line)
    drawn = grid(x, _MEMORY, "ms, steps one by one")
    drawn += draw_groups(profile, lambda number: x.at(starts[number]), _MEMORY)
    # A polygon's coordinates cannot be percentages, so a nested drawing is stretched.
    drawn.append(tag(
        "svg", tag("polygon", points=points, class_="live"), width="100%", height=_MEMORY,
        viewBox="0 0 1000 100", preserveAspectRatio="none",
    ))  # fmt: skip
    roof = _MEMORY * (1 - y.at(profile.plan.arena_bytes) / 100)
    drawn.append(tag("line", x1=0, x2="100%", y1=f"{roof:.1f}", y2=f"{roof:.1f}", class_="roof"))
    used = megabytes(max(live, default=0))
    words = f"arena {megabytes(profile.plan.arena_bytes)}, at most {used} in use"
    drawn.append(tag("text", text(words), x="100%", dx=-4, y=f"{roof + 13:.1f}", class_="end"))
    return chart(_MEMORY + 34, "Memory in use over time", *drawn, frame=_MEMORY)
