"""Pages of results, whose long tables lie beside them: ``python -m benchmarks.long_tables PAGE``.

A page is Markdown in which a line stands for each long table. The rows are in
``data/<page>.json.xz`` beside it. `read` gives the whole page, as it was before `keep` moved its
tables there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.files import read_whole, write_whole

RESULTS = Path(__file__).resolve().parent / "results"

# A table stays in its page if it and the others of its report have no more rows together.
SHORT = 12
_HEADING = re.compile(r"^#+ (.+?) *$", re.MULTILINE)
_TITLE = re.compile(r"\*\*(.+)\*\*")
# It begins with a star, which ends the list of machine and engines above: that one has dashes.
_MARKER = re.compile(r"\* .*: `python -m benchmarks\.long_tables \S+ (\S+)` <!-- table -->")
_FENCE = re.compile(r"^```", re.MULTILINE)


class LongTableError(ValueError):
    """A page and its data that do not belong together; the text names page and table."""


@dataclass(frozen=True)
class LongTable:
    """A table that lies beside its page.

    Attributes
    ----------
    name : str
        Its name in the page and on the command line.
    title : str
        The line in bold above it; empty if it has none.
    columns : sequence of str
        Its head.
    rule : str
        The line below the head, which says how columns are aligned.
    rows : sequence of sequence of str
    """

    name: str
    title: str
    columns: Sequence[str]
    rule: str
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Give the table and its title in Markdown."""
        title = [f"**{self.title}**", ""] if self.title else []
        rows = [_line(row) for row in self.rows]
        return "\n".join([*title, _line(self.columns), self.rule, *rows])

    def marker(self, page: str) -> str:
        """Give the line that stands for it in a page."""
        count = f"{len(self.rows)} row{'s' * (len(self.rows) != 1)}"
        what = f"**{self.title}**, {count}" if self.title else f"Table of {count}"
        return f"* {what}: `python -m benchmarks.long_tables {page} {self.name}` <!-- table -->"


def data_of(page: Path) -> Path:
    """Name the file that holds the long tables of a page."""
    return page.parent / "data" / f"{page.stem}.json.xz"


def load(page: Path) -> dict[str, LongTable]:
    """Read the long tables of a page, by name; none where it has no data.

    Raises
    ------
    LongTableError
        If the data cannot be read.
    """
    path = data_of(page)
    if not path.exists():
        return {}
    return read_whole(path, _tables, LongTableError, "holds no long tables")


def _tables(plain: Sequence[Mapping[str, Any]]) -> dict[str, LongTable]:
    return {one["name"]: LongTable(**one) for one in plain}


def read(page: Path) -> str:
    """Read a page with all its tables; a page without long tables is what its file holds.

    Parameters
    ----------
    page : Path
        A file of Markdown.

    Raises
    ------
    LongTableError
        If a table is missing in the data.
    """
    text = page.read_text(encoding="utf-8")
    return expand(text, page) if marked(text) else text


def expand(text: str, page: Path) -> str:
    """Put the long tables into the `text` of a page.

    Raises
    ------
    LongTableError
        If a table is missing in the data.
    """
    known = load(page)

    def table(name: str) -> str:
        if name not in known:
            raise LongTableError(
                f"page {page.name}: the table {name} is not in data/{data_of(page).name}"
            )
        return known[name].markdown()

    lines: list[str] = []
    after_table = False
    for line in text.split("\n"):
        match = _MARKER.fullmatch(line)
        if match and after_table:
            lines.append("")
        lines.append(table(match[1]) if match else line)
        after_table = match is not None
    return "\n".join(lines)


def marked(text: str) -> list[str]:
    """List the names of the tables that a page has a line for."""
    return [match[1] for line in text.split("\n") if (match := _MARKER.fullmatch(line))]


def split(text: str, page: str) -> tuple[str, list[LongTable]]:
    """Take the long tables out of a whole page.

    A table is moved if it has more than `SHORT` rows. Tables that follow each other, each below a
    title in bold, are what a benchmark reports: they count as one. A table that is not written as
    ``| cell | cell |`` stays.

    Parameters
    ----------
    text : str
        The page with all its tables.
    page : str
        Its name, for the lines that stand for tables.

    Returns
    -------
    text : str
        The page with a line for each table that was taken out.
    tables : list of LongTable
    """
    blocks = text.split("\n\n")
    names = _Names()
    kept: list[str] = []
    moved: list[LongTable] = []
    fences = at = 0
    while at < len(blocks):
        # Inside a fence, lines that look like a table are text.
        end, found = (at, []) if fences % 2 else _series(blocks, at)
        end = max(end, at + 1)
        if sum(len(table.rows) for table in found) > SHORT:
            named = [names.give(table) for table in found]
            before, after = _blank("\n\n".join(blocks[at:end]))
            kept.append(before + "\n".join(table.marker(page) for table in named) + after)
            moved += named
        else:
            for block in blocks[at:end]:
                names.pass_by(block)
                fences += len(_FENCE.findall(block))
                kept.append(block)
        at = end
    return "\n\n".join(kept), moved


