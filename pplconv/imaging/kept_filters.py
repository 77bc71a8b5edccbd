"""Prepared filters, kept from call to call: small images take less time than their preparation.

A filter is kept by all that it depends on but pixels: the form of the image, the bytes of the
kernels, the other arguments, the team, and the settings of the environment.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import planner
from ..memory.arrays import check_out, empty_aligned
from ..runtime import ForkableLock
from .banded import Banded
from .bands import Filter

__all__ = ["Ready", "keep", "kept", "kernels_of", "key_of"]

Array = npt.NDArray[Any]

# Filters that are kept, and bytes of them all together, in order of their last use.
MOST = 64
MOST_BYTES = 1 << 23
# Bytes of a kernel, beyond which a filter is not kept: its arithmetic outweighs the preparation.
KERNEL_BYTES = 1 << 14
# Bytes of a tap in a prepared kernel, of float64 at most, whatever type the caller's has.
_TAP_BYTES = 8
# Classes that mean the same type each time; others may have an attribute `dtype` that changes.
_CLASSES = frozenset((int, float, *np.sctypeDict.values()))
# Where a key has shape, type and bytes of each kernel.
_OPERANDS = 5
# What a filter takes besides its kernels and the places of its rows: plans, mostly.
FIXED_BYTES = 1 << 13


class Ready(NamedTuple):
    """A filter prepared for images of one form.

    Parameters
    ----------
    filter : callable
        Takes an image (H, W, C) and results (n, rows, columns, C).
    shape, planes : tuple of int
        Of the result as the caller gets it, and as the filter takes it.
    dtype : dtype
        Of the result.
    """

    filter: Filter
    shape: tuple[int, ...]
    planes: tuple[int, ...]
    dtype: np.dtype[Any]

    def __call__(self, image: Array, out: Array | None, **operands: object) -> Array:
        """Filter an image; `operands` are arrays apart from which `out` must lie."""
        if out is None:
            out = empty_aligned(self.shape, self.dtype)
        else:
            out = check_out(out, self.shape, self.dtype, image=image, **operands)
        if type(self.filter) is Banded:
            self.filter(image, out)
        else:
            self.filter(image.reshape(*image.shape[:2], -1), out.reshape(-1, *self.planes[1:]))
        return out


_lock = ForkableLock()
_kept: OrderedDict[Any, tuple[Ready, int]] = OrderedDict()
_bytes = 0
# The filter that was used last, which is not moved again.
_latest: Any = None


def key_of(
    image: object, kernels: tuple[object, ...], border: object, value: object, anchor: object,
    flip: object, dtype: object, threads: object,
) -> Any:  # fmt: skip
    """Describe a call by its arguments, as the filters have them, and by the environment.

    None if equal arguments may mean something else another time.
    """
    if type(image) is not np.ndarray or type(border) is not str or type(flip) is not bool:
        return None
    if type(value) is not int and type(value) is not float:
        return None
    if anchor is not None and not (type(anchor) is tuple and all(type(at) is int for at in anchor)):
        return None
    known = type(dtype) is type and dtype in _CLASSES
    if not (dtype is None or isinstance(dtype, (np.dtype, str)) or known):
        return None
    if not (threads is None or type(threads) is int):
        return None
    operands: tuple[object, ...] = ()
    for kernel in kernels:
        if _is_plain(kernel):
            kernel = np.array(kernel)
        if type(kernel) is not np.ndarray or kernel.dtype.kind not in "buif":
            return None
        if _TAP_BYTES * kernel.size > KERNEL_BYTES:
            return None
        operands += kernel.shape, kernel.dtype, kernel.tobytes()
    # 0 and 0.0 are equal, and so are a type and its name; NaN is not equal to itself.
    number = value.hex() if type(value) is float else value
    return (
        planner.team_and_settings(threads), image.shape, image.strides, image.dtype,
        image.flags.aligned, operands, border, type(value), number, anchor, flip, dtype,
        type(dtype),
    )  # fmt: skip


def _is_plain(kernel: object) -> bool:
    """Whether a kernel is a list of numbers, or of lists of equally many."""
    if type(kernel) is not list or not kernel:
        return False
    rows = kernel if type(kernel[0]) is list else [kernel]
    return all(
        type(row) is list and len(row) == len(rows[0])
        and all(type(each) is int or type(each) is float for each in row) for row in rows
    )  # fmt: skip


def kernels_of(key: Any) -> tuple[Array, ...]:
    """Give the kernels that a key describes, whatever happens to the caller's meanwhile."""
    shapes, dtypes, numbers = key[_OPERANDS][::3], key[_OPERANDS][1::3], key[_OPERANDS][2::3]
    return tuple(
        np.frombuffer(data, dtype).reshape(shape)
        for shape, dtype, data in zip(shapes, dtypes, numbers, strict=True)
    )


def kept(key: Any) -> Ready | None:
    """Find a filter that was kept under a key."""
    global _latest
    found = _kept.get(key)
    if found is None:
        return None
    if found is not _latest:
        with _lock:
            if key in _kept:
                _kept.move_to_end(key)
            _latest = found
    return found[0]


def keep(key: Any, ready: Ready) -> None:
    """Keep a filter, and drop the least recently used ones."""
    global _bytes, _latest
    size = FIXED_BYTES + 16 * (ready.shape[-2] + max(ready.shape))
    size += sum(4 * _TAP_BYTES * kernel.size for kernel in kernels_of(key))
    if size > MOST_BYTES // 4:
        return
    with _lock:
        if key in _kept:
            return
        _kept[key] = ready, size
        _bytes += size
        _latest = None
        while len(_kept) > MOST or _bytes > MOST_BYTES:
            _, (_, freed) = _kept.popitem(last=False)
            _bytes -= freed
