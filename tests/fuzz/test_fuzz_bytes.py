"""What the fuzzer draws of bytes: every kind of call, and one wrong byte is found."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import pplconv
from tests.fuzz import checking
from tests.fuzz.byte_cases import ByteCase, draw_bytes
from tests.fuzz.case import Finding
from tests.fuzz.cases import draw
from tests.fuzz.checking import check
from tests.fuzz.conv_cases import SPOILED
from tests.fuzz.shrinking import shrink
from tests.fuzz.worker import describe

DRAWN = [draw_bytes(seed, Random(f"bytes {seed}")) for seed in range(500)]
CALLS = ("qconv2d", "conv2d_integer", "QConv2d", "QConv2d, prepared")


def served(call: str, most: int = 25, **wanted) -> list[ByteCase]:
    """The first cases of a call that must be answered, and have any output."""
    found = (
        replace(case, spoiled=None, other_team=None)
        for case in DRAWN
        if case.call == call
        and case.predicted() is None
        and "max_workspace" not in case.problem.options
        and np.prod(case.output_shape)
        and all(getattr(case.problem, name) == value for name, value in wanted.items())
    )
    return [case for case, _ in zip(found, range(most), strict=False)]


def test_all_that_bytes_may_be_is_drawn():
    assert {case.call for case in DRAWN} == set(CALLS)
    assert {case.drawn.x.dtype.name for case in DRAWN[:100]} == {"uint8", "int8"}
    assert {case.drawn.w.dtype.name for case in DRAWN[:100]} == {"uint8", "int8"}
    problems = [case.problem for case in DRAWN]
    assert {p.dtype for p in problems} == {"uint8", "int8", "int32", "float32"}
    assert {p.layout for p in problems} == {"NCHW", "NHWC"}
    layers = [case for case in DRAWN if case.call.startswith("QConv2d") and case.zeros]
    assert {case.zeros.sparse for case in layers} == {True, "auto", False}
    assert len({case.zeros.block for case in layers}) > 1
    asked = {p.options["algorithm"] for p in problems}
    assert asked >= {"auto", "sparse", "winograd", "depthwise", "im2col", "direct", "pointwise"}
    assert any(isinstance(draw(seed), ByteCase) for seed in range(50))


def test_a_case_follows_from_its_seed():
    again = [draw_bytes(seed, Random(f"bytes {seed}")) for seed in range(20)]
    assert list(map(describe, again)) == list(map(describe, DRAWN[:20]))


def test_a_few_hundred_calls():
    for case in DRAWN[:300]:
        try:
            check(case)
        except Finding as finding:
            pytest.fail(f"{finding}\n{describe(case)}")


@pytest.mark.parametrize("call", CALLS)
def test_one_bit_is_found(call, monkeypatch):
    """The lowest bit of the last element, of whatever type."""
    real = checking._call

    def broken(*arguments):
        y, plan = real(*arguments)
        bits = y.reshape(-1).view(f"u{y.itemsize}")
        bits[-1] ^= 1
        return y, plan

    cases = served(call)
    assert len(cases) > 10
    for case in cases:
        check(case)
    monkeypatch.setattr(checking, "_call", broken)
    for case in cases:
        with pytest.raises(Finding, match=r"1 of \d+ elements are off"):
            check(case)


def test_writing_beside_bytes_is_found(monkeypatch):
    real = checking._call

    def broken(case, operands, arguments, out):
        result = real(case, operands, arguments, out)
        out.base[-1] = 0
        return result

    monkeypatch.setattr(checking, "_call", broken)
    with pytest.raises(Finding, match="written behind the output"):
        check(replace(served("QConv2d")[0], out=3))


def test_a_zero_that_is_left_out_wrongly_is_found(monkeypatch):
    """As if the zeros of weights were the number 0, not their zero point."""
    real = ByteCase._layer

    def broken(case, w, bias, arguments):
        zero = np.reshape(case.drawn.w_zero, (-1, 1, 1, 1))
        return real(case, np.where(np.asarray(w) == zero, 0, w).astype(w.dtype), bias, arguments)

    cases = [
        replace(case, forms=dict.fromkeys(case.forms, "plain"))
        for case in served("QConv2d", 500)
        if case.zeros
        and case.zeros.sparse
        and case.zeros.density < 0.9
        and case.numbers["w_zeros"]
        and case.problem.dtype == "int32"
        and case.drawn.x.size > 30
    ]
    assert cases
    monkeypatch.setattr(ByteCase, "_layer", broken)
    for case in cases:
        with pytest.raises(Finding, match="elements are off"):
            check(case)


def test_a_wrong_byte_is_made_smaller(monkeypatch):
    """Down to what it needs: an image of two columns."""
    real = pplconv.conv2d_integer

    def broken(x, w, *arguments, **options):
        y = real(x, w, *arguments, **options)
        if y.shape[-1] > 1:
            y[..., 1] += 1
        return y

    big = next(
        case
        for case in served("conv2d_integer", 500, layout="NCHW")
        if case.output_shape[-1] > 4
        and case.problem.groups > 1
        and case.problem.options["algorithm"] != "depthwise"  # needs groups
    )
    check(big)
    monkeypatch.setattr(pplconv, "conv2d_integer", broken)
    small, text = shrink(big)
    assert "elements are off" in text
    p = small.problem
    assert (p.groups, p.in_channels, p.out_channels, p.kernel) == (1, 1, 1, (1, 1))
    assert small.output_shape[-1] == 2
    assert "conv2d_integer on " in describe(small)


def test_every_way_to_spoil_a_call():
    """Each is refused, by the name of the argument, for all cases with which it is possible."""
    for what in SPOILED:
        found = {
            check(replace(case, spoiled=what)).refusal for call in CALLS for case in served(call, 8)
        }
        if what != "out unaligned":  # of bytes there is no such thing
            assert f"spoiled {what}" in found
        assert found <= {f"spoiled {what}", None}
