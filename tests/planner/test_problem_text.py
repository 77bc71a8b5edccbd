"""Problems as text: written text reads back, and errors are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pplconv.arguments.checks import make_problem
from pplconv.problem import ConvProblem, split_name

SHAPES = sorted(Path(__file__).parents[2].glob("benchmarks/shapes/*.txt"))

pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
sides = st.tuples(*[st.tuples(st.integers(0, 4), st.integers(0, 4))] * 2)


@given(
    batch=st.integers(1, 9), groups=st.integers(1, 4), channels=st.tuples(*[st.integers(1, 9)] * 2),
    image=st.tuples(*[st.integers(1, 30)] * 2), kernel=st.tuples(*[st.integers(1, 5)] * 2),
    stride=pairs, dilation=pairs, padding=sides, dtype=st.sampled_from(["f32", "f64"]),
    layout=st.sampled_from(["NCHW", "NHWC", "NCHWc"]),
)  # fmt: skip
def test_a_problem_reads_back(
    batch, groups, channels, image, kernel, stride, dilation, padding, dtype, layout
):
    for size, taps, step, (begin, end) in zip(image, kernel, dilation, padding, strict=True):
        assume(size + begin + end >= (taps - 1) * step + 1)
    ic, oc = groups * channels[0], groups * channels[1]
    shape = {
        "NCHW": (batch, ic, *image),
        "NHWC": (batch, *image, ic),
        "NCHWc": (batch, -(-ic // 8), *image, 8),
    }[layout]
    made = make_problem(
        shape, (oc, channels[0], *kernel), dtype, stride=stride, padding=padding,
        dilation=dilation, groups=groups, layout=layout,
    )  # fmt: skip
    read = ConvProblem.parse(str(made), dtype, layout, made.block)
    assert str(read) == str(made)
    assert read.output_shape == made.output_shape
    assert [begin for begin, _ in read.padding] == [begin for begin, _ in made.padding]
    # Padding beyond the last output has no effect, so the text omits it.
    assert ConvProblem.parse(str(read), dtype, layout, made.block) == read


def test_missing_fields_follow_benchdnn():
    problem = ConvProblem.parse("mb1ic64ih56oc32oh56kh3ph1")
    assert problem == ConvProblem(
        batch=1, groups=1, ic=64, ih=56, iw=56, oc=32, oh=56, ow=56, kh=3, kw=3, stride=(1, 1),
        dilation=(1, 1), padding=((1, 1), (1, 1)), dtype="f32", layout="NCHW",
    )  # fmt: skip
    assert ConvProblem.parse("mb1ic1ih9oc1kh3dh1").oh == 5
    assert ConvProblem.parse("mb1ic4ih9oc8kh3sh2sw1").output_shape == (1, 8, 4, 7)
    blocked = ConvProblem.parse("mb1ic4ih9oc8kh3", "f64", "NCHWc", 4)
    assert (blocked.input_shape, blocked.dtype) == ((1, 1, 9, 9, 4), "f64")


def test_an_output_size_tells_padding_at_the_end():
    # ONNX's auto_pad SAME_UPPER at stride 2: nothing at the top, one row at the bottom.
    assert ConvProblem.parse("mb1ic3ih224oc8oh112kh3sh2").padding == ((0, 1), (0, 1))
    assert ConvProblem.parse("mb1ic3ih8oc8oh8kh2ph1").padding == ((1, 0), (1, 0))
    assert ConvProblem.parse("mb1ic3ih8oc8oh8ow7kh2ph1pw0").padding == ((1, 0), (0, 0))


def test_names():
    text = 'mb1ic64ih56oc64kh3ph1n"resnet:conv*3"'
    assert split_name(f" {text}\n") == ("mb1ic64ih56oc64kh3ph1", "resnet:conv*3")
    assert split_name("mb1ic1") == ("mb1ic1", "")
    assert ConvProblem.parse(text) == ConvProblem.parse("mb1ic64ih56oc64kh3ph1")


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_the_networks_of_the_benchmarks_are_read(path):
    lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
    assert lines
    for line in lines:
        assert str(ConvProblem.parse(line)) == split_name(line)[0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "mb, ic, ih, oc, kh missing"),
        ("mb1ic3ih8oc4", "kh missing"),
        ("mb1ic3ih8oc4kh3zz1", "'zz1' starts with no known field"),
        ("mb1ic3ih8oc4kh-3", "'kh-3' starts with no known field"),
        ("mb1ic3ih8oc4kh3kh3", "kh is given twice"),
        ("mb0ic3ih8oc4kh3", "mb is 0: expected at least 1"),
        ("mb1ic3ih8oc4kh3sh0", "sh is 0: expected at least 1"),
        ("mb1g0ic3ih8oc4kh3", "g is 0: expected at least 1"),
        ("mb1g2ic3ih8oc4kh3", "ic is 3, no multiple of g, 2"),
        ("mb1g2ic4ih8oc3kh3", "oc is 3, no multiple of g, 2"),
        ("mb1ic3ih2oc4kh3", "oh would be 0"),
        ("mb1ic3ih8iw2oc4kh3", "ow would be 0"),
        ("mb1ic3ih8oc4oh5kh3", "oh is 5, but the other sizes give at least 6"),
        ("mb1ic3ih8oc4oh6ow5kh3", "ow is 5, but the other sizes give at least 6"),
        ('mb1ic3ih8oc4kh3n"a', "is no name"),
        ('mb1ic3ih8oc4kh3n"a"b', "is no name"),
        ("mb1ic3ih8oc4kh3" + "9" * 30, "starts with no known field"),
        ("mb\N{SUPERSCRIPT TWO}ic3ih8oc4kh3", "starts with no known field"),
    ],
)
def test_what_is_wrong_is_named(text, complaint):
    with pytest.raises(ValueError) as caught:
        ConvProblem.parse(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [("f8",), ("f32", "NCHW8c"), ("f32", "NCHWc"), ("f32", "NCHWc", 65), ("f32", "NHWC", 8)],
)
def test_what_the_text_does_not_say_is_checked_too(more):
    with pytest.raises(ValueError, match=r"dtype or layout|block"):
        ConvProblem.parse("mb1ic3ih8oc4kh3", *more)
