"""What must be refused: products that are spoiled, and such that cannot be served as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.case import Reason, Spoiled
from tests.fuzz.draws import SPOILED_OUT

if TYPE_CHECKING:
    from tests.fuzz.matrix_cases import MatrixCase

_EPILOGUE = ("bias shape", "bias dtype", "residual shape", "residual dtype")
_MATMUL = (
    "a dtype", "b dtype", "a scalar", "b scalar", "b rows", "b batches", *_EPILOGUE,
    *(f"out overlaps {name}" for name in ("a", "a", "b", "bias", "residual")), *SPOILED_OUT,
)  # fmt: skip
_LINEAR = (
    "input dtype", "input other", "input scalar", "input columns", "weight dtype",
    "weight dimensions", "weight size", *_EPILOGUE,
    "out overlaps input", "out overlaps residual", *SPOILED_OUT,
)  # fmt: skip


def spoiled(call: str) -> tuple[str, ...]:
    """Give what may be wrong with the arrays of a call."""
    return _MATMUL if call == "matmul" else _LINEAR


def arguments(case: MatrixCase) -> frozenset[str]:
    """Arguments besides arrays, of those that ``test_errors`` spoils."""
    names = {"activation", "threads"}
    return frozenset(names if case.call == "matmul" else names | {"max_workspace"})


def spoil(case: MatrixCase, what: str, operands: dict[str, Any], out: Any) -> Spoiled | None:
    """Spoil one of the operands, as `refusals.spoil` does."""
    name, _, of = what.partition(" ")
    p = case.problem
    other = "float32" if p.dtype == "float64" else "float64"
    array = None if operands[name] is None else np.asarray(operands[name])
    error: Any = ValueError
    changed: Any
    if name == "bias":
        columns = p.columns + 1 if of == "shape" else p.columns
        changed = np.zeros(columns, other if of == "dtype" else p.dtype)
    elif name == "residual":
        shape = case.output_shape
        if of == "shape":
            shape = (*shape[:-1], shape[-1] + 1) if shape else (2,)
        changed = np.zeros(shape, other if of == "dtype" else p.dtype)
    elif of == "dtype":
        changed = np.ones(array.shape, "i4")
    elif of == "other":  # in `Linear`, the types of input and weights do not mix
        changed = np.ones(array.shape, other)
    elif of == "scalar":
        changed = np.ones((), array.dtype)
    elif of == "columns":
        changed = np.ones((*array.shape[:-1], array.shape[-1] + 1), array.dtype)
    elif of == "rows":
        shape = list(array.shape)
        shape[max(array.ndim - 2, 0)] += 1
        changed = np.ones(shape, array.dtype)
    elif of == "batches":
        if p.m is None or p.n is None:
            return None
        operands["a"] = np.ones((2, *np.shape(operands["a"])[-2:]), p.types[0])
        changed = np.ones((3, *array.shape[-2:]), array.dtype)
    elif of == "dimensions":
        changed = np.ones(array.shape[1:], array.dtype)
    elif of == "size":
        changed, error = 8, TypeError
    else:
        raise KeyError(what)
    if of in ("dtype", "other"):
        error = TypeError
    operands[name] = changed
    return Spoiled(f"spoiled {what}", name, error, out)


def predicted(case: MatrixCase) -> Reason | None:
    """As `Case.predicted`."""
    p = case.problem
    if case.call == "matmul":
        return None
    if p.options.get("precision") is not None and p.dtype == "float64":
        return Reason("precision of float64", "precision")
    if not p.k or not p.n:
        return Reason("empty weights", "weight")
    return None
