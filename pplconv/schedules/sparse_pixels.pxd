# cython: cdivision=True
"""The pixels of a tile for the kernels of sparse weights: one row for each k, or in place."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    make_pixel_runs,
    pplconv_pack_weights_args,
    pplconv_run,
    pplconv_convert_out_args,
    pplconv_copy_strided_args,
    pplconv_pad_channels_args,
    pplconv_zero_lanes_args,
)
from pplconv.schedules.base cimport Tensors, ceil_div, channel_offset, convert_in, least, most
from pplconv.schedules.nest_job cimport Tile, input_at, gather_block, pack_block
from pplconv.schedules.sparse_job cimport SparseJob
from pplconv.schedules.work cimport padding_of


# Planes copied ("laid") into the scratch with zeros around them, where taps read them in place.
#
# A tap reads a row of pixels at an offset of its own. So nothing is copied for each tap, and
# vectors run on from row to row: between two rows of outputs there are a few meaningless sums,
# which are left out when sums are stored.
#
# At stride 2 a tap reads every second row and column. Those are laid side by side: each phase, that
# is all rows and columns whole strides apart, is a part of its own. If channels of a pixel are
# neighbours in memory, rows of the image are transposed on their way.


cdef extern from "pplconv_schedules.h" nogil:
    void fill "pplconv_fill"(void *dst, int64_t count, int64_t size, int64_t value)
    void copy_small "pplconv_copy_small"(char *dst, int64_t dst_rs, const char *src,
                                         int64_t src_rs, int64_t src_cs, int64_t rows,
                                         int64_t columns, int64_t size)


cdef struct Inside:
    # Which of the laid rows, or columns, lie in the image, and where the first of them comes from.
    int64_t begin, end, source


cdef inline Inside inside(int64_t count, int64_t first, int64_t stride,
                          int64_t size) noexcept nogil:
    """Which of `count` rows, `stride` apart from `first` on, are in an image of `size` rows.
    """
    cdef Inside i
    i.begin = least(ceil_div(most(-first, 0), stride), count)
    i.end = most(least(ceil_div(most(size - first, 0), stride), count), i.begin)
    i.source = first + i.begin * stride
    return i


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
        s.residual, s.residual_rs, s.clip = NULL, 0, NULL
        s.flags = 0
        j.store_sums(&s)


cdef inline void copy_apart(const SparseJob *j, const char *src, int64_t src_rs, int64_t src_cs,
                            char *dst, int64_t dst_rs, int64_t rows, int64_t columns,
                            char *slab) noexcept nogil:
    """Copy rows as `copy_rows` does, of elements that are not neighbours in the input."""
    cdef pplconv_copy_strided_args a
    cdef int64_t size = j.nest.shape.size.source
    a.src, a.src_rs, a.src_cs = src, src_rs, src_cs
    a.dst, a.dst_rs, a.dst_cs = dst, dst_rs, size
    a.rows, a.columns = rows, columns
    if j.nest.shape.converts_in:
        a.dst, a.dst_rs = slab, columns * size
    if j.copy_strided != NULL:
        j.copy_strided(&a)
    else:
        copy_small(<char *> a.dst, a.dst_rs, src, src_rs, src_cs, rows, columns, size)
    if j.nest.shape.converts_in:
        copy_rows(j, slab, columns * size, dst, dst_rs, rows, columns)


cdef inline void lay_border(const SparseJob *j, char *dst, Inside rows, Inside columns,
                            int64_t zero) noexcept nogil:
    """Fill the border around the image in one part of a laid plane with `zero`."""
    cdef pplconv_zero_lanes_args z
    cdef int64_t e = j.nest.shape.size.operand, row = j.plan.laid_row * e, at
    cdef int64_t between = j.plan.laid_row - (columns.end - columns.begin)
    if rows.begin == rows.end:
        fill(dst, j.plan.slab_rows * j.plan.laid_row, e, zero)
        return
    fill(dst, rows.begin * j.plan.laid_row, e, zero)
    fill(dst + rows.end * row, (j.plan.slab_rows - rows.end) * j.plan.laid_row, e, zero)
    if between == 0:
        return
    # The border after a row and the border before the next one are contiguous.
    fill(dst + rows.begin * row, columns.begin, e, zero)
    z.dst = dst + rows.begin * row + columns.end * e
    z.dst_ps, z.lanes = row, between
    z.pixels = rows.end - rows.begin - 1
    if j.nest.shape.exact:
        for at in range(z.pixels):
            fill(<char *> z.dst + at * row, between, e, zero)
    elif z.pixels > 0:
        j.nest.shape.zero_lanes(&z)
    fill(dst + (rows.end - 1) * row + columns.end * e, j.plan.laid_row - columns.end, e, zero)


cdef inline void lay_plane(const SparseJob *j, const char *plane, char *dst, Inside rows,
                           Inside columns, char *slab) noexcept nogil:
    """Lay the rows and columns of a channel plane that are inside a part."""
    cdef int64_t e = j.nest.shape.size.operand, row = j.plan.laid_row * e
    cdef int64_t down = j.nest.shape.x.row * j.nest.shape.geometry.stride_h
    cdef int64_t across = j.nest.shape.x.pixel * j.nest.shape.geometry.stride_w
    cdef int64_t height = rows.end - rows.begin, width = columns.end - columns.begin
    cdef const char *src = (plane + rows.source * j.nest.shape.x.row
                            + columns.source * j.nest.shape.x.pixel)
    dst += rows.begin * row + columns.begin * e
    if across == j.nest.shape.x.pixel:
        copy_rows(j, src, down, dst, row, height, width)
    else:
        copy_apart(j, src, down, across, dst, row, height, width, slab)


cdef inline void lay_pixels(const SparseJob *j, const char *image, int64_t channels, char *dst,
                            Inside rows, Inside columns, char *slab) noexcept nogil:
    """Lay `channels` that are neighbours, those of a row in one transposition."""
    cdef int64_t e = j.nest.shape.size.operand, row
    cdef int64_t across = j.nest.shape.x.pixel * j.nest.shape.geometry.stride_w
    cdef const char *src = (image + rows.source * j.nest.shape.x.row
                            + columns.source * j.nest.shape.x.pixel)
    for row in range(rows.begin, rows.end):
        copy_apart(j, src, j.nest.shape.size.source, across,
                   dst + (row * j.plan.laid_row + columns.begin) * e, j.plan.laid_plane * e,
                   channels, columns.end - columns.begin, slab)
        src += j.nest.shape.x.row * j.nest.shape.geometry.stride_h


cdef inline void lay_part(const SparseJob *j, const Tensors *t, const Tile *tile, char *dst,
                          Inside rows, Inside columns, char *slab) noexcept nogil:
    """Lay one phase of all channels of the tile's image and group."""
    cdef int64_t plane = j.plan.laid_plane * j.nest.shape.size.operand, done = 0, channel
    cdef int64_t channels, width = j.nest.shape.ic
    cdef bint empty = rows.begin == rows.end or columns.begin == columns.end
    cdef const char *src = input_at(&j.nest, t, tile)
    for channel in range(j.nest.shape.ic):
        lay_border(j, dst + channel * plane, rows, columns, padding_of(t))
        if not (empty or j.plan.x_in_rows):
            lay_plane(j, src + channel * j.nest.shape.x.block, dst + channel * plane, rows,
                      columns, slab)
    if empty or not j.plan.x_in_rows:
        return
    channel = 0
    if j.plan.in_blocks:
        channel, width = tile.group * j.nest.shape.ic, j.nest.shape.x.width
        src = t.x + tile.image * j.nest.shape.x.image
    while done < j.nest.shape.ic:
        channels = least(j.nest.shape.ic - done, width - channel % width)
        lay_pixels(j, src + channel_offset(&j.nest.shape.x, j.nest.shape.size.source, channel),
                   channels, dst + done * plane, rows, columns, slab)
        done += channels
        channel += channels


