"""Messages name arguments as the function that was called has them, not as an inner one does."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from pplconv import imaging, quant

F4 = np.float32
RAGGED = [[1, 2], [3]]
TAPS = np.zeros((1 << 15, 1))
TAPS[0] = 1
ROW = np.ones((1, 1 << 16), F4)  # with so many taps each band would be too large
PIXELS = ROW.astype(np.uint8)
BYTES = np.ones((1, 4, 5, 5), np.uint8)
KERNEL = np.ones((6, 4, 3, 3), np.int8)
SIGNAL = np.ones((2, 4, 8), F4)

LAYERS = {
    "Conv2d": lambda **more: pplconv.Conv2d(np.ones((6, 4, 3, 3), F4), **more),
    "ConvTranspose2d": lambda **more: pplconv.ConvTranspose2d(np.ones((4, 6, 3, 3), F4), **more),
    "Linear": lambda **more: pplconv.Linear(np.ones((6, 4), F4), **more),
    "QConv2d": lambda **more: pplconv.QConv2d(
        KERNEL, x_scale=1.0, w_scale=1.0, out_dtype=F4, **more
    ),
}
WIDE = 1 << 20
IMAGES = [(1, 3, 8, 8), (1, 4, WIDE, WIDE), (1, 4, 0, 8)]
MATRICES = [(2, 3), (4 * WIDE, WIDE, 4)]


def refused(name: str, call, *foreign: str) -> str:
    """The message of a TypeError or ValueError that begins with an argument's name."""
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    text = str(caught.value)
    assert text.startswith(name), text
    assert not any(f" {word} " in text for word in foreign), text
    return text


@pytest.mark.parametrize("image", [ROW, PIXELS], ids=["float32", "uint8"])
def test_images_that_are_too_large(image):
    for call in (
        lambda: imaging.filter2d(image, TAPS),
        lambda: imaging.filter2d(image, TAPS, dtype="float64", border="wrap"),
        lambda: imaging.sepfilter2d(image, [1.0], TAPS[:, 0]),
    ):
        refused("image", call, "input")
    taps = TAPS.astype(image.dtype)
    refused("in1", lambda: imaging.correlate2d(image, taps, mode="same"), "input")
    refused("in1", lambda: imaging.convolve2d(image, taps, "same", "symm"), "input")


@pytest.mark.parametrize("layer", LAYERS)
def test_shapes_of_inputs(layer):
    for shape in MATRICES if layer == "Linear" else IMAGES:
        refused("input_shape", lambda shape=shape: LAYERS[layer]().plan_for(shape), "input")
        refused("input_shape", lambda shape=shape: LAYERS[layer](input_shape=shape), "input")


@pytest.mark.parametrize("layer", ["Conv2d", "ConvTranspose2d", "Linear"])
def test_a_layer_has_no_input_when_it_is_made(layer):
    text = refused("bias must be float32", lambda: LAYERS[layer](bias=np.ones(6)), "input")
    assert "float64" in text


@pytest.mark.parametrize("name", ["bias", "residual"])
def test_a_product_has_no_input(name):
    a = np.ones((4, 4), F4)
    wrong = np.ones(4) if name == "bias" else np.ones((4, 4))
    refused(f"{name} must be float32", lambda: pplconv.matmul(a, a, **{name: wrong}), "input")


def test_signals_have_no_rows():
    """`conv1d` computes images of one row, but its caller knows of no rows."""
    w = np.ones((6, 4, 3), F4)
    for x, weight, more, name in (
        (SIGNAL[:, :3], w, {}, "input"),
        (SIGNAL[:, :, :0], w, {}, "input"),
        (SIGNAL, w[:, :, :0], {}, "weight"),
        (SIGNAL, w, {"groups": 2}, "input"),
        (SIGNAL[:0], w, {"residual": np.ones((2, 6, 6), F4)}, "residual"),
        (SIGNAL[:0], w, {"out": np.ones((2, 6, 6), F4)}, "out"),
    ):
        text = refused(name, lambda a=x, b=weight, c=more: pplconv.conv1d(a, b, **c), "row", "rows")
        assert "1, 8" not in text
        assert "NCHW" not in text
    assert pplconv.conv1d(SIGNAL[:0], w).shape == (0, 6, 6)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("x_zero_point", lambda v: pplconv.conv2d_integer(BYTES, KERNEL, v)),
        ("w_zero_point", lambda v: pplconv.conv2d_integer(BYTES, KERNEL, 0, v)),
        ("x_zero_point", lambda v: LAYERS["QConv2d"](x_zero_point=v)),
        ("a_zero_point", lambda v: pplconv.matmul_integer(BYTES[0, 0], KERNEL[:5, 0, 0], v)),
        ("zero_point", lambda v: quant.quantize(SIGNAL, 0.1, v)),
        ("zero_point", lambda v: quant.dequantize(BYTES, 0.1, v)),
        ("in1", lambda v: imaging.correlate2d(v, [[1]])),
        ("in2", lambda v: imaging.convolve2d([[1]], v)),
        ("fillvalue", lambda v: imaging.convolve2d([[1]], [[1]], fillvalue=v)),
    ],
)
def test_lists_of_uneven_lengths(name, call):
    refused(name, lambda: call(RAGGED))


