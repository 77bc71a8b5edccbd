"""The chart of sparse weights: how many times as fast as dense ones, over the density."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.files import write_whole
from benchmarks.looks import LIGHT, MARKERS, Theme, dress, legend, new_figure
from benchmarks.sparse.gains import gain
from benchmarks.sparse.measured import Measured, Roles

# More lines than colours could not be told apart.
_LINES = 6
# Lines of a layer by size of block: the dense one is compared with both.
_DASHES = {1: (0, (3, 2)), 4: "solid"}


def draw(title: str, measured: Sequence[Measured], roles: Roles, theme: Theme = LIGHT) -> Any:
    """Draw a line a layer and size of block.

    Parameters
    ----------
    title : str
    measured : sequence of Measured
        With one precision and size of team.
    roles : Roles
    theme : Theme, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.lines import Line2D

    figure = new_figure(9.0, 5.6, theme)
    axes = figure.add_subplot()
    dress(axes, theme, title, x="part of the weights that stays", y="times as fast as own dense")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    handles = []
    for place, name in enumerate(chosen(measured)):
        color, marker = theme.series[place % len(theme.series)], MARKERS[place % len(MARKERS)]
        for block, dashes in _DASHES.items():
            points = curve(measured, name, block, roles)
            axes.plot(
                [x for x, _ in points], [y for _, y in points], color=color, linestyle=dashes,
                marker=marker, markersize=5.5,
            )  # fmt: skip
        handles.append(Line2D([], [], color=color, marker=marker, label=name))
    for block, dashes in _DASHES.items():
        label = f"blocks of {block} channels" if block > 1 else "weights one by one"
        handles.append(Line2D([], [], color=theme.ink, linestyle=dashes, label=label))
    axes.axhline(1.0, color=theme.ink, linewidth=1.2)
    densities = sorted({one.density for one in measured})
    axes.set_xticks(densities, [f"{density:g}" for density in densities])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    # The sparse end to the right: there the lines rise.
    axes.invert_xaxis()
    legend(figure, theme, handles, 3)
    return figure


def curve(
    measured: Sequence[Measured], name: str, block: int, roles: Roles
) -> list[tuple[float, float]]:
    """Give (density, times as fast) of a layer, by falling density."""
    mine = [one for one in measured if one.problem.name == name]
    found = [(one.density, gain(one, block, roles)) for one in mine]
    return sorted(((density, value) for density, value in found if value), reverse=True)


def chosen(measured: Sequence[Measured]) -> list[str]:
    """Choose layers for the chart: of each network and class in turn, up to six."""
    queues: dict[tuple[str, str], list[str]] = {}
    for one in measured:
        names = queues.setdefault((one.problem.net, one.problem.kind), [])
        if one.problem.name not in names:
            names.append(one.problem.name)
    found: list[str] = []
    while len(found) < _LINES and any(queues.values()):
        for names in queues.values():
            if names and len(found) < _LINES:
                # The middle one: first and last layers of a network are its extremes.
                found.append(names.pop(len(names) // 2))
    return found


def write(path: Path, title: str, measured: Sequence[Measured], roles: Roles) -> None:
    """Draw the chart as SVG, all of it or, if interrupted, nothing."""
    from matplotlib import rc_context

    stream = io.StringIO()
    # The same bytes from the same figures: no date, and names of paths that are no random ones.
    with rc_context({"svg.hashsalt": "sparse", "svg.fonttype": "none"}):
        draw(title, measured, roles).savefig(stream, format="svg", metadata={"Date": None})
    write_whole(path, stream.getvalue())
