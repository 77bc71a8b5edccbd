"""GEMM kernels and kernels of sparse weights: all tails, flags, lengths, strides, alignments."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest

from tests.kernels.gemm_case import (
    A_LAYOUTS,
    ANYWHERE,
    C_LAYOUTS,
    DEPTHS,
    SEGMENT_COUNTS,
    Call,
    flag_combinations,
)
from tests.kernels.gemm_case import draw_case as draw_gemm
from tests.kernels.guarded_memory import PLACES
from tests.kernels.kernel_table import rows, symbol
from tests.kernels.kernel_values import KINDS
from tests.kernels.product_case import ROWS, judge, judge_each
from tests.kernels.sparse_case import GROUPS, PANELS, WAYS, X_LAYOUTS, SparseCall
from tests.kernels.sparse_case import draw_case as draw_sparse

GEMM = [row for row in ROWS if row["op"] == "gemm"]
SPARSE = [row for row in ROWS if row["op"] != "gemm"]
# Half precision has no portable kernels, and kernels of narrow types are compared bit for bit.
ASSEMBLY = [row for row in GEMM if row["isa"] != "portable" and row["dtype"] in ("f32", "f64")]
FLOATS = [row for row in SPARSE if row["kr"] == 1]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)
every_gemm = pytest.mark.parametrize("row", GEMM, ids=symbol)
every_sparse = pytest.mark.parametrize("row", SPARSE, ids=symbol)
LONG = 1200


def whole_and_tail(row: dict, rng: np.random.Generator) -> tuple[int, int]:
    """Give two numbers of columns: all of a tile, and some."""
    return row["nr"], int(rng.integers(1, row["nr"] + 1))


@pytest.mark.sampled(36)
@every_kernel
def test_every_tail(checker, row, rng):
    """Every number of columns, next to either guard page and anywhere."""
    name, lengths = ("k", DEPTHS) if row["op"] == "gemm" else ("groups", GROUPS)
    length = cycle(lengths)
    for n in range(1, row["nr"] + 1):
        for place in (*PLACES, ANYWHERE):
            for kind in KINDS:
                judge(checker, row, rng, n=n, place=place, kind=kind, **{name: next(length)})


@pytest.mark.sampled(84)
@every_kernel
def test_every_combination_of_flags(checker, row, rng):
    """Whole tiles and tails; pointers whose flag is not set are invalid."""
    for flags in flag_combinations(row):
        judge_each(checker, row, rng, n=whole_and_tail(row, rng), flags=[flags])


@pytest.mark.sampled(90)
@every_kernel
def test_every_layout_of_c(checker, row, rng):
    """Row-major and blocked, every tail; gaps between vectors of C are not written."""
    judge_each(checker, row, rng, n=range(1, row["nr"] + 1), c_layout=C_LAYOUTS)


@pytest.mark.sampled(75)
@every_gemm
def test_every_depth_and_layout_of_a(checker, row, rng):
    """Each k with each layout of A; k = 0 reads neither A nor B."""
    judge_each(checker, row, rng, k=DEPTHS, a_layout=A_LAYOUTS)


@pytest.mark.sampled(66)
@every_gemm
def test_every_number_of_segments(checker, row, rng):
    """Segments anywhere in A and B, in any order, overlapping or not; 0 is the plain product."""
    judge_each(checker, row, rng, segment_count=SEGMENT_COUNTS, a_layout=A_LAYOUTS)


@pytest.mark.parametrize("row", ASSEMBLY, ids=symbol)
def test_agrees_with_portable(checker, row, rng):
    """The difference from the portable kernels is within the sum of both error bounds."""
    family = rows("gemm", "portable")
    narrow = min(r["nr"] for r in family if r["dtype"] == row["dtype"])
    portable = {r["mr"]: r for r in family if (r["dtype"], r["nr"]) == (row["dtype"], narrow)}
    for n in {1, narrow + 1, row["nr"] - 1, row["nr"]} - {0}:
        kind = str(rng.choice(["random", "special"]))
        case = draw_gemm(rng, row, n=min(n, row["nr"]), kind=kind)
        with np.errstate(all="ignore"):
            call = Call(checker, row, case, rng)
            _, bound = call.exact()
            expected = call.run_portable(portable, rng)
            call.near(call.run(), expected.astype(np.float64), 2 * bound)


@pytest.mark.sampled(14)
@every_sparse
def test_every_number_of_terms(checker, row, rng):
    """Each number with each layout of terms and input; without terms neither is read."""
    judge_each(checker, row, rng, groups=GROUPS, way=WAYS, x_layout=X_LAYOUTS)


@pytest.mark.sampled(50)
@every_sparse
def test_every_number_of_panels(checker, row, rng):
    """Panels with lists of any length, some empty; whole tiles and tails."""
    for panels in (*PANELS, 9):
        axes = {"groups": (0, 1, 9), "n": whole_and_tail(row, rng)}
        judge_each(checker, row, rng, panels=[panels], **axes)


@pytest.mark.sampled(44)
@every_sparse
def test_many_terms(checker, row, rng):
    """More terms than a loop turn or a block of K has; their input rows overlap."""
    axes = {"groups": [LONG // row["kr"]], "x_layout": ["overlapping"]}
    judge_each(checker, row, rng, n=whole_and_tail(row, rng), way=WAYS, **axes)


@pytest.mark.parametrize("row", FLOATS, ids=symbol)
def test_what_is_pruned_is_not_multiplied(checker, row, rng):
    """NaN between the terms' inputs changes nothing; zero weights of a term are multiplied."""
    fixed = {"panels": 1, "kind": "random", "x_layout": "planes", "flags": 0}
    call = SparseCall(checker, row, draw_sparse(rng, row, groups=9, way="sparse", **fixed), rng)
    with np.errstate(all="ignore"):
        call.same_bits(call.run(), call.ordered())
        assert np.isfinite(call.ordered()).all()
    call = SparseCall(checker, row, draw_sparse(rng, row, groups=3, way="dense", **fixed), rng)
    for name, at, count, value in (
        ("x", int(call.at[1]), 1, np.inf),
        ("values", call.width * call.dtype.itemsize, call.width, 0),
    ):
        arena = checker.arena(name)
        first = call.values[name] + at - arena.base
        np.ndarray((count,), call.dtype, arena.open, first)[...] = value
    # The reference of half precision uses these copies of the factors.
    call.weights[:, 1], call.pixels[1, 0] = 0, np.inf
    with np.errstate(all="ignore"):
        got = call.run()
        assert np.isnan(got).any()
        call.same_bits(got, call.ordered())
