"""Pages about the architecture: line numbers, tests that are named, the list of modules."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import line_references, where_is_what

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(line_references.PAGES.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_line_numbers_are_true(page):
    """If this fails, run ``python -m tools.line_references``."""
    assert line_references.wrong(page) == []


def test_a_wrong_number_is_found(tmp_path):
    (tmp_path / "x.py").write_text("one\ntwo\nthree\ntwo\n")
    page = tmp_path / "page.md"
    page.write_text("[`two`](x.py#L3), [`three`](x.py#L3)")
    (found,) = line_references.wrong(page)
    assert (found.code, found.lines) == ("two", [2, 4])
    assert line_references.corrected(page) == "[`two`](x.py#L2), [`three`](x.py#L3)"
    page.write_text("[`four`](x.py#L1)")
    with pytest.raises(ValueError, match="four"):
        line_references.corrected(page)


def test_a_call_goes_through_twelve_files_at_most():
    page = line_references.PAGES / "life-of-a-call.md"
    files = {found.path for found in line_references.references(page)}
    assert 8 < len(files) <= 12


def test_invariants_name_tests_that_there_are():
    text = (line_references.PAGES / "invariants.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)[1:]
    assert len(rows) > 10
    for row in rows:
        path, *names = re.findall(r"`([\w/.]+)`", row)
        assert (ROOT / path).exists(), path
        for name in names:
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_the_list_of_modules_is_made_of_docstrings():
    """If this fails, run ``python -m tools.where_is_what``."""
    page = where_is_what.PAGE
    assert page.read_text(encoding="utf-8") == where_is_what.text()
