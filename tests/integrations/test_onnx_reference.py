"""The replacement ``Conv`` against the evaluator's own, on small models."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx.reference.ops.op_conv import Conv as OwnConv

from pplconv.integrations import onnx_reference
from pplconv.integrations.onnx_reference import Conv, conv2d_keywords, make_conv
from tests.integrations.one_node import counted, drawn, evaluated, model_of
from tests.network import models

AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def both(model, feeds, conv=Conv):
    """Run a model with the replacement and with the evaluator's own operator."""
    return evaluated(model, feeds, conv), evaluated(model, feeds)


def assert_agree(feeds, conv=Conv, **attributes):
    """Compare both sides of one ``Conv`` node to the rounding that their sums allow."""
    model = model_of("Conv", feeds, **attributes)
    ours, own = both(model, feeds, conv)
    assert ours.shape == own.shape
    assert ours.dtype == own.dtype == feeds["x"].dtype
    # Each side is within n u S of the exact sum: n terms, unit roundoff u = eps / 2, and S the sum
    # of the magnitudes of the terms (Higham, Accuracy and Stability, section 3.1).
    magnitudes = {name: np.abs(values) for name, values in feeds.items()}
    largest = evaluated(model, magnitudes)
    terms = feeds["w"][0].size + 1
    eps = float(np.finfo(ours.dtype).eps)
    assert np.all(np.abs(ours - own) <= terms * eps * largest)


@pytest.fixture
def calls(monkeypatch):
    return counted(monkeypatch, lambda _, keywords: keywords, "conv2d")


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("dilations", [[1, 1], [2, 3]], ids=str)
@pytest.mark.parametrize("strides", [[1, 1], [2, 1], [3, 2]], ids=str)
@pytest.mark.parametrize("auto_pad", AUTO_PADS)
def test_padding_modes_strides_and_dilations(rng, calls, auto_pad, strides, dilations, bias):
    attributes = {"auto_pad": auto_pad, "strides": strides, "dilations": dilations}
    if auto_pad == "NOTSET":
        attributes["pads"] = [2, 0, 1, 3]
    # Even and odd sizes, so that SAME has an odd pixel to put on one side or the other.
    for size, kernel in itertools.product([(10, 13), (11, 12)], [(2, 3), (3, 2)]):
        feeds = drawn(rng, (2, 3, *size), (5, 3, *kernel), 5 if bias else 0)
        assert_agree(feeds, **attributes)
    assert len(calls) == 4


