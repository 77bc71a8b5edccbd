"""Einsum as one product of matrices, between transposes and reshapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..onnx_later import ir
from ..values import FLOATS, attribute_string, constant, static_shape
from .decompositions import Numbers

__all__ = ["einsum"]


def einsum(op: Any, node: ir.Node) -> Any:
    """Einsum of one operand, or of two: a permutation and sums, or a product of matrices.

    Diagonals, axes that are broadcast and more operands stay with NumPy.
    """
    found = _letters(node)
    if found is None:
        return None
    terms, result, sizes = found
    writer = _Writer(op, node, sizes)
    if len(terms) == 1:
        (x,) = node.inputs
        return writer.ordered(*writer.summed(x, terms[0], result), result, always=True)
    pair = list(zip(node.inputs, terms, strict=True))
    if constant(pair[0][0]) is not None and constant(pair[1][0]) is None:
        # Loops want the known matrix on the right.
        pair.reverse()
    (a, first), (b, second) = pair
    a, first = writer.summed(a, first, result + second)
    b, second = writer.summed(b, second, result + first)
    return writer.product(a, first, b, second, result)


def _letters(node: ir.Node) -> tuple[list[str], str, dict[str, int]] | None:
    """Read the equation: a letter for each axis, and their sizes; None if there is no rule for it.

    An ellipsis becomes digits, one for each of its axes, the same from the right.
    """
    shapes = [static_shape(value) for value in node.inputs]
    left, arrow, result = attribute_string(node, "equation", "").replace(" ", "").partition("->")
    terms = left.split(",")
    if None in shapes or len(shapes) not in (1, 2) or len(terms) != len(shapes):
        return None
    if any(value is None or value.dtype not in FLOATS for value in node.inputs):
        return None
    sizes: dict[str, int] = {}
    known: list[str] = []
    most = 0
    for term, shape in zip(terms, shapes, strict=True):
        assert shape is not None
        count = len(shape) - len(term.replace("...", ""))
        most = max(most, count)
        letters = term.replace("...", "".join(map(str, reversed(range(max(count, 0))))))
        if count > 9 or len(letters) != len(shape) or len(set(letters)) != len(letters):
            return None
        known.append(letters)
        for letter, size in zip(letters, shape, strict=True):
            if not size or sizes.setdefault(letter, size) != size:
                return None
    digits = "".join(map(str, reversed(range(most))))
    if not arrow:
        once = [x for x in sorted({*left} - {*",."}) if left.count(x) == 1]
        result = "..." + "".join(once)
    result = result.replace("...", digits)
    if len(set(result)) != len(result) or not set(result) <= sizes.keys():
        return None
    return known, result, sizes


class _Writer:
    """Writes nodes of values whose axes have letters."""

    def __init__(self, op: Any, node: ir.Node, sizes: dict[str, int]) -> None:
        self.op, self.sizes, self.numbers = op, sizes, Numbers(op, node)

    def summed(self, x: Any, letters: str, kept: str) -> tuple[Any, str]:
        """Sum over axes that nobody else has."""
        axes = [axis for axis, letter in enumerate(letters) if letter not in kept]
        if not axes:
            return x, letters
        left = "".join(letter for letter in letters if letter in kept)
        return self.op.ReduceSum(x, self.numbers.integers(*axes), keepdims=0), left

    def ordered(self, x: Any, letters: str, wanted: str, *, always: bool = False) -> Any:
        """Transpose to another order of the same letters; the result may be `x` otherwise."""
        if letters == wanted and not always:
            return x
        return self.op.Transpose(x, perm=[letters.index(letter) for letter in wanted])

    def shaped(self, x: Any, letters: str, *parts: Sequence[str] | str) -> Any:
        """Give one axis to the letters of each part."""
        if [*letters] == list(parts):
            return x
        shape = [math.prod(self.sizes[letter] for letter in part) for part in parts]
        return self.op.Reshape(x, self.numbers.integers(*shape))

    def product(self, a: Any, first: str, b: Any, second: str, result: str) -> Any:
        """Multiply two values: what both have and the result has not is summed."""
        batch = "".join(x for x in result if x in first and x in second)
        rows = "".join(x for x in first if x not in second)
        columns = "".join(x for x in second if x not in first)
        depth = "".join(x for x in first if x in second and x not in result)
        left, right = batch + rows + depth, batch + depth + columns
        a, b = self.ordered(a, first, left), self.ordered(b, second, right)
        if depth:
            a = self.shaped(a, left, *batch, rows, depth)
            b = self.shaped(b, right, *batch, depth, columns)
            whole = self.op.MatMul(a, b)
            joined = [*batch, rows, columns]
            if joined != [*batch, *rows, *columns]:
                shape = (self.sizes[x] for x in (*batch, *rows, *columns))
                whole = self.op.Reshape(whole, self.numbers.integers(*shape))
        else:
            a = self.shaped(a, left, *batch, *rows, *[""] * len(columns))
            b = self.shaped(b, right, *batch, *[""] * len(rows), *columns)
            whole = self.op.Mul(a, b)
        return self.ordered(whole, batch + rows + columns, result)
