"""The loops between NCHW and NCHWc; see ``relayout.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel


cdef struct Planes:
    # Images of NCHW and their counterpart in blocks; `pixels` of one image.
    int64_t images, channels, pixels, block


cdef class Relayout:
    cdef pplconv_kernel pack_channels, store_transposed
    cdef int64_t element

    cdef void to_blocks(self, const Planes *planes, const char *x, char *y,
                        int team) noexcept nogil
    cdef void from_blocks(self, const Planes *planes, const char *x, char *y,
                          int team) noexcept nogil
