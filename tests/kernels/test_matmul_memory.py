"""`matmul` between guard pages: nothing is read or written outside its operands."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace

import numpy as np
import pytest

import pplconv
from pplconv import planner
from pplconv.algorithms import gemm
from pplconv.planner.describing import plan_of
from pplconv.planner.estimating import Ranked, Request
from tests.api.candidates import all_contexts, describe
from tests.kernels.guarded_memory import Arena

DTYPES = ["float16", "float32", "float64"]
EPS = {"float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}


@pytest.fixture(scope="module")
def arenas():
    return {name: Arena(name, 64, writable=name == "out") for name in ("a", "b", "out")}


def placed(arena, content, place):
    """Give a copy of `content` next to a guard page."""
    buffer = arena.buffer(content.nbytes, place)
    buffer.array(content.shape, content.dtype, content.strides)[...] = content
    memory = (ctypes.c_char * content.nbytes).from_address(buffer.address)
    order = "C" if content.flags.c_contiguous else "F"
    return np.frombuffer(memory, content.dtype).reshape(content.shape, order=order)


def operands(arenas, rng, sizes, kind, transposed, place):
    """Give both matrices of a product, each next to a guard page."""
    m, n, k = sizes
    views = []
    for name, shape in (("a", (m, k)), ("b", (k, n))):
        content = rng.standard_normal(shape).astype(kind)
        if name in transposed:
            content = np.asfortranarray(content)
        views.append(placed(arenas[name], content, place))
    return views


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [(), ("a",), ("b",), ("a", "b")], ids=str)
@pytest.mark.parametrize("place", ["start", "end"])
def test_nothing_outside_is_touched(arenas, dtype, transposed, place, rng):
    kind = np.dtype(dtype)
    for m, n, k in ((1, 1, 1), (1, 33, 70), (7, 17, 5), (40, 65, 129), (3, 200, 31)):
        views = operands(arenas, rng, (m, n, k), kind, transposed, place)
        exact = views[0].astype(np.float64) @ views[1].astype(np.float64)
        for bias in (None, rng.standard_normal(n).astype(kind)):
            out = placed(arenas["out"], np.full((m, n), np.nan, kind), place)
            pplconv.matmul(*views, bias=bias, out=out, threads=2)
            expected = exact if bias is None else exact + bias
            scale = max(np.abs(expected).max(), 3 * k**0.5)
            assert np.abs(out - expected).max() <= EPS[dtype] * (2 + k**0.5) * scale


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [(), ("a",), ("b",), ("a", "b")], ids=str)
@pytest.mark.parametrize("place", ["start", "end"])
def test_matrices_that_are_not_packed_before(arenas, dtype, transposed, place, rng, monkeypatch):
    """All candidates that read b in place, or pack it task by task, give the same bits."""
    kind, ways = np.dtype(dtype), set()
    for m, n, k in ((1, 33, 70), (17, 7, 5), (40, 65, 129), (31, 130, 31)):
        views = operands(arenas, rng, (m, n, k), kind, transposed, place)
        exact = views[0].astype(np.float64) @ views[1].astype(np.float64)
        bound = EPS[dtype] * (2 + k**0.5) * max(np.abs(exact).max(), 3 * k**0.5)
        bits = {}
        for problem, around, candidate in unpacked(views, monkeypatch):
            request = Request(problem, tolerance=0.0, threads=around.threads)
            plan, fields = plan_of(request, Ranked(0.0, candidate, {}), "estimate")
            threads = min(around.threads, candidate.tasks)
            made = 0, replace(plan, isa=around.isa), fields | {"threads": threads}
            monkeypatch.setattr(planner, "make_cheapest_plan", lambda *_, made=made, **__: made)
            out = placed(arenas["out"], np.full((m, n), np.nan, kind), place)
            pplconv.matmul(*views, out=out, threads=around.threads, activation=another())
            assert np.abs(out - exact).max() <= bound, describe(candidate)
            assert bits.setdefault(around.isa, out.tobytes()) == out.tobytes(), describe(candidate)
            ways.add((candidate.columns, candidate.packed))
    places = {"by task"} if "b" in transposed else {"by task", "in place"}
    assert ways == {(columns, packed) for columns in places for packed in (False, True)}


COUNT = itertools.count()


def another():
    """Give an activation that changes nothing, different each time, so that no plan is cached."""
    return ("clip", -1e6 - next(COUNT), 1e6)


def unpacked(views, monkeypatch):
    """Yield problem, context and candidate for each way to multiply with an unpacked b."""
    asked = []

    def ask(problems, **_):
        asked.extend(problems)
        raise LookupError

    with monkeypatch.context() as patched:
        patched.setattr(planner, "make_cheapest_plan", ask)
        with pytest.raises(LookupError):
            pplconv.matmul(*views, threads=1, activation=another())
    (problem,) = (each for each in asked if not each.prepacked)
    for around in all_contexts(problem.numerics[0]):
        for candidate in gemm.candidates(problem, around):
            yield problem, around, candidate
