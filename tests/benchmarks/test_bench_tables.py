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


def test_a_row_of_another_length_is_refused(table):
    with pytest.raises(ValueError, match="row has 2 cells, the header 3"):
        table.add(["a", "b"])


def test_figures():
    assert (giga(123.456e9), giga(None)) == ("123.5", "-")
    assert (milli(0.0123456), milli(0.0000123456), milli(None)) == ("12.35", "0.0123", "-")
    assert (percent(1.0, 8.0), percent(None, 1.0), percent(1.0, None)) == ("12.5", "-", "-")
    assert (ratio(3.0, 2.0), ratio(None, 2.0), ratio(3.0, None)) == ("1.50", "-", "-")
