"""The fuzzer: a few hundred seeds of it in each run, and that it finds what is wrong.

The seeds are others in each run, as more is found that way. A finding prints its seed, and
``make fuzz ARGS="--seed N"`` runs it again.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pplconv
from tests.fuzz import checking, matrix_cases, matrix_refusals
from tests.fuzz.case import Finding
from tests.fuzz.cases import draw
from tests.fuzz.checking import check
from tests.fuzz.conv_cases import ConvCase
from tests.fuzz.draws import WISDOM
from tests.fuzz.matrix_cases import MatrixCase
from tests.fuzz.shrinking import shrink
from tests.fuzz.special import SPECIALS
from tests.fuzz.tally import Tally
from tests.fuzz.worker import describe
from tests.patience import PATIENCE
from tests.reference import (
    activate,
    activated_bound,
    assert_convolution,
    conv2d_reference,
    error_bound,
    rounding_bound,
    stored_bound,
)

# What is not broken in a fixed way is tried on cases that are not: the first seeds of each kind.
DRAWN = [draw(seed) for seed in range(600)]
CASES = [case for case in DRAWN if isinstance(case, ConvCase)]
PRODUCTS = [case for case in DRAWN if isinstance(case, MatrixCase)]


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = str(Path(pplconv.__file__).parents[1])
    return subprocess.run(
        [sys.executable, str(Path(__file__).parent), *arguments],
        capture_output=True, text=True, timeout=3 * PATIENCE,
        env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip


def test_a_few_hundred_seeds():
    start = time.time_ns() // 1_000_000
    found = command("--seeds", f"{start}:{start + 300}")
    assert found.returncode == 0, found.stdout + found.stderr
    assert re.search(r"^300 problems, .* 0 findings$", found.stdout, re.MULTILINE)
    assert f"seeds {start}:{start + 300} done" in found.stdout
    for heading in ("by algorithm", "by layout", "by instruction set", "refused as documented"):
        assert heading in found.stdout


def test_one_seed_prints_its_call():
    found = command("--seed", "5")
    assert found.returncode == 0, found.stdout + found.stderr
    assert "seed 5, " in found.stdout
    assert repr(draw(5)) in found.stdout


def test_functions_are_not_judged_by_sparse_plans():
    """`conv2d` takes weights as they are; `Conv2d` with the same ones leaves zeros out."""
    weight = np.zeros((16, 16, 3, 3), np.float32)
    weight[:, ::8] = 1
    found = next(case for case in CASES if case.call == "conv2d" and not case.block)
    problem = replace(
        found.problem, dtype="float32", layout="NCHW", batch=1, groups=1, in_channels=16,
        out_channels=16, image=(20, 20), kernel=(3, 3), stride=1, padding=1, dilation=1,
        options={"algorithm": "auto", "threads": 1},
    )  # fmt: skip
    plans = {}
    for call in ("conv2d", "prepared"):
        case = replace(found, problem=problem, zeros=None, call=call)
        case.__dict__["plain"] = {**case.plain, "weight": weight}
        plans[call] = case.plan()
    assert plans["prepared"].algorithm == "sparse" != plans["conv2d"].algorithm


def test_a_seed_is_one_case():
    assert [repr(draw(seed)) for seed in range(50)] == [repr(case) for case in DRAWN[:50]]
    assert len({repr(replace(case, seed=0)) for case in DRAWN}) > 590


def first(cases: list, **wanted):
    """The first case that has these attributes, is not spoiled and must be served."""
    for case in cases:
        options = case.problem.options
        if (
            case.predicted() is None
            and not (case.spoiled or case.wisdom or case.special)
            and options.get("algorithm", "auto") == "auto"
            and "max_workspace" not in options
            and np.prod(case.output_shape) > 8
            and all(getattr(case, name) == value for name, value in wanted.items())
        ):
            return case
    raise LookupError(wanted)


def of(**wanted) -> ConvCase:
    return first(CASES, **wanted)


def product_of(**wanted) -> MatrixCase:
    """Of products of matrices, none of which is a vector."""
    matrices = [case for case in PRODUCTS if None not in (case.problem.m, case.problem.n)]
    return first(matrices, **wanted)


@pytest.mark.parametrize("number", range(0, 60))
def test_the_fast_reference_is_the_plain_one(number):
    case = CASES[number]
    if case.predicted() is not None:
        case = of()
    case = replace(case, special=None)
    arrays, p = case.plain, case.problem
    expected = case.expected()
    exact = conv2d_reference(**arrays, **p.parameters)
    sums = {name: value for name, value in p.parameters.items() if name != "activation"}
    bound = error_bound(**arrays, **sums, stated=1e-3)
    bound = activated_bound(bound, exact, p.full_activation, np.dtype(p.dtype), p.layout)
    bound = stored_bound(bound, exact, np.dtype(p.dtype))
    for ours, plain in ((expected.exact, exact), (expected.bound(1e-3), bound)):
        plain = plain if plain.ndim == 4 else plain[np.newaxis]
        plain = plain if p.layout == "NCHW" else plain.transpose(0, 3, 1, 2)
        largest = np.max(np.abs(plain), initial=0)
        np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-11 * largest)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kernel", [3, 5])
def test_weights_that_meet_only_padding_count_in_the_bound(kernel, layout, rng):
    """A direct sum of one pixel is its middle weight, zero here; Winograd mixes in the others."""
    x = rng.standard_normal((1, 1, 1, 1)).astype(np.float32)
    w = rng.standard_normal((8, 1, kernel, kernel)).astype(np.float32)
    w[:, :, kernel // 2, kernel // 2] = 0
    arguments = {"padding": kernel // 2, "layout": layout}
    conv = pplconv.Conv2d(w, **arguments, algorithm="winograd", tolerance=1e-3)
    stated = conv.plan_for(x.shape).error_bound
    assert_convolution(conv(x), x, w, **arguments, stated=stated)
    bound = error_bound(x, w, **arguments, stated=stated)
    assert 0 < bound.max() < 2 * stated * abs(x).max() * abs(w).sum((1, 2, 3)).max()
    assert not pplconv.conv2d(x, w, **arguments, tolerance=0).any()


@pytest.mark.parametrize("case", PRODUCTS[:40], ids=lambda case: f"seed {case.seed}")
def test_expected_products_are_numpys(case):
    case = replace(case, special=None)
    p, (a, b, bias, residual) = case.problem, case.plain.values()
    b = b if case.call == "matmul" else b.T

    def total(numbers):
        y = np.matmul(numbers(a), numbers(b))
        if bias is not None:
            y = y + (numbers(bias) if p.n is not None else numbers(bias)[0])
        return y if residual is None else y + numbers(residual)

    dtype = np.dtype(p.dtype)
    exact = activate(total(np.float64), p.full_activation, dtype, "NHWC")
    magnitudes = total(lambda x: np.abs(np.float64(x)))
    bound = rounding_bound(magnitudes, p.k + 4, dtype)
    bound = activated_bound(bound, exact, p.full_activation, dtype, "NHWC")
    bound = stored_bound(bound, exact, dtype)
    expected = case.expected()
    for ours, plain in ((expected.exact, exact), (expected.bound(0.0), bound)):
        assert plain.shape == case.output_shape
        largest = np.max(np.abs(plain), initial=0)
        np.testing.assert_allclose(ours, case.in_order(plain), rtol=0, atol=1e-11 * largest)


CALLS = ["conv2d", "Conv2d", "prepared", "matmul", "Linear", "Linear, prepared"]


def case_of(call: str, **wanted):
    """The first case of a call, of either kind."""
    kind = of if call in CALLS[:3] else product_of
    return kind(call=call, **wanted)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", ["one element off", "NaN", "other shape", "raises", "other array"])
def test_what_is_wrong_is_found(call, how, monkeypatch):
    case = replace(case_of(call), out=None, other_team=None)
    real = checking._call

    def broken(*arguments):
        y, plan = real(*arguments)
        if how == "one element off":
            y.reshape(-1)[0 if getattr(case, "block", 0) else -1] += 1 + abs(y).max()
        elif how == "NaN":
            y.reshape(-1)[0] = np.nan
        elif how == "other shape":
            y = y[..., np.newaxis]
        elif how == "raises":
            raise RuntimeError("none of the kinds that are documented")
        else:
            y = np.asfortranarray(np.stack([y, y]))[0]
        return y, plan

    check(case)
    monkeypatch.setattr(checking, "_call", broken)
    with pytest.raises(Finding):
        check(case)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("how", ["NaN for infinity", "infinity for NaN", "other sign", "finite"])
def test_a_special_number_elsewhere_is_found(call, how, monkeypatch):
    """Of a residual that is special in the first places, so that the output is."""
    wanted = {"block": 0} if call in CALLS[:3] else {}
    case = replace(case_of(call, **wanted), out=None, other_team=None)
    case = replace(case, forms={**case.forms, "residual": "plain"})
    case = replace(case, problem=replace(case.problem, activation=None, with_residual=True))
    plain = case.plain
    values = plain["residual"].reshape(-1)
    values[:2] = np.inf, np.nan
    case.__dict__["plain"] = plain
    real = checking._call

    def broken(*arguments):
        y, plan = real(*arguments)
        first = y.reshape(-1)
        assert np.isposinf(first[0]) and np.isnan(first[1])
        if how == "infinity for NaN":
            first[1] = np.inf
        else:
            first[0] = {"NaN for infinity": np.nan, "other sign": -np.inf, "finite": 1}[how]
        return y, plan

    check(case)
    monkeypatch.setattr(checking, "_call", broken)
    with pytest.raises(Finding, match=r"1 of \d+ elements are off"):
        check(case)


def test_specials_are_drawn():
    """Each kind, for Winograd too; huge numbers overflow in few sums if any."""
    for cases in (CASES, PRODUCTS):
        assert {case.special for case in cases} == {None, *SPECIALS}
    served = [case for case in CASES if case.predicted() is None]
    assert any(case.special and case.problem.options["algorithm"] == "winograd" for case in served)
    served += [case for case in PRODUCTS if case.predicted() is None]
    huge = [case for case in served if case.special == "huge" and np.prod(case.output_shape)]
    assert np.mean([case.expected().judged() for case in huge]) > 0.9


@pytest.mark.parametrize("kind", [of, product_of])
def test_writing_beside_the_output_is_found(kind, monkeypatch):
    case = kind(out=3)
    real = checking._call

    def broken(case, operands, arguments, out):
        result = real(case, operands, arguments, out)
        out.base[0] = 0
        return result

    monkeypatch.setattr(checking, "_call", broken)
    with pytest.raises(Finding, match="written before the output"):
        check(case)


@pytest.mark.parametrize("call", ["Conv2d", "Linear"])
def test_an_error_beyond_what_the_plan_states_is_found(call, monkeypatch):
    case = next(
        case
        for case in map(draw, itertools.count())
        if case.call == call
        and case.predicted() is None
        and case.ordinary
        # Where all weights are left out, results are exact.
        and not (case.spoiled or case.wisdom or case.zeros)
        and "max_workspace" not in case.problem.options
        and case.problem.options.get("tolerance", 1e-5) == 1e-5
        and np.prod(case.output_shape) >= checking.ENOUGH_FOR_BOUNDS
    )
    real = checking._call

    def broken(*arguments):
        y, plan = real(*arguments)
        return y, replace(plan, error_bound=1e-12)

    check(case)
    monkeypatch.setattr(checking, "_call", broken)
    with pytest.raises(Finding, match="where 1e-12 is stated"):
        check(case)


@pytest.mark.parametrize("call", CALLS)
def test_other_bytes_of_another_team_are_found(call, monkeypatch):
    case = replace(case_of(call), out=None, other_team=2)
    real = checking._call
    calls = []

    def broken(*arguments):
        y, plan = real(*arguments)
        calls.append(1)
        if len(calls) == 2:
            bytes_of = y.view(np.uint8).reshape(-1)
            bytes_of[0] ^= 1
        return y, plan

    monkeypatch.setattr(checking, "_call", broken)
    with pytest.raises(Finding, match="other bytes with another team"):
        check(case)


@pytest.mark.parametrize("kind", [of, product_of])
def test_what_should_be_refused_and_is_not_is_found(kind, monkeypatch):
    case = replace(kind(), spoiled="bias shape")
    assert check(case).refusal == "spoiled bias shape"
    monkeypatch.setattr(checking, "_call", lambda *_: (None, None))
    with pytest.raises(Finding, match="taken in spite of bias shape"):
        check(case)


def test_a_refusal_that_names_nothing_is_found(monkeypatch):
    def refuse(*_):
        raise ValueError("no")

    monkeypatch.setattr(checking, "_call", refuse)
    calls = (of(), product_of(call="matmul"), product_of(call="Linear"))
    for case in (*calls, *(replace(case, spoiled="out dtype") for case in calls)):
        with pytest.raises(Finding, match="refused: ValueError: no"):
            check(case)


@pytest.mark.parametrize("kind", WISDOM)
def test_every_kind_of_wisdom(kind):
    for case in CASES[:12]:
        check(replace(case, call="Conv2d", wisdom=kind, spoiled=None))
    for case in [case for case in PRODUCTS if case.call != "matmul"][:12]:
        check(replace(case, wisdom=kind, spoiled=None))


@pytest.mark.parametrize("call", ["matmul", "Linear"])
def test_every_way_to_spoil_a_product(call):
    """Each is refused, by the name of the argument, for all cases with which it is possible."""
    cases = [case for case in PRODUCTS if case.call == call and case.predicted() is None]
    for what in dict.fromkeys(matrix_refusals.spoiled(call)):
        found = {check(replace(case, spoiled=what, wisdom=None)).refusal for case in cases[:25]}
        assert f"spoiled {what}" in found
        assert found <= {f"spoiled {what}", "max_workspace", None}


def test_every_plan_of_a_product_is_drawn(monkeypatch):
    """Both ways to see it among them, and teams; the CPU decides how soon each is drawn."""
    seen = set()
    real = matrix_cases.plan_of

    def seen_plan(request, *arguments):
        plan, fields = real(request, *arguments)
        seen.add((request.problem.c_in_rows, plan.threads > 1))
        return plan, fields

    monkeypatch.setattr(matrix_cases, "plan_of", seen_plan)
    for case in map(draw, range(20_000)):
        if isinstance(case, MatrixCase) and case.forced:
            check(case)
        if len(seen) == 4:
            break
    assert seen == set(itertools.product((False, True), repeat=2))


def test_a_finding_is_made_smaller(monkeypatch):
    """Down to what it needs: here, more than two output channels."""
    real = checking._check_result

    def broken(case, y, plan):
        real(case, y, plan)
        if case.problem.out_channels > 2:
            raise Finding("three are too many")

    monkeypatch.setattr(checking, "_check_result", broken)
    big = next(
        case
        for case in CASES
        if case.problem.out_channels > 8
        and case.predicted() is None
        and not case.spoiled
        and case.problem.options["algorithm"] in ("auto", "direct")
        and "max_workspace" not in case.problem.options
    )
    small, text = shrink(big)
    assert text == "three are too many"
    assert small.problem.out_channels in (3, 4)  # two groups have an even number
    assert small.problem.image == small.problem.kernel == (1, 1)
    assert f"weight ({small.problem.out_channels}, 1, 1, 1)" in describe(small)


@pytest.mark.parametrize("how", ["wrong column", "a form"])
def test_a_wrong_product_is_found_and_made_smaller(how, monkeypatch):
    """Down to what it needs: five columns, or two rows of `b` with a gap between them."""
    real = pplconv.matmul

    def broken(a, b, **arguments):
        y = real(a, b, **arguments)
        if how == "a form" and not b.flags.c_contiguous:
            y += 1 + np.abs(y)
        elif how == "wrong column" and y.ndim and y.shape[-1] > 4:
            y[..., 4] += 1 + np.abs(y[..., 4])
        return y

    big = next(
        case
        for case in PRODUCTS
        if case.call == "matmul"
        and not (case.special or case.spoiled or None in (case.problem.m, case.problem.n))
        and case.problem.batch
        and case.problem.n > 8
        and min(case.problem.m, *case.problem.batch) > 1
    )
    if how == "a form":
        big = replace(big, forms={**big.forms, "b": "gaps"})
    check(big)
    monkeypatch.setattr(pplconv, "matmul", broken)
    with pytest.raises(Finding, match=r"elements are off"):
        check(big)
    small, text = shrink(big)
    assert "elements are off" in text
    p = small.problem
    assert (p.batch, p.m) == ((), 1)
    assert (p.activation, p.with_bias, p.with_residual) == (None, False, False)
    assert (p.n, p.k) == ((5, 1) if how == "wrong column" else (1, 2))
    odd = {name for name, form in small.forms.items() if form != "plain"}
    assert odd == (set() if how == "wrong column" else {"b"})
    assert f"b {p.b_shape}" in describe(small)


def test_figures_count_what_was_run():
    tally = Tally(100)
    a, b = (100, 200, "avx2"), (100, 200, "portable")
    tally.begun([a, b])
    assert tally.complete() == 100
    tally.take(a, {"next": 200, "counts": {"problems": 50, "layout: NCHW": 50}})
    tally.take(b, {"next": 151, "counts": {"problems": 26, "layout: NCHW": 26}})
    assert tally.complete() == 151
    tally.died(b, 160, "signal 11")
    assert tally.complete() == 161
    assert "seed 160, portable: the process died: signal 11" in tally.summary()
    tally.take(b, {"next": 200, "counts": {"problems": 24}})
    assert tally.complete() == 200
    assert tally.line().startswith("101 problems")
    assert "        76  NCHW" in tally.summary()
