"""Bars of text, as wide as the terminal: blocks of Unicode, or ``#`` where none can be written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TextIO

from .._records import record

# Smallest width of a line, and the width beyond which only bars grow.
NARROWEST, WIDEST = 48, 110
_SHORTEST_BAR = 8
_FULL = "\N{FULL BLOCK}"
# Blocks of one to seven eighths of a column.
_PARTS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"


@record(frozen=True)
class Row:
    """One line: a label, a bar, and a text after it.

    Parameters
    ----------
    label : str
        Written before the bar.
    value : float or None
        Length of the bar, in a unit that all rows share; None: a title without a bar.
    text : str
        Written after the bar.
    """

    label: str
    value: float | None = None
    text: str = ""


def bar(share: float, width: int) -> str:
    """A bar of `share` of `width` columns, in eighths of one; at least one if `share` > 0."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    eighths = max(eighths, 1 if share > 0 else 0)
    return (_FULL * (eighths // 8) + _PARTS[eighths % 8]).strip()


def draw(rows: Sequence[Row], width: int | None = None) -> str:
    """Format rows, one a line.

    Parameters
    ----------
    rows : sequence of Row
        From the top down.
    width : int, optional
        Columns; by default those of the terminal. Labels are cut if bars would have no room.

    Returns
    -------
    str
        Without a line break at its end.
    """
    columns = min(max(_columns() if width is None else width, NARROWEST), WIDEST)
    barred = [row for row in rows if row.value is not None]
    most = max((row.value or 0.0 for row in barred), default=0.0)
    texts = max((len(row.text) for row in barred), default=0)
    labels = max((len(row.label) for row in barred), default=0)
    labels = max(min(labels, columns - texts - _SHORTEST_BAR - 4), 8)
    length = max(columns - labels - texts - 4, _SHORTEST_BAR)
    lines = []
    for row in rows:
        if row.value is None:
            lines.append(f"{row.label}  {row.text}".rstrip())
            continue
        drawn = bar(row.value / most if most else 0.0, length)
        label = row.label if len(row.label) <= labels else f"{row.label[: labels - 1]}\u2026"
        lines.append(f"{label:<{labels}}  {drawn:<{length}}  {row.text:>{texts}}".rstrip())
    return "\n".join(lines)


def write(text: str, file: TextIO) -> None:
    """Print what was drawn; with ``#`` for blocks where the file's encoding has none."""
    try:
        text.encode(getattr(file, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        plain = {ord(part): ("#" if n >= 4 else " ") for n, part in enumerate(_PARTS)}
        text = text.translate(plain | {ord(_FULL): "#", 0x2026: "~"})
        text = "\n".join(line.rstrip() for line in text.splitlines())
    print(text, file=file)


def _columns() -> int:
    return shutil.get_terminal_size().columns - 1
