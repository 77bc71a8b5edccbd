# cython: cdivision=True
"""What the GEMM nest knows of a plan and of a task: see ``gemm.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_kernel
from pplconv.schedules.base cimport Shape, Tensors, channel_offset
from pplconv.schedules.panels cimport Panels, offset_in


cdef struct GemmFields:
    # The candidate's decisions. Members have the names of its `own_fields`, from which Cython fills
    # them by name.
    # Pixels are counted over one image, or over all where they run on (NHWC).
    int64_t images, pixels
    # Whether channels of a pixel are neighbours in input and output: all of them, or a block
    # (NCHWc). In planes, the pixels of a channel are.
    bint x_in_rows, y_in_rows, in_blocks
    # Which operand runs in vectors, whether pixels are packed, and which loop is the inner one.
    bint channels_in_vectors, packed, pixels_inner
    # Whether pixels that are not packed are copied into scratch, a block of K at a time, to be
    # converted, or for whole groups of K.
    bint copied
    int64_t mr, nr, panel_width, kr
    # `k_step`: what zeros behind K fill up in the panels.
    int64_t k_block, k_step, oc_segment, hw_segment, group_segment
    int64_t b_ahead
    # Layout of the scratch: pixels in a panel, bytes of a packed row and of a tile's row.
    int64_t pixel_panel, packed_row, tile_row
    # For arrays that are converted. Pixels that are not packed are converted into the place of
    # packed ones, in rows of `packed_row` bytes. Pixels to be packed are
    # first converted into a slab: the rows of the image that the segment sees, some channels at a
    # time. Panels that are stored transposed pass through planes.
    int64_t slab_rows, slab_channels, plane_row
    # Panels of output channels whose tiles wait in the scratch to be finished together.
    int64_t finish_panels
    # Bytes from one row to the next of those that a tile of A is moved to where they do not begin
    # with a line; 0: they stay where they are.
    int64_t moved_row


cdef struct GemmOffsets:
    # Places in one thread's scratch, in bytes, behind the packed pixels. The tile is the one that
    # is stored transposed.
    int64_t runs_offset, tile_offset, plane_offset, slab_offset, moved_offset


cdef struct GemmJob:
    Shape shape
    GemmFields plan
    GemmOffsets at
    # How the weights of a group are packed, and the pixels of a block of K where they come from
    # planes.
    Panels panels, pixels
    # How the user's arrays lie besides: bytes from one group to the next, where channels do not lie
    # in blocks; of the weights from one group, output channel and k to the next; elements of bias
    # and slopes from one group to the next.
    int64_t x_group, y_group, weights_group, weights_column, weights_row, bias_group
    int64_t k, vectors, lanes
    # Bytes of the input in which pixels lie without gaps; 0 where there are gaps.
    int64_t x_bytes
    # How the work is divided: task = (group segment, image, hw segment, oc segment).
    int64_t oc_segments, hw_segments
    GemmFamily gemm
    pplconv_kernel pack_pixels, pack_rows, pad_channels, store_transposed, pack_weights
    # Gives tile registers back; NULL where kernels use none.
    pplconv_kernel release


cdef struct Tile:
    # What a task works on: one image and group, a segment of pixels and of channels.
    int64_t image, group, pixel, pixels, channel, channels
    int64_t k_begin, k_end, run_count
    bint first, last
    # Where rows of planes are laid: the row of outputs that its pixels count from.
    int64_t first_row
    # What the kernels of this thread keep of their tile registers.
    int64_t *tiles


cdef struct Product:
    # The product C = A B of a task, tile by tile: where the first tile's operands lie, and the
    # bytes from a tile to the one below it and to the one beside it.
    int64_t rows, columns
    const char *a
    const char *b
    char *c
    const char *residual
    const char *bias
    int64_t a_down, b_across, c_down, c_across, bias_down, bias_across
    bint rows_inner
    # The sum up to a whole step, where the panels have zeros behind K, for tiles whose rows of A
    # end before `a_end` even so.
    int64_t k, whole_k
    const char *a_end
    # Whether rows of A are moved, a tile of them at a time.
    bint moves
    # Whether C is a tile in the scratch; then each panel is stored transposed when it is whole.
    bint transposed
    # If C has to be converted: its place in the output, as offsets like those of C; and whether
    # tiles that wait for it follow one another from the first place on, whichever they are.
    int64_t y, y_rs, y_down, y_across
    bint waits


cdef inline const char *input_at(const GemmJob *j, const Tensors *t,
                                 const Tile *tile) noexcept nogil:
    # The first pixel and channel of the tile's image and group; channels do not lie in blocks.
    return t.x + tile.image * j.shape.x.image + tile.group * j.x_group


cdef inline int64_t y_offset(const GemmJob *j, const Tile *tile, int64_t channel,
                             int64_t pixel) noexcept nogil:
    # `channel` within the group, `pixel` as the job counts pixels
    cdef int64_t offset = tile.image * j.shape.y.image + pixel * j.shape.y.pixel
    if j.plan.in_blocks:
        channel += tile.group * j.shape.oc
    else:
        offset += tile.group * j.y_group
    return offset + channel_offset(&j.shape.y, j.shape.size.destination, channel)


cdef inline const char *weights_at(const GemmJob *j, const Tensors *t,
                                   const Tile *tile) noexcept nogil:
    return (t.weights + tile.group * j.panels.bytes
            + offset_in(&j.panels, tile.channel, tile.k_begin))