cdef inline void lay_rows(const SparseJob *j, const Tensors *t, const Tile *tile,
                          char *scratch) noexcept nogil:
    """Lay the input rows that rows of outputs see, from row `tile.first_row` on."""
    g = &j.nest.shape.geometry
    cdef int64_t part = j.plan.slab_rows * j.plan.laid_row * j.nest.shape.size.operand, h, w
    cdef char *dst = scratch + j.at.panel_offset
    cdef int64_t top = tile.first_row * g.stride_h - g.pad_top
    cdef Inside rows, columns
    for h in range(j.plan.row_phases):
        rows = inside(j.plan.slab_rows, top + h, g.stride_h, g.ih)
        for w in range(j.plan.column_phases):
            columns = inside(j.plan.laid_row, w - g.pad_left, g.stride_w, g.iw)
            lay_part(j, t, tile, dst, rows, columns, scratch + j.at.slab_offset)
            dst += part


cdef struct Pixels:
    # Where k = 0 of the first pixel is; bytes from one k to the next, and from one pixel to the
    # next. `padded`: whole vectors of pixels may be read.
    const char *at
    int64_t k, pixel
    bint padded


cdef inline Pixels rows_of(const SparseJob *j, const Tensors *t, const Tile *tile,
                           char *scratch) noexcept nogil:
    """The pixels with neighbouring channels: gathered, or in place."""
    cdef Pixels x
    x.k = j.nest.shape.size.operand
    x.padded = False
    if j.plan.packed:
        gather_block(&j.nest, t, tile, scratch)
        x.at, x.pixel = scratch, j.at.packed_row
    else:
        x.pixel = j.nest.shape.x.pixel
        x.at = input_at(&j.nest, t, tile) + tile.pixel * x.pixel
    return x


