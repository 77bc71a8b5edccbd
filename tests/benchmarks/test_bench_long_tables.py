"""Pages of results: long tables lie beside them, and come back as they were."""

from __future__ import annotations

import json
import lzma
import re

import pytest

from benchmarks import long_tables
from benchmarks.long_tables import LongTableError, data_of, expand, keep, load, marked, read, split
from tests.documents import ROOT

RUNS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))

# A summary, a report of two tables that have 13 rows together, and one in a fence.
HEAD = """# A day

## A run

Of the two engines the second one wins.

| engine | ms |
|---|---:|
| one | **2.0** |

- CPU: a core
"""
REPORT = """**net, 1 thread: GFLOP/s**

| layer | one | two |
| --- | ---: | ---: |
{rows}

**net, 1 thread: sums, ms**

| layers | one \\| two |  |
| --- | ---: | ---: |
| all | 2.0 |  |
""".format(rows="\n".join(f"| conv{i} | {i}.5 | |x| |" for i in range(12)))
TAIL = """Text below.

### 3x3, by hand


| a | b |
|---|---|
{rows}

```
| not | a table |
| --- | ---: |
{rows}
```
""".format(rows="\n".join(f"| {i} |  |" for i in range(13)))
WHOLE = f"{HEAD}\n{REPORT}\n{TAIL}"
LINE = "`python -m benchmarks.long_tables day {}` <!-- table -->"
SHORT = f"""{HEAD}
* **net, 1 thread: GFLOP/s**, 12 rows: {LINE.format("net-1-thread-gflop-s")}
* **net, 1 thread: sums, ms**, 1 row: {LINE.format("net-1-thread-sums-ms")}

Text below.

### 3x3, by hand


* Table of 13 rows: {LINE.format("3x3-by-hand")}

{TAIL[TAIL.index("```") :]}"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "day.md"
    path.write_text(WHOLE, encoding="utf-8")
    keep(path)
    return path


def test_a_line_stands_for_each_long_table(page):
    assert page.read_text(encoding="utf-8") == SHORT


def test_the_page_comes_back_as_it_was(page):
    assert read(page) == WHOLE
    keep(page)
    assert (page.read_text(encoding="utf-8"), read(page)) == (SHORT, WHOLE)


def test_the_data_are_the_rows_as_they_were_printed(page):
    first, second, third = json.loads(lzma.decompress(data_of(page).read_bytes()))
    assert first["columns"] == ["layer", "one", "two"]
    assert first["rule"] == "| --- | ---: | ---: |"
    assert first["rows"][11] == ["conv11", "11.5", "|x|"]
    assert (second["columns"], second["rows"]) == (
        ["layers", "one \\| two", ""],
        [["all", "2.0", ""]],
    )
    assert (third["title"], len(third["rows"])) == ("", 13)


def test_a_run_that_is_added_is_moved_as_well(page):
    added = WHOLE + "\n## Another run\n\n" + REPORT
    page.write_text(page.read_text(encoding="utf-8") + added[len(WHOLE) :], encoding="utf-8")
    keep(page)
    assert read(page) == added
    assert list(load(page))[-2:] == ["net-1-thread-gflop-s-2", "net-1-thread-sums-ms-2"]


def test_a_page_of_short_tables_has_no_data(page):
    page.write_text(HEAD, encoding="utf-8")
    keep(page)
    assert page.read_text(encoding="utf-8") == read(page) == HEAD
    assert not data_of(page).exists()


@pytest.mark.parametrize("row", ["|  | 1 | 2 |", "|1|", "| 1"])
def test_a_table_that_is_written_otherwise_stays(row):
    text = "| a |\n| --- |\n" + "| 1 |\n" * 13 + row + "\n"
    assert split(text, "day") == (text, [])


def test_missing_data_are_named(page):
    known = json.loads(lzma.decompress(data_of(page).read_bytes()))
    data_of(page).write_bytes(lzma.compress(json.dumps(known[1:]).encode()))
    message = r"page day\.md: the table net-1-thread-gflop-s is not in data/day\.json\.xz"
    with pytest.raises(LongTableError, match=message):
        read(page)
    data_of(page).unlink()
    with pytest.raises(LongTableError, match=message):
        expand(page.read_text(encoding="utf-8"), page)


@pytest.mark.parametrize("content", [b"", lzma.compress(b"{"), lzma.compress(b'[{"name": 1}]')])
def test_data_that_cannot_be_read_are_named(page, content):
    data_of(page).write_bytes(content)
    with pytest.raises(LongTableError, match=re.escape(str(data_of(page)))):
        read(page)


def test_the_command_prints_a_page_or_a_table(page, capsys, refused):
    assert long_tables.main([str(page)]) == 0
    assert capsys.readouterr().out == WHOLE
    assert long_tables.main([str(page), "net-1-thread-sums-ms"]) == 0
    assert capsys.readouterr().out == REPORT[REPORT.index("**net, 1 thread: sums") :]
    complaint = refused(long_tables.main, str(page), "other")
    assert "TABLE: day.md has no long table other" in complaint
    assert "PAGE: " in refused(long_tables.main, "1999-01-01")


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_each_page_has_its_tables(path):
    """Every line has its data and the reverse; `--keep` finds nothing more to move."""
    text = path.read_text(encoding="utf-8")
    tables = load(path)
    assert marked(text) == list(tables)
    assert split(read(path), path.stem) == (text, list(tables.values()))
    assert data_of(path).exists() == bool(tables)


def test_no_data_without_a_page():
    data = (RUNS[0].parent / "data").iterdir()
    assert {path.name for path in data} <= {data_of(path).name for path in RUNS}


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_rows_have_a_cell_for_each_column(path):
    """In every table, long or short."""
    blocks = re.findall(r"(?:^\|.*\n)+", read(path), re.MULTILINE)
    assert blocks
    for block in blocks:
        rows = block.splitlines()
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1, rows[0]
        assert re.fullmatch(r"(\| ?:?-{3,}:? ?)+\|", rows[1]), rows[1]
