"""What a name in single backticks of a docstring means that leads nowhere by itself.

numpydoc has arguments in single backticks, and names of this project as well. An argument stands as
code. A name that begins as a public one does must be there: else nothing is resolved, and Sphinx's
warning makes the build fail. What is there but has no page of its own stands as code, too.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes

import pplconv
from tools.site.names import MODULES, there


def connect(app: Any) -> None:
    """Have Sphinx ask `_resolve` about each reference that leads nowhere."""
    app.connect("missing-reference", _resolve)


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
