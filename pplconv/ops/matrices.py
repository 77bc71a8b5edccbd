"""Shapes of matrix products: checked, broadcast as NumPy does it, and made into problems."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from .._records import NamedTuple, record
from ..geometry import Strides
from ..matrix_problem import MatrixProblem
from ..numerics import numerics_of
from ..problem import LARGEST_PLANE, LARGEST_PRODUCT
from ..sparsity import Sparsity

Shape = tuple[int, ...]


def check_weight_shape(shape: Shape) -> None:
    """Check a weight shape (out_features, in_features) by itself.

    Raises
    ------
    ValueError
        If it has not two dimensions of at least 1.
    """
    if len(shape) != 2:
        raise ValueError(
            f"weight must have the 2 dimensions (out_features, in_features), got shape {shape}"
        )
    if min(shape) < 1:
        raise ValueError(f"weight must not be empty, got shape {shape}")


def linear_problem(
    input_shape: Shape,
    weight_shape: Shape,
    dtype: str,
    permitted: tuple[str, ...],
    sparsity: Sparsity | None = None,
) -> MatrixProblem:
    """Make the problem of dense rows; `input_shape` gives their number.

    Raises
    ------
    ValueError
        If it is too large.
    """
    (m, k), n = input_shape, weight_shape[0]
    _check_sizes("input", "weight", m, n, k)
    return MatrixProblem(m, n, k, dtype=dtype, permitted=permitted, sparsity=sparsity)


def _check_sizes(rows: str, columns: str, m: int, n: int, k: int) -> None:
    """Refuse sizes whose products could exceed 64 bits anywhere in the native code."""
    for name, size in ((rows, max(m, k)), (columns, n)):
        if size >= LARGEST_PLANE:
            raise ValueError(f"{name}: a matrix may have at most {LARGEST_PLANE} rows or columns")
    # Eight bytes an element; panels may be wider than the matrix.
    for name, elements in ((rows, m * k), (columns, n * k * 64), ("out", m * n)):
        if elements * 8 >= LARGEST_PRODUCT:
            raise ValueError(f"{name} is too large: its size overflows 64 bits")


class Axis(NamedTuple):
    """One axis of a batch: its size, and the elements from one matrix to the next in a, b, out."""

    size: int
    a: int
    b: int
    c: int


@record(frozen=True)
class Operand:
    """The matrices of an operand.

    Parameters
    ----------
    rows, columns : int
        Size of each.
    row, column : int
        Elements from one row and column to the next.
    in_rows : bool
        Whether the elements of a row are neighbours, rather than those of a column.
    """

    rows: int
    columns: int
    row: int
    column: int
    in_rows: bool

    @classmethod
    def of(cls, rows: int, columns: int, row: int, column: int) -> Operand | None:
        """Describe matrices by their strides; None if neither rows nor columns are contiguous."""
        if (column == 1 or columns == 1) and (row > 0 or rows == 1):
            return cls(rows, columns, row if rows > 1 else columns, 1, True)
        if (row == 1 or rows == 1) and (column > 0 or columns == 1):
            return cls(rows, columns, 1, column, False)
        return None

    @property
    def transposed(self) -> Operand:
        """The transposed matrix, on the same memory."""
        return Operand(self.columns, self.rows, self.column, self.row, not self.in_rows)


@record(frozen=True)
class Option:
    """One way to see a product as a problem.

    Parameters
    ----------
    problem : MatrixProblem
        The part that is computed at once.
    swapped : bool
        Whether `a` is packed; the problem is then of the transposed matrices.
    offsets : tuple of (int, int, int)
        One for each computation of the problem: offsets in a, b and out, in elements.
    """

    problem: MatrixProblem
    swapped: bool
    offsets: tuple[tuple[int, int, int], ...]


@record(frozen=True)
class Product:
    """A product of two arrays as problems.

    Parameters
    ----------
    shape : tuple of int
        Of the result.
    options : tuple of Option
        Ways to see it; none if the result has no elements.
    """

    shape: Shape
    options: tuple[Option, ...]


def matrix_shapes(a: Shape, b: Shape) -> tuple[Shape, Shape]:
    """Return the shapes with both matrix dimensions, checked to fit.

    Raises
    ------
    ValueError
        If they do not.
    """
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ValueError(f"{name} must have at least 1 dimension, got a scalar")
    wide = a if len(a) > 1 else (1, *a)
    tall = b if len(b) > 1 else (*b, 1)
    if wide[-1] != tall[-2]:
        which = "elements" if len(b) == 1 else "rows"
        raise ValueError(
            f"b must have {wide[-1]} {which}, like the last dimension of a, got {tall[-2]} "
            f"(shapes {a} and {b})"
        )
    return wide, tall


def _batch_axes(a: Shape, a_strides: Shape, b: Shape, b_strides: Shape, size: int) -> list[Axis]:
    """The axes before the matrices, outermost first; contiguous neighbours are merged."""
    depth = max(len(a), len(b)) - 2
    axes: list[Axis] = []
    for at in range(-3, -3 - depth, -1):  # innermost first
        sizes = [shape[at] if len(shape) >= -at else 1 for shape in (a, b)]
        steps = [
            strides[at] if n > 1 else 0
            for n, strides in zip(sizes, (a_strides, b_strides), strict=True)
        ]
        if (count := max(sizes)) > 1:
            axes.append(Axis(count, steps[0], steps[1], size))
        size *= count
    merged: list[Axis] = []
    for axis in axes:
        inner = merged[-1] if merged else None
        if inner and all(axis[i] == inner.size * inner[i] for i in (1, 2, 3)):
            merged[-1] = inner._replace(size=axis.size * inner.size)
        else:
            merged.append(axis)
    return merged[::-1]


def product_of(
    a_shape: Shape,
    a_strides: Shape,
    b_shape: Shape,
    b_strides: Shape,
    dtype: str,
    permitted: tuple[str, ...],
    *,
    may_swap: bool,
    may_read: bool,
) -> Product | str:
    """Express ``a @ b`` as problems.

    Parameters
    ----------
    a_shape, b_shape : tuple of int
        As NumPy's `matmul` takes them.
    a_strides, b_strides : tuple of int
        Elements from one index to the next.
    dtype : str
        Of both.
    permitted : tuple of str
        As in `ConvProblem`.
    may_swap : bool
        Whether `a` may be packed instead of `b`: no epilogue depends on columns.
    may_read : bool
        Whether loops may read `b` in place, or pack it task by task: they receive `b` itself.

    Returns
    -------
    Product or str
        ``"a"`` or ``"b"`` if that operand has to be copied first, ``"b.T"`` if it has to be copied
        so that its columns are dense.

    Raises
    ------
    ValueError
        If the shapes do not fit, or are too large.
    """
    wide, tall = matrix_shapes(a_shape, b_shape)
    try:
        batch = np.broadcast_shapes(wide[:-2], tall[:-2])
    except ValueError:
        raise ValueError(
            f"b must have batch dimensions that broadcast with those of a, got shapes {a_shape} "
            f"and {b_shape}"
        ) from None
    (m, k), n = wide[-2:], tall[-1]
    ends = ((m,) if len(a_shape) > 1 else ()) + ((n,) if len(b_shape) > 1 else ())
    shape = (*batch, *ends)
    if 0 in shape:
        return Product(shape, ())
    _check_sizes("a", "b", m, n, k)
    # NumPy leaves the stride of a single row or column open.
    a_strides = tuple(s if n > 1 else 0 for n, s in zip(a_shape, a_strides, strict=True))
    b_strides = tuple(s if n > 1 else 0 for n, s in zip(b_shape, b_strides, strict=True))
    if len(a_shape) == 1:
        a_strides = (0, *a_strides)
    if len(b_shape) == 1:
        b_strides = (*b_strides, 0)
    if min(a_strides) < 0 or (a := Operand.of(m, k, *a_strides[-2:])) is None:
        return "a"
    if min(b_strides) < 0 or (b := Operand.of(k, n, *b_strides[-2:])) is None:
        return "b"
    axes = _batch_axes(wide, a_strides, tall, b_strides, m * n)
    if any(numerics_of(dtype, kind).converts_weights for kind in permitted):
        # The packed operand is converted first, and conversion needs a dense one.
        in_columns = b.row == 1 or k == 1, n == 1 or b.column == k
        groups = [axis.b for axis in axes if axis.b]
        if not all(in_columns) or (groups and groups[-1] != n * k):
            return "b.T"
        may_swap = False
        b = Operand(k, n, 1, k, False)
    options = [packed := _option(a, b, axes, dtype, permitted)]
    if may_read and permitted == (dtype,) and dtype in ("f32", "f64"):
        options.append(replace(packed, problem=replace(packed.problem, prepacked=False)))
    if may_swap:
        options.append(_swapped(a, b, axes, dtype, permitted))
    return Product(shape, tuple(options))


def _option(
    a: Operand, b: Operand, axes: list[Axis], dtype: str, permitted: tuple[str, ...]
) -> Option:
    """`b` packed, rows of `a` in place."""
    m, n = a.rows, b.columns
    if len(axes) == 1 and axes[0].b == 0 and a.in_rows and axes[0].a == m * a.row:
        m, axes = m * axes[0].size, []  # the rows of a batch form one matrix
    image, group, offsets = _split(axes, packed=2)
    problem = MatrixProblem(
        m, n, a.columns, image.size, group.size, dtype, permitted,
        Strides(image.a, group.a, a.row, a.column), Strides(0, group.b, b.row, b.column),
        Strides(image.c, group.c, n, 1), a.in_rows, True,
    )  # fmt: skip
    return Option(problem, False, offsets)


def _swapped(
    a: Operand, b: Operand, axes: list[Axis], dtype: str, permitted: tuple[str, ...]
) -> Option:
    """`a` packed, rows of the transposed `b` in place."""
    m, n = a.rows, b.columns
    image, group, offsets = _split(axes, packed=1)
    x, w = b.transposed, a.transposed
    problem = MatrixProblem(
        n, m, a.columns, image.size, group.size, dtype, permitted,
        Strides(image.b, group.b, x.row, x.column), Strides(0, group.a, w.row, w.column),
        Strides(image.c, group.c, 1, n), x.in_rows, False,
    )  # fmt: skip
    return Option(problem, True, offsets)


def _split(axes: list[Axis], packed: int) -> tuple[Axis, Axis, tuple[tuple[int, int, int], ...]]:
    """One axis that keeps the packed operand, one that changes it, and the remaining axes.

    Inner axes come first, so that each problem is as large as possible.
    """
    none = Axis(1, 0, 0, 0)
    found = {True: none, False: none}
    rest = list(axes)
    while rest and found[kind := rest[-1][packed] == 0] is none:
        found[kind] = rest.pop()
    offsets = tuple(
        (
            sum(i * axis.a for i, axis in zip(at, rest, strict=True)),
            sum(i * axis.b for i, axis in zip(at, rest, strict=True)),
            sum(i * axis.c for i, axis in zip(at, rest, strict=True)),
        )
        for at in itertools.product(*(range(axis.size) for axis in rest))
    )
    return found[True], found[False], offsets
