"""Errors of networks in each precision, and the page that is read in two: small models."""

from __future__ import annotations

import json
import math

import numpy as np
import onnx
import pytest
from PIL import Image

pytest.importorskip("scipy")

from benchmarks.networks import accuracy, reading, zoo
from benchmarks.networks.engines import OnnxRuntime
from examples.demo.reading import Line
from examples.models.published import Published
from pplconv.network.low_precision import narrow_types
from tests.demo import made_networks
from tests.network.graphs import Graph
from tests.network.running import needs_onnxruntime, referred

CORNERS = np.array([[10, 10], [110, 10], [110, 30], [10, 30]], float)


def image() -> Graph:
    g = Graph(3, opset=17)
    x = g.Relu(g.conv(g.input(1, 3, 24, 24), 16, (3, 3, 3)))
    g.last = g.conv(x, 8, (16, 1, 1))
    return g


def test_by_default_models_of_the_zoo():
    assert set(accuracy.MODELS) <= zoo.everything().keys()


def test_the_reference_is_the_network_in_float64():
    g = image()
    (got,) = accuracy.in_float64(g.model(g.last), g.feed)
    double = Graph(3, opset=17, dtype=np.float64)
    for tensor in g.weights:
        double.weights.append(
            onnx.numpy_helper.from_array(g.array(tensor.name).astype(np.float64), tensor.name)
        )
    double.nodes, double.inputs = (
        g.nodes,
        {n: (np.dtype("f8"), s) for n, (_, s) in g.inputs.items()},
    )
    feed = {name: x.astype(np.float64) for name, x in g.feed.items()}
    (want,) = referred(double.model(g.last), feed)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_the_worst_output_counts():
    one, two = np.float64([3, 4]), np.float64([1, 0])
    places = np.int64([1])
    near = accuracy.worst([one, two, places], [np.float64([3, 4.5]), two + 0.01, places + 1])
    assert near == pytest.approx(20.0)
    assert accuracy.worst([places], [places]) == math.inf
    with pytest.raises(ValueError, match="an output of the reference is zero"):
        accuracy.worst([0 * one], [one])
    with pytest.raises(ValueError, match="an output is not finite"):
        accuracy.worst([two, one], [two, one * np.nan])


@pytest.fixture
def animals(monkeypatch, tmp_path):
    """A zoo of a small network, and of one whose output is zero."""
    found = {}
    for name, zero in (("small", False), ("zero", True)):
        g = image()
        y = g.Mul(g.last, g.constant(0.0)) if zero else g.last
        source = Published(f"{name}.onnx", "package==1", name, "0" * 64)
        (tmp_path / source.name).write_bytes(g.model(y).SerializeToString())
        found[name] = zoo.Animal(source, "MIT", dict.fromkeys(g.feed, (1, 3, 24, 24)), {})
    monkeypatch.setattr(accuracy, "everything", lambda: found)
    monkeypatch.setattr(
        zoo, "ensure", lambda sources, cache, steps: [tmp_path / each.name for each in sources]
    )
    return tmp_path


@pytest.mark.narrow
@needs_onnxruntime
def test_a_run(animals, capsys):
    path = animals / "out.json"
    assert accuracy.main(["--models", "small", "--json", str(path)]) == 0
    (found,) = json.loads(path.read_text(encoding="utf-8"))["models"]
    assert found["name"] == "small"
    assert found["float32"] > 100 and 15 < found["int8"] < 60
    assert (found["low"] < 80) == (narrow_types() != [])
    if not OnnxRuntime.missing():
        assert found["onnxruntime float32"] > 100
    printed = capsys.readouterr().out
    assert "Signal to noise of the worst output against float64, dB" in printed
    assert f"{found['int8']:.1f}" in printed


@needs_onnxruntime
def test_what_cannot_be_compared(animals, capsys):
    assert accuracy.main(["--models", "zero"]) == 1
    assert "zero, float32: an output of the reference is zero" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        accuracy.main(["--models", "none"])


def line(text: str, corners: np.ndarray = CORNERS) -> Line:
    return Line(corners, text, 0.9)


def judged(ours: Line | None, other: Line | None, monkeypatch, nearby: tuple[str, ...] = ()) -> str:
    monkeypatch.setattr(reading, "readings", lambda *_: set(nearby))
    return reading.judged(reading.Pair(ours, other), None, None, ()).same


def test_texts_and_boxes_are_judged(monkeypatch):
    assert judged(line("a"), line("a"), monkeypatch) == reading.SAME
    assert judged(line("a"), line("b"), monkeypatch) == reading.DIFFERENT
    assert judged(line("a"), line("b"), monkeypatch, ("a", "b")) == reading.TIE
    moved = CORNERS + np.array([10, 0])
    assert judged(line("a"), line("a", moved), monkeypatch) == reading.DIFFERENT
    assert judged(line("a"), None, monkeypatch) == reading.DIFFERENT
    assert judged(None, line("a"), monkeypatch) == reading.DIFFERENT
    assert reading.Pair(line("a"), None).overlap == 0


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    """The demo's stand-ins, on a page of two bars."""
    cache = made_networks.keep(tmp_path / "cache", monkeypatch)
    pixels = np.full((64, 128), 255, dtype=np.uint8)
    pixels[10:20, 10:110] = 0
    pixels[40:50, 30:90] = 0
    page = tmp_path / "page.png"
    Image.fromarray(pixels).save(page)
    return [f"--cache={cache}", f"--image={page}", "--sides=64,96"]


def test_a_page_is_read_alike(arguments, tmp_path, capsys):
    path = tmp_path / "out.json"
    assert reading.main([*arguments, "--json", str(path)]) == 0
    pages = json.loads(path.read_text(encoding="utf-8"))["pages"]
    assert [page["side"] for page in pages] == [64, 96]
    for page in pages:
        assert len(page["lines"]) == 2
        for one in page["lines"]:
            assert one["same"] == "yes" and one["overlap"] >= 0.95
            assert one["texts"][0] == one["texts"][1] and "I" in one["texts"][0]
    assert "Lines at 64 pixels" in capsys.readouterr().out


def test_a_page_that_is_read_differently_makes_the_status_1(arguments, monkeypatch):
    kinds = iter((reading.SAME, reading.TIE, reading.SAME, reading.DIFFERENT))
    monkeypatch.setattr(reading, "judged", lambda pair, *_: pair._replace(same=next(kinds)))
    assert reading.main(arguments) == 1


def test_boxes_are_moved_for_ties(arguments):
    """Stand-ins read a clear line alike wherever its corners are."""
    from examples.demo.decoding import alphabet_of
    from examples.demo.engines import open_pplconv
    from examples.demo.picture import load
    from examples.models import ppocr

    folder = arguments[0].removeprefix("--cache=")
    paths = [f"{folder}/{getattr(ppocr, n).name}" for n in ("DETECTOR", "CLASSIFIER", "RECOGNISER")]
    ours = open_pplconv(paths, 1, "fp32")
    picture = load(arguments[1].removeprefix("--image="))
    (text,) = reading.readings(
        line("", np.array([[10, 10], [110, 10], [110, 20], [10, 20]], float)),
        picture, ours, alphabet_of(paths[2]),
    )  # fmt: skip
    assert "I" in text


def test_bad_words(arguments, capsys):
    for wrong in ("--precision=half", "--sides=0"):
        with pytest.raises(SystemExit):
            reading.main([*arguments, wrong])
    assert "unknown precision half" in capsys.readouterr().err
    assert reading.main([arguments[0], "--image=nowhere.png"]) == 1