cdef inline Pixels panel_of(const SparseJob *j, const Tensors *t, Tile *tile,
                            char *scratch) noexcept nogil:
    """A row of pixels for each k of the tile's block."""
    cdef pplconv_pack_weights_args p
    cdef Pixels x, rows
    x.pixel = j.nest.shape.size.operand
    x.k = j.plan.width * x.pixel
    x.at = scratch + j.at.panel_offset
    x.padded = True
    if j.plan.laid:
        x.k = x.pixel
        x.at += (tile.k_begin // j.nest.shape.taps * j.plan.laid_plane + tile.pixel) * x.pixel
    elif j.plan.x_in_rows:
        # The kernel that packs weights (output channels by k) transposes rows of pixels as well.
        rows = rows_of(j, t, tile, scratch)
        p.src, p.src_os, p.src_ks = rows.at, rows.pixel, rows.k
        p.dst = scratch + j.at.panel_offset
        p.oc_begin, p.oc_end = 0, tile.pixels
        p.ic, p.taps = j.nest.k, 1
        p.panel_width, p.kr, p.channel_block = j.plan.width, 1, 1
        j.nest.pack_weights(&p)
    elif j.plan.packed and j.nest.shape.exact:
        # Planes of bytes are packed only for 1x1 kernels: copied to the kernels' type.
        copy_rows(j, input_at(&j.nest, t, tile) + tile.k_begin * j.nest.shape.x.block
                  + tile.pixel * j.nest.shape.size.source, j.nest.shape.x.block,
                  scratch + j.at.panel_offset, x.k, tile.k_end - tile.k_begin, tile.pixels)
    elif j.plan.packed:
        if tile.first:
            tile.run_count = make_pixel_runs(
                &j.nest.shape.geometry, tile.pixel, tile.pixels, j.nest.lanes, j.plan.width,
                j.nest.pixels.panel_bytes // x.pixel,
                <pplconv_run *> (scratch + j.at.runs_offset))
        pack_block(&j.nest, t, tile, scratch)
    else:
        x.k = j.nest.shape.x.block
        x.at = input_at(&j.nest, t, tile) + tile.k_begin * x.k + tile.pixel * x.pixel
        x.padded = False
    return x
