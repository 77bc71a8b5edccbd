"""A picture in tiles has the bits of the whole, whatever the tiles and the layers."""

from __future__ import annotations

import gc
import weakref
from typing import ClassVar

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pplconv
from pplconv.integrations.dask import Layer, map_tiles

pytestmark = pytest.mark.unemulated("computes by calls that other tests emulate; dask takes long")

PAIR = st.tuples(st.integers(0, 3), st.integers(0, 3))


@st.composite
def stacks(draw) -> list[tuple[tuple[int, ...], dict]]:
    """Draw some layers: shapes of their weights, and their geometry."""
    channels, layers = 4, []
    for _ in range(draw(st.integers(1, 3))):
        groups = draw(st.sampled_from([1, 2, 4]))
        made = draw(st.sampled_from([4, 8, 12]))
        kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
        layers.append(
            (
                (made, channels // groups, *kernel),
                {
                    "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
                    "padding": draw(st.tuples(PAIR, PAIR)),
                    "dilation": draw(st.tuples(st.integers(1, 2), st.integers(1, 2))),
                    "groups": groups,
                    "activation": draw(st.sampled_from([None, "relu", "silu"])),
                },
            )
        )
        channels = made
    return layers


SIZES = st.lists(st.integers(1, 25), min_size=2, max_size=5).map(tuple)


@settings(max_examples=60)
@given(
    stacks(),
    SIZES,
    SIZES,
    st.sampled_from(["direct", "im2col"]),
    st.sampled_from(["NCHW", "NHWC"]),
    st.integers(0, 9),
)
def test_tiles_have_the_bits_of_the_whole_picture(stack, rows, columns, algorithm, layout, seed):
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape, _ in stack]

    def make_model(algorithm):
        convs = [
            pplconv.Conv2d(weight, layout=layout, algorithm=algorithm, **geometry)
            for weight, (_, geometry) in zip(weights, stack, strict=True)
        ]

        def model(tile):
            for conv in convs:
                tile = conv(tile)
            return tile

        return model

    channels_last = layout == "NHWC"
    shape = (2, sum(rows), sum(columns), 4) if channels_last else (2, 4, sum(rows), sum(columns))
    x = rng.standard_normal(shape).astype(np.float32)
    chunks = ((1, 1), rows, columns, (3, 1)) if channels_last else ((1, 1), (3, 1), rows, columns)
    layers = [
        pplconv.Conv2d(weight, **geometry)
        for weight, (_, geometry) in zip(weights, stack, strict=True)
    ]
    try:
        whole = make_model(algorithm)(x)
    except ValueError:  # a window does not fit
        with pytest.raises(ValueError, match="layers"):
            map_tiles(make_model, da.from_array(x, chunks), layers=layers, layout=layout)
        return
    y = map_tiles(
        make_model, da.from_array(x, chunks), layers=layers, algorithm=algorithm, layout=layout
    )
    assert (y.shape, y.dtype) == (whole.shape, whole.dtype)
    assert y.compute(scheduler="threads", num_workers=2).tobytes() == whole.tobytes()


def conv_maker(weight, **geometry):
    return lambda algorithm: pplconv.Conv2d(weight, algorithm=algorithm, **geometry)


def test_a_picture_without_a_batch(rng):
    x = rng.standard_normal((3, 50, 70)).astype(np.float32)
    w = rng.standard_normal((5, 3, 3, 3)).astype(np.float32)
    y = map_tiles(
        conv_maker(w, padding=1),
        da.from_array(x, (3, 16, 16)),
        layers=[Layer(3, padding=1, out_channels=5)],
    )
    assert y.numblocks == (1, 4, 5)
    assert (y.compute() == pplconv.Conv2d(w, padding=1, algorithm="direct")(x)).all()


def test_a_border_of_zeros_would_be_wrong(rng):
    """Later layers pad zeros, but the first layer makes other values of zeros around a picture."""
    x = rng.standard_normal((1, 1, 40, 40)).astype(np.float32)
    w = rng.standard_normal((1, 1, 3, 3)).astype(np.float32)
    b = np.ones(1, np.float32)

    def make_model(algorithm):
        conv = pplconv.Conv2d(w, b, padding=1, algorithm=algorithm)
        return lambda tile: conv(conv(tile))

    chunked = da.from_array(x, (1, 1, 20, 20))
    whole = make_model("direct")(x)
    y = map_tiles(make_model, chunked, layers=[Layer(3, padding=1)] * 2)
    assert (y.compute() == whole).all()
    zeros = da.map_overlap(
        make_model("direct"), chunked, depth={2: 2, 3: 2}, boundary=0, dtype=x.dtype
    )
    assert np.abs(zeros.compute() - whole)[..., 2:-2, 2:-2].max() == 0
    assert np.abs(zeros.compute() - whole).max() > 0.1


