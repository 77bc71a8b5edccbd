"""What the fuzzer draws of images: ties of every kind, and one wrong pixel is found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from tests.fuzz import checking
from tests.fuzz.case import Finding
from tests.fuzz.cases import draw
from tests.fuzz.checking import check
from tests.fuzz.conv_cases import ConvCase
from tests.fuzz.image_cases import ImageCase, draw_image
from tests.fuzz.matrix_cases import MatrixCase
from tests.fuzz.shrinking import shrink
from tests.fuzz.worker import describe
from tests.imaging.image_reference import BORDERS, INTEGERS, KINDS, windows_of

DRAWN = [draw_image(seed, Random(f"images {seed}")) for seed in range(300)]


def test_a_hundred_calls():
    for case in DRAWN:
        try:
            check(case)
        except Finding as finding:
            pytest.fail(f"{finding}\n{describe(case)}")


def test_all_that_images_may_be_is_drawn():
    problems = [case.problem for case in DRAWN]
    assert {p.source for p in problems} == set(INTEGERS)
    assert {p.dtype for p in problems} == {*INTEGERS, "int32"}
    assert {p.border for p in problems} == set(BORDERS)
    assert {kind for p in problems for kind in p.kinds} == set(KINDS)
    assert {case.call for case in DRAWN} == {"filter2d", "sepfilter2d"}
    assert any(isinstance(draw(seed), ImageCase) for seed in range(60))


def test_ties_are_drawn():
    """Of every kind of kernel whose values are as many halves."""
    found = set()
    for case in DRAWN:
        sums, power = case.sums()
        if power and any(total % (1 << power) == 1 << (power - 1) for total in sums):
            found.update(case.problem.kinds)
    assert found >= {"box", "tenths", "halves", "dyadic"}


@pytest.mark.parametrize("call", ["filter2d", "sepfilter2d"])
def test_what_is_expected_are_fractions_rounded(call):
    for case in [case for case in DRAWN if case.call == call and np.prod(case.output_shape) < 200]:
        p, plain = case.problem, case.plain
        if call == "filter2d":
            taps = [Fraction(tap) for tap in plain["kernel"].ravel().tolist()]
        else:
            y, x = (list(map(Fraction, plain[f"kernel_{axis}"].tolist())) for axis in "yx")
            taps = [one * other for one in y for other in x]
        at = p.anchor
        if p.flip:
            taps, at = taps[::-1], (p.kernel[0] - 1 - at[0], p.kernel[1] - 1 - at[1])
        image = plain["image"].reshape(*p.image, -1).astype(int)
        windows = windows_of(image, p.kernel, at, p.border, 0).reshape(-1, len(taps)).tolist()
        limits = np.iinfo(p.dtype)
        rounded = [round(sum(map(Fraction.__mul__, taps, map(Fraction, one)))) for one in windows]
        expected = [min(max(one, limits.min), limits.max) for one in rounded]
        assert case.expected().exact.ravel().tolist() == expected


@pytest.mark.parametrize("call", ["filter2d", "sepfilter2d"])
def test_one_pixel_is_found_and_made_smaller(call, monkeypatch):
    """The last one, by one."""
    real = checking._call

    def broken(*arguments):
        y, plan = real(*arguments)
        y.reshape(-1)[-1] ^= 1
        return y, plan

    for case in [replace(case, spoiled=None, other_team=None) for case in DRAWN[:20]]:
        case = replace(case, call=call)
        check(case)
        with monkeypatch.context() as patched:
            patched.setattr(checking, "_call", broken)
            with pytest.raises(Finding, match=r"^1 of \d+ elements are off"):
                check(case)
    with monkeypatch.context() as patched:
        patched.setattr(checking, "_call", broken)
        small, text = shrink(case)
    assert text is not None and small.problem.image == small.problem.kernel == (1, 1)


def test_sizes_near_powers_of_two_are_drawn():
    """Rows of images, columns of matrices and channels, exactly and one beside it."""
    near = {(1 << n) + off: (n, off) for n in range(6, 12) for off in (-1, 0, 1)}
    seen = {"image": set(), "matrix": set(), "filter": set()}
    for case in map(draw, range(3000)):
        p = case.problem
        if isinstance(case, ConvCase):
            seen["image"].update(near[n] for n in p.image if n in near)
        elif isinstance(case, MatrixCase):
            seen["matrix"].update(near[n] for n in (p.m, p.n, p.k) if n in near)
        elif isinstance(case, ImageCase):
            seen["filter"].update(near[n] for n in p.image if n in near)
    for sizes in seen.values():
        assert {n for n, _ in sizes} >= {6, 7, 8, 9}
        assert {off for _, off in sizes} == {-1, 0, 1}
