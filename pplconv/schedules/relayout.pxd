"""The loops between NCHW and NCHWc; see ``relayout.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel


cdef struct Planes:
    # Images of NCHW and their counterpart in blocks; `pixels` of one image.
    int64_t images, channels, pixels, block


cdef struct Kernels:
    # The kernels, and the size of the elements that they move. Halves are moved as words, which can
    # hold every half: `convert_in` and `convert_out` convert them, and are NULL for other types.
    pplconv_kernel pack_channels, store_transposed, convert_in, convert_out
    int64_t element


cdef class Relayout:
    cdef Kernels kernels

    cdef void to_blocks(self, const Planes *planes, const char *x, char *y,
                        int team) noexcept nogil
    cdef void from_blocks(self, const Planes *planes, const char *x, char *y,
                          int team) noexcept nogil
