"""Filters of images: NumPy arrays of integers or floating point in, the same out.

===============  ===================================================================================
``filter2d``     correlate an image with a kernel or a bank of them, as OpenCV and SciPy's `ndimage`
``sepfilter2d``  the same with a row and a column
``correlate2d``  correlation of two arrays, as ``scipy.signal.correlate2d``
``convolve2d``   convolution of two arrays, as ``scipy.signal.convolve2d``
``gaussian``     a Gaussian blur
``box``          the mean of a rectangle
``sobel``        first derivatives, or their magnitude
``scharr``       the same with Scharr's weights
``laplace``      the sum of second derivatives
``unsharp``      sharpens by what a Gaussian takes away
``Compose``      filters one after another, in one call
===============  ===================================================================================

docs/imaging.md has a table of the names of borders, anchors and types in other libraries.
"""

from __future__ import annotations

from .compose import Compose, ComposedPart
from .filtering import filter2d, sepfilter2d
from .named import box, gaussian, laplace, scharr, sobel, unsharp
from .signal import convolve2d, correlate2d

__all__ = [
    "Compose",
    "ComposedPart",
    "box",
    "convolve2d",
    "correlate2d",
    "filter2d",
    "gaussian",
    "laplace",
    "scharr",
    "sepfilter2d",
    "sobel",
    "unsharp",
]
