"""Filters that Halide compiles (the package ``halide``), for `filters`.

The schedules are what a first user of Halide writes: strips of rows, vectors along rows; a kernel
that is a product takes the sums of columns of a strip first. Channels that lie side by side are
columns of a wider image, whose taps are as many columns apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["box", "correlate", "product"]

Array = NDArray[Any]
Call = Callable[[], Any]

STRIP = 32
LANES = 64
# Larger kernels are neither written nor scheduled in this way.
MOST_TAPS = 15 * 15


def correlate(image: Array, kernel: Array, out: Array) -> Call | None:
    """Make a call that correlates an image with any kernel, in float32; None without Halide."""
    if kernel.size > MOST_TAPS:
        return None
    return _call(image, out, "drawn", tuple(map(tuple, kernel.astype(np.float32).tolist())))


def product(image: Array, down: Array, across: Array, out: Array) -> Call | None:
    """Make a call that correlates with a column and a row, in float32; None without Halide."""
    vectors = (tuple(each.astype(np.float32).tolist()) for each in (down, across))
    return _call(image, out, "product", tuple(vectors))


def box(image: Array, size: int, out: Array) -> Call | None:
    """Make a call that takes means of squares, of whole sums where pixels are integers."""
    if size**2 > MOST_TAPS:
        return None
    return _call(image, out, "box", ((1.0,) * size,) * 2)


def _call(image: Array, out: Array, kind: str, taps: tuple[tuple[float, ...], ...]) -> Call | None:
    if not find_spec("halide"):
        return None
    import halide

    flat = [each.reshape(each.shape[0], -1) for each in (image, out)]
    given, result = (halide.Buffer(each) for each in flat)
    channels = image.shape[2] if image.ndim > 2 else 1
    types = image.dtype.name, out.dtype.name
    source, compiled = _compiled(kind, taps, types, channels, min(LANES, flat[0].shape[1]))
    source.set(given)

    def run() -> Array:
        source.set(given)
        compiled.realize(result)
        return out

    return run


def _type(name: str) -> Any:
    import halide

    bits = int("".join(each for each in name if each.isdigit()))
    kinds = {"u": halide.UInt, "i": halide.Int, "f": halide.Float}
    return kinds[name[0]](bits)


@lru_cache(maxsize=1)
def _compiled(
    kind: str, taps: tuple[tuple[float, ...], ...], types: tuple[str, str], channels: int,
    lanes: int,
) -> tuple[Any, Any]:  # fmt: skip
    """Compile a filter: the parameter that is its image, and the function of its result."""
    import halide

    source, stored = (_type(name) for name in types)
    whole = kind == "box" and not source.is_float()
    # 16 bits hold the sums of bytes of boxes of up to 16x16.
    sums = halide.UInt(2 * source.bits()) if whole else halide.Float(32)
    x, y, strip, row = (halide.Var(name) for name in ("x", "y", "strip", "row"))
    image = halide.ImageParam(source, 2)
    outside = halide.BoundaryConditions.constant_exterior(image, 0)
    around = halide.Func("around")
    around[x, y] = outside[x, y]

    def pixel(right: int, below: int) -> Any:
        return halide.cast(sums, around[x + right * channels, y + below])

    def weighted(value: Any, weight: float) -> Any:
        return value if kind == "box" else value * np.float32(weight).item()

    columns = halide.Func("columns")
    if kind == "drawn":
        height, width = len(taps), len(taps[0])
        total = _sum(
            weighted(pixel(i - width // 2, j - height // 2), taps[j][i])
            for j in range(height) for i in range(width)
        )  # fmt: skip
    else:
        down, across = taps
        columns[x, y] = _sum(
            weighted(pixel(0, j - len(down) // 2), down[j]) for j in range(len(down))
        )
        total = _sum(
            weighted(columns[x + (i - len(across) // 2) * channels, y], weight)
            for i, weight in enumerate(across)
        )  # fmt: skip
    if kind == "box":
        count = len(taps[0]) * len(taps[1])
        total = (total + count // 2) / count if whole else total * np.float32(1 / count).item()
    if not stored.is_float():
        total = halide.saturating_cast(stored, total if whole else halide.round(total))
    result = halide.Func("result")
    result[x, y] = total
    result.split(y, strip, row, STRIP, halide.TailStrategy.GuardWithIf)
    result.vectorize(x, lanes, halide.TailStrategy.ShiftInwards)
    around.compute_at(result, strip).vectorize(x, lanes)
    if kind != "drawn":
        columns.compute_at(result, row).vectorize(x, lanes)
    result.compile_jit()
    return image, result


def _sum(terms: Any) -> Any:
    total, *rest = terms
    for each in rest:
        total = total + each
    return total
