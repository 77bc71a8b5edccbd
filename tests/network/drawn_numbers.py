"""Drawn operators of elements, and reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

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


def reduction(rng: Rng) -> Case:
    """Over some axes, none or all; of floats and integers; with infinities."""
    sizes = shape(rng)
    x = either(rng, *sizes)
    if x.dtype.kind == "f" and rng.random() < 0.3:
        x[rng.random(sizes) < 0.5] = pick(rng, -np.inf, np.inf)
    if x.dtype == np.int32 and rng.random() < 0.5:
        # Results that the type does not hold.
        x = rng.integers(-(1 << 31), 1 << 31, sizes).astype(np.int32)
    rank = len(sizes)
    given = maybe(rng, keepdims=int(rng.integers(2)), noop_with_empty_axes=int(rng.integers(2)))
    axes = rng.permutation(rank)[: rng.integers(0, rank + 1)]
    axes = np.where(rng.random(len(axes)) < 0.3, axes - rank, axes).astype(np.int64)
    if rng.random() < 0.3:
        return Case([x], given)
    return Case([x, axes], given, (1,))


def float_reduction(rng: Rng) -> Case:
    """As `reduction`; logarithms of integers onnxruntime rounds at each step."""
    case = reduction(rng)
    while case.inputs[0].dtype.kind != "f":
        case = reduction(rng)
    return case


def arg_reduction(rng: Rng) -> Case:
    """With ties."""
    sizes = shape(rng)
    x = either(rng, *sizes).round()
    given = maybe(
        rng,
        axis=axis(rng, len(sizes)),
        keepdims=int(rng.integers(2)),
        select_last_index=int(rng.integers(2)),
    )
    return Case([x], given)


def softmax(rng: Rng) -> Case:
    """Over any axis."""
    sizes = shape(rng)
    return Case([floats(rng, *sizes) * 20], maybe(rng, axis=axis(rng, len(sizes))))


def unary(rng: Rng) -> Case:
    """Floats with infinities and NaN."""
    x = floats(rng, *shape(rng)) * np.float32(rng.choice([1, 5, 100]))
    if rng.random() < 0.3:
        x.flat[0] = pick(rng, np.inf, -np.inf, np.nan, -0.0)
    return Case([x], opset=22)


def within_one(rng: Rng) -> Case:
    """Floats between -1 and 1."""
    return Case([rng.uniform(-1, 1, shape(rng)).astype(np.float32)], opset=22)


def from_one(rng: Rng) -> Case:
    """Floats from 1 upwards."""
    return Case([rng.uniform(1, 9, shape(rng)).astype(np.float32)], opset=22)


def unary_either(rng: Rng) -> Case:
    """Floats or integers."""
    return Case([either(rng, *shape(rng))])


def with_numbers(**drawn: Callable[[Rng], float]) -> Callable[[Rng], Case]:
    """Floats and attributes that are numbers."""

    def draw(rng: Rng) -> Case:
        attributes = {name: draw(rng) for name, draw in drawn.items()}
        return Case([floats(rng, *shape(rng)) * 3], maybe(rng, **attributes), opset=22)

    return draw


def positive(rng: Rng) -> float:
    return float(rng.uniform(0.1, 3))


def hardmax(rng: Rng) -> Case:
    """With ties."""
    sizes = shape(rng)
    return Case([floats(rng, *sizes).round()], maybe(rng, axis=axis(rng, len(sizes))))


def is_inf(rng: Rng) -> Case:
    """Of one sign, or both."""
    x = floats(rng, *shape(rng))
    x.flat[0] = pick(rng, np.inf, -np.inf, np.nan)
    return Case(
        [x], maybe(rng, detect_negative=int(rng.integers(2)), detect_positive=int(rng.integers(2)))
    )


def binary(rng: Rng) -> Case:
    """Of integers, broadcast; no zeros on the right."""
    a, b = broadcast(rng)
    dtype = (pick(rng, np.int32, np.int64),)
    x, y = numbers(rng, *a, dtypes=dtype), numbers(rng, *b, dtypes=dtype)
    return Case([x, np.where(y == 0, 3, y).astype(y.dtype)])


def comparison(rng: Rng) -> Case:
    """Of floats and integers, with NaN."""
    a, b = broadcast(rng)
    if rng.random() < 0.5:
        x, y = floats(rng, *a).round(), floats(rng, *b).round()
        x.flat[0] = np.nan
        return Case([x, y])
    dtype = (pick(rng, np.int32, np.int64),)
    return Case([numbers(rng, *a, dtypes=dtype), numbers(rng, *b, dtypes=dtype)])


def logical(rng: Rng) -> Case:
    """Of truths."""
    a, b = broadcast(rng)
    return Case([rng.random(a) < 0.5, rng.random(b) < 0.5])


def negation(rng: Rng) -> Case:
    """Of truths."""
    return Case([rng.random(shape(rng)) < 0.5])


def mod(rng: Rng) -> Case:
    """Either way, of numbers of both signs."""
    a, b = broadcast(rng)
    if rng.random() < 0.4:
        return Case([floats(rng, *a) * 5, floats(rng, *b)], {"fmod": 1})
    dtype = (pick(rng, np.int32, np.int64, np.int8, np.uint8),)
    x, y = numbers(rng, *a, dtypes=dtype), numbers(rng, *b, dtypes=dtype)
    return Case([x, np.where(y == 0, 3, y).astype(y.dtype)], maybe(rng, fmod=int(rng.integers(2))))


def power(rng: Rng) -> Case:
    """Of integers, and of two types."""
    a, b = broadcast(rng)
    x = either(rng, *a)
    y = pick(rng, rng.integers(0, 4, b), rng.integers(0, 4, b).astype(np.float32))
    return Case([x, y])


def shift(rng: Rng) -> Case:
    """Of unsigned integers."""
    a, b = broadcast(rng)
    dtype = pick(rng, np.uint8, np.uint32, np.uint64)
    return Case(
        [rng.integers(0, 200, a).astype(dtype), rng.integers(0, 8, b).astype(dtype)],
        {"direction": pick(rng, "LEFT", "RIGHT")},
    )


def clip(rng: Rng) -> Case:
    """Of floats and integers; bounds left out or crossed."""
    x = either(rng, *shape(rng))
    low, high = (np.array(n, x.dtype) for n in rng.integers(-5, 6, 2))
    known = (1, 2) if rng.random() < 0.5 else ()
    return Case([x, pick(rng, low, low, None), pick(rng, high, high, None)], known=known)


def extremum(rng: Rng) -> Case:
    """Of several integers."""
    a, b = broadcast(rng)
    dtype = (pick(rng, np.int32, np.int64),)
    return Case([numbers(rng, *s, dtypes=dtype) for s in (a, b, b)[: rng.integers(1, 4)]])


def several(rng: Rng) -> Case:
    """Of several floats."""
    a, b = broadcast(rng)
    return Case([floats(rng, *s) for s in (a, b, b)[: rng.integers(1, 4)]])


def prelu(rng: Rng) -> Case:
    """The slope is broadcast."""
    sizes = shape(rng)
    slope = tuple(1 if rng.random() < 0.3 else n for n in sizes[rng.integers(0, len(sizes)) :])
    return Case([floats(rng, *sizes), floats(rng, *slope)])


def cast(rng: Rng) -> Case:
    """Among numbers and truths."""
    x = pick(rng, floats(rng, *shape(rng)) * 9, numbers(rng, *shape(rng)), rng.random(4) < 0.5)
    to = pick(rng, np.float32, np.float64, np.int32, np.int64, np.bool_, np.float16)
    return Case([x], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(to))}, opset=22)


def cast_like(rng: Rng) -> Case:
    """Among numbers and truths."""
    x = pick(rng, floats(rng, *shape(rng)) * 9, numbers(rng, *shape(rng)), rng.random(4) < 0.5)
    to = pick(rng, np.float32, np.float64, np.int32, np.int64, np.bool_, np.float16)
    return Case([x, np.zeros(2, to)], opset=22)


def cumulative(rng: Rng) -> Case:
    """From either end, with and without the element itself."""
    sizes = shape(rng)
    given = maybe(rng, exclusive=int(rng.integers(2)), reverse=int(rng.integers(2)))
    at = np.array(axis(rng, len(sizes)))
    return Case([either(rng, *sizes), pick(rng, at, at[None])], given, pick(rng, (), (1,)))


def bitwise(rng: Rng) -> Case:
    """Of integers."""
    a, b = broadcast(rng)
    dtype = (pick(rng, *INTEGERS),)
    return Case([numbers(rng, *a, dtypes=dtype), numbers(rng, *b, dtypes=dtype)])


def bitwise_not(rng: Rng) -> Case:
    """Of integers."""
    return Case([numbers(rng, *shape(rng))])


def determinant(rng: Rng) -> Case:
    """Of some matrices."""
    return Case([floats(rng, *shape(rng, 0, 2), 3, 3)])
