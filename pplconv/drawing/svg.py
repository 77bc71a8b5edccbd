"""Tags and axes of charts whose width is that of the page.

Coordinates are percentages, so that charts fit a screen without a script, and text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from .._records import record
from .figures import percent, round_number


def tag(name: str, *content: str, **attributes: object) -> str:
    """Write an element.

    Parameters
    ----------
    name : str
        Of the element.
    *content : str
        Its content: markup, with texts escaped by `text`.
    **attributes
        Escaped here. ``_`` stands for ``-``, and one at the end is left out; None is left out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{''.join(content)}</{name}>"


def text(value: object) -> str:
    """Escape a text; characters that cannot be printed are replaced."""
    return escape(_plain(value))


def _plain(value: object) -> str:
    # A model's names may contain anything: lone surrogates cannot be encoded, controls not be read.
    kept = str(value).encode("utf-8", "replace").decode("utf-8")
    return "".join(
        c if c.isprintable() or c in " \n" else "\N{REPLACEMENT CHARACTER}" for c in kept
    )


@record(frozen=True)
class Axis:
    """Maps values to percentages.

    Parameters
    ----------
    low, high : float
        Values at the two ends; positive if `log`.
    log : bool
        Whether the scale is logarithmic.
    """

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """Position of a value, 0 to 100 between the two ends."""
        if self.log:
            return 100 * math.log(value / self.low) / math.log(self.high / self.low)
        return 100 * (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """About `most` round values between the two ends."""
        if self.log:
            first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
            powers = range(first, last + 1)
            return [10.0**power for power in powers[:: max(1, -(-len(powers) // most))]]
        raw = (self.high - self.low) / most
        size = 10.0 ** math.floor(math.log10(raw))
        step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw * (1 - 1e-9))
        first, last = math.ceil(self.low / step), math.floor(self.high / step * (1 + 1e-9))
        return [number * step for number in range(first, last + 1)]


def grid(x: Axis, height: int, name: str, below: int = 18) -> list[str]:
    """Draw the ticks of a horizontal axis: lines of `height` pixels, numbers under them."""
    drawn = []
    for value in x.ticks():
        place = x.at(value)
        drawn.append(
            tag("line", x1=percent(place), x2=percent(place), y1=0, y2=height, class_="grid")
        )
        drawn.append(_label(place, height + below - 4, round_number(value)))
    drawn.append(tag("text", text(name), x="50%", y=height + below + 12, class_="axis middle"))
    return drawn


def _label(place: float, y: float, words: str) -> str:
    # Numbers at the ends stay inside the chart.
    where = "start" if place < 3 else "end" if place > 97 else "middle"
    return tag("text", text(words), x=percent(place), y=f"{y:.1f}", class_=f"axis {where}")


def chart(height: int, title: str, *content: str, frame: int | None = None) -> str:
    """Assemble a chart.

    Parameters
    ----------
    height : int
        Total height in pixels.
    title : str
        Text for screen readers.
    *content : str
        Its elements.
    frame : int, optional
        Height of a frame around the drawing.
    """
    around = [] if frame is None else [tag("rect", width="100%", height=frame, class_="frame")]
    return tag(
        "svg", *around, *content, class_="chart", width="100%", height=height, role="img",
        aria_label=title,
    )  # fmt: skip


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: frozenset[int]) -> str:
    """Write a table in a box that scrolls.

    Parameters
    ----------
    head : sequence of str
        Titles of the columns, plain.
    rows : iterable of sequence of str
        Cells, markup.
    words : frozenset of int
        Columns that hold words and not numbers.
    """

    def looks(column: int) -> str | None:
        return "words" if column in words else None

    titles = (tag("th", text(cell), class_=looks(c)) for c, cell in enumerate(head))
    lines = (
        tag("tr", *(tag("td", cell, class_=looks(c)) for c, cell in enumerate(row))) for row in rows
    )
    inner = tag("thead", tag("tr", *titles)) + tag("tbody", *lines)
    return tag("div", tag("table", inner), class_="table", tabindex=0)
