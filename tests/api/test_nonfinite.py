"""NaN and infinities through Winograd, whose transforms spread them: as the direct sum has them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import pplconv
from pplconv._trial import Trial
from pplconv.algorithms import winograd
from pplconv.planner import estimating
from pplconv.planner.estimating import Request
from pplconv.sharing import prepared
from tests.api.blocks import from_layout, to_layout
from tests.api.candidates import all_contexts, conv_problem, describe, every_candidate, force_plan
from tests.api.problems import Problem
from tests.api.test_candidates import EPILOGUES, LAYOUTS, SHAPES, Case
from tests.emulation import few, is_emulated
from tests.reference import assert_convolution

SPECIAL = (np.nan, np.inf, -np.inf)
WINOGRAD = ("3x3", "3x3 of many channels", "5x5", "subkernels", "one pixel of a 3x3", "groups",
            "groups of blocks", "one channel")  # fmt: skip


def sprinkle(array: np.ndarray, count: int, rng: np.random.Generator) -> None:
    """Put NaN and infinities into a few places."""
    places = rng.integers(0, array.size, count)
    array.reshape(-1)[places] = rng.choice(SPECIAL, count)


def sprinkled(
    plain: Problem, block: int, counts: dict[str, int], rng: np.random.Generator
) -> list[Case]:
    """Give the problem with each epilogue, and with so many special numbers in its operands."""
    cases = []
    for options in EPILOGUES.values():
        described = replace(plain, **options)
        arrays = described.arrays()
        for name, count in counts.items():
            sprinkle(arrays[name], count, rng)
        cases.append(Case(described, block, arrays))
    return cases


def plain_weights(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(0.5, 1, shape).astype(np.float32)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", WINOGRAD)
def test_every_candidate_of_special_numbers(shape, layout, dtype, rng, monkeypatch):
    """In the input, and in weights."""
    block = LAYOUTS[layout]
    sizes = SHAPES[shape]
    in_weights = bool(rng.integers(2))
    plain = Problem(dtype, "NCHW" if block else layout, *sizes, seed=len(shape))
    problem = conv_problem(plain, block)
    cases = sprinkled(plain, block, {"input": 3} | ({"weight": 2} if in_weights else {}), rng)
    run = set()
    for around in all_contexts(problem.numerics[0]):
        request = Request(problem, tolerance=np.inf, threads=around.threads)
        found = [c for c in every_candidate(problem, around) if c.algorithm == "winograd"]
        for candidate in few(found, 3):
            plan = force_plan(monkeypatch, request, candidate, around.isa)
            cases[len(run) % len(cases)].check(plan, describe(candidate))
            run.add(candidate)
    # Groups of channels that begin within a block are not for Winograd.
    assert bool(run) == (winograd.supports(problem, problem.numerics[0]) is None)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [name for name in SHAPES if "1x1" not in name])
def test_weights_on_padding(shape, layout, dtype, rng, monkeypatch):
    """Padding is left out, not multiplied: zero times an infinity is no term."""
    block = LAYOUTS[layout]
    plain = Problem(dtype, "NCHW" if block else layout, *SHAPES[shape], seed=len(shape))
    problem = conv_problem(plain, block)
    cases = sprinkled(plain, block, {"weight": 3}, rng)
    run = set()
    for around in all_contexts(problem.numerics[0]):
        request = Request(problem, tolerance=np.inf, threads=around.threads)
        first = {}
        for candidate in every_candidate(problem, around):
            kind = candidate.algorithm, candidate.blocks.get("orientation"), candidate.bits
            first.setdefault(kind, candidate)
        for candidate in few(first.values(), 3):
            plan = force_plan(monkeypatch, request, candidate, around.isa)
            cases[len(run) % 3].check(plan, describe(candidate))
            run.add(candidate.algorithm)
    assert "im2col" in run or is_emulated()


def test_finite_channels_keep_their_bits(rng):
    """The border is computed again for channels that need it."""
    x = rng.standard_normal((2, 5, 12, 14)).astype(np.float32)
    w = rng.standard_normal((20, 5, 3, 3)).astype(np.float32)
    residual = rng.standard_normal((2, 20, 12, 14)).astype(np.float32)
    before = pplconv.conv2d(x, w, padding=1, residual=residual, algorithm="im2col")
    w[7, 2, 0, 1] = np.inf
    conv = pplconv.Conv2d(w, padding=1, algorithm="im2col")
    out = np.full_like(before, 7)
    assert conv(x, residual, out) is out
    others = np.arange(20) != 7
    np.testing.assert_array_equal(out[:, others], before[:, others])
    # The tap above sees no pixel from the first row, and all others see one.
    below, _ = np.indices((12, 14))
    np.testing.assert_array_equal(np.isinf(out[:, 7]), [below > 0] * 2)
    np.testing.assert_allclose(out[:, 7, 0], before[:, 7, 0], rtol=1e-4, atol=1e-5)
    assert not np.isnan(out).any()
    alone = pplconv.conv2d(x[0], w, padding=1, residual=residual[0], algorithm="im2col")
    assert alone.tobytes() == out[0].tobytes()


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_clip_hides_no_infinity(layout, rng):
    """A transform makes NaN of an infinity, which relu6 keeps; the infinity itself is clipped."""
    x = rng.standard_normal((1, 8, 24, 24)).astype(np.float32)
    w = plain_weights(rng, 8, 8, 3, 3)
    x[0, 3, 10, 13], x[0, 0, 20, 5] = -np.inf, np.inf
    x = to_layout(x, layout)
    y = pplconv.conv2d(
        x, w, padding=1, activation="relu6", layout=layout, algorithm="winograd", tolerance=1e-3
    )
    y = from_layout(y, layout)
    assert np.isfinite(y).all()
    np.testing.assert_array_equal(y[0, :, 9:12, 12:15], 0)
    np.testing.assert_array_equal(y[0, :, 19:22, 4:7], 6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("of", ["input", "weight"])
def test_transforms_that_overflow(of, kernel, layout, dtype, rng):
    """A tenth of the largest number is nothing special to a direct sum."""
    largest = float(np.finfo(dtype).max)
    shape = (1, 4, 17, 19) if layout == "NCHW" else (1, 17, 19, 4)
    large, small = largest / 3, 1 / (16 * kernel**2)
    x = rng.choice([-1, 1], shape).astype(dtype) * (large if of == "input" else small)
    w = rng.choice([-1, 1], (6, 4, kernel, kernel)).astype(dtype)
    w *= small if of == "input" else large
    for tolerance in (1e-5, 1e-3):
        conv = pplconv.Conv2d(
            w, padding=1, layout=layout, algorithm="winograd", tolerance=tolerance
        )
        y = conv(x)
        assert np.isfinite(y).all()
        stated = conv.plan_for(shape).error_bound
        assert_convolution(y, x, w, padding=1, layout=layout, stated=stated)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_other_tiles_keep_their_bits(layout, rng):
    """What is not finite changes nothing beyond the tiles that see it."""
    shape = (2, 16, 33, 30) if layout == "NCHW" else (2, 33, 30, 16)
    x = rng.standard_normal(shape).astype(np.float32)
    conv = pplconv.Conv2d(
        rng.standard_normal((24, 16, 3, 3)).astype(np.float32), padding=1, layout=layout,
        algorithm="winograd", tolerance=1e-3,
    )  # fmt: skip
    n = conv.plan_for(shape).blocks["n"]
    before = conv(x)
    at = (1, slice(None), 14, 15) if layout == "NCHW" else (1, 14, 15)
    x[at] = np.inf
    after = conv(x)
    before, after = from_layout(before, layout), from_layout(after, layout)
    touched = np.zeros(before.shape, bool)
    rows, columns = ([n * (at_ // n) for at_ in range(i - 1, i + 2)] for i in (14, 15))
    for row in rows:
        for column in columns:
            touched[1, :, row : row + n, column : column + n] = True
    assert not np.isfinite(after[1, :, 13:16, 14:17]).any()
    np.testing.assert_array_equal(before[~touched], after[~touched])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_any_team_gives_the_same_bits(layout, dtype, rng, monkeypatch):
    """Of NaN as well; small problems are given teams as large ones have."""
    monkeypatch.setattr(estimating, "least_share", lambda around, start: 1000.0)
    problem = Problem(
        dtype, layout, 2, 1, 21, 70, (19, 23), (3, 3), 1, 1, 1, activation=("clip", -1, 2),
        with_bias=True, with_residual=True,
    )  # fmt: skip
    arrays = problem.arrays()
    sprinkle(arrays["input"], 9, rng)
    sprinkle(arrays["residual"], 2, rng)
    x, residual = arrays.pop("input"), arrays.pop("residual")
    results, teams = [], set()
    for threads in (1, 2, 3):
        conv = pplconv.Conv2d(
            **arrays, **problem.parameters, algorithm="winograd", tolerance=1e-3, threads=threads
        )
        teams.add(conv.plan_for(problem.input_shape).threads)
        results.append(conv(x, residual))
    assert teams == {1, 2, 3}
    assert all(y.tobytes() == results[0].tobytes() for y in results)
    bound = conv.plan_for(problem.input_shape).error_bound
    assert_convolution(
        results[0], x, **arrays, residual=residual, **problem.parameters, stated=bound
    )


def test_weights_that_came_from_another_process(rng):
    """A model that shares its memory has the weights that direct sums need, too."""
    x = rng.standard_normal((1, 16, 20, 20)).astype(np.float32)
    x[0, 2, 7, 7] = np.inf
    conv = pplconv.Conv2d(plain_weights(rng, 24, 16, 3, 3), padding=1, algorithm="winograd")
    expected = conv(x)
    assert np.isposinf(expected).sum() == 9 * 24
    buffers = []
    stream = pickle.dumps(prepared(conv, threads=1), 5, buffer_callback=buffers.append)
    del conv
    other = pickle.loads(stream, buffers=[bytes(b.raw()) for b in buffers]).model()
    assert other(x).tobytes() == expected.tobytes()


def test_a_search_times_what_a_call_would_compute(rng):
    """A trial on arrays with an infinity reads the weights as they came, as a call does."""
    x = rng.standard_normal((1, 16, 20, 20)).astype(np.float32)
    x[0, 2, 7, 7] = np.inf
    w = plain_weights(rng, 24, 16, 3, 3)
    asked = Request(conv_problem(Problem("float32", "NCHW", 1, 1, 16, 24, (20, 20), (3, 3))))
    around = all_contexts(asked.problem.numerics[0])[0]
    found = [c for c in every_candidate(asked.problem, around) if c.algorithm == "winograd"]
    first = Trial(found[0].fields(1), around.isa, w)
    again = Trial(found[0].fields(1), around.isa, w, packed=first)
    expected = pplconv.conv2d(x, w, algorithm="direct")
    for trial in (first, again):
        y = np.zeros(asked.problem.output_shape, np.float32)
        trial.seconds(x, y)
        np.testing.assert_array_equal(np.isposinf(y), np.isposinf(expected))
        assert np.isposinf(y).sum() == 9 * 24 and not np.isnan(y).any()


def test_nothing_but_nan(rng):
    """Slow, as every output is computed again, but it ends, and it is right."""
    x = np.full((1, 32, 40, 40), np.nan, np.float32)
    w = rng.standard_normal((32, 32, 3, 3)).astype(np.float32)
    assert np.isnan(pplconv.conv2d(x, w, padding=1, algorithm="winograd")).all()
