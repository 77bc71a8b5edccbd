"""Draws, makes and judges one call of a GEMM kernel, or of a kernel of sparse weights."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np

from asm.registry import PRODUCTS
from tests.kernels import gemm_case, sparse_case
from tests.kernels.kernel_checker import Checker
from tests.kernels.kernel_table import every_row
from tests.kernels.narrow_gemm import is_integer

__all__ = ["ROWS", "judge", "judge_each"]

# Kernels on tile registers have their own tests, `test_tile_kernels.py`.
ROWS = [
    row
    for op in ("gemm", "sparse_pixels", "sparse_channels")
    for row in every_row(op)
    if not row["dtype"].endswith("t")
]


def judge(checker: Checker, row: dict, rng: np.random.Generator, **fixed: object) -> None:
    """Draw a call with the members `fixed`, make it, and compare with both references."""
    of, make = gemm_case, gemm_case.Call
    if row["op"] != "gemm":
        of, make = sparse_case, sparse_case.SparseCall
    case = of.draw_case(rng, row, **fixed)
    with np.errstate(all="ignore"):
        call = make(checker, row, case, rng)
        ordered = call.ordered()
        # Partial sums of extreme numbers overflow in one type and not in the other.
        exact = call.exact() if case.kind != "extreme" and not is_integer(row) else None
        got = call.run()
        assert ordered is not None or PRODUCTS[row["dtype"]].sum == "f32"
        if ordered is not None:
            call.same_bits(got, ordered)
        if exact is not None:
            call.near(got, *exact)


def judge_each(checker: Checker, row: dict, rng: np.random.Generator, **axes: Iterable) -> None:
    """Judge a call for each combination of the values of `axes`."""
    for values in product(*axes.values()):
        judge(checker, row, rng, **dict(zip(axes, values, strict=True)))
