"""What a name in single backticks of a docstring means that leads nowhere by itself.

numpydoc has arguments in single backticks, and names of this project as well. An argument stands as
code. A name that begins as a public one does must be there: else nothing is resolved, and Sphinx's
warning makes the build fail. What is there but has no page of its own stands as code, too.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

from docutils import nodes

import pplconv

# What is public and not in `dir(pplconv)`.
MODULES = ("integrations",)


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


def there(name: str) -> bool:
    """Whether `name` can be reached from the package, fields of dataclasses included."""
    value: Any = pplconv
    for part in name.split("."):
        if is_dataclass(value) and part in {field.name for field in fields(value)}:
            value = None
        elif hasattr(value, part):
            value = getattr(value, part)
        else:
            try:
                value = import_module(f"{value.__name__}.{part}")
            except (AttributeError, ImportError):
                return False
    return True
