"""The detector in int8: boxes compared, and the tool from its arguments to its files."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

pytest.importorskip("scipy")
pytest.importorskip("onnxruntime")

from benchmarks.networks import engines, models, quantized, run
from benchmarks.networks.boxes import LEAST_OVERLAP, overlap, same_boxes
from benchmarks.networks.process import choose_cpus
from pplconv.network.session import InferenceSession
from tests.demo import made_networks

SQUARE = np.array([[0, 0], [2, 0], [2, 2], [0, 2]], float)


def turned(corners, angle):
    c, s = np.cos(angle), np.sin(angle)
    return (corners - 1) @ np.array([[c, -s], [s, c]]) + 1


@pytest.mark.parametrize("backwards", [False, True])
def test_overlap(backwards):
    other = SQUARE[::-1] if backwards else SQUARE
    assert overlap(SQUARE, other) == pytest.approx(1)
    assert overlap(SQUARE, other + np.array([1, 0])) == pytest.approx(1 / 3)
    assert overlap(SQUARE, other + np.array([1, 1])) == pytest.approx(1 / 7)
    assert overlap(SQUARE, other + np.array([2.5, 0])) == 0
    assert overlap(SQUARE, (other - 1) / 2 + 1) == pytest.approx(1 / 4)
    # Two squares at 45 degrees share a regular octagon.
    assert overlap(SQUARE, turned(other, np.pi / 4)) == pytest.approx(1 / 2**0.5)


def test_overlap_of_pixels(rng):
    """Of any two rectangles, against points that are in both and in one of them."""
    x = np.stack(np.meshgrid(*[np.linspace(-1, 4, 800)] * 2), -1).reshape(-1, 2)

    def within(corners):
        ends = np.roll(corners, -1, 0)
        away = [
            (x - begin) @ np.array([begin[1] - end[1], end[0] - begin[0]])
            for begin, end in zip(corners, ends, strict=True)
        ]
        return (np.array(away) >= 0).all(0)

    for _ in range(5):
        one, other = (
            turned(SQUARE * rng.uniform(0.3, 1.2, 2), rng.uniform(0, 3)) + rng.uniform(0, 0.8, 2)
            for _ in range(2)
        )
        a, b = within(one), within(other)
        assert overlap(one, other) == pytest.approx((a & b).sum() / (a | b).sum(), abs=0.01)


def bars(*places):
    """A map of dark bars: top, left, height and width of each."""
    found = np.full((1, 1, 96, 160), 0.05, np.float32)
    for top, left, height, width in places:
        found[:, :, top : top + height, left : left + width] = 0.9
    return found


def test_same_boxes():
    expected = bars((10, 10, 20, 100), (50, 30, 20, 80))
    assert same_boxes([expected], [expected]) == (0, "")
    error, wrong = same_boxes([bars((10, 10, 20, 100), (50, 30, 20, 81))], [expected])
    assert 0 < error < 1 - LEAST_OVERLAP and not wrong
    error, wrong = same_boxes([bars((10, 10, 20, 100), (54, 30, 20, 80))], [expected])
    assert error > 1 - LEAST_OVERLAP and "overlaps by" in wrong
    assert same_boxes([bars((10, 10, 20, 100))], [expected])[1] == "1 boxes, expected 2"
    assert same_boxes([expected], [bars()])[1] == "the reference finds no box"
    assert same_boxes([expected[:, :, 1:]], [expected])[0] is None


def page(side):
    """A page of two lines, dark on light."""
    drawn = np.ones((1, 3, 64, 128), np.float32)
    drawn[:, :, 8:24, 10:118] = drawn[:, :, 40:56, 30:100] = -1
    return drawn * np.float32(1 - side / 1e4)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A small detector in the place of the published one, and a small page."""
    path = tmp_path / quantized.DETECTOR.name
    onnx.save(made_networks.detector(), str(path))
    monkeypatch.setattr(models, "obtain", lambda *_: [path])
    monkeypatch.setattr(quantized, "page_of", page)
    return path


@pytest.mark.slow
def test_a_run_from_its_arguments_to_its_files(path, monkeypatch, ran):
    monkeypatch.setattr(quantized, "choose_cpus", lambda threads: choose_cpus(1))
    found = ran(quantized.main, "--rounds", "2", "--min-ms", "1", "--threads", "1,2")
    assert "ppocr_det_640, int8" in found.out and "each overlapping by 0.95" in found.out
    assert [case["threads"] for case in found.plain["cases"]] == [1, 2]
    for case in found.plain["cases"]:
        for name in ("pplconv", "pplconv float32", "onnxruntime"):
            entry = case["engines"][name]
            assert entry["status"] == "ok" and len(entry["rounds"]) == 2
        # The same network against onnxruntime's, and another one that is near it.
        assert case["engines"]["pplconv float32"]["error"] < 1e-4
        assert case["engines"]["pplconv"]["error"] <= 1 - LEAST_OVERLAP


def test_another_network_is_wrong(path, monkeypatch, capfd):
    monkeypatch.setattr(quantized, "same_boxes", lambda *_: (0.5, "other boxes"))
    monkeypatch.setattr(quantized, "ENGINES", (engines.Pplconv,))
    assert quantized.main(["--rounds", "1", "--min-ms", "1"]) == 1
    assert "pplconv wrong: other boxes" in capfd.readouterr().out


def test_the_network_of_integers_is_another_file(tmp_path, path):
    folder = tmp_path / "made"
    folder.mkdir()
    found = quantized.quantized(path, {"x": (1, 3, 64, 128)}, folder)
    kinds = {node.op_type for node in onnx.load(str(found)).graph.node}
    assert {"QuantizeLinear", "Conv"} <= kinds
    other = engines.Plain.convert(found, folder)
    assert other == engines.PlainReference.convert(found, folder) != found
    assert "QuantizeLinear" not in {node.op_type for node in onnx.load(str(other)).graph.node}
    for file in (found, other):
        assert models.fixed(file, {"x": (1, 3, 64, 128)}, tmp_path) == file


def test_the_published_detector_finds_the_same_boxes(tmp_path):
    """Where the demo has put it; no test downloads it."""
    pytest.importorskip("skimage")
    pytest.importorskip("platformdirs")
    path = run.cache_folder(None) / quantized.DETECTOR.name
    if not path.is_file():
        pytest.skip("the demo has not been run here")
    x = quantized.page_of(480)
    found = quantized.quantized(path, {"x": x.shape}, tmp_path)
    outputs = [
        InferenceSession(str(file), threads=1).run(None, {"x": x})
        for file in (found, engines.Plain.convert(found, tmp_path))
    ]
    error, wrong = same_boxes(*outputs)
    assert not wrong and error is not None
