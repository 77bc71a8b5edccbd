"""Rooms of the project: which tests are about which sources, and which have changed.

    python tests/rooms.py changed     # folders of tests whose room differs from `tested.json`
    python tests/rooms.py edited      # those of files that differ from the last commit
    python tests/rooms.py record      # after `make test-all`: all rooms are as they were tested

A room is a folder of `tests` with the folders that it is about. Documents are left out.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).resolve().with_name("tested.json")

# What a room of tests is about, beside the folder of `pplconv` that has its name.
ABOUT = {
    "analysis": ("benchmarks/analysis", "asm"),
    "api": ("pplconv/schedules",),
    "benchmarks": ("benchmarks",),
    "clusters": ("pplconv/integrations", "pplconv/instances"),
    "docs": ("examples", "tools/site"),
    "fuzz": ("pplconv/api", "pplconv/schedules", "asm"),
    "kernels": ("asm", "pplconv/schedules"),
    "network": ("pplconv/schedules",),
    "packaging": ("asm", "tools/wheels"),
    "sanitizers": ("pplconv/schedules", "pplconv/runtime"),
    "serving": ("pplconv/integrations",),
    "soak": ("pplconv/instances",),
    "tools": ("tools",),
}
# Suffixes of files that decide what is tested.
SOURCES = {".py", ".pyi", ".pyx", ".pxd", ".c", ".h", ".json", ".toml"}


def rooms() -> list[str]:
    """Name the rooms: folders of `tests` that have tests."""
    here = ROOT / "tests"
    return sorted(path.name for path in here.iterdir() if any(path.glob("test_*.py")))


def folders(room: str) -> list[str]:
    """Give the folders of a room."""
    own = [f"tests/{room}", *ABOUT.get(room, ())]
    return [*own, f"pplconv/{room}"] if (ROOT / "pplconv" / room).is_dir() else own


def digest(room: str) -> str:
    """Digest of the contents of its files; single modules of the package are with the calls."""
    tracked = _git("ls-files", *folders(room))
    if room == "api":
        tracked += [name for name in _git("ls-files", "pplconv") if name.count("/") == 1]
    total = hashlib.sha256()
    for name in sorted(tracked):
        path = ROOT / name
        if path.suffix in SOURCES and path != RECORD and path.is_file():
            total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def changed() -> list[str]:
    """Name rooms that differ from what the last whole run has tested."""
    tested = json.loads(RECORD.read_text())["rooms"] if RECORD.exists() else {}
    return [room for room in rooms() if tested.get(room) != digest(room)]


def edited() -> list[str]:
    """Name rooms, and files beside them, that differ from the last commit."""
    names = _git("diff", "--name-only", "HEAD")
    names += _git("ls-files", "--others", "--exclude-standard")
    found = [
        f"tests/{room}"
        for room in rooms()
        if any(name.startswith(tuple(f"{folder}/" for folder in folders(room))) for name in names)
    ]
    own = [n for n in names if n.startswith("tests/test_") and (ROOT / n).is_file()]
    return sorted({*found, *own})


def _git(*arguments: str) -> list[str]:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main(arguments: list[str]) -> None:
    """Print what was asked for, or write the record."""
    if arguments == ["changed"]:
        print(*(f"tests/{room}" for room in changed()))
    elif arguments == ["edited"]:
        print(*edited())
    elif arguments == ["record"]:
        found = {"rooms": {room: digest(room) for room in rooms()}}
        RECORD.write_text(json.dumps(found, indent=1) + "\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
