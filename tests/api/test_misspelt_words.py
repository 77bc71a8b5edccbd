"""Wherever an argument takes words, an error says which one was probably meant."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from pplconv import imaging

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
