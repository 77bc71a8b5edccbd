"""The picture on its way in and out."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from pplconv.demo import files
from pplconv.demo.errors import DemoError
from pplconv.demo.picture import LONGEST, MULTIPLE, draw, input_size, load, network_input
from pplconv.demo.regions import Region


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


def test_regions_are_drawn_where_they_are(tmp_path):
    page = Image.new("RGB", (600, 400), "white")
    corners = np.array([[100, 50], [300, 50], [300, 90], [100, 90]], dtype=float)
    draw(page, [Region(corners, 1.0)], tmp_path / "out.png")
    with Image.open(tmp_path / "out.png") as result:
        assert result.format == "PNG"
        pixels = np.asarray(result.convert("RGB")).astype(int)
    assert pixels.shape == (800, 1200, 3)  # enlarged twice
    marked = np.any(pixels != 255, axis=2)
    rows, columns = np.nonzero(marked)
    assert abs(rows.min() - 100) <= 2
    assert abs(rows.max() - 180) <= 2
    assert abs(columns.min() - 200) <= 2
    assert abs(columns.max() - 600) <= 2
    # A line around it, and the text inside still to be read.
    assert pixels[100, 400].min() < 100
    assert pixels[140, 400].min() > 180


def test_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "out.png"
    path.write_bytes(b"before")

    def full(self, target):
        raise OSError("no space left")

    monkeypatch.setattr(files.Path, "replace", full)
    with pytest.raises(DemoError, match=r"cannot write .*no space left"):
        draw(Image.new("RGB", (8, 8)), [], path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