class _Names:
    """Names the tables of a page by their titles, or else by the heading above them."""

    def __init__(self) -> None:
        self._heading = "table"
        self._given: set[str] = set()

    def pass_by(self, block: str) -> None:
        """Take note of the headings of a block."""
        for match in _HEADING.finditer(block):
            self._heading = match[1]

    def give(self, table: LongTable) -> LongTable:
        """Give a table a name that no other table of the page has."""
        base = re.sub(r"[^a-z0-9_]+", "-", (table.title or self._heading).lower()).strip("-")
        name, count = base, 1
        while name in self._given:
            count += 1
            name = f"{base}-{count}"
        self._given.add(name)
        return replace(table, name=name)


def _series(blocks: Sequence[str], begin: int) -> tuple[int, list[LongTable]]:
    """Read a table, or all that follow each other below titles; say where they end."""
    found: list[LongTable] = []
    at = begin
    # A second empty line ends them: no line of the page would stand for it.
    while at < len(blocks) and (at == begin or not blocks[at].startswith("\n")):
        title = _TITLE.fullmatch(blocks[at].lstrip("\n"))
        below = at + (title is not None)
        table = _parse(blocks[below], title[1] if title else "") if below < len(blocks) else None
        if table is None or (found and not title):
            break
        found.append(table)
        at = below + 1
        if not title:
            break
    return at, found


def _parse(block: str, title: str) -> LongTable | None:
    """Read a table, still without a name; None if the block is no table that `_line` writes."""
    lines = (block.rstrip("\n") if title else block.strip("\n")).split("\n")
    if len(lines) < 3 or not set(lines[1]) <= set("|-: "):
        return None
    columns, *rows = [_cells(line) for line in (lines[0], *lines[2:])]
    table = LongTable("", title, columns, lines[1], rows)
    counts = {len(columns), lines[1].count("|") - 1, *map(len, rows)}
    written = [_line(cells) for cells in (columns, *rows)]
    return table if len(counts) == 1 and written == [lines[0], *lines[2:]] else None


def _cells(line: str) -> list[str]:
    # A bar that is part of a cell has a backslash before it, not a space.
    return line[2:-2].split(" | ")


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _blank(block: str) -> tuple[str, str]:
    """Give the empty lines before and after the text of a block."""
    return block[: -len(block.lstrip("\n"))], block[len(block.rstrip("\n")) :]


def keep(page: Path) -> None:
    """Move the long tables of a page to its data, those that are there already included.

    Raises
    ------
    LongTableError
        If the data of tables that were moved before cannot be read.
    """
    text, tables = split(read(page), page.stem)
    plain = json.dumps([asdict(table) for table in tables], indent=1, ensure_ascii=False)
    if tables:
        # First, so that an interruption leaves no page without the rows of its tables.
        write_whole(data_of(page), plain + "\n")
    write_whole(page, text)
    if not tables:
        data_of(page).unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a page or a table, or move the long tables of a page to its data."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.long_tables", description=main.__doc__
    )
    parser.add_argument("page", metavar="PAGE", help="a page of benchmarks/results, or a file")
    parser.add_argument("table", metavar="TABLE", nargs="?", help="print this table alone")
    parser.add_argument("--keep", action="store_true", help="move its long tables to its data")
    chosen = parser.parse_args(argv)
    page = Path(chosen.page)
    if page.suffix != ".md":
        page = RESULTS / f"{chosen.page}.md"
    if not page.is_file():
        parser.error(f"PAGE: {page} is no file")
    try:
        if chosen.keep:
            keep(page)
        elif chosen.table is None:
            sys.stdout.write(read(page))
        else:
            tables = load(page)
            if chosen.table not in tables:
                parser.error(f"TABLE: {page.name} has no long table {chosen.table}")
            print(tables[chosen.table].markdown())
    except LongTableError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
