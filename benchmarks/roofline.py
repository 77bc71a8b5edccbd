"""The roofline: every layer of a run under what memory and FMA units allow.

Both axes speak of the direct sum: flops and the bytes that no algorithm can avoid. An algorithm
that multiplies less, Winograd, may therefore stand above the flat roof, and one whose operands
stay in a cache above the roofs of the levels behind it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.looks import (
    MARKERS,
    POINTS,
    Theme,
    dress,
    halo,
    label,
    legend,
    new_figure,
    plain_numbers,
)
from benchmarks.results import KINDS
from benchmarks.standing import KIND_TITLES, Standing

# Gains of Winograd: (m + 2)^2 products do the work of 9 m^2.
WINOGRAD = {"F(2,3)": 36 / 16, "F(4,3)": 144 / 36, "F(6,3)": 324 / 64}


def intensity(one: Standing) -> float:
    """Flops of the direct sum per byte that must be moved."""
    return one.layer.problem.flops / one.layer.problem.compulsory_bytes


def draw(
    title: str,
    standings: Sequence[Standing],
    ceilings: Mapping[str, float],
    theme: Theme,
) -> Any:
    """Draw the roofline of layers that were timed.

    Parameters
    ----------
    title : str
    standings : sequence of Standing
        With one batch size and team; those without a time of ours or a peak are left out.
    ceilings : mapping of str to float
        Levels of memory (bytes a second), nearest first; may be empty.
    theme : Theme

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.lines import Line2D

    timed = [one for one in standings if one.ours_seconds and one.layer.peak]
    figure = new_figure(10.5, 6.8, theme)
    axes = figure.add_subplot()
    dress(
        axes,
        theme,
        title,
        x="arithmetic intensity: flops of the direct sum / compulsory byte",
        y="GFLOP/s (flops of the direct sum)",
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    peak = max(one.layer.peak or 0.0 for one in timed) / 1e9
    places = [intensity(one) for one in timed]
    rates = [one.layer.problem.flops / (one.ours_seconds or 1.0) / 1e9 for one in timed]
    theirs = [one.layer.problem.flops / one.peer_seconds / 1e9 for one in timed if one.peer_seconds]
    # Wide enough for the slopes to be seen where they meet the flat roof.
    ridges = [peak * 1e9 / rate for rate in ceilings.values()]
    left, right = min([*places, *(ridge / 2 for ridge in ridges)]) / 1.6, max(places) * 1.6
    bottom, top = min([*rates, *theirs, peak / 3]) / 2.0, max([*rates, *theirs, peak]) * 1.6
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)
    _roofs(axes, ceilings, peak, (left, right), (bottom, top), theme)
    if max(rates) > 1.15 * peak:
        _winograd(axes, peak, (left, right), top, theme)
    for one, place, rate in zip(timed, places, rates, strict=True):
        if one.peer_seconds:
            peer = one.layer.problem.flops / one.peer_seconds / 1e9
            axes.plot([place, place], [rate, peer], color=theme.faint, linewidth=0.8, zorder=2)
            axes.plot(place, peer, "_", color=theme.faint, markersize=9, zorder=2)
    handles = []
    for kind, marker, color in zip(KINDS, MARKERS, theme.series, strict=False):
        mine = [i for i, one in enumerate(timed) if one.layer.problem.kind == kind]
        if not mine:
            continue
        edge = {"markeredgecolor": theme.paper, "markeredgewidth": 0.6}
        look = {**POINTS, "marker": marker, "color": color, **edge}
        axes.plot([places[i] for i in mine], [rates[i] for i in mine], zorder=3, **look)
        handles.append(Line2D([], [], label=KIND_TITLES[kind], **look))
    if any(one.peer_seconds for one in timed):
        look = {"marker": "_", "color": theme.faint, "markersize": 9, "linestyle": "none"}
        handles.append(Line2D([], [], label="best peer on the layer", **look))
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    legend(figure, theme, handles, len(handles))
    return figure


def _roofs(
    axes: Any,
    ceilings: Mapping[str, float],
    peak: float,
    across: tuple[float, float],
    up: tuple[float, float],
    theme: Theme,
) -> None:
    """Draw the flat roof of the FMA peak and a slope for each level, each with its name on it."""
    axes.plot(across, [peak, peak], color=theme.ink, linewidth=1.6, zorder=1)
    text = f"FMA peak {peak:.0f} GFLOP/s"
    label(axes, theme, text, (across[1], peak), (-4, 4), ha="right", zorder=4)
    for level, rate in ceilings.items():
        slope = rate / 1e9
        end = peak / slope
        start = max(across[0], up[0] / slope)
        if end <= across[0]:
            continue
        axes.plot(
            [start, min(end, across[1])],
            [start * slope, min(end, across[1]) * slope],
            color=theme.ink,
            linewidth=1.1,
            zorder=1,
        )
        # The lower ends: layers crowd under the upper ones.
        place = start * 1.1
        axes.text(
            place,
            place * slope * 1.06,
            f"{level} {slope:.0f} GB/s",
            # In data coordinates; matplotlib turns it into the angle on paper.
            rotation=math.degrees(math.atan(slope)),
            transform_rotates_text=True,
            rotation_mode="anchor",
            ha="left",
            va="bottom",
            fontsize=8.5,
            color=theme.ink,
            path_effects=halo(theme),
            zorder=4,
        )


def _winograd(
    axes: Any, peak: float, across: tuple[float, float], top: float, theme: Theme
) -> None:
    """Draw where Winograd would stand at the peak if its transforms cost nothing."""
    for name, gain in WINOGRAD.items():
        # Its name needs room above the line.
        if 1.12 * gain * peak > top:
            continue
        axes.plot(
            across, [gain * peak] * 2, color=theme.faint, linewidth=0.9, linestyle=(0, (5, 4)),
            zorder=1,
        )  # fmt: skip
        text = f"Winograd {name}: {gain:.3g} x peak"
        label(axes, theme, text, (across[0], gain * peak), (4, 3), color=theme.faint, zorder=4)
