"""Candidates answer the questions of callers, and plans pass the answers on."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pplconv.algorithms import (
    ALGORITHMS,
    Candidate,
    asked_in_turn,
    gemm,
    kind_of,
    only_for,
    sparse,
)
from pplconv.algorithms.candidate import ANSWERS
from pplconv.matrix_problem import MatrixProblem
from pplconv.numerics import numerics_of
from pplconv.planner import Plan, Request
from pplconv.planner.describing import plan_of
from pplconv.planner.estimating import Ranked
from pplconv.problem import ConvProblem
from pplconv.sparsity import WITHOUT_ZEROS, Sparsity
from tests.api.candidates import all_contexts, context_of, conv_problem, every_candidate
from tests.api.problems import Problem

# Convolutions, each of which some loops compute: channels, groups and padding differ.
SHAPES = {
    "few planes": (1, 2, 6, 18, (9, 37), (3, 3), 1, 1, 1),
    "depthwise": (1, 21, 21, 42, (9, 11), (3, 3), 1, 1, 1),
    "padded": (2, 1, 21, 35, (13, 11), (3, 3), 1, 1, 1),
    "without padding": (2, 1, 21, 35, (13, 11), (3, 3), 1, 0, 1),
    "pointwise": (2, 1, 37, 50, (7, 9), (1, 1), 1, 0, 1),
}
EVERY_LOOPS = {"depthwise", "direct", "gemm", "planes", "sparse", "winograd"}


def problems() -> Iterator[ConvProblem]:
    for shape in SHAPES.values():
        for layout, block in (("NCHW", 0), ("NHWC", 0), ("NCHW", 8)):
            problem = conv_problem(Problem("float32", layout, *shape, seed=7), block)
            yield problem
            if problem.groups == 1:
                yield replace(problem, sparsity=Sparsity(4, 250))


def bytes_problem(permitted: str, shape: str = "padded") -> ConvProblem:
    problem = conv_problem(Problem("uint8", "NHWC", *SHAPES[shape], seed=7))
    return replace(problem, permitted=(permitted,))


@pytest.fixture(scope="module")
def found() -> list[Candidate]:
    """Give the candidates of all problems, of floats and of bytes by words."""
    every: list[Candidate] = []
    for problem in [*problems(), bytes_problem("s16")]:
        for around in all_contexts(problem.numerics[0])[:2]:
            every += every_candidate(problem, around)
    assert {c.loops for c in every} == EVERY_LOOPS
    return every


def loops_that(found: list[Candidate], answer: str) -> set[str]:
    """Give the loops of candidates that answer yes."""
    return {c.loops for c in found if getattr(c, answer)}


def test_fields_pass_the_answers_on(found):
    for candidate in found:
        fields = candidate.fields(1)
        assert {name: fields[name] for name in ANSWERS} == {
            name: getattr(candidate, name) for name in ANSWERS
        }
        assert all(isinstance(fields[name], bool) for name in ANSWERS)


def test_packed_windows_have_padding_and_other_loops_leave_it_out(found):
    assert loops_that(found, "multiplies_padding") == {"gemm", "planes", "sparse"}
    for candidate in found:
        padded = candidate.problem.padding != ((0, 0), (0, 0))
        windows = candidate.algorithm in ("im2col", "sparse")
        assert candidate.multiplies_padding is (padded and windows)


@pytest.mark.parametrize("sparsity", [None, Sparsity(4, 250)])
def test_matrices_have_no_padding(sparsity):
    problem = MatrixProblem.parse("m64n128k256")
    if sparsity is not None:
        problem = replace(problem, sparsity=sparsity)
    module = gemm if sparsity is None else sparse
    candidates = list(module.candidates(problem, context_of(problem.numerics[0], 1)))
    assert candidates
    assert not any(c.multiplies_padding for c in candidates)
    assert all(c.pixels_run_on for c in candidates)
    assert {c.takes_gaps for c in candidates} == {sparsity is None}


def test_which_loops_walk_arrays_how(found):
    assert loops_that(found, "pixels_run_on") == {"gemm", "sparse"}
    assert loops_that(found, "walks_rows") == {"direct"}
    assert loops_that(found, "takes_gaps") == {"depthwise", "direct", "gemm", "winograd"}
    # As planes, images of one channel have no gaps.
    planes = [c for c in found if c.problem.layout == "NCHW" and c.takes_gaps]
    assert {c.loops for c in planes} <= {"direct", "gemm"}
    for candidate in found:
        if candidate.loops == "direct":
            assert candidate.takes_gaps is (candidate.problem.layout != "NCHW")


def test_one_kind_leaves_zeros_out_and_one_transforms(found):
    assert loops_that(found, "leaves_zeros_out") == {"sparse"}
    assert loops_that(found, "transforms") == {"winograd"}
    assert loops_that(found, "offsets_by_taps") == {"direct"}


def test_answers_of_an_algorithm_are_those_of_all_its_candidates(found):
    assert {c.algorithm for c in found} == set(ALGORITHMS)
    for candidate in found:
        kind = kind_of(candidate.algorithm)
        assert kind.leaves_zeros_out is candidate.leaves_zeros_out
        assert kind.transforms is candidate.transforms
    assert kind_of(WITHOUT_ZEROS).leaves_zeros_out
    assert not kind_of("gemm").leaves_zeros_out


def test_plans_answer_as_their_candidates_do(found):
    firsts = {c.algorithm: c for c in found}
    for candidate in firsts.values():
        request = Request(candidate.problem, threads=1)
        plan, fields = plan_of(request, Ranked(0.0, candidate, {}), "estimate")
        assert plan.leaves_zeros_out is candidate.leaves_zeros_out is fields["leaves_zeros_out"]
        assert plan.transforms is candidate.transforms
        # They follow from the name, so that pickles of other versions answer as well.
        kind, values = plan.__reduce__()
        assert kind is Plan and len(values) == len(Plan.__dataclass_fields__)
        assert pickle.loads(pickle.dumps(plan)).transforms is plan.transforms


@pytest.mark.parametrize("finite", [True, False])
def test_what_is_asked_in_turn_for_arrays_with_gaps(found, finite):
    for wanted in ("auto", *ALGORITHMS):
        names = asked_in_turn(wanted, finite)
        assert names[0] == wanted or not finite
        assert (names[-1] == wanted) or wanted == "auto" or not finite
        if not finite and wanted != WITHOUT_ZEROS:  # dense weights refuse that one anyway
            padding = {c.algorithm for c in found if c.multiplies_padding}
            assert not padding & set(names) and "auto" not in names
    assert asked_in_turn("auto", True) == ("auto", "direct")
    assert asked_in_turn("auto", False) == asked_in_turn("im2col", False) == ("direct",)
    assert asked_in_turn("winograd", False) == ("winograd",)


def test_bytes_of_depthwise_convolution_have_products_of_their_own():
    assert only_for(numerics_of("u8", "u8d")) == "depthwise"
    assert only_for(numerics_of("u8", "s16")) is only_for(numerics_of("f32", "f32")) is None
    ranked = Request(bytes_problem("u8d", "depthwise"), threads=1).ranked(1)
    assert {r.candidate.loops for r in ranked} == {"depthwise_bytes"}
    for r in ranked:
        assert not any(getattr(r.candidate, name) for name in ANSWERS)
