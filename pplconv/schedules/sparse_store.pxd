# cython: cdivision=True
"""Sums that wait in the scratch, a row of pixels for each channel, stored into the output."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_CLIP,
    PPLCONV_RESIDUAL,
    pplconv_convert_out_args,
    pplconv_store_transposed_args,
)
from pplconv.schedules.base cimport Tensors, complete, finish_converted, follows, least, most
from pplconv.schedules.nest_job cimport Tile, y_offset
from pplconv.schedules.sparse_job cimport SparseJob


cdef struct Sums:
    # Sums of a tile that have their bias, and are clipped unless there is a residual: of channels
    # `channel` up to `end`, and `pixels` from `pixel` on. Their rows are a tile's pixels long.
    char *at
    int64_t channel, end, pixel, pixels


cdef inline void store_planes(const SparseJob *j, const Tensors *t, const Tile *tile,
                              const Sums *sums) noexcept nogil:
    """Store sums into planes."""
    cdef pplconv_convert_out_args s
    cdef int64_t offset = y_offset(&j.nest, tile, sums.channel, sums.pixel)
    cdef int64_t own = tile.group * j.nest.bias_group + sums.channel
    s.src, s.src_rs = sums.at, j.plan.width * j.nest.shape.size.sum
    s.rows, s.columns, s.fill = sums.end - sums.channel, sums.pixels, 0
    if j.nest.shape.converts_out:
        finish_converted(&j.nest.shape, t, sums.at, s.src_rs, offset, j.nest.shape.y.block, s.rows,
                         s.columns, own, True)
        return
    s.dst, s.dst_rs = t.y + offset, j.nest.shape.y.block
    s.residual, s.residual_rs = t.residual + offset, s.dst_rs
    s.clip, s.flags = t.clip, 0
    if t.residual != NULL:
        s.flags = PPLCONV_RESIDUAL
        if t.clip != NULL:
            s.flags |= PPLCONV_CLIP
    j.store_sums(&s)
    if follows(t):
        complete(&j.nest.shape, t, t.y + offset, s.dst_rs, s.rows, s.columns, own, True)


cdef inline void store_rows(const SparseJob *j, const Tensors *t, const Tile *tile,
                            const Sums *sums, char *scratch) noexcept nogil:
    """Store sums as rows of channels.

    In blocked arrays each block has the part of them that belongs to it.
    """
    cdef pplconv_store_transposed_args s
    cdef int64_t row = j.plan.width * j.nest.shape.size.sum, channel = sums.channel, left, offset
    cdef int64_t width = j.nest.shape.y.width, own
    s.src_rs = row
    s.columns = sums.pixels
    s.bias = NULL
    s.clip = t.clip
    s.flags = 0
    if t.residual != NULL and not j.nest.shape.converts_out:
        s.flags = PPLCONV_RESIDUAL
        if t.clip != NULL:
            s.flags |= PPLCONV_CLIP
    while channel < sums.end:
        own = tile.group * j.nest.shape.oc + channel
        left = sums.end - channel
        if j.plan.in_blocks:
            left = least(left, width - own % width)
        offset = y_offset(&j.nest, tile, channel, sums.pixel)
        s.src = sums.at + (channel - sums.channel) * row
        s.rows = left
        s.dst, s.dst_rs = t.y + offset, j.nest.shape.y.pixel
        s.residual, s.residual_rs = t.residual + offset, s.dst_rs
        if j.nest.shape.converts_out:
            s.dst, s.dst_rs = scratch + j.at.plane_offset, j.plan.chunk * j.nest.shape.size.sum
        j.nest.store_transposed(&s)
        if j.nest.shape.converts_out:
            finish_converted(&j.nest.shape, t, <char *> s.dst, s.dst_rs, offset,
                             j.nest.shape.y.pixel, sums.pixels, left, own, False)
        elif follows(t):
            complete(&j.nest.shape, t, t.y + offset, s.dst_rs, sums.pixels, left, own, False)
        channel += left


cdef inline void store_sums(const SparseJob *j, const Tensors *t, const Tile *tile, Sums *sums,
                            char *scratch) noexcept nogil:
    """Store sums of pixels that follow one another in the output."""
    if j.plan.x_in_rows:
        store_rows(j, t, tile, sums, scratch)
    else:
        store_planes(j, t, tile, sums)


cdef inline void store_laid(const SparseJob *j, const Tensors *t, const Tile *tile, char *at,
                            int64_t channel, int64_t end, char *scratch) noexcept nogil:
    """Store what a tile has of each row of outputs, of some channels.

    The tile's pixels count laid pixels from row `tile.first_row` of the outputs on.
    """
    cdef int64_t row = tile.pixel // j.plan.laid_row, last = tile.pixel + tile.pixels
    cdef int64_t begin, ow = j.nest.shape.geometry.ow
    cdef Sums sums
    sums.channel, sums.end = channel, end
    while row * j.plan.laid_row < last:
        begin = most(row * j.plan.laid_row, tile.pixel)
        sums.pixels = least(row * j.plan.laid_row + ow, last) - begin
        if sums.pixels > 0:
            sums.at = at + (begin - tile.pixel) * j.nest.shape.size.sum
            sums.pixel = (tile.first_row + row) * ow + begin - row * j.plan.laid_row
            store_sums(j, t, tile, &sums, scratch)
        row += 1
