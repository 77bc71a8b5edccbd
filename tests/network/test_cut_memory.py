"""``max_memory`` bounds arrays at a cut, and parts behind one."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from pplconv.network.session import InferenceSession

MOST = 1 << 20
HEAD = '<ir_version: 10, opset_import: ["" : 21]>\n'
# What makes an array of n numbers, or n images of 256, from the number n.
MAKERS = {
    "Tile": "r = Concat<axis=0>(m, ones)\n y = Tile(x, r)",
    "Expand": "r = Concat<axis=0>(m, three)\n y = Expand(x, r)",
    "ConstantOfShape": "r = Concat<axis=0>(m, three)\n y = ConstantOfShape(r)",
    "Range": "k = Squeeze(m)\n zero = Constant<value=int64 {0}>()\n"
    " one = Constant<value=int64 {1}>()\n y = Range(zero, k, one)",
    "Resize": 'r = Concat<axis=0>(m, three)\n y = Resize<mode="nearest">(x, , , r)',
}


def model(maker: str, *, behind: bool) -> bytes:
    """A model that computes n, makes an array of it, and perhaps convolves it."""
    kind = "int64" if maker == "Range" else "float"
    last = "z = Conv(y, w)" if behind else "z = Identity(y)"
    kind = "float" if behind else kind
    text = f"""g (float[1, 1, 16, 16] x, float[1] n) => ({kind} z)
        <int64[3] ones = {{1, 1, 1}}, int64[3] three = {{1, 16, 16}},
         float[1, 1, 1, 1] w = {{2}}> {{
        twice = Add(n, n)
        m = Cast<to=7>(twice)
        {MAKERS[maker]}
        {last}
        }}"""
    made = parser.parse_model(HEAD + text)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize(
    ("maker", "behind"),
    [
        (maker, behind)
        for maker in MAKERS
        for behind in (False, True)
        if (maker, behind) != ("Range", True)
    ],
)
def test_arrays_at_a_cut(maker, behind):
    """Refused before they are made: 2**40 images are more than any machine has room for."""
    content = model(maker, behind=behind)
    session = InferenceSession(content, threads=1, max_memory=MOST)
    free = InferenceSession(content, threads=1)
    x = np.arange(256, dtype=np.float32).reshape(1, 1, 16, 16)
    for n in (1, 5):
        feed = {"x": x, "n": np.float32([n])}
        (found,), (expected,) = session.run(None, feed), free.run(None, feed)
        assert len(found) == 2 * n
        np.testing.assert_array_equal(found, expected)
    # A Resize has a bound of its own.
    for n in (1 << 20, 1 << (21 if maker == "Resize" else 40)):
        with pytest.raises(ValueError, match=rf"^feed: .* more than max_memory={MOST}$"):
            session.run(None, {"x": x, "n": np.float32([n])})


@pytest.mark.parametrize("operator", ["NonZero", "Compress"])
def test_arrays_whose_sizes_data_decide(operator):
    many = {"NonZero": "y = NonZero(x)", "Compress": "y = Compress(x, c)"}[operator]
    kind = {"NonZero": "int64", "Compress": "float"}[operator]
    text = f"g (float[n] x, bool[n] c) => ({kind} y) {{ {many} }}"
    content = parser.parse_model(HEAD + text).SerializeToString()
    session = InferenceSession(content, threads=1, max_memory=4096)
    for n in (10, 5000):
        feed = {"x": np.ones(n, np.float32), "c": np.ones(n, bool)}
        if n == 10:
            assert session.run(None, feed)[0].size == n
            continue
        with pytest.raises(ValueError, match=r"more than max_memory=4096$"):
            session.run(None, feed)
        # What is few of many is few.
        few = {**feed, "c": np.arange(n) < 3, "x": (np.arange(n) < 3).astype(np.float32)}
        assert session.run(None, few)[0].size == 3


def test_packed_weights_of_parts_are_dropped_with_their_programs():
    session = InferenceSession(model("Tile", behind=True), threads=1)
    x = np.ones((1, 1, 16, 16), np.float32)
    session.run(None, {"x": x, "n": np.float32([1])})
    packed = session._network.shared.packed
    used = dict(packed)
    packed["of nobody"] = next(iter(used.values()), None)
    session.run(None, {"x": x, "n": np.float32([2])})
    assert "of nobody" not in packed and packed.keys() >= used.keys()
