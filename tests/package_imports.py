"""List the imports of a module: Python from its syntax tree, Cython from its import lines.

Imports are statements, calls of `importlib`, and strings that name a module of the package.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "ANYTHING",
    "ROOT",
    "SOME",
    "Import",
    "cython_imports",
    "imports_of",
    "module_name",
    "python_imports",
]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Import:
    """One imported module or name: its dotted path, and whether it is imported on demand."""

    target: str
    lazy: bool
    line: int


def module_name(path: Path, root: Path = ROOT) -> tuple[str, ...]:
    return path.relative_to(root).with_suffix("").parts


def absolute(module: str | None, dots: int, here: tuple[str, ...]) -> str:
    """Resolve a relative import in module ``here``."""
    if not dots:
        return module or ""
    return ".".join([*here[: len(here) - dots], *([module] if module else [])])


# Targets of import calls whose argument is computed: some module of a known package, or any.
SOME, ANYTHING = "*", "?"


def called_import(call: ast.Call, here: tuple[str, ...]) -> str | None:
    """Give the module that a call of `import_module` or `__import__` asks for; None for others.

    If a name is computed, only its beginning is known: the package of the module.
    """
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in ("import_module", "__import__"):
        return None
    asked = next((k.value for k in call.keywords if k.arg == "name"), None)
    asked = asked or (call.args[0] if call.args else None)
    own = {"__name__": ".".join(here), "__package__": ".".join(here[:-1])}
    if here[-1] == "__init__":
        own = dict.fromkeys(own, ".".join(here[:-1]))
    text = ""
    for part in asked.values if isinstance(asked, ast.JoinedStr) else [asked]:
        inner = part.value if isinstance(part, ast.FormattedValue) else part
        if isinstance(inner, ast.Constant):
            text += str(inner.value)
        elif isinstance(inner, ast.Name) and inner.id in own:
            text += own[inner.id]
        else:
            package, dot, _ = text.rpartition(".")
            if not dot:
                return ANYTHING
            text = f"{package}.{SOME}"
            break
    dots = len(text) - len(text.lstrip("."))
    return absolute(text[dots:], dots, here)


def named_modules(tree: ast.AST, here: tuple[str, ...], root: Path) -> Iterator[tuple[str, int]]:
    """Give the modules of the package that strings name: a table of modules holds such strings."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if not (match := re.fullmatch(r"(\.*)([a-z_]\w*(?:\.[a-z_]\w*)*)", node.value)):
            continue
        target = absolute(match[2], len(match[1]), here) if match[1] else match[2]
        place = root.joinpath(*target.split("."))
        there = [place.with_suffix(suffix) for suffix in (".py", ".pyx")]
        if target.startswith("pplconv.") and any(
            p.is_file() for p in [*there, place / "__init__.py"]
        ):
            yield target, node.lineno


def python_imports(text: str, here: tuple[str, ...], root: Path = ROOT) -> Iterator[Import]:
    tree = ast.parse(text)
    for parent in ast.walk(tree):
        for child in ast.iter_child_nodes(parent):
            child.parent = parent
    for target, line in named_modules(tree, here, root):
        yield Import(target, True, line)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (target := called_import(node, here)):
            yield Import(target, True, node.lineno)
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        above, lazy = node, False
        while above := getattr(above, "parent", None):
            lazy |= isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef)
        if isinstance(node, ast.Import):
            targets = [name.name for name in node.names]
        else:
            base = absolute(node.module, node.level, here)
            targets = [f"{base}.{name.name}" for name in node.names]
        yield from (Import(target, lazy, node.lineno) for target in targets)


CYTHON_FROM = re.compile(
    r"^([ \t]*)from\s+(\.*)([\w.]*)\s+c?import\s+(\([^)]*\)|[^#\n]*)", re.MULTILINE
)
CYTHON_CALL = re.compile(r"\b(import_module|__import__)\s*\(")
CYTHON_IMPORT = re.compile(r"^([ \t]*)c?import\s+([^#\n]*)", re.MULTILINE)


def cython_imports(text: str, here: tuple[str, ...]) -> Iterator[Import]:
    text = re.sub(r'"""[\s\S]*?"""', lambda m: "\n" * m.group().count("\n"), text)
    for match in CYTHON_FROM.finditer(text):
        indent, dots, module, names = match.groups()
        base = absolute(module or None, len(dots), here)
        line = text.count("\n", 0, match.start()) + 1
        for name in re.sub(r"#.*", "", names).strip("()\n ").split(","):
            if name.strip():
                yield Import(f"{base}.{name.split()[0]}", bool(indent), line)
    for match in CYTHON_CALL.finditer(text):
        yield Import(ANYTHING, True, text.count("\n", 0, match.start()) + 1)
    for match in CYTHON_IMPORT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        for name in match[2].split(","):
            yield Import(name.split()[0], bool(match[1]), line)


@cache
def imports_of(path: Path, root: Path = ROOT) -> list[Import]:
    text, here = path.read_text(encoding="utf-8"), module_name(path, root)
    if path.suffix in (".py", ".pyi"):
        return list(python_imports(text, here, root))
    return list(cython_imports(text, here))
