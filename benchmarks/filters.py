"""The engines of `benchmarks.imaging`: pplconv and its peers, on the same arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pplconv
from benchmarks import halide_filters, ipp
from pplconv import imaging

Array = NDArray[Any]
Call = Callable[[], Any]
OURS = "pplconv"


@dataclass(frozen=True)
class Case:
    """An image and a filter.

    Parameters
    ----------
    image : ndarray, shape (H, W) or (H, W, C)
        The image.
    kernel : ndarray of float32 or float64
        What each pixel is correlated with.
    vectors : tuple of ndarray, optional
        Column and row of a kernel that all engines are told is separable.
    name : {"drawn", "box", "gaussian", "sobel"}
        Whether engines may call the function that they have for this filter.
    sigma : float
        Of a Gaussian.
    """

    image: Array
    kernel: Array
    vectors: tuple[Array, Array] | None = None
    name: str = "drawn"
    sigma: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether pixels are integers."""
        return self.image.dtype.kind in "iu"

    def result(self) -> Array:
        """Memory for a result: derivatives of bytes are of 16 bits, of 16 bits float32."""
        signed = {"uint8": np.int16, "uint16": np.float32}
        dtype = self.image.dtype
        if self.name == "sobel":
            dtype = np.dtype(signed.get(dtype.name, dtype))
        return np.empty(self.image.shape, dtype)


@contextmanager
def team(threads: int) -> Iterator[None]:
    """Give everyone as many threads, for as long as the context lasts."""
    with pplconv.runtime.team(threads):
        if find_spec("cv2"):
            import cv2

            cv2.setNumThreads(threads)
        if find_spec("torch"):
            import torch

            torch.set_num_threads(threads)
        yield


def _pplconv(case: Case) -> Call:
    out = case.result()
    more: dict[str, Any] = {"border": "constant", "out": out}
    if case.name == "box":
        return lambda: imaging.box(case.image, case.kernel.shape, **more)
    if case.name == "gaussian":
        radius = len(case.kernel) // 2
        return lambda: imaging.gaussian(case.image, case.sigma, radius=radius, **more)
    if case.name == "sobel":
        return lambda: imaging.sobel(case.image, axis=1, dtype=out.dtype, **more)
    if case.vectors is not None:
        down, across = case.vectors
        return lambda: imaging.sepfilter2d(case.image, across, down, border="constant", out=out)
    return lambda: imaging.filter2d(case.image, case.kernel, border="constant", out=out)


def _cv2(case: Case) -> Call | None:
    if not find_spec("cv2"):
        return None
    import cv2

    out = case.result()
    border, size = cv2.BORDER_CONSTANT, case.kernel.shape
    if case.name == "box":
        return lambda: cv2.blur(case.image, size, out, borderType=border)
    if case.name == "gaussian":
        return lambda: cv2.GaussianBlur(
            case.image, size, case.sigma, out, case.sigma, borderType=border
        )
    if case.name == "sobel":
        depth = {"int16": cv2.CV_16S, "float32": cv2.CV_32F}[out.dtype.name]
        return lambda: cv2.Sobel(case.image, depth, 1, 0, out, borderType=border)
    if case.vectors is not None:
        down, across = case.vectors
        return lambda: cv2.sepFilter2D(case.image, -1, across, down, out, borderType=border)
    return lambda: cv2.filter2D(case.image, -1, case.kernel, out, borderType=border)


def _ipp(case: Case) -> Call | None:
    out = case.result()
    if case.name == "sobel":
        return None
    if case.name == "box":
        call = ipp.box(case.image, len(case.kernel), out)
    elif case.name == "gaussian":
        call = ipp.gaussian(case.image, len(case.kernel), case.sigma, out)
    else:
        call = ipp.correlate(case.image, case.kernel, out)
    if call is None:
        return None
    run = call

    def filled() -> Array:
        run()
        return out

    return filled


def _halide(case: Case) -> Call | None:
    out = case.result()
    if case.name == "sobel":
        return None
    if case.name == "box":
        return halide_filters.box(case.image, len(case.kernel), out)
    if case.vectors is not None:
        return halide_filters.product(case.image, *case.vectors, out)
    return halide_filters.correlate(case.image, case.kernel, out)


def _correlate(case: Case) -> Call | None:
    if not find_spec("scipy"):
        return None
    from scipy import ndimage

    out = case.result()
    if case.name == "box":
        if case.is_whole:
            return None  # it cuts fractions of integers after each axis
        sizes = case.kernel.shape + (1,) * (case.image.ndim - 2)
        return lambda: ndimage.uniform_filter(case.image, sizes, out, "constant")
    if case.vectors is not None:
        down, across = case.vectors
        between = np.empty(case.image.shape, np.float32)

        def apart() -> Any:
            ndimage.correlate1d(case.image, down, 0, between, "constant")
            return ndimage.correlate1d(between, across, 1, out, "constant")

        return apart
    kernel = case.kernel.reshape(case.kernel.shape + (1,) * (case.image.ndim - 2))
    return lambda: ndimage.correlate(case.image, kernel, out, "constant")


def _correlate2d(case: Case) -> Call | None:
    if not find_spec("scipy") or case.image.ndim > 2 or case.is_whole:
        return None
    from scipy import signal

    return None if case.vectors else lambda: signal.correlate2d(case.image, case.kernel, "same")


def _fftconvolve(case: Case) -> Call | None:
    if not find_spec("scipy") or case.vectors or case.is_whole:
        return None
    from scipy import signal

    kernel = case.kernel[::-1, ::-1].reshape(case.kernel.shape + (1,) * (case.image.ndim - 2))
    return lambda: signal.fftconvolve(case.image, kernel, "same", axes=(0, 1))


def _torch(case: Case) -> Call | None:
    if not find_spec("torch") or case.vectors or case.is_whole:
        return None
    import torch

    if case.image.ndim > 2:
        return None
    x = torch.from_numpy(case.image)[None, None]
    w = torch.from_numpy(case.kernel)[None, None]
    padding = [n // 2 for n in case.kernel.shape]

    def call() -> Any:
        with torch.inference_mode():
            return torch.nn.functional.conv2d(x, w, padding=padding)[0, 0]

    return call


# A function gives None if its engine is not installed or cannot compute the case.
ENGINES: dict[str, Callable[[Case], Call | None]] = {
    OURS: _pplconv,
    "cv2": _cv2,
    "ipp": _ipp,
    "halide": _halide,
    "scipy.ndimage.correlate": _correlate,
    "scipy.signal.correlate2d": _correlate2d,
    "scipy.signal.fftconvolve": _fftconvolve,
    "torch conv2d": _torch,
}
# Engines without threads: only the smallest team times them.
ONE_THREAD = (
    "ipp",
    "halide",
    "scipy.ndimage.correlate",
    "scipy.signal.correlate2d",
    "scipy.signal.fftconvolve",
)
