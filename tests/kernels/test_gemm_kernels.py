"""Every GEMM microkernel: all tails, all flags, all depths, any stride and alignment."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest

from asm.registry import PRODUCTS
from gemm_case import (
    A_LAYOUTS,
    ANYWHERE,
    C_LAYOUTS,
    DEPTHS,
    SEGMENT_COUNTS,
    Call,
    Case,
    draw_case,
    flag_combinations,
)
from guarded_memory import PLACES
from kernel_table import every_row, rows, symbol
from kernel_values import KINDS
from narrow_gemm import is_integer

# Tile registers are loaded before: theirs are tested where that is.
ROWS = [row for row in every_row("gemm") if not row["dtype"].endswith("t")]
# Half precision has no portable kernels, and narrow types have them compared bit for bit.
ASSEMBLY = [row for row in ROWS if row["isa"] != "portable" and row["dtype"] in ("f32", "f64")]
every_kernel = pytest.mark.parametrize("row", ROWS, ids=symbol)


def judge(checker, row: dict, case: Case, rng: np.random.Generator) -> None:
    """Make the call and hold its result against both references."""
    with np.errstate(all="ignore"):
        call = Call(checker, row, case, rng)
        ordered = call.ordered()
        # Sums of extreme numbers overflow on the way in one type and not in the other.
        exact = call.exact() if case.kind != "extreme" and not is_integer(row) else None
        got = call.run()
        assert ordered is not None or PRODUCTS[row["dtype"]].sum == "f32"
        if ordered is not None:
            call.same_bits(got, ordered)
        if exact is not None:
            call.near(got, *exact)


@pytest.mark.sampled(13)
@every_kernel
def test_every_tail(checker, row, rng):
    """Each number of columns, flush against the guard pages on both sides and anywhere."""
    depths = cycle(DEPTHS)
    for n in range(1, row["nr"] + 1):
        for place in (*PLACES, ANYWHERE):
            for kind in KINDS:
                case = draw_case(rng, row, n=n, place=place, k=next(depths), kind=kind)
                judge(checker, row, case, rng)


@pytest.mark.sampled(40)
@every_kernel
def test_every_combination_of_flags(checker, row, rng):
    """Whole tiles and tails; a pointer that no flag calls for leads nowhere."""
    for flags in flag_combinations(row):
        tail = int(rng.integers(1, row["nr"] + 1))
        for n in (row["nr"], tail):
            judge(checker, row, draw_case(rng, row, n=n, flags=flags), rng)


@pytest.mark.sampled(75)
@every_kernel
def test_every_depth_and_layout_of_a(checker, row, rng):
    """Each k with each way that A may lie; k = 0 reads neither A nor B."""
    for k in DEPTHS:
        for a_layout in A_LAYOUTS:
            judge(checker, row, draw_case(rng, row, k=k, a_layout=a_layout), rng)


@pytest.mark.sampled(66)
@every_kernel
def test_every_number_of_segments(checker, row, rng):
    """Anywhere in A and B, in any order, overlapping or not; 0 is the plain product."""
    for count in SEGMENT_COUNTS:
        for a_layout in A_LAYOUTS:
            case = draw_case(rng, row, segment_count=count, a_layout=a_layout)
            judge(checker, row, case, rng)


@pytest.mark.sampled(37)
@every_kernel
def test_every_layout_of_c(checker, row, rng):
    """Row-major and blocked, each tail; what lies between vectors of C is left alone."""
    for n in range(1, row["nr"] + 1):
        for c_layout in C_LAYOUTS:
            judge(checker, row, draw_case(rng, row, n=n, c_layout=c_layout), rng)


@pytest.mark.parametrize("row", ASSEMBLY, ids=symbol)
def test_agrees_with_portable(checker, row, rng):
    """The same tile from the portable kernels lies within the sum of the two bounds."""
    family = rows("gemm", "portable")
    narrow = min(r["nr"] for r in family if r["dtype"] == row["dtype"])
    portable = {r["mr"]: r for r in family if (r["dtype"], r["nr"]) == (row["dtype"], narrow)}
    for n in {1, narrow + 1, row["nr"] - 1, row["nr"]} - {0}:
        case = draw_case(rng, row, n=min(n, row["nr"]), kind=str(rng.choice(["random", "special"])))
        with np.errstate(all="ignore"):
            call = Call(checker, row, case, rng)
            _, bound = call.exact()
            expected = call.run_portable(portable, rng)
            call.near(call.run(), expected.astype(np.float64), 2 * bound)
