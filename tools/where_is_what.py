"""Writes the page of all folders and modules of the package, from their docstrings.

python -m tools.where_is_what   # writes docs/architecture/where-is-what.md
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "pplconv"
PAGE = ROOT / "docs" / "architecture" / "where-is-what.md"
HEAD = """# Where is what

Folders and modules of the package, with the first sentence of each one's docstring, made by
`python -m tools.where_is_what`. [The rooms](../architecture.md#the-rooms) says which one may import
which.
"""


def docstring(path: Path) -> str:
    """Give the docstring of a module, of Python or Cython; empty if there is none."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    found = re.match(r'(?:#[^\n]*\n)*"""(.*?)"""', text, re.DOTALL)
    return found[1] if found else ""


def first_sentence(text: str) -> str:
    """Give the first sentence of a docstring on one line."""
    line = " ".join(text.split("\n\n")[0].split())
    end = re.search(r"\.(?= |$)", line)
    return (line[: end.start()] if end else line).replace("``", "`").replace("|", "\\|")


def modules(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the modules of a folder with their first sentences, in order."""
    found: dict[str, Path] = {}
    for suffix in (".pxd", ".py", ".pyx"):
        found.update({path.stem: path for path in folder.glob(f"*{suffix}")})
    for name, path in sorted(found.items()):
        if name not in ("__init__", "_contracts"):  # a build writes `_contracts`
            yield name, first_sentence(docstring(path))


def text() -> str:
    """Give the text of the page."""
    folders = sorted({path.parent for path in PACKAGE.rglob("__init__.py")})
    parts = [HEAD]
    for folder in folders:
        name = folder.relative_to(ROOT).as_posix()
        rows = [f"| `{module}` | {said} |" for module, said in modules(folder)]
        about = first_sentence(docstring(folder / "__init__.py"))
        parts.append(f"## {name}/\n\n{about}.\n")
        if rows:
            parts.append("\n".join(["| module | |", "|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    PAGE.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
