"""Public names, and names that the reference lists."""

from __future__ import annotations

import ast
import re
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pplconv

# Public names that are not in `dir(pplconv)`.
MODULES = ("integrations",)


def public() -> set[str]:
    """Give every public name, as written after ``pplconv.``.

    In a module with more names than users need, the public ones are those in the package's map, its
    docstring. Integrations need packages that may be missing, so their sources are parsed.
    """
    found: set[str] = set()
    for name in pplconv.__all__:
        value = getattr(pplconv, name)
        if not isinstance(value, ModuleType):
            found.add(name)
            continue
        named = set(re.findall(rf"`{name}\.(\w+)`", pplconv.__doc__ or ""))
        own = set(value.__all__)
        found |= {f"{name}.{one}" for one in (named if name in ("runtime", "wisdom") else own)}
    found.discard("__version__")
    folder = Path(pplconv.__file__).parent / "integrations"
    for path in sorted({*folder.glob("*.py"), *folder.glob("*/__init__.py")}):
        module = path.parent.name if path.stem == "__init__" else path.stem
        # Parts of tiles are for `dask`, which re-exports the names that users need.
        if module not in ("integrations", "tiles"):
            found |= {f"integrations.{module}.{name}" for name in _exported(path)}
    return found


def _exported(path: Path) -> list[str]:
    """Give the functions and classes of ``__all__``; constants are described at their users."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [name for name in ast.literal_eval(node.value) if not name.isupper()]
    return []


def listed(reference: Path) -> list[str]:
    """Give the names in the lists of the reference's page, in order."""
    lists = reference.read_text(encoding="utf-8").partition(".. toctree::")[0]
    return re.findall(r"^   ([A-Za-z]\w*(?:\.\w+)*)$", lists, re.MULTILINE)


def there(name: str) -> bool:
    """Whether `name` is reachable from the package, fields of dataclasses included."""
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
