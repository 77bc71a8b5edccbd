# cython: cdivision=True
"""Rows of pixels as the tiles of the GEMM nest read them: in whole groups of K, copied, moved."""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from pplconv._kernels cimport make_pixel_runs, pplconv_pad_channels_args, pplconv_run
from pplconv.schedules.base cimport Tensors, convert_in, least
from pplconv.schedules.gemm_job cimport GemmJob
from pplconv.schedules.nest_job cimport Tile, input_at
from pplconv.schedules.nest_pixels cimport gather_block, pack_block
from pplconv.schedules.panels cimport depth


cdef inline void fill_groups(const GemmJob *j, const Tile *tile, char *scratch) noexcept nogil:
    """Zero what rows of the scratch lack of their last group of K."""
    cdef int64_t e = j.nest.shape.size.operand, k = tile.k_end - tile.k_begin, row
    cdef int64_t more = depth(k, j.plan.kr) - k
    if more == 0:
        return
    for row in range(tile.pixels):
        memset(scratch + row * j.nest.plan.packed_row + k * e, 0, more * e)


cdef inline void copy_block(const GemmJob *j, const Tensors *t, const Tile *tile,
                            char *scratch) noexcept nogil:
    """Copy the tile's pixels for its block of K, converted and with K in whole groups."""
    cdef int64_t e = j.nest.shape.size.source, k = tile.k_end - tile.k_begin
    cdef const char *src = input_at(&j.nest, t, tile) + tile.pixel * j.nest.shape.x.pixel
    cdef pplconv_pad_channels_args a
    if not j.nest.shape.converts_in:
        a.src, a.src_rs, a.src_ps = src + tile.k_begin * e, 0, j.nest.shape.x.pixel
        a.dst, a.dst_rs, a.dst_ps = scratch, 0, j.nest.plan.packed_row
        a.rows, a.columns, a.channels = 1, tile.pixels, k
        a.fill = depth(k, j.plan.kr)
        j.nest.pad_channels(&a)
        return
    fill_groups(j, tile, scratch)
    if j.plan.x_in_rows:
        convert_in(&j.nest.shape, src + tile.k_begin * e, j.nest.shape.x.pixel, scratch,
                   j.nest.plan.packed_row, tile.pixels, k)
    else:
        convert_in(&j.nest.shape, src + tile.k_begin * j.nest.shape.x.block,
                   j.nest.shape.x.block, scratch, j.nest.plan.packed_row, k, tile.pixels)


cdef inline void move_rows(const GemmJob *j, const char *a, int64_t rows, int64_t k,
                           char *scratch) noexcept nogil:
    """Move rows of A to where each begins with a line: tile registers load lines."""
    cdef int64_t row
    for row in range(rows):
        memcpy(scratch + j.at.moved_offset + row * j.plan.moved_row,
               a + row * j.nest.shape.x.pixel, k)


cdef inline void begin_pixels(const GemmJob *j, Tile *tile, int64_t pixel,
                              char *scratch) noexcept nogil:
    """Go on to the segment of pixels that begins with `pixel`."""
    tile.pixel = pixel
    tile.pixels = least(j.plan.hw_segment, j.plan.pixels - pixel)
    if j.plan.packed and not j.plan.x_in_rows:
        # All channels and groups of the segment share the table.
        tile.run_count = make_pixel_runs(
            &j.nest.shape.geometry, tile.pixel, tile.pixels, j.nest.lanes, j.nest.pixels.width,
            j.nest.pixels.panel_bytes // j.nest.shape.size.operand,
            <pplconv_run *> (scratch + j.nest.at.runs_offset))


cdef inline void bring_pixels(const GemmJob *j, const Tensors *t, const Tile *tile,
                              char *scratch) noexcept nogil:
    """Pack or copy a block of K of the segment's pixels, if tiles do not read them in place."""
    if j.plan.packed and j.plan.x_in_rows:
        fill_groups(j, tile, scratch)
        gather_block(&j.nest, t, tile, scratch)
    elif j.plan.packed:
        pack_block(&j.nest, t, tile, scratch)
    elif j.plan.copied:
        copy_block(j, t, tile, scratch)
