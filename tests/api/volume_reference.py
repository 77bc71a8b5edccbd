"""Convolutions of volumes and signals in float64, by their definition, for any number of axes.

Ordinary: pad, then add one tap after the other. Transposed: each place of the input, times each
tap, is added where it belongs. Nothing is shared with the package under test; `tests.reference`
derives how far a result may be from it.
"""

from __future__ import annotations

import itertools

import numpy as np

from tests.reference import assert_within, rounding_bound


def convolved(x, w, bias=None, residual=None, *, stride, padding, dilation, groups):
    """Give the sums of arrays (N, C, ...); padding is left out of them."""
    kernel = w.shape[2:]
    sides = [(0, 0), (0, 0), *padding]
    padded = np.pad(x.astype(np.float64), sides)
    inside = np.pad(np.ones(x.shape, bool), sides)[0, 0]
    n, oc, group = len(x), len(w), len(w) // groups
    size = [
        (have - (k - 1) * d - 1) // s + 1
        for have, k, d, s in zip(padded.shape[2:], kernel, dilation, stride, strict=True)
    ]
    y = np.zeros((n, groups, group, int(np.prod(size))))
    with np.errstate(all="ignore"):
        for tap in itertools.product(*map(range, kernel)):
            seen = tuple(
                slice(t * d, t * d + (count - 1) * s + 1, s)
                for t, d, s, count in zip(tap, dilation, stride, size, strict=True)
            )
            own = padded[(slice(None), slice(None), *seen)].reshape(n, groups, w.shape[1], -1)
            taps = w[(..., *tap)].astype(np.float64).reshape(groups, group, w.shape[1])
            # Left out, not multiplied by zero: the weight may be infinite.
            y += np.where(inside[seen].reshape(-1), taps @ own, 0)
        return _added(y.reshape(n, oc, *size), bias, residual)


def transposed(
    x, w, bias=None, residual=None, *, stride, padding, output_padding, dilation, groups
):
    """Give the sums of a transposed convolution of arrays (N, C, ...)."""
    n, ic, *size = x.shape
    kernel, own = w.shape[2:], w.shape[1]
    whole = [
        (have - 1) * s + (k - 1) * d + 1 + more
        for have, s, k, d, more in zip(size, stride, kernel, dilation, output_padding, strict=True)
    ]
    y = np.zeros((n, groups, own, *whole))
    seen = x.astype(np.float64).reshape(n, groups, ic // groups, -1)
    taps = w.astype(np.float64).reshape(groups, ic // groups, own, *kernel)
    with np.errstate(all="ignore"):
        for tap in itertools.product(*map(range, kernel)):
            places = tuple(
                slice(t * d, t * d + (have - 1) * s + 1, s)
                for t, d, s, have in zip(tap, dilation, stride, size, strict=True)
            )
            terms = taps[(..., *tap)].swapaxes(1, 2) @ seen
            y[(..., *places)] += terms.reshape(n, groups, own, *size)
        cut = tuple(slice(a, have - b) for (a, b), have in zip(padding, whole, strict=True))
        return _added(y.reshape(n, groups * own, *whole)[(..., *cut)], bias, residual)


def _added(y, bias, residual):
    if bias is not None:
        y = y + bias.astype(np.float64).reshape(-1, *[1] * (y.ndim - 2))
    return y if residual is None else y + residual.astype(np.float64)


def assert_sums(
    reference, y, x, w, bias=None, residual=None, *, stated=0.0, terms=None, **geometry
):
    """Assert that `y`, in the order (N, C, ...), has the sums of a reference.

    `terms` are those of a sum, by default all of the weights of an output; `stated` is the bound of
    a plan that is no direct sum.
    """
    expected = reference(x, w, bias, residual, **geometry)
    magnitudes = reference(
        *(None if a is None else np.abs(a.astype(np.float64)) for a in (x, w, bias, residual)),
        **geometry,
    )
    with np.errstate(all="ignore"):
        bound = rounding_bound(
            magnitudes, (terms or int(np.prod(w.shape[1:]))) + 4, x.dtype, stated
        )
    assert_within(y, expected, bound, x.dtype)
