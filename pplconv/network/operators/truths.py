"""Comparisons, logic and casts as instructions: truths are the numbers 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..onnx_later import ir
from .expressions import Code, Write

__all__ = ["cast", "exclusive_or", "infinite", "not_a_number", "sign", "swapped"]


def swapped(op: str) -> Write:
    """One instruction, on two operands in reverse order."""
    return lambda code, x, attributes, known: code.do(op, x[1], x[0])


def exclusive_or(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Xor."""
    return code.do("NOT", code.do("EQUAL", x[0], x[1]))


def not_a_number(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """IsNaN: NaN is equal to nothing."""
    return code.do("NOT", code.do("EQUAL", x[0], x[0]))


def infinite(code: Code, x: Sequence[int], attributes: dict[str, Any], known: Any) -> int:
    """IsInf, of both signs, of one or of none."""
    below, above = (attributes.get(f"detect_{sign}", 1) for sign in ("negative", "positive"))
    if below and above:
        return code.do("EQUAL", code.do("ABSOLUTE", x[0]), code.scalar(math.inf))
    if not below and not above:
        return code.do("COPY", code.scalar(0.0))
    return code.do("EQUAL", x[0], code.scalar(math.inf if above else -math.inf))


def sign(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Sign: 1, 0 or -1; NaN stays."""
    zero = code.scalar(0.0)
    y = code.do("SUBTRACT", code.do("LESS", zero, x[0]), code.do("LESS", x[0], zero))
    return code.do("WHERE", code.do("EQUAL", x[0], x[0]), y, x[0])


def cast(code: Code, x: Sequence[int], attributes: dict[str, Any], known: Any) -> int:
    """Cast from truths, and to them: all but zero is true, NaN included.

    Other casts are conversions as programs load and store: they have no instruction.
    """
    if attributes["to"] == ir.DataType.BOOL:
        return code.do("NOT", code.do("NOT", x[0]))
    return code.do("COPY", x[0])
