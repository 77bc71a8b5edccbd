# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The first step of Winograd's loops: patches of the input become V."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_pack_channels_args, pplconv_winograd_input_args
from pplconv.schedules.base cimport Tensors, channel_offset, convert_in, least, most
from pplconv.schedules.winograd_job cimport Piece, Place, WinogradJob, piece_at
from pplconv.schedules.work cimport padding_of


cdef inline void stage_planes(const WinogradJob *j, pplconv_pack_channels_args *c,
                              char *stage) noexcept nogil:
    # Convert planes of float16, so that they can be packed.
    cdef int64_t channel, row_bytes = c.columns * j.shape.size.operand
    for channel in range(c.channels):
        convert_in(&j.shape, <const char *> c.src + channel * c.src_cs, c.src_rs,
                   stage + channel * c.rows * row_bytes, row_bytes, c.rows, c.columns)
    c.src = stage
    c.src_rs = row_bytes
    c.src_cs = c.rows * row_bytes


cdef inline void convert_pixels(const WinogradJob *j, pplconv_winograd_input_args *a,
                                int64_t channels, char *slab) noexcept nogil:
    # Convert the pixels of a vector's channels into the slab.
    cdef int64_t row, columns = a.column_end - a.column_begin
    cdef int64_t pixel = j.plan.slab_channels * j.pixel
    for row in range(a.row_begin, a.row_end):
        convert_in(&j.shape, <const char *> a.src + row * a.src_rs + a.column_begin * a.src_ps,
                   a.src_ps, slab + (row - a.row_begin) * j.plan.slab_row, pixel, columns, channels)
    a.src_rs = j.plan.slab_row
    a.src_ps = pixel
    a.src = slab - a.row_begin * a.src_rs - a.column_begin * a.src_ps


cdef inline void pre_subkernels(const WinogradJob *j, const Tensors *t, int64_t group,
                                int64_t tile_begin, int64_t tile_end, int64_t first,
                                int64_t side_by_side, int64_t ic_begin, int64_t ic_end,
                                int64_t offset, const Place *at) noexcept nogil:
    # Compute V of input channels for subkernels side by side, `offset` bytes behind each tile's
    # first channel. They share the pixels of a slab.
    cdef pplconv_winograd_input_args a, one
    cdef pplconv_pack_channels_args c
    cdef int64_t e = j.shape.size.operand, tile = tile_begin, channel, count, top, left
    cdef int64_t width = j.shape.x.width
    cdef int64_t down = first // j.across * j.plan.r, right = first % j.across * j.plan.r
    cdef int64_t i, further
    cdef const char *image
    cdef Piece p
    a.dst_ts = j.plan.v_row
    a.dst_ps = j.at.v_position
    a.step = j.plan.n
    a.outside = padding_of(t) if j.shape.exact else 0
    while tile < tile_end:
        p = piece_at(j, tile, tile_end)
        top = p.y - j.shape.geometry.pad_top + down
        left = p.x - j.shape.geometry.pad_left + right
        a.row_begin = least(most(0, -top), j.t)
        a.row_end = most(least(j.t, j.shape.geometry.ih - top), a.row_begin)
        a.column_begin = most(0, -left)
        a.column_end = least(j.shape.geometry.iw - left,
                             p.tiles * j.plan.n + side_by_side * j.plan.r - 1)
        a.column_end = most(a.column_end, a.column_begin)
        a.tiles = p.tiles
        image = t.x + p.image * j.shape.x.image + top * j.shape.x.row + left * j.shape.x.pixel
        channel = ic_begin
        while channel < ic_end:
            count = ic_end - channel
            a.dst = at.v + (tile - at.tile) * j.plan.v_row + offset + (channel - ic_begin) * e
            a.src = image + channel_offset(&j.shape.x, j.shape.size.source,
                                           group * j.shape.ic + channel)
            a.src_rs = j.shape.x.row
            a.src_ps = j.shape.x.pixel
            if width == 1:
                count = least(count, j.plan.slab_channels)
                c.rows = a.row_end - a.row_begin
                c.columns = a.column_end - a.column_begin
                c.src = (<const char *> a.src + a.row_begin * a.src_rs
                         + a.column_begin * a.src_ps)
                c.src_cs = j.shape.x.block
                c.src_rs = a.src_rs
                c.dst = at.slab
                c.dst_rs = j.plan.slab_row
                c.dst_ps = j.plan.slab_channels * j.pixel
                c.channels = count
                c.fill = count
                if c.rows > 0 and c.columns > 0:
                    if j.converts_in:
                        stage_planes(j, &c, at.stage)
                    j.pack_channels(&c)
                a.src_rs = c.dst_rs
                a.src_ps = c.dst_ps
                a.src = (<const char *> c.dst - a.row_begin * a.src_rs
                         - a.column_begin * a.src_ps)
            else:
                # Up to the end of this block of channels.
                count = least(count, width - (group * j.shape.ic + channel) % width)
                if j.converts_in:
                    count = least(count, j.plan.slab_channels)
                    convert_pixels(j, &a, count, at.slab)
            a.channels = count
            one = a
            for i in range(side_by_side):
                further = i * j.plan.r
                one.src = <const char *> a.src + further * a.src_ps
                one.dst = <char *> a.dst + i * j.shape.ic * e
                one.column_begin = most(a.column_begin - further, 0)
                one.column_end = most(least(a.column_end - further,
                                            p.tiles * j.plan.n + j.plan.r - 1), one.column_begin)
                j.input(&one)
            channel += count
        tile += p.tiles


cdef inline void pre(const WinogradJob *j, const Tensors *t, int64_t group, int64_t tile_begin,
                     int64_t tile_end, int64_t begin, int64_t end,
                     const Place *at) noexcept nogil:
    # Compute V of a block of tiles and a segment of its channels, subkernel after subkernel.
    cdef int64_t ic = j.shape.ic, first = begin // ic, ic_begin, ic_end, count
    while first * ic < end:
        ic_begin, ic_end = most(begin - first * ic, 0), least(end - first * ic, ic)
        count = 1
        if ic_end - ic_begin == ic:
            count = least(j.across - first % j.across, end // ic - first)
        pre_subkernels(j, t, group, tile_begin, tile_end, first, count, ic_begin, ic_end,
                       most(first * ic - begin, 0) * j.shape.size.operand, at)
        first += count
