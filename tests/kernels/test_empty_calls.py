"""Calls without rows or without columns: no array is read or written."""

from __future__ import annotations

from itertools import product

import pytest

from asm.contract import CONTRACTS, INT, POOLINGS
from tests.kernels.kernel_table import every_row, symbol

PROGRAM = {"input_count": 2, "output_count": 1, "code_count": 3}
# Other arguments of the calls, for each operation.
OTHERS = {
    "copy_strided": [{}],
    "curve": [PROGRAM | {"code_count": 1}],
    "elementwise": [PROGRAM],
    "softmax": [{"log": 0}, {"log": 1}],
    "layer_norm": [{}],
    "lookup": [{}],
    "rescale": [{}],
    "pool": [{"rows": 1, "columns": 1, "kind": kind} for kind in POOLINGS.values()],
    "resample": [
        {"taps_y": taps, "taps_x": taps, "kind": kind}
        for taps in (1, 2)
        for kind in POOLINGS.values()
    ],
}
CASES = [
    pytest.param(row, others, shape, id=f"{symbol(row)}-{shape}-{others}")
    for op, several in OTHERS.items()
    for row, others, shape in product(every_row(op), several, [(0, 5), (5, 0), (0, 0)])
]


@pytest.mark.parametrize(("row", "others", "shape"), CASES)
def test_nothing_to_do(checker, row, others, shape):
    """All pointers are invalid; but copies of `resample` may load a row's address."""
    fields = CONTRACTS[row["op"]].fields
    values = {field.name: 4 for field in fields if field.ctype == INT}
    names = ("pixels", "channels") if "pixels" in values else ("rows", "columns")
    values |= dict(zip(names, shape, strict=True)) | others
    if others.get("taps_y") == 1 and shape[0] == 0:
        values["rows"] = checker.arena("rows").buffer(8, "end").address
    checker.call(row, values, (others, shape))
