"""README as a package index shows it, where its relative links would lead nowhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

_LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:|#)([^)\s]+)\)")
_ANCHOR = re.compile(r"(?<!!)\[([^]]+)\]\((#[^)\s]+)\)")  # package indexes give headings no names
_PICTURE = re.compile(r"<picture>.*?</picture>\n+", re.DOTALL)
_SOURCE = re.compile(r'(src|srcset)="(?!https?:)([^"]+)"')


def repository(pyproject: str) -> str:
    """Give the address that ``[project.urls]`` names, or nothing while there is none."""
    found = re.search(r'^Repository = "(.+?)/?"$', pyproject, re.MULTILINE)
    return found[1] if found else ""


def absolute(readme: str, address: str) -> str:
    """Make links and pictures absolute; without an address links become text, pictures go.

    Parameters
    ----------
    readme : str
        Markdown.
    address : str
        Of the repository, as GitHub lays it out; may be empty.
    """
    if not address:
        return _ANCHOR.sub(r"\1", _LINK.sub(r"\1", _PICTURE.sub("", readme)))
    readme = _ANCHOR.sub(rf"[\1]({address}\2)", readme)
    readme = _LINK.sub(rf"[\1]({address}/blob/HEAD/\2)", readme)
    return _SOURCE.sub(rf'\1="{address}/raw/HEAD/\2"', readme)


def description() -> str:
    """Give the text for the package's metadata."""
    address = repository((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return absolute((ROOT / "README.md").read_text(encoding="utf-8"), address)
