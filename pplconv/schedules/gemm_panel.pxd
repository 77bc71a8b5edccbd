# cython: cdivision=True
"""A finished panel of the GEMM nest on its way into channel planes."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport PPLCONV_BIAS_COLUMN, pplconv_store_transposed_args
from pplconv.schedules.base cimport (
    Tensors,
    complete,
    epilogue_flags,
    finish_converted,
    follows,
)
from pplconv.schedules.gemm_job cimport GemmJob
from pplconv.schedules.nest_job cimport Tile, y_offset


cdef inline void store_panel(const GemmJob *j, const Tensors *t, const Tile *tile,
                             int64_t channel, int64_t channels, const char *c_tile, int64_t c_rs,
                             char *scratch) noexcept nogil:
    """Store a finished panel of (pixels, channels) into NCHW, with the epilogue."""
    cdef pplconv_store_transposed_args s
    cdef int64_t offset = y_offset(&j.nest, tile, channel, tile.pixel)
    s.src = c_tile
    s.src_rs = c_rs
    s.dst = t.y + offset
    s.dst_rs = j.nest.shape.y.block
    s.rows = tile.pixels
    s.columns = channels
    s.bias = t.bias + (tile.group * j.nest.bias_group + channel) * j.nest.shape.size.bias
    s.residual = t.residual + offset
    s.residual_rs = s.dst_rs
    s.clip = t.clip
    s.flags = epilogue_flags(&j.nest.shape, t, PPLCONV_BIAS_COLUMN)
    if j.nest.shape.converts_out:
        s.dst = scratch + j.at.plane_offset
        s.dst_rs = j.plan.plane_row
    j.nest.store_transposed(&s)
    if j.nest.shape.converts_out:
        finish_converted(&j.nest.shape, t, <char *> s.dst, s.dst_rs, offset, s.residual_rs,
                         channels, tile.pixels, tile.group * j.nest.bias_group + channel, True)
    elif follows(t):
        complete(&j.nest.shape, t, t.y + offset, s.dst_rs, channels, tile.pixels,
                 tile.group * j.nest.bias_group + channel, True)
