"""Pictures are loaded and scaled; boxes and text are drawn at their places."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageFont

from examples.demo import drawing
from examples.demo.drawing import draw, drawable, find_font
from examples.demo.errors import DemoError
from examples.demo.picture import LONGEST, MULTIPLE, input_size, load, network_input
from examples.demo.reading import Line, Page
from examples.demo.report import page_table, text_table
from examples.models import whole_files

BOX = np.array([[100, 50], [300, 50], [300, 90], [100, 90]], dtype=float)


@pytest.fixture
def font():
    """The font that Pillow ships, which is the same on every system."""
    return ImageFont.load_default(32)


def drawn(path, lines, font, size=(600, 400)):
    lacking = draw(Image.new("RGB", size, "white"), lines, path, font)
    with Image.open(path) as result:
        assert result.format == "PNG"
        return np.asarray(result.convert("RGB")).astype(int), lacking


def extent(marked):
    rows, columns = np.nonzero(marked)
    return rows.min(), rows.max(), columns.min(), columns.max()


def test_boxes_are_drawn_where_they_are(tmp_path, font):
    pixels, _ = drawn(tmp_path / "out.png", [Line(BOX, "", 0.2)], font)
    assert pixels.shape == (800, 2 * 1200, 3)  # enlarged twice, and a sheet beside it
    page, sheet = pixels[:, :1200], pixels[:, 1200:]
    for part in (page, sheet):
        np.testing.assert_allclose(
            extent(np.any(part != 255, axis=2)), (100, 180, 200, 600), atol=2
        )
    # An outline; the picture's text inside stays legible.
    assert page[100, 400].min() < 100
    assert page[140, 400].min() > 180
    assert sheet[140, 400].min() == 255  # nothing was read


@pytest.mark.parametrize(
    "text", ["I", "A line of text", "much text in a box that is too small " * 9]
)
def test_text_is_written_into_its_box(tmp_path, font, text):
    pixels, lacking = drawn(tmp_path / "out.png", [Line(BOX, text, 0.9)], font)
    ink = np.all(pixels[:, 1200:] < 90, axis=2)
    top, bottom, left, right = extent(ink)
    assert 100 <= top < bottom <= 180
    assert 200 <= left < right <= 600
    assert lacking == 0
    if text == "I":
        assert bottom - top > 20  # letters fill the height of the box


@pytest.mark.parametrize("turned", [False, True])
def test_sideways_text_is_written_sideways(tmp_path, font, turned):
    tall = np.array([[100, 50], [140, 50], [140, 350], [100, 350]], dtype=float)
    pixels, _ = drawn(tmp_path / "out.png", [Line(tall, "Long text, A", 0.9, turned)], font)
    ink = np.all(pixels[:, 1200:] < 90, axis=2)
    top, bottom, left, right = extent(ink)
    assert bottom - top > 2 * (right - left)
    # Turned text begins at the bottom, other text at the top.
    assert bottom > 680 if turned else top < 120


def test_tilted_text_follows_its_box(tmp_path, font):
    tilted = np.array([[100, 50], [290, 160], [270, 194], [80, 84]], dtype=float)
    pixels, _ = drawn(tmp_path / "out.png", [Line(tilted, "nnnnnnnnnnnnnnnnnnnnn", 0.9)], font)
    rows, columns = np.nonzero(np.all(pixels[:, 1200:] < 90, axis=2))
    slope = np.polyfit(columns, rows, 1)[0]
    assert slope == pytest.approx(110 / 190, abs=0.08)


@pytest.mark.parametrize("corners", [BOX + 300, BOX * 0, BOX - 80])
def test_boxes_at_the_edge(tmp_path, font, corners):
    pixels, _ = drawn(tmp_path / "out.png", [Line(corners, "text", 0.9)], font)
    assert pixels.shape == (800, 2400, 3)


def test_letters_that_a_font_lacks_are_dots(tmp_path, font):
    assert drawable("abc 12", font) == "abc 12"
    assert drawable("a字b\uf8ff", font) == "a·b·"
    _, lacking = drawn(tmp_path / "out.png", [Line(BOX, "字 and 字", 0.9)], font)
    assert lacking == 2


def test_a_font_of_the_system_is_found_or_pillows(monkeypatch):
    assert find_font(None).getlength("text") > 0
    monkeypatch.setattr(drawing, "_FONTS", ("no such font.ttf",))
    assert find_font(None).getlength("text") > 0


def test_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch, font):
    path = tmp_path / "out.png"
    path.write_bytes(b"before")

    def full(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(whole_files.Path, "replace", full)
    with pytest.raises(DemoError, match=r"cannot write .*no space left"):
        draw(Image.new("RGB", (8, 8)), [], path, font)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_texts_stand_side_by_side():
    ours = [Line(BOX, "字a", 0.991), Line(BOX, "", 0.25)]
    theirs = [Line(BOX, "字a", 0.99), Line(BOX, "b", 0.7), Line(BOX, "c", 0.6)]
    head, rule, *rows = text_table(["one", "two"], [ours, theirs]).splitlines()
    assert head.split() == ["line", "score", "one", "two"]
    assert [row.split() for row in rows] == [
        ["1", "0.991", "字a", "字a"],
        ["2", "0.250", "(illegible)", "b"],
        ["3", "0.600", "c"],
    ]
    # Chinese letters take two places of a terminal.
    assert rows[1].rindex("b") == head.index("two") == rows[0].index("字a", 15) + 1
    assert set(rule) == {"-"}


def test_times_of_two_engines_are_compared():
    pages = [Page(), Page()]
    pages[0].seconds["detector"], pages[0].seconds["text"] = 0.010, 0.002
    pages[1].seconds["detector"] = 0.025
    rows = [line.split() for line in page_table(["a", "b"], pages, [("x", "y")]).splitlines()]
    assert ["detector", "10.000", "25.000", "2.50x"] in rows
    assert ["text", "2.000", "0.000", "0.00x"] in rows
    assert ["boxes", "0.000", "0.000", "-"] in rows
    assert ["whole", "page", "12.000", "25.000", "2.08x"] in rows
    assert rows[-1] == ["x", "y"]
    alone = page_table(["a"], pages[:1], [("x", "y")])
    assert "x" not in alone.splitlines()[2] and "ratio" not in alone


@pytest.mark.parametrize(
    ("size", "side", "expected"),
    [
        ((384, 191), 480, (960, 480)),
        ((100, 300), 96, (96, 288)),
        ((4000, 3000), 384, (512, 384)),
        ((10, 10), 32, (32, 32)),
    ],
)
def test_short_side_is_scaled(size, side, expected):
    assert input_size(*size, side) == expected


def test_panoramas_are_bounded():
    width, height = input_size(10_000, 100, 320)
    assert width == LONGEST * 320
    assert height == MULTIPLE


def test_network_sees_blue_green_red_between_minus_one_and_one():
    image = Image.new("RGB", (64, 64), (255, 128, 0))
    x = network_input(image, 64)
    assert x.shape == (1, 3, 64, 64)
    assert x.dtype == np.float32
    assert x.flags["C_CONTIGUOUS"]
    np.testing.assert_allclose(x[0, :, 0, 0], [-1, 128 / 127.5 - 1, 1], atol=1e-6)


def test_default_page_is_the_one_of_scikit_image():
    image = load(None)
    assert image.mode == "RGB"
    assert image.size == (384, 191)


def test_transparent_pictures_are_laid_on_white(tmp_path):
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert load(tmp_path / "clear.png").getpixel((0, 0)) == (255, 255, 255)


def test_deep_pictures_keep_their_greys(tmp_path):
    values = np.array([[0, 32768, 65535]], dtype=np.uint16)
    Image.fromarray(values).save(tmp_path / "deep.png")
    image = load(tmp_path / "deep.png")
    assert [image.getpixel((x, 0))[0] for x in range(3)] == [0, 127, 255]


@pytest.mark.parametrize("content", [None, b"no picture"], ids=["missing", "broken"])
def test_unreadable_pictures_are_named(tmp_path, content):
    path = tmp_path / "picture.png"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DemoError, match=r"cannot read the picture .*picture\.png"):
        load(path)
