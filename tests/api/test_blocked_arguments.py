"""Layout NCHWc in the arguments: shapes, blocks, and errors that name the argument."""

from __future__ import annotations

import numpy as np
import pytest

import pplconv
from pplconv.arguments.checks import make_problem

GEOMETRY = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": "NCHWc"}


def problem(input_shape, weight_shape, **changes):
    return make_problem(input_shape, weight_shape, "f32", **{**GEOMETRY, **changes})


@pytest.mark.parametrize("block", range(1, 65))
def test_shapes_of_a_problem(block):
    """The weights say how many channels there are, the input how large a block is."""
    for ic, oc in ((1, 64), (20, 7), (64, 65), (130, 1)):
        shape = (2, -(-ic // block), 9, 10, block)
        p = problem(shape, (oc, ic, 3, 3))
        assert (p.ic, p.oc, p.ih, p.iw, p.oh, p.ow, p.block) == (ic, oc, 9, 10, 7, 8, block)
        assert p.input_shape == shape
        assert p.output_shape == (2, -(-oc // block), 7, 8, block)
        assert p.layout_text == f"NCHW{block}c"
        assert str(p) == str(problem((2, ic, 9, 10), (oc, ic, 3, 3), layout="NCHW"))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_other_layouts_have_no_block(layout):
    p = problem((2, 9, 9, 9), (4, 9, 3, 3), layout=layout)
    assert (p.block, p.layout_text, len(p.input_shape)) == (0, layout, 4)


def test_groups_count_their_channels():
    p = problem((1, 3, 9, 9, 16), (40, 1, 3, 3), groups=40)
    assert (p.ic, p.output_shape) == (40, (1, 3, 7, 7, 16))


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


CASES = {
    "channels not in blocks": (f32(20, 9, 10), "input", ("4 or 5", "(20, 9, 10)")),
    "too many dimensions": (f32(1, 1, 2, 9, 10, 16), "input", ("4 or 5",)),
    "a block of none": (f32(1, 2, 9, 10, 0), "input", ("1 to 64", "(1, 2, 9, 10, 0)")),
    "a block too large": (f32(1, 1, 9, 10, 65), "input", ("1 to 64", "(1, 1, 9, 10, 65)")),
    "a block too few": (f32(1, 1, 9, 10, 16), "input", ("2 blocks of 16", "20", "got 1")),
    "a block too many": (f32(3, 9, 10, 16), "input", ("2 blocks of 16", "20", "got 3")),
    "no rows": (f32(1, 2, 0, 10, 16), "input", ("empty", "0 rows")),
    "NCHW": (f32(1, 20, 32, 32), "input|input_shape", ("20 channels", "to_blocked")),
    "NCHW in a batch": (f32(2, 20, 16, 16), "input|input_shape", ("20 channels", "to_blocked")),
}


@pytest.mark.parametrize("key", CASES)
def test_wrong_inputs_are_refused(key):
    x, name, shows = CASES[key]
    weight = f32(8, 20, 3, 3)
    conv = pplconv.Conv2d(weight, layout="NCHWc")
    messages = []
    for call in (lambda: pplconv.conv2d(x, weight, layout="NCHWc"), lambda: conv(x)):
        with pytest.raises(ValueError, match=rf"\b(?:{name})\b") as caught:
            call()
        messages.append(str(caught.value))
    for refused in (conv.plan_for, lambda shape: pplconv.Conv2d(
            weight, layout="NCHWc", input_shape=shape)):  # fmt: skip
        with pytest.raises(ValueError, match=r"\b(?:input|input_shape|weight)\b") as caught:
            refused(x.shape)
        messages.append(str(caught.value))
    for message in messages:
        assert [text for text in shows if text not in message] == []


def test_an_image_as_high_as_it_has_channels_needs_a_batch():
    """Its shape could be that of an NCHW array, which no kept plan must let pass."""
    x, weight = np.ones((1, 3, 8, 8), np.float32), f32(8, 3, 3, 3)
    conv = pplconv.Conv2d(weight, layout="NCHWc")
    assert conv(x[None]).shape == (1, 1, 1, 6, 8)
    for call in (
        lambda: conv(x),  # after a plan for just this image was made
        lambda: pplconv.conv2d(x, weight, layout="NCHWc"),
        lambda: conv(x.tolist()),
        lambda: conv.plan_for(x.shape),
    ):
        with pytest.raises(ValueError, match=r"\binput(?:_shape)? .*\(1, 1, 3, 8, 8\)"):
            call()
    assert conv(np.ones((1, 4, 8, 8), np.float32)).shape == (1, 2, 6, 8)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_blocks_in_another_layout_are_refused(layout):
    x, weight = f32(1, 2, 9, 10, 16), f32(8, 20, 3, 3)
    for call in (
        lambda: pplconv.conv2d(x, weight, layout=layout),
        lambda: pplconv.Conv2d(weight, layout=layout)(x),
        lambda: pplconv.Conv2d(weight, layout=layout).plan_for(x.shape),
    ):
        with pytest.raises(ValueError, match=r"\binput(?:_shape)? must have 3 or 4 dimensions"):
            call()


def test_a_size_beyond_64_bits():
    """Lanes of no channel count: 2**56 pixels of 64 lanes of 4 bytes."""
    assert problem((2**54, 1, 4, 1, 1), (1, 1, 1, 1)).ih == 4
    with pytest.raises(ValueError, match="input is too large"):
        problem((2**54, 1, 4, 1, 64), (1, 1, 1, 1))


def test_the_name_of_the_layout_is_offered():
    with pytest.raises(ValueError, match=r"layout must be one of NCHW, NHWC, NCHWc, got 'nchwc'"):
        pplconv.Conv2d(f32(8, 20, 3, 3), layout="nchwc")
