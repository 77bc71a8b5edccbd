"""Filters of Intel's Integrated Performance Primitives (the package ``ipp``), for `filters`.

Each function of the library takes memory that other functions size and fill. The types and
functions are those of ``ippi.h`` and ``ippcv.h``, the headers of the package ``ipp-include``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pplconv import machine

__all__ = ["box", "correlate", "gaussian"]

Array = NDArray[Any]
Call = Callable[[], Any]

# IppDataType, and what names of functions call it.
_TYPES = {
    np.dtype(np.uint8): (1, "8u"),
    np.dtype(np.uint16): (5, "16u"),
    np.dtype(np.float32): (13, "32f"),
}
_CONSTANT = 6  # ippBorderConst
_NEAREST = 1  # ippRndNear


class _Size(ctypes.Structure):
    _fields_ = (("width", ctypes.c_int), ("height", ctypes.c_int))


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """Load the library from the package; nothing if it is not installed.

    Its own choice among the CPUs' versions looks for names that the package does not have.
    """
    try:
        files = {file.name: file.locate() for file in metadata.files("ipp") or []}
    except metadata.PackageNotFoundError:
        return ()
    levels = machine.current().usable_isas()
    cpu = "k0" if "avx512" in levels else "l9" if "avx2" in levels else "y8"
    names = "ippcore", f"ippi{cpu}", f"ippcv{cpu}"
    found = [files.get(f"lib{name}.so.12") for name in names]
    if None in found:
        return ()
    return tuple(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL) for path in found)


def _function(name: str) -> Any:
    for library in _libraries():
        if hasattr(library, name):
            return getattr(library, name)
    return None


def _checked(status: int) -> None:
    if status < 0:
        raise RuntimeError(f"IPP returned {status}")


def _memory(size: int) -> Array:
    """Bytes that begin at a line of cache."""
    whole = np.zeros(size + 64, np.uint8)
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


class _Image:
    """What all functions of an image and its result ask for."""

    def __init__(self, image: Array, out: Array) -> None:
        self.kept = image, out
        self.channels = image.shape[2] if image.ndim > 2 else 1
        self.size = _Size(image.shape[1], image.shape[0])
        self.kind, self.name = _TYPES[image.dtype]
        self.value = (ctypes.c_double * 4)()  # zeros of any type
        self.ends = (
            ctypes.c_void_p(image.ctypes.data), ctypes.c_int(image.strides[0]),
            ctypes.c_void_p(out.ctypes.data), ctypes.c_int(out.strides[0]), self.size,
        )  # fmt: skip

    def function(self, name: str) -> Any:
        """Find the function for this type and these channels."""
        return _function(f"{name}_{self.name}_C{self.channels}R")


def _call(function: Any, image: _Image, *more: Any) -> Call:
    def call() -> None:
        _checked(function(*image.ends, *more))

    return call


def _pointer(array: Array) -> Any:
    """Point to an array, and keep it."""
    return array.ctypes.data_as(ctypes.c_void_p)


def correlate(image: Array, kernel: Array, out: Array) -> Call | None:
    """Correlate with a kernel of float32: ``ippiFilterBorder``."""
    if image.dtype not in _TYPES or not _libraries():
        return None
    made = _Image(image, out)
    function = made.function("ippiFilterBorder")
    if function is None:
        return None
    spec_size, size = ctypes.c_int(), ctypes.c_int()
    extent = _Size(kernel.shape[1], kernel.shape[0])
    _checked(_function("ippiFilterBorderGetSize")(
        extent, made.size, made.kind, _TYPES[np.dtype(np.float32)][0], made.channels,
        ctypes.byref(spec_size), ctypes.byref(size),
    ))  # fmt: skip
    spec, buffer = _memory(spec_size.value), _memory(size.value)
    # The library convolves.
    taps = np.ascontiguousarray(kernel, np.float32)
    _checked(_function("ippiFilterBorderInit_32f")(
        _pointer(taps), extent, made.kind, made.channels, _NEAREST, _pointer(spec)
    ))  # fmt: skip
    return _call(function, made, _CONSTANT, made.value, _pointer(spec), _pointer(buffer))


def box(image: Array, size: int, out: Array) -> Call | None:
    """Give means of squares: ``ippiFilterBoxBorder``."""
    if image.dtype not in _TYPES or not _libraries():
        return None
    made, mask, bytes_ = _Image(image, out), _Size(size, size), ctypes.c_int()
    _checked(_function("ippiFilterBoxBorderGetBufferSize")(
        made.size, mask, made.kind, made.channels, ctypes.byref(bytes_)
    ))  # fmt: skip
    buffer = _memory(bytes_.value)
    function = made.function("ippiFilterBoxBorder")
    return _call(function, made, mask, _CONSTANT, made.value, _pointer(buffer))


def gaussian(image: Array, size: int, sigma: float, out: Array) -> Call | None:
    """Blur by a Gaussian: ``ippiFilterGaussian``."""
    if image.dtype not in _TYPES or not _libraries():
        return None
    made = _Image(image, out)
    function = made.function("ippiFilterGaussian")
    if function is None:
        return None
    spec_size, begun, bytes_ = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    _checked(_function("ippiFilterGaussianGetSpecSize")(
        size, made.kind, made.channels, ctypes.byref(spec_size), ctypes.byref(begun)
    ))  # fmt: skip
    _checked(_function("ippiFilterGaussianGetBufferSize")(
        made.size, size, made.kind, made.channels, ctypes.byref(spec_size), ctypes.byref(bytes_)
    ))  # fmt: skip
    spec, buffer = _memory(spec_size.value), _memory(max(bytes_.value, begun.value))
    _checked(_function("ippiFilterGaussianInit")(
        made.size, size, ctypes.c_float(sigma), _CONSTANT, made.kind, made.channels,
        _pointer(spec), _pointer(buffer),
    ))  # fmt: skip
    return _call(function, made, _CONSTANT, made.value, _pointer(spec), _pointer(buffer))
