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
            ast.unparse(ast.parse(text)).splitlines() for text in (source, mutant.text)
        )
        differing = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
        assert len(differing) == 1, mutant
        assert f"{mutant.path}:{mutant.line}: " in str(mutant)
    assert found == mutants.draw("wisdom", 25, random.Random(5))


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
        (tmp_path / folder / "it.py").write_text("x = 1\n")
    (tmp_path / "tests" / "room").mkdir(parents=True)
    (tmp_path / "tests" / "conftest.py").write_text(
        "def pytest_addoption(parser): parser.addoption('--tier')\n"
    )
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    test = tmp_path / "tests" / "room" / "test_it.py"
    mutant = mutants.Mutant(mutants.Path("it.py"), 1, "x = 2\n", "2 in x = 1")
    for text, survives in (("x > 0", True), ("x == 1", False)):
        test.write_text(f"from pplconv.it import x\n\ndef test_it(): assert {text}\n")
        assert mutants.survives(None, "room", "fast", tmp_path)
        assert mutants.survives(mutant, "room", "fast", tmp_path) == survives
        assert (tmp_path / "pplconv" / "it.py").read_text() == "x = 1\n"
