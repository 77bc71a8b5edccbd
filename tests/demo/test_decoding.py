"""Texts decoded from made-up probabilities."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.demo.decoding import alphabet_of, decode, stands_on_its_head
from examples.demo.errors import DemoError
from tests.demo import made_networks

ALPHABET = ("", "a", "b", "c", " ")


def path_of(text, score=1.0):
    """Return probabilities whose most likely classes spell `text`; ``-`` is the blank."""
    classes = [0 if c == "-" else ALPHABET.index(c) for c in text]
    probabilities = np.full((len(text), len(ALPHABET)), (1 - score) / 4, np.float32)
    probabilities[np.arange(len(text)), classes] = score
    return probabilities


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("abc", "abc"),
        ("aaabbb", "ab"),
        ("aa-a", "aa"),
        ("--a--", "a"),
        ("a b", "a b"),
        ("a--  --b", "a b"),
        ("----", ""),
        ("-", ""),
        ("", ""),
        ("cc-cc-c", "ccc"),
    ],
)
def test_repetitions_and_blanks_are_left_out(path, text):
    assert decode(path_of(path), ALPHABET)[0] == text


def test_score_is_the_mean_of_the_characters_alone():
    probabilities = np.concatenate([path_of("-", 0.9), path_of("a", 0.8), path_of("b", 0.6)])
    text, score = decode(probabilities, ALPHABET)
    assert text == "ab" and score == pytest.approx(0.7)
    assert decode(path_of("---"), ALPHABET) == ("", 0.0)


@given(st.text("abc ", max_size=20), st.data())
def test_every_path_of_a_text_is_read_as_it(text, data):
    """With any repetitions and blanks, and at least one blank between equal neighbours."""
    path, before = "", ""
    for character in text:
        least = 1 if character == before else 0
        path += "-" * data.draw(st.integers(least, 3)) + character * data.draw(st.integers(1, 3))
        before = character
    assert decode(path_of(path + "-"), ALPHABET)[0] == text


def test_another_number_of_classes_is_refused():
    with pytest.raises(DemoError, match="knows 5 classes, its alphabet 4"):
        decode(path_of("ab"), ALPHABET[:4])


def test_alphabet_of_a_model(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(made_networks.recogniser(), str(path))
    assert alphabet_of(path) == ("", "I", " ")


@pytest.mark.parametrize("end", ["", "\n"])
def test_characters_that_end_lines_elsewhere_are_characters(tmp_path, end):
    model = made_networks.recogniser()
    model.metadata_props[0].value = "'\n\u3000\n\u2028\n\x85\n字" + end
    onnx.save(model, str(tmp_path / "model.onnx"))
    assert alphabet_of(tmp_path / "model.onnx") == (
        "", "'", "\u3000", "\u2028", "\x85", "字", " ",
    )  # fmt: skip


def test_a_model_without_characters_is_named(tmp_path):
    onnx.save(made_networks.classifier(), str(tmp_path / "model.onnx"))
    with pytest.raises(DemoError, match=r"model\.onnx does not say which characters"):
        alphabet_of(tmp_path / "model.onnx")


@pytest.mark.parametrize(("on_its_head", "turned"), [(0.2, False), (0.85, False), (0.95, True)])
def test_lines_are_turned_when_it_is_sure(on_its_head, turned):
    assert stands_on_its_head(np.array([1 - on_its_head, on_its_head])) is turned
