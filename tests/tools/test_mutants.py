"""Mutants are the package's modules with one change each, and are put back."""

from __future__ import annotations

import ast
import random

import pytest

from tools import mutants


def test_each_is_a_module_with_one_change():
    found = mutants.draw("wisdom", 25, random.Random(5))
    assert len(set(found)) == 25
    for mutant in found:
        source = (mutants.PACKAGE / mutant.path).read_text()
        before, after = (
            ast.unparse(ast.parse(text)).splitlines()
            for text in (source, mutants.changed(mutant.path, [mutant.index]))
        )
        differing = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        assert len(differing) == 1, mutant
        assert f"{mutant.path}:{mutant.line}: " in str(mutant)
    assert found == mutants.draw("wisdom", 25, random.Random(5))


def test_several_changes_of_one_module(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "PACKAGE", tmp_path)
    (tmp_path / "it.py").write_text("x = a + b < 3\n")
    assert mutants.changed(mutants.Path("it.py"), [0, 1, 2]) == "x = a - b <= 4"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", "a <= b"), ("a == b", "a != b"), ("a is None", "a is not None"),
        ("a + b", "a - b"), ("a // b", "a * b"), ("a and b", "a or b"), ("7", "8"),
    ],
)  # fmt: skip
def test_what_is_changed(before, after):
    tree = ast.parse(before)
    assert [ast.unparse(tree) for _ in mutants.changes(tree)] == [after]
    assert ast.unparse(tree) == before


def test_what_is_no_arithmetic_stays():
    assert list(mutants.changes(ast.parse("f('a' % b, True, 'text', 1.5)"))) == []


def test_one_that_nobody_notices_survives_and_is_put_back(tmp_path, monkeypatch):
    (tmp_path / "pplconv").mkdir()
    monkeypatch.setattr(mutants, "PACKAGE", tmp_path / "own")
    (tmp_path / "own").mkdir()
    (tmp_path / "pplconv" / "__init__.py").touch()
    for folder in ("own", "pplconv"):
        (tmp_path / folder / "it.py").write_text("x = 1\ny = 2\n")
    (tmp_path / "tests" / "room").mkdir(parents=True)
    (tmp_path / "tests" / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--tier')\n"
    )
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    test = tmp_path / "tests" / "room" / "test_it.py"
    first, second = (mutants.Mutant(mutants.Path("it.py"), n, n + 1, "1") for n in (0, 1))
    for text, kills in (
        ("x > 0", []), ("x == 1", [first]), ("x * y < 3", [first, second]),
    ):  # fmt: skip
        test.write_text(f"from pplconv.it import x, y\n\ndef test_it(): assert {text}\n")
        assert mutants.survive([], "room", "fast", tmp_path)
        assert mutants.killed([first, second], "room", "fast", tmp_path) == kills
        assert (tmp_path / "pplconv" / "it.py").read_text() == "x = 1\ny = 2\n"