@pytest.mark.parametrize(("group", "channels", "outputs"), [(2, 6, 4), (3, 3, 6), (8, 8, 8)])
def test_groups(rng, calls, group, channels, outputs):
    feeds = drawn(rng, (3, channels, 7, 9), (outputs, channels // group, 3, 3), outputs)
    assert_agree(feeds, group=group, pads=[1, 1, 1, 1])
    assert [call["groups"] for call in calls] == [group]


def test_no_attributes_at_all(rng, calls):
    assert_agree(drawn(rng, (1, 4, 6, 5), (3, 4, 1, 1)))
    assert len(calls) == 1


def test_double_precision_stays_double(rng, calls):
    assert_agree(drawn(rng, (1, 5, 8, 8), (7, 5, 3, 3), 7, np.float64), pads=[1, 1, 1, 1])
    assert len(calls) == 1


@pytest.mark.parametrize("spatial", [(9,), (4, 5, 6)], ids=["1-D", "3-D"])
def test_other_ranks_are_left_to_the_evaluator(rng, calls, spatial):
    feeds = drawn(rng, (2, 3, *spatial), (4, 3, *[2] * len(spatial)), 4)
    ours, own = both(model_of("Conv", feeds, strides=[2] * len(spatial)), feeds)
    np.testing.assert_array_equal(ours, own)
    assert not calls


def test_half_precision_stays_half(rng, calls):
    """The evaluator's own sums are in half precision, ours are rounded once."""
    feeds = drawn(rng, (1, 2, 5, 5), (3, 2, 3, 3), dtype=np.float16)
    ours, own = both(model_of("Conv", feeds), feeds)
    assert ours.dtype == np.float16
    np.testing.assert_allclose(ours, own, rtol=0.01, atol=0.02)
    assert len(calls) == 1


def test_several_convolutions_in_one_model(rng, calls):
    shapes = {"w1": (6, 3, 3, 3), "b1": (6,), "w2": (6, 1, 5, 5), "w3": (4, 6, 1, 1)}
    weights = {name: rng.standard_normal(shape).astype("f") for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w2"], ["d"], group=6, auto_pad="SAME_UPPER"),
        helper.make_node("Conv", ["d", "w3"], ["y"]),
    ]
    model = models.model_of(nodes, {"x": "f4"}, weights, opset=17)
    ours, own = both(model, {"x": rng.standard_normal((2, 3, 15, 14)).astype(np.float32)})
    # Errors of one layer are the next one's input, so the bound is relative to the whole.
    np.testing.assert_allclose(ours, own, rtol=0, atol=1e-5 * np.abs(own).max())
    assert len(calls) == 3


def test_settings_reach_conv2d(rng, calls):
    conv = make_conv(threads=1, algorithm="im2col", tolerance=1e-4)
    assert_agree(drawn(rng, (1, 3, 6, 6), (4, 3, 3, 3)), conv)
    settings = {"threads": 1, "algorithm": "im2col", "tolerance": 1e-4}
    assert calls[0].items() >= settings.items()
    # Settings of one class do not reach another.
    assert (Conv.threads, make_conv().threads) == (None, None)
    assert (Conv.tolerance, make_conv().tolerance) == (None, None)
    assert issubclass(conv, OwnConv)
    assert conv.__name__ == "Conv"  # the evaluator finds operators by this


def test_wrong_kernel_shape_is_named(rng):
    feeds = drawn(rng, (1, 3, 6, 6), (4, 3, 3, 3))
    with pytest.raises(ValueError, match=r"kernel_shape is \(5, 5\).*expected \(3, 3\)"):
        evaluated(model_of("Conv", feeds, kernel_shape=[5, 5]), feeds, Conv)


def test_keywords_name_sides_as_conv2d_does():
    assert conv2d_keywords("NOTSET", [2, 3], 4, [1, 2, 3, 4], [5, 6]) == {
        "stride": (5, 6),
        "padding": ((1, 3), (2, 4)),
        "dilation": (2, 3),
        "groups": 4,
    }
    assert conv2d_keywords() == {
        "stride": (1, 1),
        "padding": ((0, 0), (0, 0)),
        "dilation": (1, 1),
        "groups": 1,
    }


@pytest.mark.parametrize("auto_pad", AUTO_PADS[1:])
def test_auto_pad_overrides_pads(auto_pad):
    assert conv2d_keywords(auto_pad, pads=[9, 9, 9, 9])["padding"] == auto_pad.lower()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"auto_pad": "SAME"}, r"auto_pad is 'SAME': expected one of 'NOTSET'"),
        ({"pads": [1, 1]}, r"pads is \[1, 1\]: expected 4 integers"),
        ({"strides": [1, 1, 1]}, r"strides is \[1, 1, 1\]: expected 2 integers"),
        ({"dilations": [2]}, r"dilations is \[2\]: expected 2 integers"),
    ],
)
def test_bad_attributes_are_named(attributes, message):
    with pytest.raises(ValueError, match=message):
        conv2d_keywords(**attributes)


def test_only_the_public_api_is_used():
    folder = Path(onnx_reference.__file__).parent
    own = "from pplconv.integrations"
    lines = [line for path in folder.glob("*.py") for line in path.read_text("utf-8").splitlines()]
    imports = [line for line in lines if line.startswith(("import pplconv", "from pplconv"))]
    assert {line for line in imports if not line.startswith(own)} == {"import pplconv"}
