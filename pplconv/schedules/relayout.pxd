"""The loops between NCHW and NCHWc; see ``relayout.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel


cdef struct Planes:
    # Sizes of images in NCHW and in blocks of `block` channels; `pixels` of one image.
    int64_t images, channels, pixels, block


cdef struct Kernels:
    # The kernels, and the size of the elements. Elements of float16 are converted to float32 by
    # `convert_in`, moved, and converted back by `convert_out`; these are NULL for other types.
    pplconv_kernel pack_channels, store_transposed, convert_in, convert_out
    int64_t element


cdef class Relayout:
    cdef Kernels kernels

    cdef void to_blocks(self, const Planes *planes, const char *x, char *y,
                        int team) noexcept nogil
    cdef void from_blocks(self, const Planes *planes, const char *x, char *y,
                          int team) noexcept nogil
