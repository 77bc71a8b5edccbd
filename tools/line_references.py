"""Line numbers in pages that follow a way through the sources.

    python -m tools.line_references           # sets them to the lines as they are
    python -m tools.line_references --check   # says which ones are wrong, and fails

A reference is a link whose text is code, as ``[`run_team(`](../../pplconv/x.pyx#L95)``: that code
stands on that line.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "architecture"
REFERENCE = re.compile(r"\[`([^`\n]+)`\]\(([^)#\n]+)#L(\d+)\)")


class Reference(NamedTuple):
    """A link to a line.

    Parameters
    ----------
    page : Path
        Where it stands.
    code : str
        What stands on the line.
    path : Path
        The source file.
    line : int
        Its number, from 1.
    """

    page: Path
    code: str
    path: Path
    line: int

    @property
    def lines(self) -> list[int]:
        """Lines that have the code."""
        text = self.path.read_text(encoding="utf-8")
        return [n for n, line in enumerate(text.splitlines(), 1) if self.code in line]


def references(page: Path) -> Iterator[Reference]:
    """Give the references of a page."""
    for code, path, line in REFERENCE.findall(page.read_text(encoding="utf-8")):
        yield Reference(page, code, (page.parent / path).resolve(), int(line))


def wrong(page: Path) -> list[Reference]:
    """Give the references of a page whose code stands elsewhere, or nowhere."""
    return [found for found in references(page) if found.line not in found.lines]


def corrected(page: Path) -> str:
    """Give the text of a page with all lines as they are; the nearest is taken of several.

    Raises
    ------
    ValueError
        If code stands nowhere in its file.
    """

    def line_of(match: re.Match[str]) -> str:
        code, path, line = match.groups()
        found = Reference(page, code, (page.parent / path).resolve(), int(line))
        if not found.lines:
            raise ValueError(f"{page.name}: {code!r} is not in {path}")
        nearest = min(found.lines, key=lambda n: abs(n - found.line))
        return f"[`{code}`]({path}#L{nearest})"

    return REFERENCE.sub(line_of, page.read_text(encoding="utf-8"))


def main(argv: Sequence[str] | None = None) -> int:
    """Set the numbers, or check them."""
    parser = argparse.ArgumentParser(prog="python -m tools.line_references", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if one is wrong")
    options = parser.parse_args(argv)
    failed = False
    for page in sorted(PAGES.glob("*.md")):
        for found in wrong(page):
            print(f"{page.name}: {found.code} is not on line {found.line} of {found.path.name}")
            failed = options.check
        if not options.check:
            page.write_text(corrected(page), encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