@pytest.mark.parametrize("value", [-1, True, "nan", (), RAGGED, ...], ids=str)
def test_types_that_are_none(value):
    for call in (
        lambda: pplconv.empty_aligned(3, value),
        lambda: quant.quantize(SIGNAL, 0.1, dtype=value),
        lambda: quant.quantize_weights(SIGNAL, dtype=value),
        lambda: quant.observe(SIGNAL, dtype=value),
    ):
        refused("dtype must be a dtype", call)


def test_arrays_that_are_no_words_flags_or_numbers():
    several = np.ones(3)
    conv = LAYERS["Conv2d"]()
    for name, call in (
        ("layout", lambda: pplconv.conv2d_integer(BYTES, KERNEL, layout=several)),
        ("layout", lambda: LAYERS["QConv2d"](layout=several)),
        ("everyone", lambda: pplconv.runtime.pin(everyone=several)),
        ("symmetric", lambda: quant.observe(SIGNAL, symmetric=several)),
        ("symmetric", lambda: quant.quantize_weights(SIGNAL, symmetric=several)),
        ("per_channel", lambda: quant.quantize_weights(SIGNAL, per_channel=several)),
        ("percentile", lambda: quant.observe(SIGNAL, "percentile", percentile=several)),
        ("percentile", lambda: quant.observe(SIGNAL, "percentile", percentile=None)),
        ("samples", lambda: conv.quantize(several.astype(int))),
        ("samples", lambda: conv.quantize(None)),
        ("samples", lambda: conv.quantize([np.ones((1, 3, 8, 8), F4)])),
    ):
        refused(name, call)


def test_noise_without_bound_is_no_error():
    """The limit of 10 log10(signal / noise)."""
    assert quant.signal_to_noise([1.0, 2.0], [1.0, np.inf]) == -np.inf


# Misspelt words: an error says which one was probably meant ---------------------------------------


X = np.ones((1, 4, 6, 6), np.float32)
W = np.ones((4, 4, 3, 3), np.float32)
IMAGE = X[0, 0]


def conv(**words):
    return lambda: pplconv.conv2d(X, W, **words)


def layer(**words):
    return lambda: pplconv.Conv2d(W, **words)


# Calls with a misspelt word, and the words that they mean.
CALLS = {
    "algorithm": (conv(algorithm="windograd"), "winograd"),
    "layout": (conv(layout="NCWH"), "NCHW"),
    "small letters": (conv(layout="nhwc"), "NHWC"),
    "padding": (conv(padding="smae"), "same"),
    "padding_mode": (conv(padding_mode="refelct"), "reflect"),
    "activation": (conv(activation="Relu"), "relu"),
    "precision": (conv(precision="pf16"), "fp16"),
    "Conv2d's search": (layer(search="mesure"), "measure"),
    "Conv2d's layout": (layer(layout="nchw"), "NCHW"),
    "conv1d's layout": (lambda: pplconv.conv1d(X[0], W[0], layout="nwc"), "NWC"),
    "transposed padding": (lambda: pplconv.conv_transpose2d(X, W, padding="vaild"), "valid"),
    "integers": (
        lambda: pplconv.conv2d_integer(
            X.astype(np.uint8), W.astype(np.int8), algorithm="pointwize"
        ),
        "pointwise",
    ),
    "border": (lambda: imaging.filter2d(IMAGE, W[0, 0], border="reflect_101"), "reflect101"),
    "mode": (lambda: imaging.correlate2d(IMAGE, W[0, 0], "vaild"), "valid"),
    "boundary": (lambda: imaging.convolve2d(IMAGE, W[0, 0], boundary="symmm"), "symm"),
    "method": (lambda: pplconv.quant.observe([X], "min_max"), "minmax"),
    "a pool's mode": (lambda: pplconv.InstancePool(lambda: abs, mode="threads"), "thread"),
}


@pytest.mark.parametrize("case", CALLS)
def test_the_word_is_suggested(case):
    call, word = CALLS[case]
    with pytest.raises(ValueError, match=f"must be .*, got .*: did you mean {word!r}[?]$"):
        call()


@pytest.mark.parametrize(("word", "here"), [("swish", "silu"), ("hard_swish", "hardswish")])
def test_an_activation_of_others_is_told_what_it_is_here(word, here):
    """``x * sigmoid(x)``, and ``x * relu6(x + 3) / 6``."""
    with pytest.raises(ValueError, match=f"got '{word}': that is '{here}' here$"):
        pplconv.conv2d(X, W, activation=word)
    sums = pplconv.conv2d(X, W).astype(np.float64)
    gate = 1 / (1 + np.exp(-sums)) if here == "silu" else np.clip(sums + 3, 0, 6) / 6
    np.testing.assert_allclose(
        pplconv.conv2d(X, W, activation=here), sums * gate, rtol=1e-4, atol=1e-5
    )
