"""Whole pages read by stub networks, and the times of their stages."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from examples.demo import reading
from examples.demo.comparison import LARGEST_SHIFT, differences, largest_shift
from examples.demo.reading import STAGES, Line, Networks, Page, read_best, read_page

ALPHABET = ("", "u", "d", " ")
BOX = np.array([[0, 0], [10, 0], [10, 4], [0, 4]], dtype=float)


@pytest.fixture
def image():
    """A page with one bar of ink, whose left end is grey."""
    pixels = np.full((64, 160), 255, np.uint8)
    pixels[28:36, 20:140] = 0
    pixels[28:36, 20:50] = 90
    return Image.fromarray(pixels).convert("RGB")


def networks(*, on_its_head=0.0, legible=("u", "d")):
    """Return stub networks, which read u upright and d upside down if legible, and their calls."""
    seen = []

    def detect(x):
        seen.append(("detect", x.shape))
        return (x[:, :1] < 0).astype(np.float32)

    def classify(x):
        seen.append(("classify", x.shape))
        return np.array([[1 - on_its_head, on_its_head]], np.float32)

    def recognise(x):
        seen.append(("recognise", x.shape))
        ink = x[0, 0, 20:28]
        columns = np.flatnonzero((ink < 0).all(axis=0))
        half = (columns[0] + columns[-1]) // 2
        letter = (
            "u" if ink[:, columns[0] : half].mean() > ink[:, half : columns[-1]].mean() else "d"
        )
        score = 0.9 if letter in legible else 0.3
        probabilities = np.full((1, 1, 4), (1 - score) / 4, np.float32)
        probabilities[0, 0, ALPHABET.index(letter)] = score
        return probabilities

    return Networks("made 1.0", detect, classify, recognise), seen


def test_a_line_is_found_and_read(image):
    made, seen = networks()
    page = read_page(image, 64, made, ALPHABET)
    (line,) = page.lines
    assert (line.text, line.turned) == ("u", False)
    assert line.score == pytest.approx(0.9)
    assert [name for name, _ in seen] == ["detect", "classify", "recognise"]
    assert seen[0][1] == (1, 3, 64, 160)
    assert seen[1][1] == (1, 3, 48, 192)
    assert seen[2][1][:3] == (1, 3, 48)
    # The bar is in the box, and the box is in the picture.
    low, high = line.corners.min(axis=0), line.corners.max(axis=0)
    assert low[0] <= 20 and high[0] >= 140 and low[1] <= 28 and high[1] >= 36


def test_a_line_on_its_head_is_turned(image):
    made, _ = networks(on_its_head=0.99)
    (line,) = read_page(image, 64, made, ALPHABET).lines
    assert (line.text, line.turned) == ("d", True)


def test_what_is_illegible_turned_is_read_as_it_stands(image):
    made, seen = networks(on_its_head=0.99, legible=("u",))
    (line,) = read_page(image, 64, made, ALPHABET).lines
    assert (line.text, line.turned) == ("u", False)
    assert [name for name, _ in seen].count("recognise") == 2


def test_what_is_illegible_either_way_has_no_text(image):
    made, _ = networks(on_its_head=0.99, legible=())
    (line,) = read_page(image, 64, made, ALPHABET).lines
    assert line.text == "" and line.turned
    assert line.score == pytest.approx(0.3)


def test_an_empty_page():
    made, seen = networks()
    page = read_page(Image.new("RGB", (96, 64), "white"), 64, made, ALPHABET)
    assert page.lines == []
    assert seen == [("detect", (1, 3, 64, 96))]


def test_stages_take_the_time_of_their_blocks(monkeypatch):
    clock = SimpleNamespace(perf_counter=iter([10.0, 12.0, 20.0, 20.5]).__next__)
    monkeypatch.setattr(reading, "time", clock)
    page = Page()
    with page.timed("lines"):
        pass
    with pytest.raises(ValueError), page.timed("text"):
        raise ValueError
    assert page.seconds["lines"] == 2.0
    assert page.seconds["text"] == 0.5 and page.seconds["boxes"] == 0
    assert page.total == sum(page.seconds.values())
    assert set(page.seconds) == set(STAGES)


def test_the_best_of_each_stage_counts_after_a_warm_up():
    runs = iter([(0.1, 0.1), (5.0, 2.0), (4.0, 3.0), (6.0, 1.0)])
    count = []

    def read():
        count.append(1)
        page = Page([Line(BOX, "a", 1.0)])
        page.seconds["detector"], page.seconds["text"] = next(runs)
        return page

    page = read_best(read, 3)
    assert len(count) == 4
    assert (page.seconds["detector"], page.seconds["text"]) == (4.0, 1.0)
    assert [line.text for line in page.lines] == ["a"]


def lines(*texts, shift=0.0):
    return [Line(BOX + shift, text, 0.9) for text in texts]


def test_equal_pages_do_not_differ():
    assert differences(lines("a", "b"), lines("a", "b", shift=LARGEST_SHIFT / 2)) == []
    assert largest_shift(lines("a"), lines("a", shift=0.25)) == 0.25
    assert differences([], []) == [] and largest_shift([], []) == 0.0


def test_what_differs_is_said():
    assert differences(lines("a"), lines("a", "b")) == ["1 boxes and 2 boxes"]
    assert differences(lines("a", "b"), lines("a", "c")) == ["line 2: 'b' and 'c'"]
    assert differences(lines("a"), lines("a", shift=1.5)) == ["boxes are 1.5 pixels apart"]
    assert differences(lines("a"), lines("a", shift=np.nan)) == ["boxes are nan pixels apart"]
