# cython: cdivision=True
"""A plan of the GEMM nest, and a task's product, as C structs: see ``gemm_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_kernel
from pplconv.schedules.base cimport Tensors
from pplconv.schedules.nest_job cimport NestJob, Tile
from pplconv.schedules.panel_offsets cimport Panels, offset_in


cdef struct GemmFields:
    # The candidate's decisions besides those of the nest, filled by name as they are.
    # Pixels are counted over one image, or over all images if they follow one another (NHWC).
    int64_t images, pixels
    # Whether channels of a pixel are neighbours in input and output: all of them, or a block
    # (NCHWc). In planes, the pixels of a channel are.
    bint x_in_rows, y_in_rows
    # Whether vectors run over output channels, whether pixels are packed, and whether the loop over
    # pixels is the inner one.
    bint channels_in_vectors, packed, pixels_inner
    # Whether pixels that are not packed are copied into scratch, a block of K at a time, to be
    # converted, or for whole groups of K.
    bint copied
    int64_t mr, nr, panel_width, kr
    # `k_step`: zeros after K fill up the panels to a multiple of it.
    int64_t k_block, k_step, oc_segment, hw_segment, group_segment
    int64_t b_ahead
    # Layout of the scratch: pixels in a panel, and bytes of a tile's row.
    int64_t pixel_panel, tile_row
    # For converted arrays: pixels that are not packed are converted into the scratch of packed
    # ones, in rows of `packed_row` bytes. Panels that are stored transposed pass through planes,
    # whose rows have `plane_row` bytes.
    int64_t plane_row
    # Panels of output channels whose tiles wait in the scratch to be finished together.
    int64_t finish_panels
    # A tile's rows of A are copied to rows of so many bytes if they do not begin with a cache line;
    # 0: they are never copied.
    int64_t moved_row
    # Whether weights are read in place, as rows of a matrix (k, oc), or packed by the task, a block
    # of K at a time; if neither, they were packed before the call.
    bint weights_in_place, weights_by_task


cdef struct GemmOffsets:
    # More offsets in one thread's scratch. The tile holds sums before they are converted or stored
    # transposed.
    int64_t tile_offset, plane_offset, moved_offset, weights_offset


cdef struct GemmJob:
    NestJob nest
    GemmFields plan
    GemmOffsets at
    # How the weights of a group are packed.
    Panels panels
    # Bytes of the weights before packing, from one group, output channel and k to the next.
    int64_t weights_group, weights_column, weights_row
    # Vectors of a tile.
    int64_t vectors
    # Bytes of the input if its pixels are contiguous; 0 if there are gaps.
    int64_t x_bytes
    # How the work is divided: task = (group segment, image, hw segment, oc segment).
    int64_t oc_segments, hw_segments
    GemmFamily gemm
    # Gives tile registers back; NULL where kernels use none.
    pplconv_kernel release


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
    # `whole_k` is `k` rounded up to a whole step; panels have zeros there. A tile uses it if its
    # rows of A, thus extended, end before `a_end`.
    int64_t k, whole_k
    const char *a_end
    # Whether rows of A are copied to aligned rows, a tile at a time.
    bint moves
    # Whether C is a tile in the scratch; then each panel is stored transposed when it is whole.
    bint transposed
    # Whether tiles store C in the type of the output.
    bint rounds
    # If C has to be converted: its offsets in the output, like those of C; and whether tiles that
    # wait for conversion are collected from the first place of the scratch on.
    int64_t y, y_rs, y_down, y_across
    bint waits


cdef inline const char *source_at(const GemmJob *j, const Tensors *t,
                                  const Tile *tile) noexcept nogil:
    # The tile's weights before packing.
    return (t.filters + tile.group * j.weights_group + tile.channel * j.weights_column
            + tile.k_begin * j.weights_row)


cdef inline const char *weights_at(const GemmJob *j, const Tensors *t,
                                   const Tile *tile) noexcept nogil:
    return (t.weights + tile.group * j.panels.bytes
            + offset_in(&j.panels, tile.channel, tile.k_begin))
