"""Loops of depthwise convolution of bytes, compiled: see ``depthwise_byte_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.base cimport Schedule, Shape


cdef struct DepthwiseBytesFields:
    # The candidate's decisions: members have the names of its `own_fields`, from which Cython fills
    # them by name.
    int64_t pixels
    # Channels in a unit of packed weights.
    int64_t unit
    # Task = (image, channel segment, row segment).
    int64_t channel_segment, row_segment
    # Channels and rows of sums that are in the scratch at a time.
    int64_t channel_chunk, row_chunk


cdef struct DepthwiseBytesOffsets:
    # Likewise its sizes and offsets in bytes: from one unit of packed weights to the next; in the
    # scratch, the lines of a padded plane, the distance from line to line, and the sums.
    int64_t unit_bytes, slab_offset, slab_line, out_offset


cdef struct DepthwiseBytesJob:
    Shape shape
    DepthwiseBytesFields plan
    DepthwiseBytesOffsets at
    # Output channels; `multiplier` of them share an input channel.
    int64_t channels, multiplier
    int64_t channel_segments, row_segments, vector_bytes
    pplconv_kernel by_pixels, by_channels, pack_weights


cdef class DepthwiseBytesSchedule(Schedule):
    cdef DepthwiseBytesJob own

    cdef int check(self) except -1
    cdef int check_scratch(self) except -1
