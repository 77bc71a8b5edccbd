"""Reading the project's Markdown: tables, sections, links and figures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# Not a part of a longer number, a name or a version of three parts.
_FIGURE = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\.\d)(?=\D|$)")


def pages() -> list[Path]:
    """List every Markdown file of the project, built and hidden folders left out."""
    folders = ("asm", "benchmarks", "docs")
    found = [path for name in folders for path in (ROOT / name).rglob("*.md")]
    return sorted(path for path in [*ROOT.glob("*.md"), *found] if "report" not in path.parts)


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
    plain = _FENCED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    found = list(_HEADING.finditer(plain))
    for at, match in enumerate(found):
        level = len(match[1])
        later = (other.start() for other in found[at + 1 :] if len(other[1]) <= level)
        yield anchor(match[2]), level, match.end(), next(later, len(text))


def section(path: Path, name: str) -> str:
    """Give the text of the section that the anchor `name` leads to; the whole page for none."""
    text = path.read_text(encoding="utf-8")
    if not name:
        return text
    (found,) = [text[begin:end] for other, _, begin, end in headings(text) if other == name]
    return found


def links(text: str) -> list[str]:
    """List where the links of a page lead, code left out."""
    return _LINK.findall(_FENCED.sub("", text))


def follow(page: Path, link: str) -> tuple[Path, str]:
    """Split a local link into the file that it names and the anchor in it."""
    name, _, anchor_name = link.partition("#")
    return (page.parent / name).resolve() if name else page, anchor_name


def figures(text: str) -> list[str]:
    """List the numbers with a fraction, as they are written."""
    return _FIGURE.findall(text)
