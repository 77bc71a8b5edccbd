# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Sums with an error as integers: one pass over sums that are in a cache."""

from cpython.buffer cimport PyBUF_ND, PyBUF_WRITABLE
from libc.stdint cimport int64_t

from pplconv._kernels cimport find, pplconv_kernel, pplconv_round_sums_args
from pplconv.memory.arrays cimport View, hold, release

import numpy as np

from pplconv import planner
from pplconv.memory.dtypes import NAMES
from pplconv.numerics import numerics_of


def round_sums(sums, results, double error):
    """Round sums half to even, and saturate them.

    Parameters
    ----------
    sums : ndarray of float32 or float64
        C-contiguous.
    results : ndarray of uint8, int8, uint16 or int16
        C-contiguous, as many elements as `sums`, apart from them; written.
    error : float
        How far a sum may be from what it stands for, >= 0.

    Returns
    -------
    ndarray of int64
        Which elements that leaves open: they are the type's least number. NaN is open.

    Raises
    ------
    ValueError
        If the arrays do not go together.
    """
    cdef View source, target, found
    cdef pplconv_round_sums_args a
    cdef int64_t count = 0
    cdef str name = NAMES[sums.dtype]
    cdef pplconv_kernel kernel = find("round_sums", name, planner.best_isa(numerics_of(name, name)))
    if results.dtype.kind not in "iu" or results.dtype.itemsize > 2 or results.size != sums.size:
        raise ValueError("sums and results do not go together")
    limits = np.iinfo(results.dtype)
    parameters = np.array([error, limits.min, limits.max], sums.dtype)
    if parameters[0] < error:
        parameters[0] = np.nextafter(parameters[0], parameters.dtype.type(np.inf))
    open_ones = np.empty(sums.size, np.int64)
    source.held = target.held = found.held = False
    try:
        hold(sums, &source, PyBUF_ND)
        hold(results, &target, PyBUF_ND | PyBUF_WRITABLE)
        hold(open_ones, &found, PyBUF_ND | PyBUF_WRITABLE)
        a.src, a.dst, a.open = source.buffer.buf, target.buffer.buf, found.buffer.buf
        a.count, a.size = sums.size, results.itemsize
        a.parameters = <const void *> <size_t> parameters.ctypes.data
        a.open_count = &count
        with nogil:
            kernel(&a)
    finally:
        release(&source)
        release(&target)
        release(&found)
    return open_ones[:count]
