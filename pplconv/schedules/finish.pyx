# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The steps of a network's convolution after the activation.

Outputs are scaled and offset by channel, and an array is added, while a block is in L1: see
`complete` in ``base.pxd``.
"""

from libc.string cimport memset

from pplconv._kernels cimport PPLCONV_DO_ADD, PPLCONV_DO_MULTIPLY, PPLCONV_DO_MULTIPLY_ADD
from pplconv.memory.arrays cimport address_of
from pplconv.schedules.work cimport AFTER, ELEMENT, OFFSET, SCALE

import numpy as np

from pplconv.memory.dtypes import DTYPES


cdef class Finish:
    """Scale, offset and addition after the activation.

    Parameters
    ----------
    dtype : str
        Type of numbers of a channel: `Numerics.bias`.
    scale, offset : ndarray or None
        A number for each output channel of all groups: ``y * scale + offset``.

    Attributes
    ----------
    arguments : tuple
        The constructor's arguments: they make an equal object.

    Raises
    ------
    ValueError
        If scale and offset are not of one length.
    """

    def __cinit__(self, str dtype, scale=None, offset=None):
        self.element = DTYPES[dtype].itemsize
        self.scale = self.offset = NULL
        self.arrays = [
            None if array is None else np.array(array, DTYPES[dtype], order="C").reshape(-1)
            for array in (scale, offset)
        ]
        self.arguments = dtype, *self.arrays
        lengths = {array.size for array in self.arrays if array is not None}
        if len(lengths) > 1 or 0 in lengths:
            raise ValueError("a scale and an offset have a number for each channel")
        # Without either it does not matter how many channels there are.
        self.channels = lengths.pop() if lengths else -1
        memset(&self.code, 0, sizeof(self.code))
        self.count = 1 if self.channels > 0 else 0
        if self.arrays[0] is not None:
            self.scale = address_of(self.arrays[0], NULL)
            self.code[0].op = PPLCONV_DO_MULTIPLY
            self.code[0].b = SCALE
        if self.arrays[1] is not None:
            self.offset = address_of(self.arrays[1], NULL)
            self.code[0].op = PPLCONV_DO_ADD
            self.code[0].b = OFFSET
        if self.scale != NULL and self.offset != NULL:
            self.code[0].op = PPLCONV_DO_MULTIPLY_ADD
            self.code[0].b, self.code[0].c = SCALE, OFFSET
        self.code[self.count].op = PPLCONV_DO_ADD
        self.code[self.count].a = self.code[self.count].to = ELEMENT
        self.code[self.count].b = AFTER
