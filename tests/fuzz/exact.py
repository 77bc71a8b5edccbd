"""The exact result and its bound at once, in one batch of matrix products.

The same as ``tests/reference.py``, to which a test holds it, in a tenth of the time for tiny
problems: sum and magnitudes are computed side by side from one array of windows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from problems import Problem
from reference import (
    activate,
    activated_bound,
    explicit_padding,
    output_size,
    pair,
    rounding_bound,
    stored_bound,
)


def _with_magnitude(array: np.ndarray) -> np.ndarray:
    both = np.empty((2, *array.shape))
    both[0] = array
    np.abs(both[0], out=both[1])
    return both


def sums(problem: Problem, arrays: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
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
    both, image, plane, row, pixel = padded.strides
    kh, kw = p.kernel
    g, icg, ocg = p.groups, c // p.groups, p.out_channels // p.groups
    windows = as_strided(
        padded,
        (2, n, g, icg, kh, kw, oh, ow),
        (both, image, icg * plane, plane, row * dilation[0], pixel * dilation[1],
         row * stride[0], pixel * stride[1]),
    ).reshape(2, n, g, icg * kh * kw, oh * ow)  # fmt: skip
    weight = _with_magnitude(arrays["weight"]).reshape(2, 1, g, ocg, icg * kh * kw)
    y = (weight @ windows).reshape(2, n, g * ocg, oh, ow)
    if arrays["bias"] is not None:
        y += _with_magnitude(arrays["bias"])[:, np.newaxis, :, np.newaxis, np.newaxis]
    if arrays["residual"] is not None:
        y += planes("residual")
    return y[0], y[1]


class Expected:
    """What a problem's result must be.

    Parameters
    ----------
    problem : Problem
        In NCHW or NHWC.
    arrays : dict
        Its operands.
    """

    def __init__(self, problem: Problem, arrays: dict[str, Any]) -> None:
        self._problem = problem
        exact, self._magnitudes = sums(problem, arrays)
        self._dtype = np.dtype(problem.dtype)
        self._activation = problem.full_activation
        self.exact = activate(exact, self._activation, self._dtype)

    def bound(self, stated: float) -> np.ndarray:
        """How far off a result may be; `stated` is as in ``reference.error_bound``."""
        p = self._problem
        terms = p.in_channels // p.groups * p.kernel[0] * p.kernel[1] + 4
        bound = rounding_bound(self._magnitudes, terms, self._dtype, stated)
        bound = activated_bound(bound, self.exact, self._activation, self._dtype)
        return stored_bound(bound, self.exact, self._dtype)

    def difference(self, y: np.ndarray, stated: float) -> str | None:
        """Say what is wrong with `y`, in the problem's layout; None if nothing is."""
        if y.ndim == 3:
            y = y[np.newaxis]
        if self._problem.layout == "NHWC":
            y = y.transpose(0, 3, 1, 2)
        bound = self.bound(stated)
        error = np.abs(y - self.exact)
        good = error <= bound  # false for NaN
        if good.all():
            return None
        worst = np.argmax(np.where(np.isnan(error), np.inf, error - bound))
        at = tuple(int(i) for i in np.unravel_index(worst, y.shape))
        return (
            f"{np.count_nonzero(~good)} of {y.size} elements are off; worst at {at} of NCHW: got "
            f"{y[at]!r}, expected {self.exact[at]!r}, error {error[at]:.3g} where "
            f"{bound[at]:.3g} is allowed"
        )
