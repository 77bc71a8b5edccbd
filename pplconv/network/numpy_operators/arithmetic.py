"""Element-wise operators, of integers above all: sizes and indices, which are small."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Compute, Operands

__all__ = ["ABSOLUTE", "ADD", "DIVIDE", "MAXIMUM", "MINIMUM", "MULTIPLY", "NEGATE", "SUBTRACT"]


def _of_all(function: Callable[..., Any]) -> Compute:
    """Make an operator from a function of one or two arrays; it takes more from left to right."""

    def compute(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
        first, *others = operands
        if not others:
            return [np.asarray(function(first))]
        return [np.asarray(functools.reduce(function, others, first))]

    return compute


def _of_one_or_more(function: Callable[..., Any]) -> Compute:
    """The same, for operators that give a single operand as it is."""

    def compute(attributes: Attributes, operands: Operands, shapes: Sequence[Shape]) -> list[Array]:
        return [np.asarray(functools.reduce(function, operands))]

    return compute


def _divide(a: Array, b: Array) -> Array:
    """Divide; quotients of integers are rounded toward zero, as in C and in onnxruntime."""
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    quotient = a // b
    if a.dtype.kind == "u":
        return np.asarray(quotient)
    inexact = (quotient * b != a) & (b != 0) & ((a < 0) != (b < 0))
    return np.asarray(quotient + inexact.astype(quotient.dtype))


ABSOLUTE = _of_all(np.abs)
ADD = _of_one_or_more(np.add)
DIVIDE = _of_all(_divide)
MAXIMUM = _of_one_or_more(np.maximum)
MINIMUM = _of_one_or_more(np.minimum)
MULTIPLY = _of_all(np.multiply)
NEGATE = _of_all(np.negative)
SUBTRACT = _of_all(np.subtract)
