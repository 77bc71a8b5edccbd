"""Reading the project's pages: which there are, their links and figures."""

from __future__ import annotations

import re
from pathlib import Path

from tools.markdown import FENCED, anchor, headings, section, tables

__all__ = [
    "ROOT",
    "anchor",
    "figures",
    "follow",
    "headings",
    "links",
    "pages",
    "section",
    "tables",
]

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs" / "gallery"

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# A number with a fraction that is no part of a longer number, a name or a three-part version.
_FIGURE = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\.\d)(?=\D|$)")


def pages() -> list[Path]:
    """List every Markdown file of the project, built and hidden folders left out."""
    folders = ("asm", "benchmarks", "docs")
    found = [path for name in folders for path in (ROOT / name).rglob("*.md")]
    return sorted(path for path in [*ROOT.glob("*.md"), *found] if "report" not in path.parts)


def links(text: str) -> list[str]:
    """List the targets of the links of a page, without its code blocks."""
    return _LINK.findall(FENCED.sub("", text))


def follow(page: Path, link: str) -> tuple[Path, str]:
    """Split a local link into the file that it names and the anchor in it."""
    name, _, anchor_name = link.partition("#")
    path = (page.parent / name).resolve() if name else page
    if path.suffix in (".rst", ".png") and path.is_relative_to(GALLERY):
        path = _example(path)
    return path, anchor_name


def _example(path: Path) -> Path:
    """Give the source from which `make docs` makes a page or a picture of the gallery."""
    if path.stem == "index":
        return ROOT / "examples" / "GALLERY_HEADER.rst"
    name = re.sub(r"sphx_glr_(\w+)_\d+", r"\1", path.stem)
    return ROOT / "examples" / f"{name}.py"


def figures(text: str) -> list[str]:
    """List the numbers with a fraction, as they are written."""
    return _FIGURE.findall(text)
