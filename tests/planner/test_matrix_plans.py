"""Plans of matrix products, on every recorded machine: each candidate has a kernel there."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pplconv import planner
from pplconv.algorithms.core_model import CoreModel
from pplconv.algorithms.gemm import packing_cycles
from pplconv.ops.matrices import product_of
from pplconv.planner import Request
from tests.planner.targets import TARGETS, target_of

SHAPES = [
    (1, 4096, 4096), (2, 2048, 512), (3, 7, 5), (5, 3000, 3000), (7, 4096, 1024), (8, 4096, 4096),
    (9, 1000, 4000), (16, 512, 4096), (40, 33, 2000), (300, 8, 9000), (1500, 1500, 1500),
]  # fmt: skip


@pytest.mark.sampled(5)
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
                    (m, k),
                    a_strides,
                    (k, n),
                    b_strides,
                    dtype,
                    permitted,
                    may_swap=True,
                    may_read=True,
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
    """A matrix that tiles read across its rows is packed if the rows are a page apart."""
    size = int(dtype[1:]) // 8
    for n in (1024, 2048, 4096):
        assert n * size % 4096 == 0
        for a_strides, b_strides in itertools.product([(n, 1), (1, n)], repeat=2):
            _, chosen = ways(machine, dtype, n, a_strides, b_strides)[0]
            assert chosen.packed or chosen.in_rows, (n, a_strides, b_strides, chosen.blocks)


def square(n, a_strides, b_strides, dtype, permitted=None, may=True, may_read=None):
    return product_of(
        (n, n), a_strides, (n, n), b_strides, dtype, permitted or (dtype,), may_swap=may,
        may_read=may if may_read is None else may_read,
    )  # fmt: skip


def ways(machine, dtype, n, a_strides, b_strides):
    """Return the best candidate of each view of a square product, with its total cost."""
    found = square(n, a_strides, b_strides, dtype)
    best = []
    for option in found.options:
        request = Request(option.problem, tolerance=0.0, threads=1, target=target_of(machine))
        ranked = request.ranked()[0]
        best.append((ranked.total + packing_cycles(option.problem, request.context(), 1),
                     ranked.candidate))  # fmt: skip
    return sorted(best, key=lambda each: each[0])


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_small_matrices_are_read_where_they_lie(machine, dtype):
    """Copying 64 rows of 64 takes a tenth of the product."""
    for n in (16, 64, 96):
        for a_strides in ((n, 1), (1, n)):
            _, chosen = ways(machine, dtype, n, a_strides, (n, 1))[0]
            assert (chosen.columns, chosen.packed_weight_bytes) == ("in place", 0), chosen.blocks
            assert chosen.numerics.operand == dtype


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_what_a_task_packs_stays_in_its_cache(machine, dtype):
    """A block of B takes half of L2 at most, or is a panel wide: rows of A pass by meanwhile."""
    size, share = int(dtype[1:]) // 8, target_of(machine).machine.l2_share
    for n in (256, 1024, 4096):
        found = square(n, (n, 1), (n, 1), dtype, may=False, may_read=True)
        (problem,) = (each.problem for each in found.options if not each.problem.prepacked)
        for threads in (1, 4):
            request = Request(problem, tolerance=0.0, threads=threads, target=target_of(machine))
            count = 0
            for ranked in request.ranked(threads):
                c = ranked.candidate
                if c.columns != "by task":
                    continue
                count += 1
                block = c.panels.bytes(c.oc_segment, c.k_block, size)
                assert block <= share // 2 + c.panels.width * c.k_block * size or (
                    c.oc_segment == c.panels.width
                )
                assert c.tasks == c.oc_segments
                assert c.scratch_bytes >= block
            assert count > 0


def test_a_product_is_named_by_who_packs():
    """Packed and unpacked products have wisdom of their own."""
    found = square(64, (64, 1), (64, 1), "f32")
    texts = {option.problem.layout_text for option in found.options}
    assert {"mk.kn.mn ld64", "mk.kn.mn ld64 unpacked"} < texts
    index, plan, _ = planner.make_cheapest_plan([o.problem for o in found.options], threads=1)
    assert found.options[index].problem.layout_text == plan.layout == "mk.kn.mn ld64 unpacked"
    assert plan.packed_weight_bytes == 0


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_what_is_converted_is_packed_before(dtype):
    found = square(64, (64, 1), (1, 64), dtype, ("f32",))
    assert all(option.problem.prepacked for option in found.options)


@pytest.mark.parametrize("machine", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_weights_beyond_l3_come_while_others_are_multiplied(machine, dtype):
    """Segments of A have so many rows that weights load in less than half of the FMAs' time."""
    n, size = 4096, int(dtype[1:]) // 8
    found = square(n, (n, 1), (1, n), dtype, may=False)
    (option,) = found.options
    request = Request(option.problem, tolerance=0.0, threads=1, target=target_of(machine))
    core, best = CoreModel.of(request.context()), request.ranked()[0]
    if core.l3_bytes:  # without L3 there is no model of memory
        passes = math.ceil(n / best.candidate.hw_segment)
        assert passes * n * n * size / core.memory_rate < 0.5 * best.cost["fma"]
