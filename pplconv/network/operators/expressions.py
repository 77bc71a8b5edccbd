"""ONNX's element-wise operators as instructions of our kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._kernels import INSTRUCTIONS

_SINGLE = np.dtype(np.float32)


class Code:
    """Instructions of a program under construction; each result has a number of its own.

    Registers are assigned at the end, once the lifetime of each result is known.

    Parameters
    ----------
    dtype : dtype
        Type that the program computes in.

    Attributes
    ----------
    lowest, highest : int or float
        No number is below the one or above the other.
    """

    def __init__(self, dtype: np.dtype[Any] = _SINGLE) -> None:
        self.dtype = dtype
        self.lowest, self.highest = -math.inf, math.inf
        if dtype.kind == "i":
            self.lowest, self.highest = np.iinfo(dtype).min, np.iinfo(dtype).max
        self.lines: list[tuple[str, int, tuple[int, ...]]] = []
        # Zeros of different signs are different constants.
        self.scalars: dict[tuple[float, float], int] = {}
        self.count = 0

    def fresh(self) -> int:
        """Give a number to a result."""
        self.count += 1
        return self.count - 1

    def scalar(self, number: float) -> int:
        """Give the number of a constant; integers stay exact."""
        key = number, math.copysign(1.0, number)
        if key not in self.scalars:
            self.scalars[key] = self.fresh()
        return self.scalars[key]

    def do(self, op: str, *operands: int) -> int:
        """Add an instruction, and give the number of its result."""
        result = self.fresh()
        self.lines.append((op, result, operands))
        return result


Write = Callable[[Code, Sequence[int], dict[str, Any], Sequence[Any]], int]


def plain(op: str) -> Write:
    """One instruction, on all operands."""
    return lambda code, x, attributes, known: code.do(op, *x)


def chain(op: str) -> Write:
    """One instruction of two operands, along any number of them."""

    def write(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
        total = x[0]
        for other in x[1:]:
            total = code.do(op, total, other)
        return total if len(x) > 1 else code.do("COPY", total)

    return write


def mean(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Mean: a sum, divided by the number of operands."""
    total = x[0]
    for other in x[1:]:
        total = code.do("ADD", total, other)
    return code.do("DIVIDE", total, code.scalar(len(x)))


