"""How charts look: colours for paper and for dark screens, and the few things all charts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DPI = 150


@dataclass(frozen=True)
class Theme:
    """Colours of one look.

    Attributes
    ----------
    suffix : str
        The end of its files' names.
    paper, ink, faint, grid : str
        Background, text, secondary text and marks, lines of the grid.
    series : tuple of str
        Colours told apart by eyes of all kinds, in the order in which they are given out.
    ours : str
        Colour of pplconv where it stands beside its peers.
    """

    suffix: str
    paper: str
    ink: str
    faint: str
    grid: str
    series: tuple[str, ...]
    ours: str


LIGHT = Theme(
    suffix="",
    paper="#ffffff",
    ink="#1c1c1e",
    faint="#8a8a8f",
    grid="#e6e6e9",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c6d00", "#5b5bd6", "#666666"),
    ours="#0072b2",
)
DARK = Theme(
    suffix="-dark",
    paper="#16181d",
    ink="#e8e8ea",
    faint="#8e9198",
    grid="#2b2e36",
    series=("#56b4e9", "#ff8c42", "#2fc99a", "#e79fc8", "#e0c04a", "#a5a5ff", "#b0b0b0"),
    ours="#56b4e9",
)
THEMES = (LIGHT, DARK)

# One shape more for each series: colour alone must not carry the difference.
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
POINTS: Mapping[str, Any] = {"linestyle": "none", "markersize": 6.5}


def new_figure(width: float, height: float, theme: Theme) -> Any:
    """Open a figure of so many inches on the paper of `theme`.

    Drawn without a window or a global state, so that charts may be made anywhere.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, facecolor=theme.paper, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def dress(axes: Any, theme: Theme, title: str = "", *, x: str = "", y: str = "") -> None:
    """Give axes the colours of `theme`, a title to the left, and labels."""
    axes.set_facecolor(theme.paper)
    axes.set_axisbelow(True)
    axes.grid(visible=True, color=theme.grid, linewidth=0.8)
    axes.tick_params(which="both", colors=theme.faint, labelcolor=theme.ink, labelsize=9)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.faint)
    if title:
        axes.set_title(title, loc="left", color=theme.ink, fontsize=11, fontweight="bold")
    axes.set_xlabel(x, color=theme.ink, fontsize=9.5)
    axes.set_ylabel(y, color=theme.ink, fontsize=9.5)


def legend(figure: Any, theme: Theme, handles: Sequence[Any], columns: int) -> None:
    """Put a legend below everything, where it covers nothing."""
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        fontsize=9,
        labelcolor=theme.ink,
    )


def halo(theme: Theme) -> list[Any]:
    """Path effects that keep text readable where a line or a point runs behind it."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3, foreground=theme.paper)]


def label(
    axes: Any, theme: Theme, text: str, place: tuple[float, float], offset: tuple[float, float],
    **more: Any,
) -> None:  # fmt: skip
    """Write a small text at `offset` points from `place`; `more` is for ``Axes.annotate``."""
    look = {"fontsize": 8.5, "color": theme.ink, "path_effects": halo(theme)} | more
    axes.annotate(text, place, xytext=offset, textcoords="offset points", **look)


def plain_numbers(axis: Any) -> None:
    """Write a logarithmic axis in numbers such as 0.5 and 200, not in powers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
