"""Where tiles begin and end, and which neighbouring pixels they include."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pplconv
from pplconv.integrations.tiles import Layer, axes_of, cut

PAIR = st.integers(0, 4)
LAYER = st.builds(
    Layer,
    kernel_size=st.integers(1, 5),
    stride=st.integers(1, 3),
    padding=st.tuples(st.tuples(PAIR, PAIR), st.tuples(PAIR, PAIR)),
    dilation=st.integers(1, 3),
)


def seen(layers: list[Layer], pixels: int, output: int) -> tuple[int, int]:
    """Go from one output back to the first and last pixel that it sees, layer by layer."""
    first = last = output
    for layer in reversed(layers):
        begin = layer.padding[0][0]
        first = first * layer.stride - begin
        last = last * layer.stride - begin + (layer.kernel_size - 1) * layer.dilation
    return max(first, 0), min(last, pixels - 1)


@given(st.lists(LAYER, max_size=4), st.lists(st.integers(1, 30), min_size=1, max_size=12))
def test_every_tile_has_what_its_outputs_see(layers, chunks):
    rows, _ = axes_of(layers)
    pixels = sum(chunks)
    try:
        outputs = rows.size(pixels)
    except ValueError:
        return
    found = cut(rows, chunks)
    assert sum(found.inputs) == pixels and sum(found.outputs) == outputs
    assert min(found.outputs) > 0
    assert len(found.inputs) == 1 or min(found.inputs) >= max(found.before, found.after)
    ends = np.cumsum(found.inputs)
    first_output = 0
    for at, (end, count) in enumerate(zip(ends, found.outputs, strict=True)):
        begin = end - found.inputs[at]
        first = max(begin - found.before, 0)
        last = min(end + found.after, pixels) - 1
        # The tile's first output is the picture's output `first / step`.
        assert first % rows.step == 0
        assert first // rows.step + (found.skip if at else 0) == first_output
        assert rows.size(last + 1 - first) >= (found.skip if at else 0) + count
        for output in (first_output, first_output + count - 1):
            low, high = seen(layers, pixels, output)
            assert low > high or (first <= low and high <= last)
        first_output += count


@given(st.lists(LAYER, max_size=3), st.integers(1, 60))
def test_sizes_are_those_of_the_layers(layers, pixels):
    rows, _ = axes_of(layers)
    x = np.zeros((1, 1, pixels, 40), np.float32)
    try:
        for layer in layers:
            x = pplconv.Conv2d(
                np.zeros((1, 1, layer.kernel_size, 1), np.float32),
                stride=layer.stride,
                padding=(layer.padding[0], (0, 0)),
                dilation=layer.dilation,
            )(x)
    except ValueError:
        with pytest.raises(ValueError, match=r"layers\[\d\] sees"):
            rows.size(pixels)
    else:
        assert rows.size(pixels) == x.shape[2]


def test_pieces_stay_where_they_are_if_they_can():
    rows, columns = axes_of([Layer(3, padding=1), Layer((5, 1), padding=(2, 0))])
    assert (rows.before, rows.after) == (3, 3)
    found = cut(rows, [100, 100, 37])
    assert (found.inputs, found.outputs) == ((100, 100, 37), (100, 100, 37))
    assert cut(columns, [1, 1, 1, 1, 1]).inputs == (1, 1, 1, 1, 1)


def test_small_pieces_join_their_neighbours():
    rows, _ = axes_of([Layer(7, padding=3)])
    assert cut(rows, [1] * 10).inputs == (3, 3, 4)
    assert cut(rows, [50, 2]).inputs == (52,)
    assert cut(rows, [2, 50]).inputs == (52,)


def test_outputs_of_padding_alone_are_no_tile():
    """The second layer's last output sees no pixel; the first one needs two."""
    rows, _ = axes_of([Layer(2), Layer(1, padding=((0, 1), (0, 0)))])
    assert cut(rows, [1, 1]).inputs == (2,)
    assert cut(rows, [2, 2]).inputs == (2, 2)


def test_pieces_move_to_whole_strides():
    rows, _ = axes_of([Layer(3, stride=2), Layer(3, stride=2)])
    assert rows.step == 4
    assert cut(rows, [30, 31, 39]).inputs == (32, 28, 40)


@pytest.mark.parametrize("word", ["valid", "same", "same_upper", "same_lower"])
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_words_for_padding_are_what_conv2d_does(word, kernel):
    rows, _ = axes_of([Layer(kernel, padding=word)])
    w = np.arange(1, kernel + 1, dtype=np.float32).reshape(1, 1, kernel, 1)
    x = np.random.default_rng(kernel).standard_normal((1, 1, 12, 1)).astype(np.float32)
    (window,) = rows.windows
    numbers = ((window.before, window.after), (0, 0))
    expected = pplconv.Conv2d(w, padding=word)(x)
    assert (pplconv.Conv2d(w, padding=numbers)(x) == expected).all()


@pytest.mark.parametrize(
    ("layers", "kind", "text"),
    [
        (Layer(3), TypeError, "layers must be a sequence"),
        (3, TypeError, "layers must be a sequence"),
        ([Layer(3), 3], TypeError, r"layers\[1\] must be a Layer"),
        ([Layer(3, stride=0)], ValueError, r"layers\[0\] is .*stride"),
        ([Layer(3, padding=-1)], ValueError, r"layers\[0\] is .*padding"),
        ([Layer(3, dilation="no")], TypeError, r"layers\[0\] is .*dilation"),
        ([Layer(0)], ValueError, r"layers\[0\] is "),
        ([Layer((1, 2, 3))], TypeError, r"layers\[0\] is .*kernel_size"),
        ([Layer("3")], TypeError, r"layers\[0\] is "),
        ([Layer(3, stride=2, padding="same_upper")], ValueError, r"layers\[0\]\.padding"),
    ],
)
def test_wrong_layers_are_named(layers, kind, text):
    with pytest.raises(kind, match=text):
        axes_of(layers)
