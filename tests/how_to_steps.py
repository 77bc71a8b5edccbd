"""Steps of how-tos: code blocks with the file and the place that they edit, and commands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Step", "apply", "commands", "steps"]

# A fence whose info string names a file, indented like the list item around it.
_BLOCK = re.compile(
    r"^(?P<indent> *)```\w+ (?P<words>title=.*)\n(?P<text>(?:.*\n)*?)(?P=indent)```$", re.MULTILINE
)
_COMMANDS = re.compile(r"^(?P<indent> *)```sh\n(?P<text>(?:.*\n)*?)(?P=indent)```$", re.MULTILINE)
_WHERE = ("after", "before", "replace")


@dataclass(frozen=True)
class Step:
    """An edit of one file.

    Parameters
    ----------
    path : str
        The file, relative to the root of the project.
    text : str
        Lines to insert.
    where : str
        ``after`` or ``before`` a line, ``replace`` a text; empty for a new file.
    anchor : str
        A part of that line, or the text to replace; it occurs once in the file.
    """

    path: str
    text: str
    where: str = ""
    anchor: str = ""


def steps(page: Path) -> list[Step]:
    """Read the edits of a page, in their order."""
    found = []
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        words = dict(word.split("=", 1) for word in shlex.split(match["words"]))
        path = words.pop("title")
        # Remove the indentation of the list; deeper indentation belongs to the text.
        indent = len(match["indent"])
        lines = [line[indent:] if line.strip() else "\n" for line in match["text"].splitlines(True)]
        where, anchor = next(iter(words.items()), ("", ""))
        assert len(words) <= 1 and where in ("", *_WHERE), match["words"]
        found.append(Step(path, "".join(lines), where, anchor))
    return found


def commands(page: Path, *programs: str) -> list[list[str]]:
    """Read the commands of a page that begin with one of these programs, split into words."""
    found = []
    for match in _COMMANDS.finditer(page.read_text(encoding="utf-8")):
        for line in match["text"].replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True) if line.lstrip().startswith(programs) else []
            found += [words] if words else []
    return found


def apply(step: Step, root: Path) -> None:
    """Make an edit in a tree."""
    path = root / step.path
    if not step.where:
        assert not path.exists(), f"{step.path} is no new file"
        path.write_text(step.text, encoding="utf-8")
        return
    old = path.read_text(encoding="utf-8")
    assert old.count(step.anchor) == 1, f"{step.path} has {old.count(step.anchor)} {step.anchor!r}"
    at = old.index(step.anchor)
    if step.where == "replace":
        end = at + len(step.anchor)
        if not step.text:
            end += len("\n")
        new = old[:at] + step.text.removesuffix("\n") + old[end:]
    else:
        at = old.index("\n", at) + 1 if step.where == "after" else old.rfind("\n", 0, at) + 1
        new = old[:at] + step.text + old[at:]
    path.write_text(new, encoding="utf-8")
