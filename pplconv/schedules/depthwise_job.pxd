"""A plan of depthwise convolution as C structs: see ``depthwise_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.base cimport Shape, Tensors


# The candidate's decisions: members of the structs have the names of its `own_fields`, from which
# Cython fills them by name.
cdef struct DepthwiseCut:
    # Task = (image, channel segment, row segment).
    int64_t channel_segment, row_segment
    # Channels and rows of outputs that are computed together in the scratch.
    int64_t channel_chunk, row_chunk


cdef struct DepthwiseOffsets:
    # Offsets in the scratch, in bytes: the input's rows, and the sums.
    int64_t slab_offset, out_offset


cdef struct DepthwiseFields:
    # Rows of input in the scratch, converted or gathered; whether a few channels at a time are
    # gathered there: planes turned into pixels, or pixels' channels copied.
    int64_t slab_rows, gathered


cdef struct UnitFields:
    # Of bytes: whether vectors run over pixels, and channels in a unit of packed weights.
    int64_t pixels, unit


cdef struct UnitOffsets:
    # Of bytes: from one unit of packed weights to the next, and between lines of a padded plane.
    int64_t unit_bytes, slab_line


cdef struct Part:
    int64_t image, channel, channel_end, row, row_end


cdef struct DepthwiseJob:
    Shape shape
    DepthwiseCut cut
    DepthwiseOffsets at
    DepthwiseFields plan
    UnitFields unit_plan
    UnitOffsets unit_at
    # Output channels; `multiplier` of them share an input channel, or a group's input channels are
    # as many as its outputs.
    int64_t channels, multiplier
    int64_t channel_segments, row_segments, vector_bytes
    # Packed weights of floats, vectors of channels: channels of a vector; neighbouring channels,
    # whose last vector may be a part; vectors of these.
    int64_t lanes, neighbours, vectors
    # Computes a piece in the scratch; NULL where kernels write the caller's array.
    void (*run_piece)(const DepthwiseJob *j, const Tensors *t, const Part *p,
                      char *scratch) noexcept nogil
    pplconv_kernel by_pixels, by_channels, pack_weights
    pplconv_kernel pack_channels, store_transposed  # of turned planes
