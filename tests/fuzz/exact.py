"""The exact result and its bound at once, in one batch of matrix products.

For convolutions the same as ``tests/reference.py``, to which a test holds it, in a tenth of the
time for tiny problems: sum and magnitudes are computed side by side from one array of windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.api.problems import Problem
from tests.reference import (
    activate,
    activated_bound,
    computed_in,
    explicit_padding,
    output_size,
    pair,
    rounding_bound,
    stored_bound,
)

# If a sum of magnitudes is smaller than the largest number by this factor, neither it nor a step of
# the epilogue overflows.
OVERFLOW_MARGIN = 8.0


def _with_magnitude(array: np.ndarray) -> np.ndarray:
    both = np.empty((2, *array.shape))
    both[0] = array
    np.abs(both[0], out=both[1])
    return both


def sums_of_convolution(problem: Problem, arrays: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Give the sums before the activation, and those of their terms' magnitudes, in NCHW."""
    p = problem

    def planes(name: str) -> np.ndarray:
        x = arrays[name] if p.batch is not None else arrays[name][np.newaxis]
        return _with_magnitude(x if p.layout == "NCHW" else x.transpose(0, 3, 1, 2))

    stride, dilation = pair(p.stride), pair(p.dilation)
    pads = explicit_padding(p.padding, p.image, p.kernel, stride, dilation)
    axes = zip(p.image, pads, p.kernel, stride, dilation, strict=True)
    oh, ow = (output_size(*axis) for axis in axes)
    (top, bottom), (left, right) = pads
    x = planes("input")
    _, n, c, h, w = x.shape
    padded = np.zeros((2, n, c, h + top + bottom, w + left + right))
    padded[:, :, :, top : top + h, left : left + w] = x
    inside = np.zeros((h + top + bottom, w + left + right), bool)
    inside[top : top + h, left : left + w] = True
    both, image, plane, row, pixel = padded.strides
    kh, kw = p.kernel
    g, icg, ocg = p.groups, c // p.groups, p.out_channels // p.groups
    windows = as_strided(
        padded,
        (2, n, g, icg, kh, kw, oh, ow),
        (both, image, icg * plane, plane, row * dilation[0], pixel * dilation[1],
         row * stride[0], pixel * stride[1]),
    ).reshape(2, n, g, icg * kh * kw, oh * ow)  # fmt: skip
    weight = _with_magnitude(arrays["weight"])
    with np.errstate(all="ignore"):
        if np.isfinite(weight).all():
            y = weight.reshape(2, 1, g, ocg, icg * kh * kw) @ windows
        else:  # taps on padding are left out: zero times infinity is NaN
            y = np.zeros((2, n, g, ocg, oh * ow))
            windows = windows.reshape(2, n, g, icg, kh, kw, oh * ow)
            for i, j in np.ndindex(kh, kw):
                rows, columns = i * dilation[0], j * dilation[1]
                seen = inside[rows:, columns:][:: stride[0], :: stride[1]][:oh, :ow].reshape(-1)
                tap = weight[..., i, j].reshape(2, 1, g, ocg, icg) @ windows[..., i, j, :]
                y += np.where(seen, tap, 0)
        y = y.reshape(2, n, g * ocg, oh, ow)
    if arrays["bias"] is not None:
        y += _with_magnitude(arrays["bias"])[:, np.newaxis, :, np.newaxis, np.newaxis]
    if arrays["residual"] is not None:
        with np.errstate(all="ignore"):
            y += planes("residual")
    return y[0], y[1]


def sums_of_product(
    a: np.ndarray, b: np.ndarray, addends: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Give the same of batches of matrices, and of what is added to their product."""

    def total(numbers: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        with np.errstate(all="ignore"):
            y = numbers(a) @ numbers(b)
            for addend in addends:
                y = y + numbers(addend)
            return y

    return total(lambda x: x.astype(np.float64)), total(lambda x: np.abs(x.astype(np.float64)))


class Expected:
    """The expected result of a problem.

    Parameters
    ----------
    exact, magnitudes : ndarray
        Sums before the activation, and those of their terms' magnitudes.
    arrays : dict
        The operands.
    terms : int
        Products in a sum.
    dtype : str
        Of the result.
    activation : optional
        As the call takes it.
    layout : str, optional
        Where the sums have channels: ``"NCHW"``, or ``"NHWC"`` for the last axis.
    mixed : callable, optional
        Gives ``reference.largest_mixed``; called only if a method states an error.
    """

    def __init__(
        self, exact: np.ndarray, magnitudes: np.ndarray, arrays: dict[str, Any], *, terms: int,
        dtype: str, activation: Any, layout: str = "NCHW", mixed: Callable[[], float] = float,
    ) -> None:  # fmt: skip
        self._magnitudes = magnitudes
        self._terms = terms
        self._dtype = np.dtype(dtype)
        self._activation = activation
        self._layout = layout
        self._mixed = mixed
        # Where a sum overflows depends on the order of its terms, which nobody promises.
        self._open = np.zeros(exact.shape, bool)
        if all(a is None or np.isfinite(a).all() for a in arrays.values()):
            room = float(np.finfo(computed_in(self._dtype)).max) / OVERFLOW_MARGIN
            self._open = ~(self._magnitudes < room)
        self.exact = activate(exact, activation, self._dtype, layout)

    def bound(self, stated: float) -> np.ndarray:
        """How far off a result may be; `stated` is as in ``reference.error_bound``."""
        mixed = self._mixed() if stated else 0.0
        bound = rounding_bound(self._magnitudes, self._terms + 4, self._dtype, stated, mixed)
        bound = activated_bound(bound, self.exact, self._activation, self._dtype, self._layout)
        return stored_bound(bound, self.exact, self._dtype)

    def judged(self) -> float:
        """Give the share of elements for which something is promised."""
        return 1.0 - float(self._open.mean()) if self._open.size else 1.0

    def error(self, y: np.ndarray) -> float:
        """Give the largest error, relative to the largest output; none where all are zero."""
        error, largest = np.max(np.abs(y - self.exact)), np.max(np.abs(self.exact))
        return float(error / largest) if error else 0.0

    def difference(self, y: np.ndarray, stated: float) -> str | None:
        """Say what is wrong with `y`, in the shape of `exact`; None if nothing is."""
        bound = self.bound(stated)
        with np.errstate(invalid="ignore"):
            error = np.abs(y - self.exact)
        # Sums that are infinite or NaN, even if the activation hides it, have no bound. NaN
        # compares false.
        good = (error <= bound) & np.isfinite(bound)
        good |= (y == self.exact) | (np.isnan(y) & np.isnan(self.exact)) | self._open
        if good.all():
            return None
        with np.errstate(invalid="ignore"):
            beyond = np.nan_to_num(error - bound, nan=np.inf)
        worst = np.argmax(np.where(good, -np.inf, beyond))
        at = tuple(int(i) for i in np.unravel_index(worst, y.shape))
        return (
            f"{np.count_nonzero(~good)} of {y.size} elements are off; worst at {at}: got "
            f"{y[at]!r}, expected {self.exact[at]!r}, error {error[at]:.3g} where "
            f"{bound[at]:.3g} is allowed"
        )
