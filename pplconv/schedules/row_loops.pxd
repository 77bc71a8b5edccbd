"""The loops over matrices compiled: see ``row_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.brain_rows cimport BrainRows
from pplconv.schedules.work cimport Work, task_function


cdef enum:
    ROWS_AROUND = 4
    # Rows of a block of `reduce_rows`, whose sums add up in the order of the blocks.
    REDUCED_ROWS = 64
    # Elements that are float32 at once, unless a row has more.
    WIDE_ELEMENTS = 2048


cdef struct RowsJob:
    pplconv_kernel kernel
    # `dims` count the matrices. A task has some rows of one matrix; some columns for `reduce_rows`.
    int64_t dims[ROWS_AROUND]
    int64_t src[ROWS_AROUND]
    int64_t dst[ROWS_AROUND]
    int64_t rows, columns, src_rs, dst_rs, segment, segments, element, kind
    bint scale, offset, last
    # Of arrays of bfloat16; the task that computes float32, the number of its arrays, and the
    # elements that it gives for a row.
    BrainRows brain
    task_function task
    int64_t arrays, results
    # Whether results lie behind the rows that they are computed from, not in their place.
    bint apart
    # Whether results stay float32.
    bint wide


cdef class Rows(Work):
    cdef RowsJob own

    cdef task_function of_brain_floats(self, str op, task_function task) except *
