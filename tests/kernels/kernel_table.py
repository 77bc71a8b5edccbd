"""The kernels under test: the rows of the installed table that this CPU can execute."""

from __future__ import annotations

from functools import cache

import numpy as np

from levels import MACHINE, executable_isas
from pplconv import _kernels

__all__ = ["BITS", "DTYPES", "MACHINE", "executable_isas", "rows", "symbol"]

DTYPES = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
# The same bits as integers, for comparisons that tell -0.0 from 0.0 and keep NaNs.
BITS = {
    "f16": np.dtype(np.uint16),
    "f32": np.dtype(np.uint32),
    "f64": np.dtype(np.uint64),
}


@cache
def rows(op: str | None = None, isa: str | None = None) -> list[dict]:
    """Rows of the table that this machine can execute."""
    isas = executable_isas()
    return [
        row
        for row in _kernels.rows()
        if row["isa"] in isas and op in (None, row["op"]) and isa in (None, row["isa"])
    ]


def symbol(row: dict) -> str:
    """Name of a row in test ids."""
    return row["symbol"].removeprefix("pplconv_")