def clip(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Clip, whose bounds are operands; omitted bounds are those of the type."""
    low = x[1] if len(x) > 1 and x[1] >= 0 else code.scalar(code.lowest)
    high = x[2] if len(x) > 2 and x[2] >= 0 else code.scalar(code.highest)
    return code.do("CLIP", x[0], low, high)


def relu(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Relu."""
    return code.do("CLIP", x[0], code.scalar(0.0), code.scalar(code.highest))


def leaky_relu(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """LeakyRelu."""
    return code.do("SLOPE", x[0], code.scalar(attributes.get("alpha", 0.01)))


def hard_sigmoid(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """HardSigmoid: a line between two bounds."""
    alpha, beta = attributes.get("alpha", 0.2), attributes.get("beta", 0.5)
    line = code.do("MULTIPLY_ADD", x[0], code.scalar(alpha), code.scalar(beta))
    return code.do("CLIP", line, code.scalar(0.0), code.scalar(1.0))


def swish(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Swish; SiLU is Swish with a factor of 1."""
    alpha = attributes.get("alpha", 1.0)
    if alpha == 1.0:
        return code.do("SILU", x[0])
    gate = code.do("SIGMOID", code.do("MULTIPLY", x[0], code.scalar(alpha)))
    return code.do("MULTIPLY", x[0], gate)


def gelu(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Gelu, by the error function or by the hyperbolic tangent."""
    if attributes.get("approximate", "none") != "tanh":
        return code.do("GELU", x[0])
    half = code.do("MULTIPLY", x[0], code.scalar(0.5))
    cube = code.do("MULTIPLY", code.do("MULTIPLY", x[0], x[0]), x[0])
    inner = code.do("MULTIPLY_ADD", cube, code.scalar(0.044715), x[0])
    inner = code.do("MULTIPLY", inner, code.scalar(math.sqrt(2 / math.pi)))
    return code.do("MULTIPLY_ADD", half, code.do("HYPERBOLIC_TANGENT", inner), half)


def _below_zero(code: Code, x: int, scale: float, factor: float) -> int:
    """Write ``factor * (exp(min(x, 0) / scale) - 1)``.

    By tanh of the half: exp(z) - 1 = 2 t / (1 - t), which loses no digits near zero.
    """
    low = code.do("MINIMUM", x, code.scalar(0.0))
    half = code.do("MULTIPLY", low, code.scalar(0.5 / scale))
    t = code.do("HYPERBOLIC_TANGENT", half)
    rest = code.do("SUBTRACT", code.scalar(1.0), t)
    return code.do("DIVIDE", code.do("MULTIPLY", t, code.scalar(2 * factor)), rest)


def elu(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Elu."""
    above = code.do("MAXIMUM", x[0], code.scalar(0.0))
    return code.do("ADD", above, _below_zero(code, x[0], 1.0, attributes.get("alpha", 1.0)))


def selu(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Selu: Elu, scaled."""
    alpha = attributes.get("alpha", 1.6732631921768188)
    gamma = attributes.get("gamma", 1.0507010221481323)
    above = code.do("MAXIMUM", x[0], code.scalar(0.0))
    above = code.do("MULTIPLY", above, code.scalar(gamma))
    return code.do("ADD", above, _below_zero(code, x[0], 1.0, alpha * gamma))


def celu(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Celu: Elu whose slope is one at zero."""
    alpha = attributes.get("alpha", 1.0)
    above = code.do("MAXIMUM", x[0], code.scalar(0.0))
    return code.do("ADD", above, _below_zero(code, x[0], alpha or math.inf, alpha))


def power(code: Code, x: Sequence[int], attributes: Any, known: Sequence[Any]) -> int:
    """Pow; common exponents have instructions of their own."""
    exponent = known[1]
    if exponent is not None and exponent.size and (exponent == exponent.flat[0]).all():
        number = float(exponent.flat[0])
        if number == 2:
            return code.do("MULTIPLY", x[0], x[0])
        if number == 1:
            return code.do("COPY", x[0])
        if number == 0.5:
            return code.do("SQUARE_ROOT", x[0])
    return code.do("POWER", x[0], x[1])


def reciprocal(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Reciprocal."""
    return code.do("DIVIDE", code.scalar(1.0), x[0])


def softsign(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Softsign: x / (1 + abs(x))."""
    return code.do("DIVIDE", x[0], code.do("ADD", code.do("ABSOLUTE", x[0]), code.scalar(1.0)))


def shrink(code: Code, x: Sequence[int], attributes: dict[str, Any], known: Any) -> int:
    """Shrink: zero between two bounds, shifted towards them outside."""
    bound, bias = attributes.get("lambd", 0.5), attributes.get("bias", 0.0)
    below = code.do("LESS", x[0], code.scalar(-bound))
    above = code.do("LESS", code.scalar(bound), x[0])
    less = code.do("SUBTRACT", x[0], code.scalar(bias))
    more = code.do("ADD", x[0], code.scalar(bias))
    return code.do("WHERE", below, more, code.do("WHERE", above, less, code.scalar(0.0)))


def modulo(code: Code, x: Sequence[int], attributes: dict[str, Any], known: Any) -> int:
    """Mod: the sign is the dividend's with `fmod`, else the divisor's."""
    rest = code.do("REMAINDER", *x)
    if attributes.get("fmod", 0):
        return rest
    zero = code.scalar(0.0)
    below = code.do("LESS", rest, zero), code.do("LESS", x[1], zero)
    other = code.do("AND", rest, code.do("NOT", code.do("EQUAL", *below)))
    return code.do("WHERE", other, code.do("ADD", rest, x[1]), rest)


def tangent(code: Code, x: Sequence[int], attributes: Any, known: Any) -> int:
    """Tan."""
    return code.do("DIVIDE", code.do("SINE", x[0]), code.do("COSINE", x[0]))


def assign(
    lines: Sequence[tuple[str, int, tuple[int, ...]]],
    inputs: Sequence[int],
    kept: Sequence[int],
    registers: int,
) -> tuple[list[tuple[int, int, int, int, int]], dict[int, int]] | None:
    """Assign registers to the results of a program.

    Parameters
    ----------
    lines : sequence
        Instructions: operation, result, operands.
    inputs : sequence of int
        Results that exist at its beginning. They keep their registers, because the next chunk of a
        row reads row constants there again.
    kept : sequence of int
        Results that must exist at its end.
    registers : int
        Number of registers.

    Returns
    -------
    (list, dict) or None
        Instructions by register, and the register of each result; None if there are too few.
    """
    place = {number: index for index, number in enumerate(inputs)}
    if len(place) > registers:
        return None
    last = {number: len(lines) for number in kept}
    for at, (_, _, operands) in enumerate(lines):
        for number in operands:
            last[number] = max(last.get(number, -1), at)
    free = list(range(registers - 1, len(place) - 1, -1))
    code = []
    for at, (op, result, operands) in enumerate(lines):
        sources = [place[number] for number in operands]
        for number in set(operands):
            if last[number] == at and number not in inputs:
                free.append(place[number])
        if not free:
            return None
        place[result] = free.pop()
        if result not in last:
            free.append(place[result])
        a, b, c = (*sources, sources[0], sources[0])[:3] if sources else (0, 0, 0)
        code.append((INSTRUCTIONS[op], place[result], a, b, c))
    return code, place


def scalar_array(number: float, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A constant as an array of one element."""
    return np.array([number], dtype)
