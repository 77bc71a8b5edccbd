"""Plans of matrix products, on every recorded machine: each candidate has a kernel there."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pplconv.algorithms.gemm import packing_cycles
from pplconv.api.matrices import product_of
from pplconv.planner import Request
from targets import TARGETS, target_of

SHAPES = [
    (1, 4096, 4096), (2, 2048, 512), (3, 7, 5), (5, 3000, 3000), (7, 4096, 1024), (8, 4096, 4096),
    (9, 1000, 4000), (16, 512, 4096), (40, 33, 2000), (300, 8, 9000), (1500, 1500, 1500),
]  # fmt: skip


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_every_candidate_has_a_kernel(machine, dtype):
    target = target_of(machine)
    permitted = ("f32",) if dtype == "f16" else (dtype,)
    count = 0
    for m, n, k in SHAPES:
        for a_strides in ((k, 1), (1, m)):
            for b_strides in ((n, 1), (1, k)):
                found = product_of(
                    (m, k), a_strides, (k, n), b_strides, dtype, permitted, may_swap=True
                )
                if isinstance(found, str):
                    continue  # it is copied first
                for option in found.options:
                    request = Request(option.problem, tolerance=0.0, threads=4, target=target)
                    around = request.context()
                    for ranked in (*request.ranked(1, slack=math.inf), *request.ranked()):
                        candidate = ranked.candidate
                        name = target.symbol(
                            candidate.kernel, candidate.numerics.operand, around.isa
                        )
                        assert name.startswith("pplconv_gemm")
                        assert np.isfinite(ranked.total)
                        count += 1
    assert count > 50


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rows_pages_apart_are_read_once(machine, dtype):
    """Tiles that read a matrix across its rows have it packed, if these are a page apart."""
    target, size = target_of(machine), int(dtype[1:]) // 8
    for n in (1024, 2048, 4096):
        assert n * size % 4096 == 0
        for a_strides, b_strides in itertools.product([(n, 1), (1, n)], repeat=2):
            found = product_of((n, n), a_strides, (n, n), b_strides, dtype, (dtype,), may_swap=True)
            best = []
            for option in found.options:
                request = Request(option.problem, tolerance=0.0, threads=1, target=target)
                ranked = request.ranked()[0]
                cycles = packing_cycles(option.problem, request.context(), 1)
                best.append((ranked.total + cycles, ranked.candidate))
            _, chosen = min(best, key=lambda found: found[0])
            assert chosen.packed or chosen.in_rows, (n, a_strides, b_strides, chosen.blocks)
