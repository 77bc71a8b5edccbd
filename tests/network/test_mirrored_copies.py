"""Pads by an array's own elements and backward Slices: copies whose sources are walked down."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import by_onnxruntime, needs_onnxruntime, on_host, one, same, step_kinds

MODES = ["edge", "reflect", "wrap"]
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])
every_kind = pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.int64, np.bool_]
)


def graph(kind: type, sizes: tuple[int, ...]) -> tuple[Graph, str, np.ndarray]:
    """A network with one input, and what the input is."""
    g = Graph(len(sizes), dtype=kind)
    x = g.input(*sizes)
    numbers = g.rng.integers(0, 100, sizes)
    g.feed[x] = (numbers % 2 if kind is np.bool_ else numbers).astype(kind)
    return g, x, g.feed[x]


def copies(g: Graph, y: str, expected: np.ndarray) -> int:
    """Compare every bit of a network's result; how many copies it takes, all of them in loops."""
    session = InferenceSession(g.model(y), threads=1)
    same(session.run(None, g.feed), [np.ascontiguousarray(expected)])
    assert not on_host(session)
    # float16 may be computed as float32.
    return len([kind for kind in step_kinds(session, g.feed) if kind != "Reformat"])


def padded(x: np.ndarray, sides: np.ndarray, mode: str) -> np.ndarray:
    """NumPy's, of the part that negative amounts leave."""
    kept = zip(x.shape, *sides, strict=True)
    part = tuple(slice(max(-begin, 0), n - max(-end, 0)) for n, begin, end in kept)
    return np.pad(x[part], np.maximum(sides.T, 0), mode=mode)


@every_kind
@pytest.mark.parametrize("mode", MODES)
def test_pads_of_any_rank(mode, kind, rng):
    """Repeated reflections too, negative amounts, and axes of one element."""
    for rank in range(1, 6):
        for _ in range(3):
            sizes = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 9], rank))
            sides = rng.integers(-2, 8, (2, rank)) * rng.integers(0, 2, rank)
            # One element stays, at least.
            sides = np.maximum(sides, (1 - np.array(sizes)) // 2)
            g, x, array = graph(kind, sizes)
            y = g.Pad(x, g.constant(sides.reshape(-1), np.int64), mode=mode)
            # Three copies on either side for the shortest axis that is reflected.
            assert copies(g, y, padded(array, sides, mode)) <= 1 + 8 * rank


@needs_onnxruntime
@both_types
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(90,), (1, 7), (2, 3, 40), (1, 3, 30, 41), (1, 2, 9, 8, 7)])
def test_pads_as_large_as_the_axis(sizes, mode, dtype):
    """All but the edge is reflected on both sides, in two copies for each axis."""
    g, x, _ = graph(dtype, sizes)
    most = [n - 1 if d >= len(sizes) - 2 else 0 for d, n in enumerate(sizes)]
    y = g.Pad(x, g.constant([*most, *most], np.int64), mode=mode)
    (expected,) = by_onnxruntime(g.model(y), g.feed)
    assert copies(g, y, expected) <= 1 + 2 * sum(n > 0 for n in most)


@pytest.mark.parametrize("mode", MODES)
def test_copies_grow_with_the_logarithm_of_pads(mode):
    for before, after in ((5000, 7000), (1, 100_000), (100_000, 1)):
        g, x, array = graph(np.float32, (2, 3))
        y = g.Pad(x, g.constant([0, before, 0, after], np.int64), mode=mode)
        sides = np.array([[0, before], [0, after]])
        assert copies(g, y, padded(array, sides, mode)) < 30


@needs_onnxruntime
@pytest.mark.parametrize("mode", MODES)
def test_pads_of_pixels_and_planes(mode):
    """In front of and behind a Conv, and as parts of joined images."""
    g = Graph(28)
    x = g.input(2, 3, 9, 11)
    amounts = g.constant([0, 0, 4, 3, 0, 0, 5, 8], np.int64)
    wide = g.conv(g.Pad(x, amounts, mode=mode), 8, (3, 3, 3))
    again = g.Pad(wide, amounts, mode=mode)
    joined = g.Concat(again, g.Relu(again), axis=1)
    one(g, again, joined, g.conv(joined, 5, (16, 1, 1)), expected=by_onnxruntime)


@every_kind
def test_slices_of_any_rank(kind, rng):
    """Along any axes, by any steps, with one element and with none."""
    for rank in range(1, 6):
        for _ in range(6):
            sizes = tuple(int(n) for n in rng.choice([1, 2, 3, 5, 9], rank))
            steps = rng.choice([-3, -2, -1, -1, 1, 2], rank)
            starts, ends = rng.integers(-10, 10, (2, rank))
            # For ONNX, a backward start before the first element is the first one.
            starts = np.where(steps < 0, np.maximum(starts, -np.array(sizes)), starts)
            g, x, array = graph(kind, sizes)
            numbers = (starts, ends, np.arange(rank), steps)
            y = g.Slice(x, *(g.constant(i, np.int64) for i in numbers))
            cut = tuple(map(slice, *(i.tolist() for i in (starts, ends, steps))))
            assert copies(g, y, array[cut]) <= 1


@both_types
def test_long_slices(dtype):
    """Of several tasks, whole vectors, and rows and columns of images."""
    image = (300, 401)
    for sizes, axes in (((70_001,), [0]), (image, [0, 1]), (image, [0]), ((9, 8, 7), [1])):
        g, x, array = graph(dtype, sizes)
        numbers = ([-1] * len(axes), [-(1 << 62)] * len(axes), axes, [-1] * len(axes))
        y = g.Slice(x, *(g.constant(i, np.int64) for i in numbers))
        assert copies(g, y, np.flip(array, axes)) == 1


def test_bounds_beyond_all_integers_of_arrays():
    """The first element of a start before it, no end at the largest integer, as onnxruntime has."""
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    for start, end, expected in (
        (most, least, [3, 2, 1, 0]), (most, most, [3, 2, 1, 0]), (least, least, [0]),
        (-9, -9, [0]), (2, 0, [2, 1]), (1, 2, []),
    ):  # fmt: skip
        g = Graph(dtype=np.float32)
        x = g.input(4)
        g.feed[x] = np.arange(4, dtype=np.float32)
        numbers = ([start], [end], [0], [-1])
        y = g.Slice(x, *(g.constant(i, np.int64) for i in numbers))
        assert copies(g, y, np.array(expected, np.float32)) <= 1


@needs_onnxruntime
def test_backward_slices_in_a_network():
    """Of pixels and planes, in front of other views and convolutions, and joined with others."""
    g = Graph(31)
    x = g.input(2, 3, 6, 7)

    def mirrored(value: str, axis: int) -> str:
        numbers = ([-1], [np.iinfo(np.int64).min], [axis], [-1])
        return str(g.Slice(value, *(g.constant(i, np.int64) for i in numbers)))

    pixels = g.conv(x, 3, (3, 1, 1))
    y = mirrored(pixels, 3)
    both = g.Concat(pixels, y, mirrored(mirrored(x, 2), 3), axis=1)
    z = g.conv(both, 4, (9, 3, 3))
    flat = g.Reshape(mirrored(z, 1), g.constant([2, -1], np.int64))
    turned = mirrored(g.Transpose(y, perm=[3, 2, 1, 0]), 0)
    one(g, y, both, flat, g.Relu(turned), expected=by_onnxruntime)
