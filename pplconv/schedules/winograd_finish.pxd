"""The last step of Winograd's loops: tiles are transformed back, and spoiled sums repaired."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_direct_sums_args, pplconv_winograd_output_args
from pplconv.schedules.base cimport Memory, Tensors, channel_offset, least
from pplconv.schedules.winograd_job cimport Piece, WinogradJob


cdef inline void sum_directly(const WinogradJob *j, const Tensors *t, int64_t group,
                              int64_t channel, const Piece *p,
                              const pplconv_winograd_output_args *a,
                              const pplconv_winograd_output_args *sums,
                              int64_t index) noexcept nogil:
    # Replace the outputs of tile `index` of a piece where their sums are infinite or NaN.
    cdef pplconv_direct_sums_args d
    cdef const Memory *x = &j.shape.x
    cdef int64_t top = p.y - j.shape.geometry.pad_top
    cdef int64_t left = p.x + index * j.plan.n - j.shape.geometry.pad_left
    d.sums = sums.dst
    d.sums_rs = sums.dst_rs
    d.sums_ps = sums.dst_ps
    d.src = (t.x + p.image * x.image + top * x.row + left * x.pixel
             + channel_offset(x, j.shape.size.source, group * j.shape.ic))
    d.src_bs = x.block
    d.src_rs = x.row
    d.src_ps = x.pixel
    d.block = x.width
    d.row_begin = -top
    d.row_end = j.shape.geometry.ih - top
    d.column_begin = -left
    d.column_end = j.shape.geometry.iw - left
    # The caller's weights are of the type of the input.
    d.weights = (t.filters + (group * j.shape.oc + channel) * j.shape.ic * j.shape.taps
                 * j.shape.size.source)
    d.ic = j.shape.ic
    d.side = j.plan.r
    d.halves = j.shape.converts_in
    d.dst = <char *> a.dst + index * j.plan.n * a.dst_ps
    d.dst_rs = a.dst_rs
    d.dst_ps = a.dst_ps
    d.rows = sums.rows
    d.columns = sums.columns
    d.channels = a.channels
    d.bias = a.bias
    d.residual = <const char *> a.residual + index * j.plan.n * a.residual_ps
    d.residual_rs = a.residual_rs
    d.residual_ps = a.residual_ps
    d.clip = a.clip
    d.flags = a.flags
    j.direct_sums(&d)


cdef inline void finish_tiles(const WinogradJob *j, const Tensors *t, int64_t group,
                              int64_t channel, const Piece *p,
                              pplconv_winograd_output_args *a) noexcept nogil:
    # Transform M back; outputs that become infinite or NaN are computed again as direct sums.
    cdef int64_t spoiled = 0, i
    cdef pplconv_winograd_output_args tile
    a.spoiled = &spoiled
    j.output(a)
    if not spoiled:
        return
    # This is rare, so it goes tile by tile, from M once more and into M: a tile is read whole
    # before its first sum is stored.
    tile = a[0]
    tile.dst_rs = j.plan.n * j.at.m_position
    tile.dst_ps = j.at.m_position
    tile.tiles = 1
    tile.flags = 0
    for i in range(a.tiles):
        tile.src = <const char *> a.src + i * a.src_ts
        tile.dst = <void *> tile.src
        tile.columns = least(a.columns - i * j.plan.n, j.plan.n)
        spoiled = 0
        j.output(&tile)
        if spoiled:
            sum_directly(j, t, group, channel, p, a, &tile, i)
