"""Resolves names in single backticks of docstrings that Sphinx cannot resolve.

numpydoc writes arguments and names of this project in single backticks. An argument becomes code. A
name that begins like a public one must exist: otherwise it stays unresolved, and Sphinx's warning
fails the build. An existing name without a page of its own becomes code, too.

Docstrings name pages by their files, as `docs/imaging.md`, for readers without the site. The site
turns these names into links.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

import pplconv
from tools.site.names import MODULES, there

_PAGE = re.compile(r"(?<![`\w/])(docs/[\w/-]+)\.md\b")


def connect(app: Any) -> None:
    """Make Sphinx call `_resolve` for each unresolved reference, and link pages."""
    app.connect("missing-reference", _resolve)
    app.connect("autodoc-process-docstring", _link_pages)


def _link_pages(
    app: Any, what: str, name: str, found: object, options: object, lines: list[str]
) -> None:
    lines[:] = [_PAGE.sub(r":doc:`\g<0> </\1>`", line) for line in lines]


def _resolve(app: Any, env: Any, node: Any, content: Any) -> nodes.Node | None:
    target = node.get("reftarget", "").removeprefix("~").removesuffix("()")
    if node.get("refdomain") != "py":
        return None
    name = target.removeprefix("pplconv.")
    ours = name != target or name.partition(".")[0] in (*dir(pplconv), *MODULES)
    if not ours:
        return nodes.literal(target, target)
    if not there(name):
        return None
    domain = env.get_domain("py")
    found = domain.resolve_xref(
        env, node["refdoc"], app.builder, "obj", f"pplconv.{name}", node, content
    )
    return found or nodes.literal(target, target)
