# cython: cdivision=True
"""What direct convolution's loops do with a tile or a run of sums on its way to the output."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_gemm_args, pplconv_store_transposed_args
from pplconv.schedules.base cimport (
    Tensors,
    ceil_div,
    complete,
    finish_converted,
    follows,
    least,
    scale_block,
)
from pplconv.schedules.direct_job cimport DirectJob, Part, Rectangle


cdef inline void finish(const DirectJob *j, const Tensors *t, const pplconv_gemm_args *g,
                        int64_t rows, int64_t channel) noexcept nogil:
    """Activate a tile that was just stored, vector by vector where blocks lie apart."""
    cdef int64_t v, step = g.n if g.c_vs == j.lanes * j.shape.size.destination else j.lanes
    for v in range(ceil_div(g.n, step)):
        complete(&j.shape, t, <char *> g.c + v * g.c_vs, g.c_rs, rows, least(step, g.n - v * step),
                 channel + v * step, False)


cdef inline void convert_tiles(const DirectJob *j, const Tensors *t, const Rectangle *r,
                               const pplconv_gemm_args *g, int64_t rows, int64_t channel,
                               int64_t offset, int64_t before) noexcept nogil:
    """Finish a tile in the scratch on its way to the output, where blocks may lie apart.

    Integer sums of so many panels `before` it have waited for it.
    """
    cdef int64_t v = 0, at = 0, step = g.n, width = before * j.panels.width
    if j.shape.exact:
        scale_block(&j.shape, t, <const char *> g.c - width * j.shape.size.sum, g.c_rs,
                    offset - width * j.shape.size.destination, g.residual_rs, rows,
                    width + g.n, channel - width, r.offsets, False)
        return
    if g.residual_vs != j.lanes * j.shape.size.destination:
        step = j.lanes
    while at < g.n:
        finish_converted(&j.shape, t, <char *> g.c + at * j.shape.size.sum, g.c_rs,
                         offset + v * g.residual_vs, g.residual_rs, rows, least(step, g.n - at),
                         channel + at, False)
        at += step
        v += 1


cdef inline void store_run(const DirectJob *j, const Tensors *t, const Part *part,
                           const Rectangle *r, int64_t line, int64_t oc_begin, int64_t oc_end,
                           int64_t flags) noexcept nogil:
    """Store a run of finished pixels into channel planes, with the epilogue."""
    cdef pplconv_store_transposed_args s
    cdef int64_t channel = part.group * j.shape.oc + oc_begin
    cdef int64_t offset = (part.image * j.shape.y.image + (r.row + line) * j.shape.y.row
                           + r.column * j.shape.y.pixel + channel * j.shape.y.block)
    s.src = part.scratch + j.at.run_offset
    s.src_rs = j.plan.nr * j.shape.size.sum
    s.dst = t.y + offset
    s.dst_rs = j.shape.y.block
    s.rows = r.column_end - r.column
    s.columns = oc_end - oc_begin
    s.bias = t.bias + channel * j.shape.size.bias
    s.residual = t.residual + offset
    s.residual_rs = s.dst_rs
    s.clip = t.clip
    s.flags = flags
    if j.shape.converts_out:
        s.dst = part.scratch + j.at.stage_offset
        s.dst_rs = j.plan.run_pixels * j.shape.size.sum
    j.store_transposed(&s)
    if j.shape.exact:
        scale_block(&j.shape, t, <const char *> s.dst, s.dst_rs, offset, s.residual_rs, s.columns,
                    s.rows, channel, r.offsets, True)
    elif j.shape.converts_out:
        finish_converted(&j.shape, t, <char *> s.dst, s.dst_rs, offset, s.residual_rs, s.columns,
                         s.rows, channel, True)
    elif follows(t):
        complete(&j.shape, t, s.dst, s.dst_rs, s.columns, s.rows, channel, True)
