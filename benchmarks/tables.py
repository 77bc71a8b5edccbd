"""Tables as text for a terminal, as Markdown and as HTML: nothing here knows about convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

NONE = "-"


@dataclass
class Table:
    """A table of texts; the first column is aligned left, all others right.

    Parameters
    ----------
    title : str
    header : sequence of str
    """

    title: str
    header: Sequence[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    bold: set[tuple[int, int]] = field(default_factory=set)
    rules: set[int] = field(default_factory=set)

    def add(self, cells: Sequence[str], bold: Sequence[int] = ()) -> None:
        """Add a row; `bold` are the columns to stress.

        Raises
        ------
        ValueError
            If the row has not as many cells as the header.
        """
        if len(cells) != len(self.header):
            raise ValueError(f"row has {len(cells)} cells, the header {len(self.header)}")
        self.bold |= {(len(self.rows), column) for column in bold}
        self.rows.append(tuple(cells))

    def rule(self) -> None:
        """Draw a line before the next row (in text; Markdown has none)."""
        self.rules.add(len(self.rows))

    def _marked(self, before: str, after: str) -> list[tuple[str, ...]]:
        return [
            tuple(
                f"{before}{cell}{after}" if (index, column) in self.bold and cell else cell
                for column, cell in enumerate(row)
            )
            for index, row in enumerate(self.rows)
        ]

    def text(self) -> str:
        """Give the table for a terminal: stressed cells carry a ``*``."""
        rows = self._marked("*", "")
        widths = [
            max(len(line[column]) for line in (tuple(self.header), *rows))
            for column in range(len(self.header))
        ]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [self.title, _line(self.header, widths), rule]
        for index, row in enumerate(rows):
            if index in self.rules and index:
                lines.append(rule)
            lines.append(_line(row, widths))
        return "\n".join(lines)

    def markdown(self) -> str:
        """Give the table in Markdown: stressed cells are bold."""
        align = ["---", *["---:"] * (len(self.header) - 1)]
        lines = [f"**{self.title}**", ""]
        for cells in (tuple(self.header), tuple(align), *self._marked("**", "**")):
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        return "\n".join(lines)

    def html(self) -> str:
        """Give the table in HTML: stressed cells are strong, a rule is a class of its row.

        Columns of words have the class ``text``.
        """
        kinds = [' class="text"' if self._is_words(i) else "" for i in range(len(self.header))]
        lines = [f"<table><caption>{escape(self.title)}</caption>", "<thead><tr>"]
        for kind, cell in zip(kinds, self.header, strict=True):
            lines.append(f'<th scope="col"{kind}>{escape(cell)}</th>')
        lines.append("</tr></thead><tbody>")
        for index, row in enumerate(self.rows):
            lines.append('<tr class="rule">' if index in self.rules and index else "<tr>")
            for column, cell in enumerate(row):
                text = escape(cell)
                if (index, column) in self.bold and cell:
                    text = f"<strong>{text}</strong>"
                tag = 'th scope="row"' if not column else "td"
                lines.append(f"<{tag}{kinds[column]}>{text}</{tag[:2]}>")
            lines.append("</tr>")
        lines.append("</tbody></table>")
        return "\n".join(lines)

    def _is_words(self, column: int) -> bool:
        """Whether most cells of a column are words; empty cells and dashes do not count."""
        cells = [row[column] for row in self.rows if row[column] not in ("", NONE)]
        words = sum(not cell[0].isdecimal() for cell in cells)
        return 2 * words > len(cells)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        space = " " * (width - len(cell))
        parts.append(cell + space if column == 0 else space + cell)
    return "  ".join(parts).rstrip()


def giga(rate: float | None) -> str:
    """Write a rate in G…/s, or a dash."""
    return NONE if rate is None else f"{rate / 1e9:.1f}"


def milli(seconds: float | None) -> str:
    """Write a time in ms, with three digits or more, or a dash."""
    if seconds is None:
        return NONE
    return f"{seconds * 1e3:.2f}" if seconds >= 1e-3 else f"{seconds * 1e3:.3g}"


def percent(value: float | None, whole: float | None) -> str:
    """Write `value` as a percentage of `whole`, or a dash where either is missing."""
    return NONE if value is None or not whole else f"{100 * value / whole:.1f}"


def ratio(value: float | None, other: float | None) -> str:
    """Write `value` / `other`, or a dash where either is missing."""
    return NONE if value is None or not other else f"{value / other:.2f}"