def test_other_operations_on_pixels(rng):
    """Pooling counts as a layer; a branch with a smaller receptive field needs none of its own."""
    x = rng.standard_normal((1, 4, 61, 47)).astype(np.float32)
    w = rng.standard_normal((4, 4, 3, 3)).astype(np.float32)

    def make_model(algorithm):
        conv = pplconv.Conv2d(w, padding=1, activation="relu", algorithm=algorithm)

        def model(tile):
            tile = np.tanh(tile) + conv(conv(tile))
            rows, columns = (size // 2 * 2 for size in tile.shape[2:])
            pairs = tile[..., :rows, :columns].reshape(1, 4, rows // 2, 2, columns // 2, 2)
            return pairs.max((3, 5)).astype(np.float64)

        return model

    layers = [Layer(3, padding=1), Layer(3, padding=1), Layer(2, stride=2)]
    y = map_tiles(make_model, da.from_array(x, (1, 4, 17, 13)), layers=layers, dtype="f8")
    assert np.prod(y.numblocks) > 6
    assert (y.compute() == make_model("direct")(x)).all()


class Counted:
    """A model whose living instances are counted."""

    alive: ClassVar[weakref.WeakSet[Counted]] = weakref.WeakSet()
    made: ClassVar[list[str]] = []

    def __init__(self, algorithm: str) -> None:
        Counted.alive.add(self)
        Counted.made.append(algorithm)

    def __call__(self, tile):
        return tile


def test_a_model_is_made_once_for_all_tiles_and_freed_with_the_answer():
    x = da.zeros((1, 1, 64, 64), chunks=(1, 1, 8, 8))
    Counted.made.clear()
    for _ in range(4):
        y = map_tiles(Counted, x, layers=(), algorithm="im2col")
        assert (y.compute(scheduler="threads", num_workers=4) == 0).all()
    # Once for each call, since its weights may have changed, but not for each of 64 tiles.
    assert Counted.made == ["im2col"] * 4
    del y
    gc.collect()
    assert len(Counted.alive) <= 2  # kept for schedulers that hold nothing between tasks


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"x": np.zeros((1, 1, 9, 9))}, TypeError, "x must be a dask array"),
        ({"x": da.zeros((9, 9))}, ValueError, "x has 2 dimensions"),
        ({"x": da.zeros((1, 1, 2, 9))}, ValueError, r"layers\[0\] sees 3 pixels of the height"),
        ({"layers": Layer(3)}, TypeError, "layers must be"),
        ({"layout": "NCHWc"}, ValueError, "layout is 'NCHWc'"),
        ({"layout": ["NCHW"]}, ValueError, r"layout is \['NCHW'\]"),
        ({"dtype": "no"}, TypeError, "dtype must be a dtype"),
        ({"layers": [Layer(0)]}, ValueError, r"layers\[0\] .*: kernel_size must be at least 1"),
        ({"layers": [Layer((3, 0))]}, ValueError, r"layers\[0\] .*: kernel_size must be at least"),
        ({"layers": [Layer((1, 2, 3))]}, TypeError, r"layers\[0\] .*: kernel_size must be an int"),
        ({"layers": [Layer("3")]}, TypeError, r"layers\[0\] .*: kernel_size must be an int"),
        ({"layers": [Layer(1.5)]}, TypeError, r"layers\[0\] .*: kernel_size must be an int"),
        ({"layers": [Layer(1 << 40)]}, ValueError, r"layers\[0\] .*: kernel_size is too large"),
        ({"layers": [Layer(3, out_channels=0)]}, ValueError, r"layers\[0\] .*: out_channels must"),
        ({"layers": [Layer(3, out_channels="a")]}, TypeError, r"layers\[0\] .*: out_channels must"),
        ({"algorithm": 3}, TypeError, "algorithm must be"),
        ({"make_model": 3}, TypeError, "make_model must be callable"),
        (
            {"make_model": pplconv.Conv2d(np.zeros((1, 1, 3, 3)))},
            TypeError,
            "make_model is called as",
        ),
        ({"make_model": lambda: None}, TypeError, "make_model is called as"),
    ],
)
def test_wrong_arguments_are_named(change, kind, text):
    arguments = {
        "make_model": lambda algorithm: None,
        "x": da.zeros((1, 1, 9, 9)),
        "layers": [Layer(3)],
        **change,
    }
    with pytest.raises(kind, match=text):
        map_tiles(arguments.pop("make_model"), arguments.pop("x"), **arguments)


def test_chunks_of_unknown_sizes_are_refused():
    x = da.zeros((1, 1, 40, 40), chunks=(1, 1, 10, 10))
    x = x[..., da.from_array(np.arange(40) % 2 == 0)]
    with pytest.raises(ValueError, match=r"x has chunks of unknown sizes: .*compute_chunk_sizes"):
        map_tiles(lambda algorithm: None, x, layers=[Layer(3)])


@pytest.mark.parametrize(
    ("model", "settings", "kind", "text"),
    [
        (lambda x: x[..., 1:], {}, ValueError, "layers do not describe the model"),
        (lambda x: x[:, :1], {}, ValueError, "layers do not describe the model"),
        (lambda x: "text", {}, ValueError, "layers do not describe the model"),
        (lambda x: x.astype("f4"), {}, TypeError, "dtype is float64, but .* float32"),
        (lambda x: x, {"dtype": "f4"}, TypeError, "dtype is float32, but .* float64"),
        (None, {}, TypeError, "make_model must return a callable"),
    ],
)
def test_a_model_that_does_something_else_is_refused(model, settings, kind, text):
    x = da.zeros((1, 2, 20, 20), chunks=(1, 2, 10, 10))
    y = map_tiles(lambda algorithm: model, x, layers=[Layer(1)], **settings)
    with pytest.raises(kind, match=text):
        y.compute()


def test_the_answer_may_be_part_of_a_larger_graph(rng):
    """One map_tiles after another, then NumPy's functions on dask arrays."""
    x = rng.standard_normal((1, 2, 60, 60)).astype(np.float32)
    w = rng.standard_normal((2, 2, 3, 3)).astype(np.float32)
    make = conv_maker(w, padding=1)
    conv = make("direct")
    first = map_tiles(make, da.from_array(x, (1, 2, 25, 25)), layers=[conv])
    second = map_tiles(make, np.maximum(first, 0), layers=[conv])
    expected = conv(np.maximum(conv(x), 0))
    assert (second[..., 10:50, ::3].compute() == expected[..., 10:50, ::3]).all()
