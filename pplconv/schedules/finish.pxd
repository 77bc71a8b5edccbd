"""What a network's convolution does with outputs after the activation; see ``finish.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_instruction


cdef class Finish:
    # The addition of `Tensors.after`, where there is one, is the instruction behind the others.
    cdef pplconv_instruction[2] code
    cdef int count
    cdef object arrays
    cdef const char *scale
    cdef const char *offset
    # Channels that both have numbers for.
    cdef int64_t channels
    # Bytes of a number.
    cdef int64_t element
