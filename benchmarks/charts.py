"""Two charts: parts of the peak by engine and network, and error against speed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.candidates import OK
from benchmarks.engines.base import Identity
from benchmarks.engines.pplconv import short
from benchmarks.looks import MARKERS, POINTS, Theme, dress, label, legend, new_figure
from benchmarks.results import LayerResult, Sum, add_up

_COLUMNS = 3


def bars(
    title: str,
    nets: Mapping[str, Sequence[LayerResult]],
    identities: Sequence[Identity],
    theme: Theme,
) -> Any:
    """Draw the part of the peak that each engine reaches on each network.

    Parameters
    ----------
    title : str
    nets : mapping of str to sequence of LayerResult
        With one batch size and team; a network without a peak is left out.
    identities : sequence of Identity
        The engines, in the order of the bars. Instead of a bar, an engine that lacks a layer has
        the number of its layers.
    theme : Theme

    Returns
    -------
    matplotlib.figure.Figure
    """
    totals = {net: add_up(net, layers, ()) for net, layers in nets.items()}
    totals = {net: total for net, total in totals.items() if total.peak}
    columns = min(_COLUMNS, len(totals))
    rows = math.ceil(len(totals) / columns)
    height = 0.9 + rows * (0.75 + 0.235 * len(identities))
    figure = new_figure(10.5, height, theme)
    figure.suptitle(title, x=0.01, ha="left", color=theme.ink, fontsize=12, fontweight="bold")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for place, axes in enumerate(grid.flat):
        if place >= len(totals):
            axes.set_visible(False)
            continue
        net = list(totals)[place]
        _one_net(axes, net, totals[net], nets[net], identities, theme)
        axes.set_xlabel("% of FMA peak" if place + columns >= len(totals) else "", fontsize=9)
    return figure


def _one_net(
    axes: Any,
    net: str,
    total: Sum,
    layers: Sequence[LayerResult],
    identities: Sequence[Identity],
    theme: Theme,
) -> None:
    dress(axes, theme, net)
    axes.grid(visible=False, axis="y")
    parts = {
        one.name: 100 * total.flops / total.seconds[one.name] / total.peak
        for one in identities
        if one.name in total.seconds and total.peak
    }
    longest = max(parts.values(), default=100.0)
    for row, one in enumerate(identities):
        color = theme.ours if one.ours else theme.faint
        if one.name in parts:
            axes.barh(row, parts[one.name], height=0.72, color=color)
            text, ink = f"{parts[one.name]:.0f}", theme.ink
        else:
            have = sum(
                one.name in layer.entries and layer.entries[one.name].seconds is not None
                for layer in layers
            )
            text, ink = f"{have} of {len(layers)} layers", theme.faint
        label(axes, theme, text, (parts.get(one.name, 0.0), row), (4, 0), va="center", color=ink)
    axes.axvline(100, color=theme.ink, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.set_xlim(0, 1.16 * max(longest, 100.0))
    axes.set_yticks(range(len(identities)), [one.name for one in identities])
    axes.set_ylim(len(identities) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def scatter(
    title: str, layers: Sequence[LayerResult], identities: Sequence[Identity], theme: Theme
) -> Any:
    """Draw error against speed: a point for each layer and way to compute it.

    Parameters
    ----------
    title : str
    layers : sequence of LayerResult
        As `benchmarks.accuracy` recorded them.
    identities : sequence of Identity
        A colour for each algorithm, a shape for each tolerance; peers are grey.
    theme : Theme

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.lines import Line2D

    figure = new_figure(10.5, 6.8, theme)
    axes = figure.add_subplot()
    dress(
        axes,
        theme,
        title,
        x="largest error against float64, as a fraction of the largest output",
        y="GFLOP/s (flops of the direct sum)",
    )
    axes.set_xscale("log")
    used = [one for one in identities if _points(one, layers)]
    algorithms = list(dict.fromkeys(one.algorithm for one in used if one.algorithm))
    tolerances = sorted({one.asked for one in used if one.algorithm and one.asked is not None})
    peers = [one.name for one in used if not one.algorithm]
    handles = []
    for one in used:
        name = one.name
        if one.algorithm:
            color = theme.series[algorithms.index(one.algorithm) % len(theme.series)]
            name = one.algorithm
            if len({other.layout for other in used if other.algorithm}) > 1:
                name += f", {one.layout}"
            if len({other.asked for other in used if other.algorithm == one.algorithm}) > 1:
                name += f", tolerance {short(one.asked or 0.0)}"
            marker = MARKERS[tolerances.index(one.asked or 0.0) % len(MARKERS)]
        else:
            color, marker = theme.faint, MARKERS[-1 - peers.index(one.name) % len(MARKERS)]
        # Layouts of one algorithm differ by their filling.
        filling = color if one.layout == "NCHW" else "none"
        look = {**POINTS, "marker": marker, "color": color, "markerfacecolor": filling}
        points = _points(one, layers)
        axes.plot([x for x, _ in points], [y for _, y in points], zorder=3, **look)
        handles.append(Line2D([], [], label=name, **look))
    peaks = [layer.peak for layer in layers if layer.peak]
    if peaks:
        axes.axhline(max(peaks) / 1e9, color=theme.ink, linewidth=1.2, linestyle=(0, (4, 3)))
        text = f"FMA peak {max(peaks) / 1e9:.0f} GFLOP/s"
        place = (0.0, max(peaks) / 1e9)
        label(axes, theme, text, place, (4, 4), xycoords=("axes fraction", "data"))
    axes.set_ylim(bottom=0)
    legend(figure, theme, handles, min(4, len(handles)))
    return figure


def _points(one: Identity, layers: Sequence[LayerResult]) -> list[tuple[float, float]]:
    """(error, GFLOP/s) of each layer that was timed; an exact result is drawn at 1e-9."""
    found = []
    for layer in layers:
        entry = layer.entries.get(one.name)
        if entry is not None and entry.status == OK and entry.seconds:
            found.append((max(entry.error, 1e-9), layer.problem.flops / entry.seconds / 1e9))
    return found
