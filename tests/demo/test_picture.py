"""Loading and scaling of the input picture."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from examples.demo.errors import DemoError
from examples.demo.picture import LONGEST, MULTIPLE, input_size, load, network_input


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
