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
from pplconv import imaging

Array = NDArray[Any]
Call = Callable[[], Any]
OURS = "pplconv"


@dataclass(frozen=True)
class Case:
    """An image (H, W) or (H, W, C), a kernel, and column and row of a separable kernel."""

    image: Array
    kernel: Array
    vectors: tuple[Array, Array] | None = None

    def result(self) -> Array:
        """Memory for a result."""
        return np.empty_like(self.image)


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
    if case.vectors is not None:
        down, across = case.vectors
        return lambda: imaging.sepfilter2d(case.image, across, down, border="constant", out=out)
    return lambda: imaging.filter2d(case.image, case.kernel, border="constant", out=out)


def _cv2(case: Case) -> Call | None:
    if not find_spec("cv2"):
        return None
    import cv2

    out = case.result()
    border = cv2.BORDER_CONSTANT
    if case.vectors is not None:
        down, across = case.vectors
        return lambda: cv2.sepFilter2D(case.image, -1, across, down, out, borderType=border)
    return lambda: cv2.filter2D(case.image, -1, case.kernel, out, borderType=border)


def _correlate(case: Case) -> Call | None:
    if not find_spec("scipy"):
        return None
    from scipy import ndimage

    out = case.result()
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
    if not find_spec("scipy") or case.image.ndim > 2 or case.image.dtype == np.uint8:
        return None
    from scipy import signal

    return None if case.vectors else lambda: signal.correlate2d(case.image, case.kernel, "same")


def _fftconvolve(case: Case) -> Call | None:
    if not find_spec("scipy") or case.vectors or case.image.dtype == np.uint8:
        return None
    from scipy import signal

    kernel = case.kernel[::-1, ::-1].reshape(case.kernel.shape + (1,) * (case.image.ndim - 2))
    return lambda: signal.fftconvolve(case.image, kernel, "same", axes=(0, 1))


def _torch(case: Case) -> Call | None:
    if not find_spec("torch") or case.vectors or case.image.dtype == np.uint8:
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
    "cv2.filter2D": _cv2,
    "scipy.ndimage.correlate": _correlate,
    "scipy.signal.correlate2d": _correlate2d,
    "scipy.signal.fftconvolve": _fftconvolve,
    "torch conv2d": _torch,
}
# Engines without threads: only the smallest team times them.
ONE_THREAD = ("scipy.ndimage.correlate", "scipy.signal.correlate2d", "scipy.signal.fftconvolve")
