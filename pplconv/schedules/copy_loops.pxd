"""The loops of copies compiled: see ``copy_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.work cimport Work


cdef enum:
    COPIED_DIMS = 6


cdef struct CopyJob:
    pplconv_kernel kernel
    # The last two dimensions are the rows and columns of a matrix that the kernel copies. The
    # others count such matrices, `around` in all. A task copies some of the rows of `lines`
    # matrices.
    int64_t dims[COPIED_DIMS]
    int64_t src[COPIED_DIMS]
    int64_t dst[COPIED_DIMS]
    int64_t row_segment, row_segments, lines, around
    # Bytes from the lowest element of the source to the first.
    int64_t first
    # Whether elements are converted to a larger or to a smaller type.
    bint widens, narrows


cdef class Copy(Work):
    cdef CopyJob own
