"""Each source belongs to a room of tests, and a room differs if one of its sources does."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests import rooms

pytestmark = pytest.mark.unemulated("reads sources, which no machine changes")


def test_every_source_belongs_to_a_room():
    names = [
        path.relative_to(rooms.ROOT).as_posix()
        for folder in ("pplconv", "asm", "benchmarks", "tools", "examples")
        for path in (rooms.ROOT / folder).rglob("*")
        if path.suffix in (".py", ".pyx", ".pxd", ".h", ".c")
    ]
    assert len(names) > 700
    every = rooms.rooms()
    assert [n for n in names if not any(rooms.is_about(room, n) for room in every)] == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pplconv/algorithms/nest_cost.py", {"algorithms", "planner", "api", "network"}),
        ("asm/x86_64/gemm.py", {"kernels", "api", "network", "packaging"}),
        ("tests/planner/golden.txt", {"planner"}),
        ("setup.py", {"packaging"}),
        ("tests/reference.py", {"kernels", "docs", "wisdom"}),
        ("docs/architecture.md", set()),
        ("tests/test_rooms.py", set()),
    ],
)
def test_what_a_room_is_about(name, expected):
    found = {room for room in rooms.rooms() if rooms.is_about(room, name)}
    assert expected <= found
    if len(expected) < 2:
        assert found == expected


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two rooms."""
    for name in ("tests/a/test_it.py", "tests/b/test_it.py", "pplconv/a/it.py", "pplconv/a/it.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")

    def git(*arguments: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a", *arguments], cwd=tmp_path, check=True
        )

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    monkeypatch.setattr(rooms, "ROOT", tmp_path)
    monkeypatch.setattr(rooms, "RECORD", tmp_path / "tests" / "tested.json")
    return tmp_path


def test_rooms_that_differ_from_what_was_tested(repository, capsys):
    assert rooms.changed() == ["a", "b"]
    rooms.main(["record"])
    assert json.loads(rooms.RECORD.read_text())["rooms"].keys() == {"a", "b"}
    assert rooms.changed() == []
    (repository / "pplconv/a/it.md").write_text("2")
    assert rooms.changed() == []
    (repository / "pplconv/a/it.py").write_text("2")
    assert rooms.changed() == ["a"] and rooms.edited() == ["tests/a"]
    for word in ("changed", "unchanged"):
        rooms.main([word])
    assert capsys.readouterr().out == "tests/a\ntests/b\n"
    (repository / "pplconv/a/it.py").write_text("1")
    (repository / "tests/helper.py").write_text("1")
    assert rooms.changed() == [], "nothing counts that is not in the repository"
    assert rooms.edited() == ["tests/a", "tests/b"]
