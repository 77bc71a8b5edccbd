"""Checks the links of the built site.

``python -m tools.site.links SITE`` checks links inside the site: pages, files and anchors in the
HTML. With ``--others FILE`` it also judges the results of Sphinx's linkcheck about other sites. If
no other site can be reached, it says so, and no link counts as dead.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# No answer at all, as without a network.
_SILENCE = re.compile(r"NameResolutionError|NewConnectionError|ConnectTimeout|ProxyError")


class _Page(HTMLParser):
    """Collects the anchors and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record a tag's anchor and link."""
        for name, value in attrs:
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def dead_inside(site: Path) -> tuple[int, list[str]]:
    """Follow each link inside the site.

    Parameters
    ----------
    site : Path
        The folder of the HTML.

    Returns
    -------
    tuple
        Number of links, and a line for each dead one.
    """
    # The theme's own files contain templates.
    names = {path for path in site.rglob("*.html") if path.parent != site / "_static"}
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(names)}
    count, dead = 0, []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists():
                dead.append(f"{path.relative_to(site)}: {link}: no such file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                dead.append(f"{path.relative_to(site)}: {link}: no such anchor")
    return count, dead


def dead_outside(rows: Iterable[Mapping[str, object]]) -> tuple[int, int, list[str]]:
    """Judge the results of Sphinx's linkcheck about other sites.

    Parameters
    ----------
    rows : iterable of mapping
        The lines of its ``output.json``.

    Returns
    -------
    tuple
        Number of pages on other sites, number of pages that answered, and a line for each dead one.
        If none answers, none counts as dead.
    """
    asked = [row for row in rows if str(row["uri"]).startswith(("http:", "https:"))]
    silent = [row for row in asked if _SILENCE.search(str(row["info"]))]
    if len(silent) == len(asked):
        return len(asked), 0, []
    bad = [row for row in asked if row["status"] in ("broken", "timeout")]
    lines = [f"{row['filename']}:{row['lineno']}: {row['uri']}: {row['info']}" for row in bad]
    return len(asked), len(asked) - len(silent), lines


def main() -> int:
    """Report dead links; give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.site.links", description=__doc__)
    parser.add_argument("site", type=Path, help="folder of the HTML")
    parser.add_argument("--others", type=Path, help="output.json of Sphinx's linkcheck")
    chosen = parser.parse_args()
    count, dead = dead_inside(chosen.site.resolve())
    said = [f"{count} inside the site"]
    if not count:
        parser.error(f"{chosen.site} has no links: is it the site?")
    if chosen.others:
        lines = chosen.others.read_text(encoding="utf-8").splitlines()
        asked, answered, bad = dead_outside(json.loads(line) for line in lines)
        dead += bad
        said.append(f"{answered} of {asked} to others")
        if asked and not answered:
            print(f"links: {asked} TO OTHER SITES NOT CHECKED HERE: no site can be reached")
    for line in dead:
        print(f"links: {line}", file=sys.stderr)
    print(f"links: checked {' and '.join(said)}; {len(dead)} lead nowhere")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
