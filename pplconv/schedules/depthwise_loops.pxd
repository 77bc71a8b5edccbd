"""Depthwise convolution's loops compiled: see ``depthwise_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.base cimport Schedule, Shape


cdef struct DepthwiseFields:
    # The candidate's decisions: members have the names of its `own_fields`, from which Cython fills
    # them by name.
    int64_t width
    # Task = (image, channel segment, row segment).
    int64_t channel_segment, row_segment
    # For arrays that are converted: the channels and rows of outputs that are computed together,
    # and the rows of the input in the scratch.
    int64_t channel_chunk, row_chunk, slab_rows


cdef struct DepthwiseOffsets:
    # Likewise its offsets in the scratch, which are whole elements: converted input, and outputs.
    int64_t slab_offset, out_offset


cdef struct DepthwiseJob:
    Shape shape
    DepthwiseFields plan
    DepthwiseOffsets at
    # Output channels; `multiplier` of them share an input channel.
    int64_t channels, multiplier
    int64_t channel_segments, row_segments
    pplconv_kernel by_pixels, by_channels, pack_depthwise


cdef class DepthwiseSchedule(Schedule):
    cdef DepthwiseJob own

    cdef int check(self) except -1
    cdef int check_converted(self) except -1
