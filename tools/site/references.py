"""What a name in single backticks of a docstring means that leads nowhere by itself.

numpydoc has arguments in single backticks, and names of this project as well. An argument stands as
code. A name that begins as a public one does must be there: else nothing is resolved, and Sphinx's
warning makes the build fail. What is there but has no page of its own stands as code, too.

A docstring names pages by their files, as `docs/imaging.md`, for who reads it without the site; in
the site these are links.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

import pplconv
from tools.site.names import MODULES, there

_PAGE = re.compile(r"(?<![`\w/])(docs/[\w/-]+)\.md\b")


def connect(app: Any) -> None:
    """Have Sphinx ask `_resolve` about each reference that leads nowhere, and link pages."""
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
