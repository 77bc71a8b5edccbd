"""The steps of a network's convolution after the activation; see ``finish.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_instruction


cdef class Finish:
    # The addition of `Tensors.after`, if there is one, is the last instruction.
    cdef pplconv_instruction[2] code
    cdef int count
    # The constructor's arguments.
    cdef readonly tuple arguments
    cdef object arrays
    cdef const char *scale
    cdef const char *offset
    # Channels of scale and offset; -1 if there is neither.
    cdef int64_t channels
    # Bytes of a number.
    cdef int64_t element
