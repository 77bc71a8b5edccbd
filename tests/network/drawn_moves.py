"""Drawn operators of indices, shapes and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.network.drawing_cases import (
    INTEGERS,
    Case,
    Rng,
    axis,
    broadcast,
    either,
    floats,
    maybe,
    numbers,
    pick,
    shape,
)


def constant_of_shape(rng: Rng) -> Case:
    """With and without a value."""
    value = numpy_helper.from_array(numbers(rng, 1))
    return Case([np.array(shape(rng, 0), np.int64)], maybe(rng, value=value), (0,))


def einsum(rng: Rng) -> Case:
    """Products of matrices as attention has them, other sums and products, diagonals."""
    equation = pick(
        rng, "ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij,ij->", "i,j->ij", "...ij->...ji",
        "bhik,bhjk->bhij", "bikh,bjkh->bhij", "bij,jkh->bikh", "bijk,jkh->bih", "bij, bij -> bi",
        "i...j->...ij", "...ij,...jk->...ik", "kj,bij->bik", "bi,bj->jbi", "bij->i", "ii->i",
        "ij,jk,kh->ih", "ij,jk", "bij,bkl->jk", "ij,k->k",
    )  # fmt: skip
    left = equation.replace(" ", "").split("->")[0].split(",")
    sizes = {letter: int(rng.integers(1, 5)) for letter in "ijkbhl"}
    inputs = [
        floats(
            rng,
            *(sizes[letter] for letter in part.partition("...")[0]),
            *((2, 3) if "..." in part else ()),
            *(sizes[letter] for letter in part.partition("...")[2]),
        )
        for part in left
    ]
    return Case(inputs, {"equation": equation})


def eye_like(rng: Rng) -> Case:
    """Any diagonal."""
    return Case(
        [either(rng, *shape(rng, 2, 2))],
        maybe(rng, k=int(rng.integers(-4, 5)), dtype=int(onnx.TensorProto.DOUBLE)),
    )


def _indices(rng: Rng, size: int, *sizes: int) -> np.ndarray:
    return rng.integers(-size, size, sizes)


def gather(rng: Rng) -> Case:
    """Indices of any rank, from either end."""
    sizes = shape(rng)
    at = axis(rng, len(sizes))
    index = _indices(rng, sizes[at], *shape(rng, 0, 3))
    index = index.astype(pick(rng, np.int32, np.int64))
    return Case(
        [either(rng, *sizes), index], maybe(rng, axis=at) or {"axis": at}, pick(rng, (), (1,))
    )


def gather_elements(rng: Rng) -> Case:
    """Indices of other sizes than the data, also larger along the axis."""
    sizes = shape(rng)
    at = axis(rng, len(sizes))
    index_shape = [int(rng.integers(1, n + 1)) for n in sizes]
    index_shape[at] = int(rng.integers(1, 7))
    index = _indices(rng, sizes[at], *index_shape).astype(pick(rng, np.int32, np.int64))
    return Case([either(rng, *sizes), index], {"axis": at}, pick(rng, (), (1,)))


def gather_nd(rng: Rng) -> Case:
    """With dimensions of a batch."""
    sizes = shape(rng, 2)
    batch = int(rng.integers(0, len(sizes)))
    depth = int(rng.integers(1, len(sizes) - batch + 1))
    outer = (*sizes[:batch], *shape(rng, 0 if batch else 1, 2))
    index = np.stack([_indices(rng, sizes[batch + d], *outer) for d in range(depth)], -1)
    return Case([either(rng, *sizes), index], {"batch_dims": batch})


def scatter_elements(rng: Rng) -> Case:
    """All reductions; without one, the last of several updates of a place stays."""
    sizes = shape(rng)
    at = axis(rng, len(sizes))
    index_shape = [int(rng.integers(1, n + 1)) for n in sizes]
    reduction = pick(rng, "none", "add", "mul", "max", "min")
    x = either(rng, *sizes)
    index = _indices(rng, sizes[at], *index_shape).astype(pick(rng, np.int32, np.int64))
    updates = either(rng, *index_shape).astype(x.dtype)
    return Case([x, index, updates], {"axis": at, "reduction": reduction})


def scatter_nd(rng: Rng) -> Case:
    """All reductions, places from either end, twice too; parts and single elements."""
    sizes = shape(rng, 1, 3)
    depth = int(rng.integers(1, len(sizes) + 1))
    reduction = pick(rng, "none", "add", "mul", "max", "min")
    outer = shape(rng, 1, 2)
    index = np.stack([_indices(rng, size, *outer) for size in sizes[:depth]], -1)
    x = either(rng, *sizes)
    updates = either(rng, *outer, *sizes[depth:]).astype(x.dtype)
    return Case([x, index, updates], {"reduction": reduction})


def recurrent(rng: Rng, gates: int, functions: int) -> Case:
    """All directions and layouts; with and without a bias and states."""
    steps, batch, width, inner = (int(n) for n in rng.integers(1, 4, 4))
    direction = pick(rng, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    inputs: list[Any] = [
        floats(rng, steps, batch, width),
        floats(rng, d, gates * inner, width),
        floats(rng, d, gates * inner, inner),
        floats(rng, d, 2 * gates * inner) if rng.random() < 0.7 else None,
        None,
        floats(rng, d, batch, inner) if rng.random() < 0.7 else None,
    ]
    if gates == 4:
        inputs.append(floats(rng, d, batch, inner) if rng.random() < 0.7 else None)
        inputs.append(floats(rng, d, 3 * inner) if rng.random() < 0.3 else None)
    while inputs[-1] is None:
        inputs.pop()
    given = {"linear_before_reset": int(rng.integers(2))} if gates == 3 else {}
    return Case(
        inputs,
        {"hidden_size": inner, "direction": direction, **given},
        pick(rng, (), (1, 2)),
        outputs=functions,
    )


def one_hot(rng: Rng) -> Case:
    """Indices outside and with fractions too, any axis, values of any type."""
    index, values = pick(
        rng,
        (np.int64, np.array([2, 7])),
        (np.int64, np.array([0.5, -1], np.float32)),
        (np.float32, np.array([0.5, -1], np.float32)),
        (np.int32, np.array([0.5, -1], np.float32)),
    )
    index = rng.uniform(-7, 7, shape(rng, 1, 3)).astype(index)
    depth = np.array(pick(rng, 4, 5), np.int64 if index.dtype == np.int64 else index.dtype)
    if rng.random() < 0.5:
        depth = depth[None]
    return Case([index, depth, values], maybe(rng, axis=axis(rng, index.ndim + 1)), (1,))


def arange(rng: Rng) -> Case:
    """Up and down."""
    dtype = pick(rng, np.int32, np.int64, np.float32)
    begin, end = rng.integers(-9, 10, 2)
    step = (1 if end >= begin else -1) * int(rng.integers(1, 4))
    return Case([np.array(n, dtype) for n in (begin, end, step)], known=(0, 1, 2))


def shape_of(rng: Rng) -> Case:
    """Some of the dimensions."""
    return Case(
        [floats(rng, *shape(rng))],
        maybe(rng, start=int(rng.integers(-5, 5)), end=int(rng.integers(-5, 5))),
    )


def slices(rng: Rng) -> Case:
    """Forwards and backwards, beyond the ends."""
    sizes = shape(rng)
    count = int(rng.integers(1, len(sizes) + 1))
    axes = rng.permutation(len(sizes))[:count]
    axes = np.where(rng.random(count) < 0.5, axes, axes - len(sizes)).astype(np.int64)
    starts, ends = rng.integers(-7, 8, (2, count))
    steps = rng.choice([-2, -1, 1, 2], count)
    if rng.random() < 0.3:
        # Left open, in either direction.
        ends[rng.integers(count)] = pick(rng, np.iinfo(np.int32).max, np.iinfo(np.int64).max)
    return Case([either(rng, *sizes), starts, ends, axes, steps], known=(1, 2, 3, 4))


def tile(rng: Rng) -> Case:
    """Of floats and integers, no times too."""
    sizes = shape(rng)
    return Case([either(rng, *sizes), rng.integers(0, 4, len(sizes))], known=(1,))


def top_k(rng: Rng) -> Case:
    """Largest or smallest, with ties."""
    sizes = shape(rng, size=9)
    at = axis(rng, len(sizes))
    x = either(rng, *sizes).round()
    k = np.array([rng.integers(0, sizes[at] + 1)])
    return Case([x, k], {"axis": at, **maybe(rng, largest=int(rng.integers(2)))}, (1,), outputs=2)


def trilu(rng: Rng) -> Case:
    """Either half, from any diagonal."""
    inputs: list[Any] = [either(rng, *shape(rng, 2))]
    if rng.random() < 0.6:
        inputs.append(np.array(rng.integers(-4, 5)))
    return Case(inputs, maybe(rng, upper=int(rng.integers(2))))


def where(rng: Rng) -> Case:
    """Broadcast."""
    a, b = broadcast(rng)
    x = either(rng, *b)
    return Case([rng.random(a) < 0.5, x, either(rng, *pick(rng, a, b)).astype(x.dtype)])


def matmul(rng: Rng) -> Case:
    """Of integers, and of vectors."""
    k = int(rng.integers(1, 5))
    batch = shape(rng, 0, 2)
    left, right = pick(
        rng,
        ((3, k), (k, 4)),
        ((*batch, 3, k), (k, 4)),
        ((k,), (k, 4)),
        ((3, k), (*batch, k, 2)),
        ((k,), (k,)),
        ((3, k), (k,)),
    )
    x = either(rng, *left)
    return Case([x, either(rng, *right).astype(x.dtype)])


def gemm(rng: Rng) -> Case:
    """Turned round or not, with a C that is broadcast."""
    m, k, n = (int(i) for i in rng.integers(1, 5, 3))
    a, b = int(rng.integers(2)), int(rng.integers(2))
    inputs = [floats(rng, *((k, m) if a else (m, k))), floats(rng, *((n, k) if b else (k, n)))]
    if rng.random() < 0.7:
        inputs.append(floats(rng, *pick(rng, (n,), (1,), (m, n), (m, 1), ())))
    return Case(
        inputs, {"transA": a, "transB": b, **maybe(rng, alpha=0.5, beta=2.0)}, pick(rng, (), (1,))
    )


def compress(rng: Rng) -> Case:
    """Of an axis, or of all elements, by a list that may be shorter; the choice is known."""
    sizes = shape(rng)
    at = axis(rng, len(sizes))
    flat = rng.random() < 0.3
    count = int(rng.integers(1, (int(np.prod(sizes)) if flat else sizes[at]) + 1))
    chosen = rng.random(count) < 0.5
    return Case([either(rng, *sizes), chosen], {} if flat else {"axis": at}, (0, 1))


def reverse_sequence(rng: Rng) -> Case:
    """Some steps of each sequence."""
    x = floats(rng, 3, 4, *shape(rng, 0, 2))
    time = int(rng.integers(2))
    lengths = rng.integers(1, x.shape[time] + 1, x.shape[1 - time])
    return Case([x, lengths], {"time_axis": time, "batch_axis": 1 - time})


def window_function(rng: Rng) -> Case:
    """Of some length."""
    return Case([np.array(rng.integers(2, 12))], maybe(rng, periodic=int(rng.integers(2))), (0,))


def dropout(rng: Rng) -> Case:
    """Of inference, with its mask."""
    return Case([floats(rng, *shape(rng))], outputs=int(rng.integers(1, 3)))


def concat(rng: Rng) -> Case:
    """Of integers."""
    sizes = shape(rng)
    at = axis(rng, len(sizes))
    dtype = (pick(rng, *INTEGERS),)
    return Case([numbers(rng, *sizes, dtypes=dtype) for _ in range(3)], {"axis": at})


def identity(rng: Rng) -> Case:
    """Floats or integers, of any rank."""
    return Case([either(rng, *shape(rng, 0))])


def reshape(rng: Rng) -> Case:
    """With sizes of the input, and with one that is left over."""
    sizes = shape(rng)
    wanted = [0 if rng.random() < 0.4 else size for size in sizes]
    if rng.random() < 0.5:
        wanted[rng.integers(len(wanted))] = -1
    elif rng.random() < 0.5:
        wanted = [int(n) for n in reversed(sizes)]
    return Case([either(rng, *sizes), np.array(wanted)], {}, (1,))


def squeeze(rng: Rng) -> Case:
    """Named dimensions, from either end, or all that have one element."""
    sizes = [1 if rng.random() < 0.5 else size for size in shape(rng)]
    ones = [axis - len(sizes) * int(rng.integers(2)) for axis, n in enumerate(sizes) if n == 1]
    x = either(rng, *sizes)
    if not ones or rng.random() < 0.5:
        return Case([x])
    return Case([x, np.array(ones[:2])], {}, (1,))


def unsqueeze(rng: Rng) -> Case:
    """Dimensions from either end, in any order."""
    sizes = shape(rng, 0)
    axes = rng.permutation(len(sizes) + 2)[:2]
    return Case([either(rng, *sizes), axes - (len(sizes) + 2) * int(rng.integers(2))], {}, (1,))


def expand(rng: Rng) -> Case:
    """To more dimensions, or fewer than the input has."""
    sizes = shape(rng)
    x = [1 if rng.random() < 0.4 else size for size in sizes]
    y = [1 if rng.random() < 0.4 else size for size in sizes]
    x, y = x[rng.integers(len(x)) :], y[rng.integers(len(y)) :]
    return Case([either(rng, *x), np.array(y)], {}, (1,))


def flatten(rng: Rng) -> Case:
    """At any axis, from either end."""
    sizes = shape(rng)
    return Case([either(rng, *sizes)], {"axis": int(rng.integers(-len(sizes), len(sizes) + 1))})


def split(rng: Rng) -> Case:
    """Into parts of given sizes, or of equal ones; the last may be smaller."""
    sizes = shape(rng, size=9)
    at = axis(rng, len(sizes))
    if rng.random() < 0.5:
        parts = rng.multinomial(sizes[at], [0.3, 0.5, 0.2])
        return Case([either(rng, *sizes), parts], {"axis": at}, (1,), outputs=3)
    count = int(rng.integers(1, 4))
    # All parts have elements.
    sizes = tuple(max(n, 2 * count) if d == at % len(sizes) else n for d, n in enumerate(sizes))
    return Case([either(rng, *sizes)], {"axis": at, "num_outputs": count}, outputs=count)


def transpose(rng: Rng) -> Case:
    """In any order."""
    sizes = shape(rng)
    return Case([either(rng, *sizes)], maybe(rng, perm=rng.permutation(len(sizes)).tolist()))


def unique(rng: Rng) -> Case:
    """Of all elements, or along an axis, in either order; all is known."""
    sizes = shape(rng, size=6)
    x = (either(rng, *sizes) * 0.4).round().astype(pick(rng, np.float32, np.int64))
    given = maybe(rng, axis=axis(rng, len(sizes)), sorted=int(rng.integers(2)))
    return Case([x], given, known=(0,), outputs=4)


def non_zero(rng: Rng) -> Case:
    """Of floats; the input is known, as the size of the output follows from it."""
    return Case([numbers(rng, *shape(rng), dtypes=(np.int64,)) % 3], known=(0,))
