"""Compare the lines that two engines read on the same page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from examples.demo.reading import Line

__all__ = ["LARGEST_SHIFT", "differences", "largest_shift"]

LARGEST_SHIFT = 1.0
"""Largest distance of corners that is no difference, in pixels of the picture."""


def largest_shift(ours: Sequence[Line], theirs: Sequence[Line]) -> float:
    """Give the largest distance between corners of two pages.

    Parameters
    ----------
    ours, theirs : sequence of Line
        As many of both.

    Returns
    -------
    float
        Pixels of the picture; NaN if a corner is.
    """
    shifts = [
        float(np.max(np.abs(a.corners - b.corners))) for a, b in zip(ours, theirs, strict=True)
    ]
    return float(np.max(shifts)) if shifts else 0.0


def differences(ours: Sequence[Line], theirs: Sequence[Line]) -> list[str]:
    """List the differences between two pages.

    Parameters
    ----------
    ours, theirs : sequence of Line
        In reading order.

    Returns
    -------
    list of str
        A sentence for each difference; empty if texts are the same and boxes within
        `LARGEST_SHIFT`.
    """
    if len(ours) != len(theirs):
        return [f"{len(ours)} boxes and {len(theirs)} boxes"]
    found = [
        f"line {number}: {a.text!r} and {b.text!r}"
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True), start=1)
        if a.text != b.text
    ]
    shift = largest_shift(ours, theirs)
    if not shift <= LARGEST_SHIFT:  # NaN is beyond the limit too
        found.append(f"boxes are {shift:.3g} pixels apart")
    return found
