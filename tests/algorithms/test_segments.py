"""Teams divide work into as many pieces as threads, or a multiple, of similar sizes."""

from __future__ import annotations

import math

import pytest

from pplconv.algorithms import PlanContext
from pplconv.algorithms.gemm import candidates
from pplconv.machine import Machine
from pplconv.matrix_problem import MatrixProblem
from pplconv.numerics import numerics_of

MIB = 1 << 20
TILES = {16: 28, 32: 14, 48: 9, 64: 6}
MACHINE = Machine(
    arch="x86_64",
    isas=("portable", "avx512"),
    fma_per_cycle={"avx512": 1},
    l1d_bytes=32768,
    l2_bytes=MIB,
)


def nests(problem: MatrixProblem, threads: int):
    """Give the candidates that read rows in place."""
    around = PlanContext(MACHINE, numerics_of("f32", "f32"), "avx512", TILES, 16, threads)
    return [nest for nest in candidates(problem, around) if not nest.packed]


def busiest(nest, threads: int) -> float:
    """Share of the rows that the busiest thread computes, if a task has all columns."""
    tasks = math.ceil(nest.pixels / nest.hw_segment)
    return math.ceil(tasks / threads) * nest.hw_segment / nest.pixels


@pytest.mark.parametrize("threads", [2, 3, 4])
@pytest.mark.parametrize("size", [384, 500, 2048])
def test_some_candidate_shares_rows_evenly(size, threads):
    """L2 alone would cut 384 rows into three pieces, two of them for one of two threads."""
    problem = MatrixProblem(size, size, size)
    shares = [
        busiest(nest, threads)
        for nest in nests(problem, threads)
        if nest.oc_segment >= size and nest.mr > 8
    ]
    assert min(shares) <= 1.01 / threads + 1 / size


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_no_candidate_comes_twice(threads):
    found = nests(MatrixProblem(384, 384, 384), threads)
    assert len(set(found)) == len(found)
