"""Calls of kernels that compute rows of one array from rows of others."""

from __future__ import annotations

import numpy as np

from tests.kernels.guarded_memory import extent_of
from tests.kernels.packing_case import PackingCall


class Call(PackingCall):
    """The arrays of one call, each in memory of its own; any types."""

    def put(self, name, array, stride, writable=False):
        """Place an array with rows `stride` bytes apart; give a view of it.

        The last writable one is the output.
        """
        strides = (stride, array.itemsize)
        extent = extent_of(array.shape, strides, array.itemsize)
        buffer = self._buffer(name, extent, writable=writable, unit=array.itemsize)
        view = buffer.array(array.shape, array.dtype, strides)
        view[...] = array
        self.values[f"{name}_rs"] = stride
        if writable:
            self._outputs, self.view = [(buffer, view)], view
        return view

    def run(self, **values):
        """Call the kernel, check that it wrote nothing else, and give its output."""
        self.values |= values
        self.values.setdefault("residual_rs", 0)
        return super().run(self.values)


def put_rows(call, rng, pixels, order):
    """Give a kernel the addresses of rows of pixels, in some order."""
    gap = pixels.itemsize * (pixels.shape[1] + int(rng.integers(0, 70)))
    call.put("pixels", pixels, gap)
    first = call.values.pop("pixels")
    call.put("src", np.array([[first + gap * at for at in order]], np.int64), 0)
