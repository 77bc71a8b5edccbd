"""The loops over matrices compiled: see ``row_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.work cimport Work


cdef enum:
    ROWS_AROUND = 4


cdef struct RowsJob:
    pplconv_kernel kernel
    # `dims` count the matrices. A task has some rows of one matrix; some columns for `reduce_rows`.
    int64_t dims[ROWS_AROUND]
    int64_t src[ROWS_AROUND]
    int64_t dst[ROWS_AROUND]
    int64_t rows, columns, src_rs, dst_rs, segment, segments, element, kind
    bint scale, offset, last


cdef class Rows(Work):
    cdef RowsJob own
