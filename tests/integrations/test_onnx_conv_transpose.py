"""The replacement ``ConvTranspose`` against the evaluator's own, on small models."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.integrations.onnx_reference import (
    Conv,
    ConvTranspose,
    conv_transpose2d_keywords,
    make_conv_transpose,
)
from tests.integrations.one_node import counted, drawn, evaluated, model_of


def ours(feed, op=ConvTranspose, **attributes):
    return evaluated(model_of("ConvTranspose", feed, **attributes), feed, op, Conv)


def own(feed, **attributes):
    return evaluated(model_of("ConvTranspose", feed, **attributes), feed)


@pytest.fixture
def calls(monkeypatch):
    return counted(monkeypatch, lambda _, keywords: keywords, "conv_transpose2d")


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 3]},
        {"strides": [2, 2], "pads": [1, 0, 2, 1]},
        {"strides": [3, 2], "output_padding": [1, 1]},
        {"dilations": [2, 3]},
        {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 1], "auto_pad": "SAME_LOWER"},
        {"auto_pad": "VALID"},
        {"strides": [2, 2], "output_shape": [8, 11], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [3, 4], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ],
    ids=str,
)
def test_attributes(rng, calls, attributes, bias):
    feed = drawn(rng, (2, 3, 4, 5), (3, 6, 3, 4), 6 if bias else 0, np.float64)
    y, expected = ours(feed, group=1, **attributes), own(feed, group=1, **attributes)
    assert y.shape == expected.shape and y.dtype == np.float64
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-12)
    assert len(calls) == 1


def test_groups(rng, calls):
    """Compared group by group, because the evaluator's own groups are wrong."""
    feed = drawn(rng, (2, 6, 4, 5), (6, 2, 3, 3), 6, np.float64)
    y = ours(feed, group=3, strides=[2, 2])
    parts = [
        {"x": feed["x"][:, n : n + 2], "w": feed["w"][n : n + 2], "b": feed["b"][n : n + 2]}
        for n in (0, 2, 4)
    ]
    parts = [own(part, group=1, strides=[2, 2]) for part in parts]
    np.testing.assert_allclose(y, np.concatenate(parts, 1), rtol=1e-12, atol=1e-12)
    assert calls[0]["groups"] == 3


def test_other_ranks_are_left_to_the_evaluator(rng, calls):
    feed = drawn(rng, (1, 2, 9), (2, 3, 3))
    one = {"group": 1, "strides": [2]}
    np.testing.assert_array_equal(ours(feed, **one), own(feed, **one))
    assert not calls


def test_settings_reach_the_call(rng, calls):
    feed = drawn(rng, (1, 3, 6, 6), (3, 4, 2, 2))
    op = make_conv_transpose(threads=1, algorithm="direct", tolerance=1e-4)
    assert ours(feed, op, group=1, strides=[2, 2]).shape == (1, 4, 12, 12)
    assert calls[0].items() >= {"threads": 1, "algorithm": "direct", "tolerance": 1e-4}.items()
    assert op.__name__ == "ConvTranspose"  # the evaluator finds operators by this
    assert ConvTranspose.threads is None


def test_wrong_attributes_are_named(rng):
    feed = drawn(rng, (1, 3, 6, 6), (3, 4, 2, 2))
    with pytest.raises(ValueError, match=r"kernel_shape is \(5, 5\).*expected \(2, 2\)"):
        ours(feed, group=1, kernel_shape=[5, 5])
    with pytest.raises(ValueError, match=r"output_shape is \[9\]: expected 2 integers"):
        conv_transpose2d_keywords((4, 4), (2, 2), output_shape=[9])
    with pytest.raises(ValueError, match=r"output_padding is \[1\]: expected 2 integers"):
        conv_transpose2d_keywords((4, 4), (2, 2), output_padding=[1])


def test_output_shape_divides_what_is_cut():
    """Of three pixels too many, two go at the beginning unless the mode says the end."""
    given = {"size": (4, 4), "kernel": (4, 4), "strides": [2, 2], "output_shape": [7, 13]}
    keywords = conv_transpose2d_keywords(**given)
    assert keywords["padding"] == ((2, 1), (0, 0)) and keywords["output_padding"] == (0, 3)
    upper = conv_transpose2d_keywords(**given, auto_pad="SAME_UPPER")
    assert upper["padding"] == ((1, 2), (0, 0))
