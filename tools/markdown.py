"""Reading the project's Markdown: headings, sections and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks.long_tables import read

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)


def tables(text: str) -> list[list[list[str]]]:
    """Give each table as its rows of cells, the head first, without the line of dashes."""
    found: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        if not set(line) <= set("|-: "):
            found[-1].append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return found


def anchor(heading: str) -> str:
    """Name a heading as GitHub does in the part of a link behind ``#``."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(text: str) -> Iterator[tuple[str, int, int, int]]:
    """Give anchor, level, and begin and end of the section of each heading."""
    # Of the same length, so that places stay what they are.
    plain = FENCED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    found = list(_HEADING.finditer(plain))
    for at, match in enumerate(found):
        level = len(match[1])
        later = (other.start() for other in found[at + 1 :] if len(other[1]) <= level)
        yield anchor(match[2]), level, match.end(), next(later, len(text))


def section(path: Path, name: str) -> str:
    """Give the section that the anchor `name` leads to, with all tables; the page for none."""
    text = read(path)
    if not name:
        return text
    (found,) = [text[begin:end] for other, _, begin, end in headings(text) if other == name]
    return found
