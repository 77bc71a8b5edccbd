"""Depthwise convolution's loops compiled: see ``depthwise.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.base cimport Schedule, Shape


cdef struct DepthwiseJob:
    Shape shape
    # Output channels, of which `multiplier` share an input channel.
    int64_t channels, multiplier, width
    # Task = (image, channel segment, row segment).
    int64_t channel_segment, row_segment, channel_segments, row_segments
    # Where arrays are converted: outputs that are computed at a time, in rows of some channels,
    # from rows of the input in the scratch.
    int64_t channel_chunk, row_chunk, slab_rows, slab_offset, out_offset
    pplconv_kernel by_pixels, by_channels, pack_depthwise


cdef class DepthwiseSchedule(Schedule):
    cdef DepthwiseJob own

    cdef int check(self) except -1
    cdef int check_converted(self) except -1
