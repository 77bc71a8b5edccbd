# cython: cdivision=True
"""The last step of Winograd's loops: M becomes outputs, epilogue included."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_BIAS_COLUMN,
    pplconv_store_transposed_args,
    pplconv_winograd_output_args,
)
from pplconv.schedules.base cimport (
    Tensors,
    complete,
    follows,
    channel_offset,
    epilogue_flags,
    finish_converted,
    least,
    zero_tail,
)
from pplconv.schedules.winograd_finish cimport finish_tiles
from pplconv.schedules.winograd_job cimport Piece, Place, WinogradJob, piece_at


cdef inline void store_slab(const WinogradJob *j, const Tensors *t, int64_t group, int64_t channel,
                            int64_t offset, const pplconv_winograd_output_args *a, int64_t flags,
                            char *stage) noexcept nogil:
    # Store a slab of outputs into channel planes, with the epilogue.
    cdef pplconv_store_transposed_args s
    cdef int64_t row
    s.src_rs = a.dst_ps
    s.dst_rs = j.shape.y.block
    s.rows = a.columns
    s.columns = a.channels
    s.bias = t.bias + (group * j.shape.oc + channel) * j.shape.size.bias
    s.residual_rs = s.dst_rs
    s.clip = t.clip
    s.flags = flags
    for row in range(a.rows):
        s.src = <const char *> a.dst + row * a.dst_rs
        s.dst = t.y + offset + row * j.shape.y.row
        s.residual = t.residual + offset + row * j.shape.y.row
        if j.shape.converts_out:
            s.dst = stage
            s.dst_rs = a.columns * j.shape.size.sum
        j.store_transposed(&s)
        if j.shape.converts_out:
            finish_converted(&j.shape, t, stage, s.dst_rs, offset + row * j.shape.y.row,
                             s.residual_rs, s.columns, s.rows, group * j.shape.oc + channel, True)
        elif follows(t):
            complete(&j.shape, t, s.dst, s.dst_rs, s.columns, s.rows,
                     group * j.shape.oc + channel, True)


cdef inline void post(const WinogradJob *j, const Tensors *t, int64_t group, int64_t tile_begin,
                      int64_t tile_end, int64_t oc_begin, int64_t oc_end,
                      const Place *at) noexcept nogil:
    # The outputs of a block of tiles and of output channels, epilogue included.
    cdef pplconv_winograd_output_args a
    cdef int64_t e = j.shape.size.sum, tile = tile_begin, channel, count, offset, image, row
    cdef int64_t width = j.shape.y.width
    cdef int64_t flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_COLUMN)
    cdef Piece p
    memset(&a, 0, sizeof(a))
    a.src_ts = j.plan.m_row
    a.src_ps = j.at.m_position
    a.clip = t.clip
    while tile < tile_end:
        p = piece_at(j, tile, tile_end)
        a.tiles = p.tiles
        a.rows = least(j.plan.n, j.shape.geometry.oh - p.y)
        a.columns = least(p.tiles * j.plan.n, j.shape.geometry.ow - p.x)
        image = p.image * j.shape.y.image + p.y * j.shape.y.row + p.x * j.shape.y.pixel
        channel = oc_begin
        while channel < oc_end:
            count = oc_end - channel
            offset = image + channel_offset(&j.shape.y, j.shape.size.destination,
                                            group * j.shape.oc + channel)
            a.src = at.m + (tile - at.tile) * j.plan.m_row + (channel - oc_begin) * e
            if width == 1:
                count = least(count, j.plan.slab_channels)
                a.dst = at.slab
                a.dst_rs = j.plan.slab_row
                a.dst_ps = j.plan.slab_channels * e
                a.flags = 0
                a.channels = count
                finish_tiles(j, t, group, channel, &p, &a)
                store_slab(j, t, group, channel, offset, &a, flags, at.stage)
            else:
                count = least(count, width - (group * j.shape.oc + channel) % width)
                a.dst = t.y + offset
                a.dst_rs = j.shape.y.row
                a.dst_ps = j.shape.y.pixel
                a.residual = t.residual + offset
                a.residual_rs = a.dst_rs
                a.residual_ps = a.dst_ps
                a.bias = t.bias + (group * j.shape.oc + channel) * j.shape.size.bias
                a.flags = flags
                if j.shape.converts_out:
                    count = least(count, j.plan.slab_channels)
                    a.dst = at.slab
                    a.dst_rs = j.plan.slab_row
                    a.dst_ps = j.plan.slab_channels * e
                a.channels = count
                finish_tiles(j, t, group, channel, &p, &a)
                if j.shape.converts_out:
                    for row in range(a.rows):
                        finish_converted(&j.shape, t, <char *> a.dst + row * a.dst_rs, a.dst_ps,
                                         offset + row * j.shape.y.row, j.shape.y.pixel, a.columns,
                                         count, group * j.shape.oc + channel, False)
                elif follows(t):
                    for row in range(a.rows):
                        complete(&j.shape, t, <char *> a.dst + row * a.dst_rs, a.dst_ps, a.columns,
                                 count, group * j.shape.oc + channel, False)
                zero_tail(&j.shape, group * j.shape.oc + channel + count,
                          t.y + image, a.rows, a.columns)
            channel += count
        tile += p.tiles
