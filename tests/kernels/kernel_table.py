"""The kernels under test: the rows of the installed table."""

from __future__ import annotations

from functools import cache

import numpy as np

from asm.registry import ISAS, Kernel
from pplconv import _kernels
from tests.levels import MACHINE, allowed_isas

__all__ = [
    "BITS",
    "DTYPES",
    "MACHINE",
    "allowed_isas",
    "computed",
    "computed_lanes_of",
    "every_row",
    "float_rows",
    "in_pairs",
    "integer_rows",
    "lanes_of",
    "rows",
    "symbol",
]

DTYPES = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "u8": np.dtype(np.uint8),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "bf16": np.dtype(np.uint16),  # the bits: NumPy has no bfloat16
}
# The same bits as integers, for comparisons that tell -0.0 from 0.0 and keep NaNs.
BITS = {name: np.dtype(f"u{dtype.itemsize}") for name, dtype in DTYPES.items()}


@cache
def every_row(op: str) -> list[dict]:
    """Rows of an operation that are built for this architecture, as parameters of tests.

    Tests of rows that this run cannot call are deselected and counted when tests are collected.
    """
    return [row for row in _kernels.rows() if row["op"] == op]


@cache
def float_rows(op: str) -> list[dict]:
    """Rows of `every_row` that compute floating-point numbers."""
    return [row for row in every_row(op) if DTYPES[row["dtype"]].kind == "f"]


@cache
def integer_rows(op: str) -> list[dict]:
    """Rows of `every_row` that compute integers."""
    return [row for row in every_row(op) if DTYPES[row["dtype"]].kind == "i"]


@cache
def rows(op: str, isa: str | None = None) -> list[dict]:
    """Rows of an operation that this run can call."""
    isas = allowed_isas() if isa is None else [isa]
    return [row for row in every_row(op) if row["isa"] in isas and row["isa"] in allowed_isas()]


def symbol(row: dict) -> str:
    """Name of a row in test ids."""
    return row["symbol"].removeprefix("pplconv_")


def lanes_of(row: dict) -> int:
    """Elements of the row's type in a vector."""
    return row["vector_bytes"] // DTYPES[row["dtype"]].itemsize


def computed(dtype: np.dtype) -> np.dtype:
    """Type of the arithmetic: smaller types than float are computed in float."""
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def computed_lanes_of(row: dict) -> int:
    """Elements in a vector of the arithmetic."""
    return row["vector_bytes"] // computed(DTYPES[row["dtype"]]).itemsize


def in_pairs(kernel: Kernel) -> bool:
    """Whether a kernel computes panels of one channel in pairs: two rows of accumulators."""
    single = kernel.op == "sparse_pixels" and (kernel.mr, kernel.kr) == (1, 1)
    return single and kernel.source == "generator" and ISAS[kernel.isa].machine == "x86_64"
