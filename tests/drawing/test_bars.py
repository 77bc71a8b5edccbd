"""Bars of text have the right length on any terminal and in any encoding."""

from __future__ import annotations

import io

import pytest

from pplconv.drawing.bars import NARROWEST, WIDEST, Row, bar, draw, write

ROWS = [
    Row("a title that may be longer than any label of a bar"),
    Row("first", 4.0, "4 us"),
    Row("second", 1.0, "1 us 25 %"),
    Row("nothing", 0.0, "0"),
]


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (1.0, "█" * 8),
        (0.5, "█" * 4),
        (0.25 + 1 / 64, "██▏"),
        (0.0, ""),
        (1e-9, "▏"),
        (7.0, "█" * 8),
    ],
)
def test_a_bar_is_its_share(share, drawn):
    assert bar(share, 8) == drawn


@pytest.mark.parametrize("width", [NARROWEST, 60, 80, WIDEST])
def test_lines_fill_the_width(width):
    lines = draw(ROWS, width).splitlines()
    assert lines[0] == ROWS[0].label
    assert all(len(line) == len(lines[1]) <= width for line in lines[1:])
    longest = lines[1].count("█")
    assert lines[2].count("█") == longest // 4
    assert longest >= 8
    assert [line.split()[0] for line in lines[1:]] == ["first", "second", "nothing"]
    assert all(line.endswith(row.text) for line, row in zip(lines[1:], ROWS[1:], strict=True))


@pytest.mark.parametrize("width", [1, 10**6])
def test_no_width_is_too_odd(width):
    assert draw(ROWS, width) == draw(ROWS, NARROWEST if width == 1 else WIDEST)


def test_long_labels_are_cut_where_bars_need_the_place():
    (line,) = draw([Row("x" * 100, 1.0, "1 us")], 60).splitlines()
    assert "x…" in line and len(line) <= 60 and line.count("█") >= 8


def test_rows_of_nothing_have_no_bar():
    assert "█" not in draw([Row("a", 0.0, "0 us"), Row("b", 0.0)])
    assert draw([]) == ""


def test_files_without_blocks_get_signs():
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    write(draw(ROWS, 60), file)
    text = raw.getvalue().decode("ascii")
    assert "####" in text and "first" in text
    plain = io.StringIO()
    write(draw(ROWS, 60), plain)
    assert "█" in plain.getvalue()
