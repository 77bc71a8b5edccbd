"""The validators of integers and of words, and how values are shown in messages."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv._checks import integer, meant, one_of, shown
from tests import children


class Index:
    """An object that converts itself to an integer."""

    def __index__(self):
        return 7


@pytest.mark.parametrize("value", [7, np.int8(7), np.uint64(7), np.array(7), Index()])
def test_integers(value):
    number = integer("n", value, 1, 7)
    assert number == 7 and type(number) is int


@pytest.mark.parametrize("value", [True, np.True_, 7.0, "7", None, np.float32(7), [7], b"7"])
def test_what_is_no_integer(value):
    with pytest.raises(TypeError) as caught:
        integer("n", value)
    assert str(caught.value) == f"n must be an integer, got {value!r}"
    with pytest.raises(TypeError, match=r"^n is odd$"):
        integer("n", value, complaint="n is odd")


def test_ranges():
    assert integer("n", -(10**30)) == -(10**30)
    with pytest.raises(ValueError, match=r"^n is 0: expected at least 1$"):
        integer("n", 0, 1)
    for value in (0, 9):
        with pytest.raises(ValueError, match=rf"^n is {value}: expected 1 to 8$"):
            integer("n", value, 1, 8, complaint="only for what is no integer")


@pytest.mark.parametrize(
    "value", [None, (1, 2.5), "text", np.array([2.0, 2.5]), np.float32(1), 10**40]
)
def test_small_values_are_shown_as_they_are(value):
    assert shown(value) == repr(value)


def test_large_values_are_not_shown_whole():
    assert shown(np.zeros((3, 40, 50))) == "an array of shape (3, 40, 50)"
    for value in (list(range(10_000)), "x" * 10_000):
        assert len(shown(value)) < 250 and shown(value).endswith("...")


BORDERS = ("reflect101", "reflect", "wrap")


def test_a_word_that_is_known_is_returned():
    assert one_of("border", "wrap", BORDERS) == "wrap"
    assert one_of("border", "wrap", iter(BORDERS)) == "wrap"


@pytest.mark.parametrize(
    ("value", "end"),
    [
        ("refelct", "'refelct': did you mean 'reflect'?"),
        ("REFLECT", "'REFLECT': did you mean 'reflect'?"),
        (" wrap", "' wrap': did you mean 'wrap'?"),
        ("zeros", "'zeros'"),
        ("", "''"),
        (None, "None"),
        (["wrap"], "['wrap']"),
        (np.zeros((9, 9)), "an array of shape (9, 9)"),
    ],
)
def test_other_words_are_refused(value, end):
    with pytest.raises(ValueError, match=r"^border must be one of reflect101") as caught:
        one_of("border", value, BORDERS)
    assert str(caught.value) == f"border must be one of reflect101, reflect, wrap, got {end}"
    with pytest.raises(ValueError, match=r"^border must be None or one of reflect101, "):
        one_of("border", value, BORDERS, or_none=True)


def test_long_texts_are_not_compared():
    assert meant("reflect" * 100_000, BORDERS) == ""
    assert meant("nchw", ("NHWC", "NCHW")) == ": did you mean 'NCHW'?"


def test_an_import_does_not_compare_words(tmp_path):
    code = "import sys, pplconv; pplconv.imaging; print('difflib' in sys.modules)"
    # Not in the root of the repository, whose sources need not be built.
    assert children.python("-c", code, cwd=tmp_path, check=True).stdout == "False\n"
