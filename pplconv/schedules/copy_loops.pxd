"""The loops of copies compiled: see ``copying.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.work cimport Work


cdef enum:
    COPIED_DIMS = 6


cdef struct CopyJob:
    pplconv_kernel kernel
    # The last two dimensions are the rows and columns of the kernel, the others lie around them,
    # `around` in all. A task copies some of the rows of `lines` of these.
    int64_t dims[COPIED_DIMS]
    int64_t src[COPIED_DIMS]
    int64_t dst[COPIED_DIMS]
    int64_t row_segment, row_segments, lines, around
    # Elements become larger or smaller ones.
    bint widens, narrows


cdef class Copy(Work):
    cdef CopyJob own
