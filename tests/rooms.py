"""Rooms of the project: the sources that each folder of tests is about, and changed rooms.

    python tests/rooms.py changed     # folders of tests whose room differs from `tested.json`
    python tests/rooms.py unchanged   # all other folders of tests
    python tests/rooms.py edited      # rooms and test files that differ from the last commit
    python tests/rooms.py record      # by `make test-all`: record that all rooms are tested

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

# Sources of a room of tests, besides the folder of `pplconv` with its name.
_PLANS = ("pplconv/algorithms", "pplconv/planner", "pplconv/machine", "pplconv/wisdom")
_FACE = ("pplconv/api", "pplconv/arguments", "pplconv/ops")
_CALLS = (*_FACE, "pplconv/schedules", "pplconv/memory", "pplconv/runtime", "asm", *_PLANS)
ABOUT = {
    "algorithms": _PLANS,
    "analysis": ("benchmarks/analysis", "asm"),
    "api": _CALLS,
    "benchmarks": ("benchmarks", "examples/demo", "examples/models"),
    "browser": ("pplconv/integrations/asgi", "docs/_static", "tools/site"),
    "clusters": ("pplconv/integrations", "pplconv/instances"),
    "demo": ("examples/demo", "examples/models"),
    "docs": ("examples", "tools/site"),
    "fuzz": _CALLS,
    "imaging": _CALLS,
    "instances": ("pplconv/runtime", "pplconv/machine"),
    "integrations": (*_FACE, "pplconv/network"),
    "kernels": ("asm",),
    "memory": ("pplconv/schedules",),
    "network": _CALLS,
    "packaging": ("asm", "tools/wheels", "setup.py", "pyproject.toml", "MANIFEST.in", "Makefile"),
    "planner": _PLANS,
    "quant": _FACE,
    "runtime": ("pplconv/schedules", "pplconv/machine"),
    "sanitizers": ("pplconv/schedules", "pplconv/runtime"),
    "serving": ("pplconv/integrations", "pplconv/network"),
    "soak": ("pplconv/instances",),
    "tools": ("tools",),
    "wisdom": _PLANS,
}
# Every room depends on the files directly in these folders: helpers of all tests, and modules that
# all import.
COMMON = ("tests", "pplconv")


def rooms() -> list[str]:
    """Name the rooms: folders of `tests` that have tests."""
    here = ROOT / "tests"
    return sorted(path.name for path in here.iterdir() if any(path.glob("test_*.py")))


def is_about(room: str, name: str) -> bool:
    """Whether the tests of a room depend on a file, given by its path below the root."""
    path = Path(name)
    if path.suffix == ".md" or path == RECORD.relative_to(ROOT):
        return False
    if str(path.parent) in COMMON:
        return not path.name.startswith("test_")
    places = (f"tests/{room}", f"pplconv/{room}", *ABOUT.get(room, ()))
    return any(name == place or name.startswith(f"{place}/") for place in places)


def digest(room: str) -> str:
    """Digest of the contents of all files that a room's tests depend on."""
    total = hashlib.sha256()
    for name in sorted(_git("ls-files")):
        if is_about(room, name) and (ROOT / name).is_file():
            contents = hashlib.sha256((ROOT / name).read_bytes()).hexdigest()
            total.update(f"{name}\0{contents}\n".encode())
    return total.hexdigest()


def changed() -> list[str]:
    """Name rooms whose files have changed since the last whole run of the tests."""
    tested = json.loads(RECORD.read_text())["rooms"] if RECORD.exists() else {}
    return [room for room in rooms() if tested.get(room) != digest(room)]


def edited() -> list[str]:
    """Name rooms, and test files directly in `tests`, that differ from the last commit."""
    names = _git("diff", "--name-only", "HEAD")
    names += _git("ls-files", "--others", "--exclude-standard")
    found = [f"tests/{room}" for room in rooms() if any(is_about(room, name) for name in names)]
    return found + [n for n in names if n.startswith("tests/test_") and (ROOT / n).is_file()]


def _git(*arguments: str) -> list[str]:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main(arguments: list[str]) -> None:
    """Print the rooms that the command line asks for, or write the record."""
    if arguments == ["changed"]:
        print(*(f"tests/{room}" for room in changed()))
    elif arguments == ["unchanged"]:
        print(*(f"tests/{room}" for room in sorted({*rooms()} - {*changed()})))
    elif arguments == ["edited"]:
        print(*edited())
    elif arguments == ["record"]:
        found = {"rooms": {room: digest(room) for room in rooms()}}
        RECORD.write_text(json.dumps(found, indent=1) + "\n")
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
