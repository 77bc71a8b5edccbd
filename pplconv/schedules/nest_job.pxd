# cython: cdivision=True
"""What loops over images, groups and segments of pixels know: the GEMM nest, and sparse weights."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.base cimport Shape, Tensors, channel_offset
from pplconv.schedules.panels cimport Panels


cdef struct NestFields:
    # The candidate's decisions. Members have the names of its `own_fields`, from which Cython fills
    # them by name; so do those of `NestOffsets`.
    # Whether channels of a pixel lie in blocks (NCHWc).
    bint in_blocks
    # Layout of the scratch: bytes of a packed row. Pixels of arrays that are converted pass through
    # a slab: the rows of the image that a segment sees, some channels at a time.
    int64_t packed_row, slab_rows, slab_channels


cdef struct NestOffsets:
    # Places in one thread's scratch, in bytes, behind the packed pixels.
    int64_t runs_offset, slab_offset


cdef struct NestJob:
    Shape shape
    NestFields plan
    NestOffsets at
    # How the pixels of a block of K are packed where they come from planes.
    Panels pixels
    # How the user's arrays lie besides: bytes from one group to the next, where channels do not lie
    # in blocks; elements of bias and slopes from one group to the next.
    int64_t x_group, y_group, bias_group
    int64_t k, lanes
    pplconv_kernel pack_pixels, pack_rows, pad_channels, store_transposed, pack_weights


cdef struct Tile:
    # What a task works on: one image and group, a segment of pixels and of channels.
    int64_t image, group, pixel, pixels, channel, channels
    int64_t k_begin, k_end, run_count
    bint first, last
    # Where rows of planes are laid: the row of outputs that its pixels count from.
    int64_t first_row
    # What the kernels of this thread keep of their tile registers.
    int64_t *tiles


cdef inline const char *input_at(const NestJob *j, const Tensors *t,
                                 const Tile *tile) noexcept nogil:
    # The first pixel and channel of the tile's image and group; channels do not lie in blocks.
    return t.x + tile.image * j.shape.x.image + tile.group * j.x_group


cdef inline int64_t y_offset(const NestJob *j, const Tile *tile, int64_t channel,
                             int64_t pixel) noexcept nogil:
    # `channel` within the group, `pixel` as the job counts pixels
    cdef int64_t offset = tile.image * j.shape.y.image + pixel * j.shape.y.pixel
    if j.plan.in_blocks:
        channel += tile.group * j.shape.oc
    else:
        offset += tile.group * j.y_group
    return offset + channel_offset(&j.shape.y, j.shape.size.destination, channel)
