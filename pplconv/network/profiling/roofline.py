"""Steps under the roofs of FMA units and memory, and steps that only move."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...drawing.figures import milliseconds, number, percent, round_number
from ...drawing.svg import Axis, chart, grid, tag, text
from ..report import StepPlan
from .measured import Group, Profile, moved

_HEIGHT = 380
_STRIP = 92
_APART = 14  # percent of a phone that two names need


def points(profile: Profile) -> list[tuple[int, float, float]]:
    """Steps that compute: number, operations a byte, operations a second."""
    return [
        (index, step.flops / moved(step), step.flops / step.seconds)
        for index, step in enumerate(profile.plan.steps)
        if step.flops and step.seconds and moved(step)
    ]


def movers(profile: Profile) -> list[tuple[int, float]]:
    """Steps that only move or change elements: number, bytes a second."""
    return [
        (index, moved(step) / step.seconds)
        for index, step in enumerate(profile.plan.steps)
        if not step.flops and step.seconds and moved(step)
    ]


def draw_roofline(profile: Profile, kinds: Sequence[Group]) -> str:
    """Draw the steps that compute: operations a second over operations a byte.

    Parameters
    ----------
    profile : Profile
        What was measured.
    kinds : sequence of Group
        Groups that give the points their colours.
    """
    found, peak = points(profile), profile.ceilings.flops
    rates = profile.ceilings.bandwidths
    ridges = [peak / rate for rate in rates.values()]
    x = Axis(
        min([place for _, place, _ in found] + ridges) / 3,
        max([place for _, place, _ in found] + ridges) * 2, log=True,
    )  # fmt: skip
    y = Axis(
        min([rate for _, _, rate in found] + [peak / 30]) / 1e9 / 2,
        max([rate for _, _, rate in found] + [peak]) / 1e9 * 2.5, log=True,
    )  # fmt: skip

    def down(rate: float) -> float:
        return _HEIGHT * (1 - y.at(rate / 1e9) / 100)

    drawn = grid(x, _HEIGHT, "across: FLOP a byte; up: GFLOP/s")
    for value in y.ticks():
        place = f"{down(value * 1e9):.1f}"
        drawn.append(tag("line", x1=0, x2="100%", y1=place, y2=place, class_="grid"))
    drawn += _roofs(x, y, down, profile)
    colours = _colours(kinds)
    # Large circles first, so that none hides another.
    for index, intensity, rate in sorted(found, key=lambda one: -_seconds(profile, one[0])):
        step = profile.plan.steps[index]
        words = (
            f"{index}: {step.kind} {step.method} {'x'.join(map(str, step.shape))}\n"
            f"{number(rate / 1e9)} GFLOP/s, {number(intensity)} FLOP/byte, "
            f"{milliseconds(step.seconds or 0.0)}"
        )
        drawn.append(_point(x.at(intensity), down(rate), step, profile, words, colours[index]))
    drawn += _labels(x, y, down, profile)
    return chart(_HEIGHT + 34, "Roofline", *drawn, frame=_HEIGHT)


def draw_movers(profile: Profile, kinds: Sequence[Group]) -> str:
    """Draw the steps without operations on a line: bytes a second, beside the speed of memory."""
    found = movers(profile)
    rates = profile.ceilings.bandwidths
    speeds = [rate / 1e9 for _, rate in found] + [rate / 1e9 for rate in rates.values()]
    x = Axis(min(speeds, default=1.0) / 1.6, max(speeds, default=1.0) * 1.6, log=True)
    drawn = grid(x, _STRIP, "GB/s, read and written")
    places = [percent(x.at(rate / 1e9)) for rate in rates.values()]
    drawn += [tag("line", x1=at, x2=at, y1=0, y2=_STRIP, class_="roof") for at in places]
    colours = _colours(kinds)
    for index, rate in sorted(found, key=lambda one: -_seconds(profile, one[0])):
        step = profile.plan.steps[index]
        words = (
            f"{index}: {step.kind} {'x'.join(map(str, step.shape))}\n"
            f"{number(rate / 1e9)} GB/s, {milliseconds(step.seconds or 0.0)}"
        )
        drawn.append(_point(x.at(rate / 1e9), _STRIP - 26, step, profile, words, colours[index]))
    # On a phone, a name may lie on the line of another roof, and must be above it.
    drawn += [
        tag("text", text(f"{name} {number(rate / 1e9)}"), x=at, dx=-4, y=14 + 15 * level,
            class_="end")
        for level, (at, (name, rate)) in enumerate(zip(places, rates.items(), strict=True))
    ]  # fmt: skip
    return chart(_STRIP + 34, "Steps that only move", *drawn, frame=_STRIP)


def _roofs(x: Axis, y: Axis, down: Callable[[float], float], profile: Profile) -> list[str]:
    """Draw the flat roof and the slopes, which end at it."""
    peak, rates = profile.ceilings.flops, profile.ceilings.bandwidths
    level = f"{down(peak):.1f}"
    first = percent(x.at(min(peak / rate for rate in rates.values())))
    drawn = [tag("line", x1=first, x2="100%", y1=level, y2=level, class_="roof")]
    for rate in rates.values():
        start = max(x.low, y.low * 1e9 / rate)
        drawn.append(tag(
            "line", x1=percent(x.at(start)), x2=percent(x.at(peak / rate)),
            y1=f"{down(start * rate):.1f}", y2=level, class_="roof",
        ))  # fmt: skip
    return drawn


def _labels(x: Axis, y: Axis, down: Callable[[float], float], profile: Profile) -> list[str]:
    """Name the slopes where they meet the flat roof, and write the numbers of the upright axis."""
    peak, drawn = profile.ceilings.flops, []
    # Names of close slopes are stacked.
    before, above = -100.0, 0
    for name, rate in sorted(profile.ceilings.bandwidths.items(), key=lambda one: -one[1]):
        meet = x.at(peak / rate)
        above = above + 15 if meet - before < _APART else 0
        drawn.append(tag(
            "text", text(name), x=percent(meet), y=f"{down(peak) - 7 - above:.1f}",
            class_="middle",
        ))  # fmt: skip
        before = meet
    for value in y.ticks():
        place = f"{max(down(value * 1e9), 17) - 4:.1f}"
        drawn.append(tag("text", text(round_number(value)), x=4, y=place))
    return drawn


def _colours(kinds: Sequence[Group]) -> dict[int, int]:
    return {index: colour for colour, group in enumerate(kinds) for index in group.numbers}


def _seconds(profile: Profile, index: int) -> float:
    return profile.plan.steps[index].seconds or 0.0


def _point(
    place: float, down: float, step: StepPlan, profile: Profile, words: str, colour: int
) -> str:
    """A circle whose area is the step's share of the time."""
    share = (step.seconds or 0.0) / max(profile.step_seconds, 1e-12)
    return tag(
        "circle", tag("title", text(words)), cx=percent(place), cy=f"{down:.1f}",
        r=f"{3 + 40 * math.sqrt(share / math.pi):.1f}", class_=f"point k{colour}",
    )  # fmt: skip
