"""The server's page, used as people do: numbers and a picture in, results of onnxruntime out."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest
from PIL import Image

from tests.network.running import by_onnxruntime
from tests.serving.served import small_model
from tests.serving.server_process import server


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "small.onnx"
    path.write_bytes(small_model())
    with server(path, "--instances", "1", "--threads", "1") as (_, port, _):
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def opened(window, address):
    """A window that shows the page, once its form is made."""
    window.page.goto(address)
    window.page.get_by_role("button", name="Run").wait_for()
    window.check()
    return window


def run(page, text: str) -> list[str]:
    """Press the button; return the lines of the answer once one of them has this text."""
    page.get_by_role("button", name="Run").click()
    page.locator("#answer", has_text=text).wait_for()
    return page.locator("#answer p").all_text_contents()


def check_answer(page, lines: list[str], x: np.ndarray) -> None:
    """The largest numbers of both outputs, and the first plane of the first, are onnxruntime's."""
    y, z = by_onnxruntime(onnx.load_from_string(small_model()), {"x": x})
    assert re.fullmatch(r"Answered in [\d.]+ ms", lines[0])
    for line, name, expected in zip(lines[1:], "yz", (y, z), strict=True):
        head, _, told = line.partition(", largest (index: value) ")
        assert head == f"{name} FP32 {'x'.join(map(str, expected.shape))}"
        pairs = dict(re.findall(r"(\d+): (\S+?)(?:,|$)", told))
        largest = np.sort(expected.reshape(-1))[::-1][:5]
        shown = np.array([float(value) for value in pairs.values()])
        # Four digits are shown.
        np.testing.assert_allclose(shown, largest, rtol=6e-4)
        np.testing.assert_allclose(expected.reshape(-1)[[*map(int, pairs)]], shown, rtol=6e-4)
    # The one output that is an image is drawn, from its smallest number (black) to its largest.
    (drawn,) = page.evaluate(
        "[...document.querySelectorAll('canvas')].map(canvas => [...canvas.getContext('2d')"
        ".getImageData(0, 0, canvas.width, canvas.height).data])"
    )
    plane = y[0, 0].astype(np.float64)
    grey = 255 * (plane - plane.min()) / (plane.max() - plane.min())
    pixels = np.reshape(drawn, (*plane.shape, 4))
    assert np.abs(pixels[..., :3] - grey[..., None]).max() <= 1.01
    assert (pixels[..., 3] == 255).all()


def test_numbers(opened, rng):
    x = rng.standard_normal((1, 3, 12, 10)).astype(np.float32)
    opened.page.get_by_label("Shape").fill("1, 3, 12, 10")
    opened.page.get_by_label("Numbers as JSON").fill(json.dumps(x.tolist()))
    check_answer(opened.page, run(opened.page, "z FP32"), x)
    opened.check()


@pytest.mark.parametrize("values", ["0 to 255", "ImageNet's"])
def test_a_picture(opened, rng, tmp_path, values):
    pixels = rng.integers(0, 256, (12, 10, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    opened.page.get_by_label("Shape").fill("1x3x12x10")
    opened.page.get_by_label("Or an image").set_input_files(tmp_path / "picture.png")
    opened.page.get_by_label("Its values").select_option(values)
    lines = run(opened.page, "z FP32")
    x = pixels.astype(np.float64)
    if values != "0 to 255":
        # torchvision's constants.
        x = (x / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    check_answer(opened.page, lines, x.transpose(2, 0, 1)[None].astype(np.float32))
    opened.check()


def test_random_numbers_of_the_suggested_shape(opened):
    shape = opened.page.get_by_label("Shape").input_value()
    n, c, height, width = map(int, re.findall(r"\d+", shape))
    assert c == 3
    lines = run(opened.page, "z FP32")
    assert lines[1].startswith(f"y FP32 {n}x8x{height}x{width}, ")
    opened.check()


def test_errors_are_shown_and_the_form_goes_on(opened):
    page = opened.page
    page.get_by_label("Shape").fill("1, 2, 12, 10")
    (line,) = run(page, "inputs[0].shape")
    assert "[-1, 3, -1, -1], got [1, 2, 12, 10]" in line
    # The browser itself reports the status of the answer.
    (said,) = opened.complaints
    assert "422" in said
    opened.complaints.clear()
    page.get_by_label("Shape").fill("1, 3, 12, 10")
    assert len(run(page, "z FP32")) == 3
    opened.check()


def test_links(opened):
    page = opened.page
    links = page.locator("a").evaluate_all("all => all.map(one => one.href)")
    assert len(links) == 4
    for link in links:
        assert page.goto(link).ok
