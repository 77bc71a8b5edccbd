"""The loops of copies by indices compiled: see ``index_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.work cimport Work


cdef enum:
    AROUND = 6
    MOST_INDICES = 8


cdef struct IndexedJob:
    pplconv_kernel kernel
    # `dims` count the rows of items; a task has some items of one row, or all rows.
    int64_t dims[AROUND]
    int64_t src[AROUND]
    int64_t dst[AROUND]
    int64_t index[AROUND]
    int64_t rows, count, segment, segments, size, src_step, dst_step, index_step, depth
    bint together
    int64_t limits[MOST_INDICES]
    int64_t src_strides[MOST_INDICES]
    int64_t dst_strides[MOST_INDICES]


cdef class Indexed(Work):
    cdef IndexedJob own
