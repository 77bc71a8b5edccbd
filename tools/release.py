"""``python -m tools.release``: whether the tree may be released; see docs/releasing.md.

The version is said in ``pplconv/_version.py``. What else says it has to agree.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_SECTION = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (\S+)$", re.MULTILINE)


def version_of(root: Path) -> str:
    """Read the version.

    Parameters
    ----------
    root : Path
        The source tree.
    """
    text = (root / "pplconv/_version.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return str(version)


def released(root: Path) -> tuple[str, int]:
    """Tell version and time of the newest release in the changelog.

    Parameters
    ----------
    root : Path
        The source tree.

    Returns
    -------
    tuple
        The version, and midnight (UTC) of its day in seconds of Unix.
    """
    (version, day), *_ = _SECTION.findall((root / "CHANGELOG.md").read_text())
    moment = datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.timezone.utc)
    return str(version), int(moment.timestamp())


def disagreements(root: Path) -> list[str]:
    """Say where the tree says something else than ``_version.py``.

    Parameters
    ----------
    root : Path
        The source tree.
    """
    version = version_of(root)
    found = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        found.append(f"_version.py: {version} is no major.minor.patch")
    changelog = (root / "CHANGELOG.md").read_text()
    sections = _SECTION.findall(changelog)
    if not sections or sections[0][0] != version:
        newest = sections[0][0] if sections else "none"
        found.append(f"CHANGELOG.md: the newest release is {newest}, not {version}")
    for what, column in (("versions", 0), ("days", 1)):
        keys = [_key(row[column]) for row in sections]
        if keys != sorted(keys, reverse=True) or (column == 0 and len({*keys}) < len(keys)):
            found.append(f"CHANGELOG.md: {what} of releases do not go down")
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    if headings[:1] != ["[Unreleased]"] or len(headings) != len(sections) + 1:
        found.append("CHANGELOG.md: sections are [Unreleased], then [X.Y.Z] - YYYY-MM-DD each")
    citation = dict(re.findall(r"^([\w-]+): *(\S+)$", (root / "CITATION.cff").read_text(), re.M))
    if citation.get("version", "").strip("\"'") != version:
        found.append(f"CITATION.cff: version is {citation.get('version')}, not {version}")
    day = sections[0][1] if sections else ""
    if citation.get("date-released", "").strip("\"'") != day:
        found.append(f"CITATION.cff: date-released is {citation.get('date-released')}, not {day}")
    return found


def unreleased(root: Path) -> str:
    """Give what the changelog says of changes that no release has.

    Parameters
    ----------
    root : Path
        The source tree.
    """
    text = (root / "CHANGELOG.md").read_text().partition("## [Unreleased]")[2]
    return text.partition("\n## ")[0].strip()


def changes(root: Path) -> list[str]:
    """List files that differ from what is committed.

    Parameters
    ----------
    root : Path
        The source tree.
    """
    command = ["git", "-C", str(root), "status", "--porcelain"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line[3:] for line in done.stdout.splitlines()]


def _key(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


def main() -> int:
    """Refuse a tree that is not in order; give the exit status."""
    found = disagreements(ROOT)
    if unreleased(ROOT):
        found.append("CHANGELOG.md: changes are still under [Unreleased]")
    found += [f"not committed: {name}" for name in changes(ROOT)]
    for line in found:
        print(f"release: {line}", file=sys.stderr)
    if not found:
        print(f"release: {version_of(ROOT)} is in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
