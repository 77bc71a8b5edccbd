# cython: cdivision=True
"""Rows of planes laid into the scratch with zeros around them, and outputs stored row by row.

At stride 1 a tap reads the pixels of a row as they lie, some places further on. So nothing is
copied for each tap, and vectors run on from row to row: where a row of outputs has ended, the few
sums up to the next one mean nothing, and are left out when sums are stored.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_CLIP,
    PPLCONV_RESIDUAL,
    pplconv_convert_out_args,
    pplconv_pad_channels_args,
    pplconv_zero_lanes_args,
)
from pplconv.schedules.base cimport (
    Tensors,
    complete,
    convert_in,
    finish_converted,
    follows,
    least,
    most,
)
from pplconv.schedules.nest_job cimport Tile, input_at, y_offset
from pplconv.schedules.sparse_job cimport SparseJob


cdef extern from "pplconv_schedules.h" nogil:
    void fill "pplconv_fill"(void *dst, int64_t count, int64_t size, int64_t value)


cdef inline void copy_rows(const SparseJob *j, const char *src, int64_t src_rs, char *dst,
                           int64_t dst_rs, int64_t rows, int64_t columns) noexcept nogil:
    """Copy rows of the input into the scratch, in the type that kernels read."""
    cdef pplconv_convert_out_args s
    cdef pplconv_pad_channels_args a
    if j.nest.shape.converts_in:
        convert_in(&j.nest.shape, src, src_rs, dst, dst_rs, rows, columns)
    elif j.nest.shape.exact:
        a.src, a.src_rs, a.src_ps = src, src_rs, 0
        a.dst, a.dst_rs, a.dst_ps = dst, dst_rs, 0
        a.rows, a.columns, a.channels, a.fill = rows, 1, columns, columns
        j.nest.pad_channels(&a)
    else:
        s.src, s.src_rs = src, src_rs
        s.dst, s.dst_rs = dst, dst_rs
        s.rows, s.columns, s.fill = rows, columns, 0
        s.flags = 0
        j.store_sums(&s)


cdef inline void lay_plane(const SparseJob *j, const char *plane, int64_t first, int64_t seen,
                           char *dst, int64_t zero) noexcept nogil:
    """Lay rows `first` to `first + seen` of a plane with its padding, which counts as `zero`."""
    cdef pplconv_zero_lanes_args z
    cdef int64_t e = j.nest.shape.size.operand, row = j.plan.laid_row * e, at
    cdef int64_t left = j.nest.shape.geometry.pad_left, inside = j.nest.shape.geometry.iw
    cdef int64_t between = j.plan.laid_row - inside
    cdef int64_t top = least(most(j.nest.shape.geometry.pad_top - first, 0), seen)
    cdef int64_t end = j.nest.shape.geometry.pad_top + j.nest.shape.geometry.ih - first
    end = most(least(end, seen), top)
    fill(dst, top * j.plan.laid_row, e, zero)
    fill(dst + end * row, (seen - end) * j.plan.laid_row, e, zero)
    if top == end:
        return
    copy_rows(j, plane + (first + top - j.nest.shape.geometry.pad_top) * j.nest.shape.x.row,
              j.nest.shape.x.row, dst + top * row + left * e, row, end - top, inside)
    if between == 0:
        return
    # What is behind a row and before the next one lies side by side.
    fill(dst + top * row, left, e, zero)
    z.dst = dst + top * row + (left + inside) * e
    z.dst_ps, z.lanes = row, between
    z.pixels = end - top - 1
    if j.nest.shape.exact:
        for at in range(z.pixels):
            fill(<char *> z.dst + at * row, between, e, zero)
    elif z.pixels > 0:
        j.nest.shape.zero_lanes(&z)
    fill(dst + (end - 1) * row + (left + inside) * e, between - left, e, zero)


cdef inline void lay_rows(const SparseJob *j, const Tensors *t, const Tile *tile, int64_t rows,
                          char *scratch) noexcept nogil:
    """Lay what `rows` rows of outputs see, from the tile's first one on."""
    cdef int64_t seen = rows + (j.nest.shape.geometry.kh - 1) * j.nest.shape.geometry.dilation_h
    cdef int64_t plane = j.plan.laid_plane * j.nest.shape.size.operand, channel
    cdef const char *src = input_at(&j.nest, t, tile)
    for channel in range(j.nest.shape.ic):
        lay_plane(j, src + channel * j.nest.shape.x.block, tile.first_row, seen,
                  scratch + j.at.panel_offset + channel * plane, t.x_zero)


cdef inline void store_part(const SparseJob *j, const Tensors *t, char *sums, int64_t row,
                            int64_t offset, int64_t channels, int64_t pixels,
                            int64_t channel) noexcept nogil:
    """Store a part of a row of outputs of some channels; sums have their bias, and are clipped
    unless there is a residual.
    """
    cdef pplconv_convert_out_args s
    if j.nest.shape.converts_out:
        finish_converted(&j.nest.shape, t, sums, row, offset, j.nest.shape.y.block, channels,
                         pixels, channel, True)
        return
    s.src, s.src_rs = sums, row
    s.dst, s.dst_rs = t.y + offset, j.nest.shape.y.block
    s.rows, s.columns, s.fill = channels, pixels, 0
    s.residual, s.residual_rs = t.residual + offset, s.dst_rs
    s.clip, s.flags = t.clip, 0
    if t.residual != NULL:
        s.flags = PPLCONV_RESIDUAL
        if t.clip != NULL:
            s.flags |= PPLCONV_CLIP
    j.store_sums(&s)
    if follows(t):
        complete(&j.nest.shape, t, t.y + offset, j.nest.shape.y.block, channels, pixels, channel,
                 True)


cdef inline void store_laid(const SparseJob *j, const Tensors *t, const Tile *tile, char *sums,
                            int64_t channel, int64_t channels) noexcept nogil:
    """Store what a tile has of each row of outputs, of some channels.

    The tile's pixels count laid pixels from row `tile.first_row` of the outputs on.
    """
    cdef int64_t row = tile.pixel // j.plan.laid_row, end = tile.pixel + tile.pixels
    cdef int64_t begin, last, place, sum = j.nest.shape.size.sum, ow = j.nest.shape.geometry.ow
    while row * j.plan.laid_row < end:
        begin = most(row * j.plan.laid_row, tile.pixel)
        last = least(row * j.plan.laid_row + ow, end)
        if begin < last:
            place = (tile.first_row + row) * ow + begin - row * j.plan.laid_row
            store_part(j, t, sums + (begin - tile.pixel) * sum, j.plan.width * sum,
                       y_offset(&j.nest, tile, channel, place), channels, last - begin,
                       tile.group * j.nest.bias_group + channel)
        row += 1
