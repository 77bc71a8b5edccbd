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
    pplconv_kernel by_pixels, by_channels, pack_depthwise


cdef class DepthwiseSchedule(Schedule):
    cdef DepthwiseJob own

    cdef int check(self) except -1
