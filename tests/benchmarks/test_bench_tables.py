"""Tables, to the character."""

from __future__ import annotations

import pytest

from benchmarks.tables import Table, giga, milli, percent, ratio


@pytest.fixture
def table():
    made = Table("title", ["layer", "a", "bb"])
    made.add(["conv1", "1.0", "22.5"], bold=[2])
    made.rule()
    made.add(["all|x", "", "3"], bold=[1])
    return made


def test_text(table):
    assert table.text() == (
        "title\n"
        "layer    a     bb\n"
        "-----------------\n"
        "conv1  1.0  *22.5\n"
        "-----------------\n"
        "all|x           3"
    )


def test_markdown(table):
    assert table.markdown() == (
        "**title**\n"
        "\n"
        "| layer | a | bb |\n"
        "| --- | ---: | ---: |\n"
        "| conv1 | 1.0 | **22.5** |\n"
        "| all\\|x |  | 3 |"
    )


def test_html(table):
    assert table.html() == (
        "<table><caption>title</caption>\n"
        "<thead><tr>\n"
        '<th scope="col" class="text">layer</th>\n'
        '<th scope="col">a</th>\n'
        '<th scope="col">bb</th>\n'
        "</tr></thead><tbody>\n"
        "<tr>\n"
        '<th scope="row" class="text">conv1</th>\n'
        "<td>1.0</td>\n"
        "<td><strong>22.5</strong></td>\n"
        "</tr>\n"
        '<tr class="rule">\n'
        '<th scope="row" class="text">all|x</th>\n'
        "<td></td>\n"
        "<td>3</td>\n"
        "</tr>\n"
        "</tbody></table>"
    )


def test_html_is_text():
    made = Table("a < b", ["<i>", "rate"])
    made.add(["x & y", "unsupported"])
    made.add(["z", "1.0"])
    made.add(["z", "2.0"])
    text = made.html()
    assert "a &lt; b" in text
    assert "&lt;i&gt;" in text
    assert "x &amp; y" in text
    # One word among figures makes no column of words.
    assert "<td>unsupported</td>" in text


def test_a_row_of_another_length_is_refused(table):
    with pytest.raises(ValueError, match="row has 2 cells, the header 3"):
        table.add(["a", "b"])


def test_figures():
    assert (giga(123.456e9), giga(None)) == ("123.5", "-")
    assert (milli(0.0123456), milli(0.0000123456), milli(None)) == ("12.35", "0.0123", "-")
    assert (percent(1.0, 8.0), percent(None, 1.0), percent(1.0, None)) == ("12.5", "-", "-")
    assert (ratio(3.0, 2.0), ratio(None, 2.0), ratio(3.0, None)) == ("1.50", "-", "-")
