"""Sizes that depend on data and differ from run to run: no program is made for each of them."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

from pplconv.network import network
from pplconv.network.session import InferenceSession
from tests.network.running import agree, by_onnxruntime, needs_onnxruntime

# A detector's second stage: chosen boxes, their regions, products, and the best boxes of those.
_DETECTOR = """<ir_version: 10, opset_import: ["" : 18]>
g (float[1, 4, 6, 6] x, float[n, 4] boxes, float[n] scores) => (float[m, 3] y, int64[k, 3] kept)
<float[36, 8] first, float[8] bias, float[3, 8] second, float least = {0.5}, int64[1] one = {1},
 int64[2] rows = {-1, 36}, int64[1] zero = {0}, int64[1] most = {5}, float[1] overlap = {0.4}> {
    good = Greater (scores, least)
    place = NonZero (good)
    found = Squeeze (place, zero)
    chosen = Gather (boxes, found)
    count = Shape (chosen)
    n = Gather (count, zero)
    image = ConstantOfShape <value = int64[1] {0}> (n)
    region = RoiAlign <output_height = 3, output_width = 3> (x, chosen, image)
    flat = Reshape (region, rows)
    product = MatMul (flat, first)
    biased = Add (product, bias)
    hidden = Relu (biased)
    class = Gemm <transB = 1, alpha = 0.5> (hidden, second)
    y = Softmax <axis = -1> (class)
    size = ReduceProd <keepdims = 0> (count)
    none = Equal (size, nothing)
    kept = If (none) <
        then_branch = empty () => (int64[k, 3] e) {
            e = ConstantOfShape <value = int64[1] {0}> (shape)
        },
        else_branch = best () => (int64[k, 3] b) {
            all = Unsqueeze (chosen, zero)
            own = Gather (scores, found)
            each = Unsqueeze (own, both)
            b = NonMaxSuppression (all, each, most, overlap)
        }
    >
}"""


def model_of(rng):
    """The detector with random weights."""
    text = _DETECTOR.replace("int64[1] one = {1}", "int64 nothing = {0}, int64[2] both = {0, 1},"
                             " int64[2] shape = {0, 3}")  # fmt: skip
    for name, sizes in (("first", (36, 8)), ("bias", (8,)), ("second", (3, 8))):
        values = ", ".join(f"{v:.6f}" for v in rng.standard_normal(sizes).ravel())
        shown = ", ".join(map(str, sizes))
        text = text.replace(f"float[{shown}] {name}", f"float[{shown}] {name} = {{{values}}}", 1)
    return onnx.parser.parse_model(text)


def feed_of(rng, count, given=9):
    """Boxes of which `count` are chosen."""
    corner = rng.uniform(0, 4, (given, 2))
    scores = np.zeros(given, np.float32)
    scores[rng.permutation(given)[:count]] = rng.uniform(0.6, 1, count)
    return {
        "x": rng.standard_normal((1, 4, 6, 6)).astype(np.float32),
        "boxes": np.concatenate([corner, corner + rng.uniform(0.5, 3, (given, 2))], 1).astype("f"),
        "scores": scores,
    }


@pytest.fixture
def made(monkeypatch):
    """Number of programs made, in a list of one."""
    count = [0]
    make = network.Network._made

    def counted(self, *arguments):
        count[0] += 1
        return make(self, *arguments)

    monkeypatch.setattr(network.Network, "_made", counted)
    return count


@needs_onnxruntime
@pytest.mark.parametrize("threads", [1, 2])
def test_a_detector_of_varied_boxes(threads, made, rng):
    """Every number of boxes, none too; both branches are made once."""
    model = model_of(rng)
    session = InferenceSession(model, threads=threads)
    counts = [5, 0, *range(1, 10), 3]
    for number, count in enumerate(counts):
        feed = feed_of(rng, count)
        got, expected = session.run(None, feed), by_onnxruntime(model, feed)
        agree(got, expected, least=1.0)
        if number == 1:
            before = made[0]
    assert made[0] == before


@needs_onnxruntime
def test_many_rows_of_a_product(made, rng):
    """Numbers of rows are rounded up: rows that nobody asked for change no result."""
    model = model_of(rng)
    session = InferenceSession(model, threads=1)
    for count in (130, 1, 7, 8, 9, 64, 65, 129, 200):
        feed = feed_of(rng, count, 200)
        agree(session.run(None, feed), by_onnxruntime(model, feed), least=1.0)


def test_varied_sizes_of_pickled_sessions(rng):
    import pickle

    model = model_of(rng)
    session = InferenceSession(model, threads=1)
    feed = feed_of(rng, 4)
    expected = session.run(None, feed)
    got = pickle.loads(pickle.dumps(session)).run(None, feed)
    for x, y in zip(got, expected, strict=True):
        assert x.tobytes() == y.tobytes()


def test_wrong_regions_behind_a_cut_name_the_node(rng):
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[1, 2, 5, 5] x, float[n, 4] boxes, int64[n] image) => (float[m, 2, 1, 1] y) {
        place = NonZero (image)
        zero = Constant <value = int64[1] {0}> ()
        found = Squeeze (place, zero)
        b = Gather (boxes, found)
        i = Gather (image, found)
        y = RoiAlign (x, b, i)
    }"""
    session = InferenceSession(onnx.parser.parse_model(text), threads=1)
    feed = {
        "x": rng.random((1, 2, 5, 5), np.float32), "boxes": np.zeros((2, 4), np.float32),
        "image": np.array([0, 7]),
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"RoiAlign of 'y'.*index 7 is out of range"):
        session.run(None, feed)
