"""A few channels of depthwise convolution, gathered in the scratch as pixels; see the loops."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_BIAS_COLUMN,
    pplconv_depthwise_channels_args,
    pplconv_pack_channels_args,
    pplconv_store_transposed_args,
)
from pplconv.schedules.base cimport (
    Tensors,
    ceil_div,
    complete,
    epilogue_flags,
    follows,
    least,
    most,
)
from pplconv.schedules.depthwise_job cimport DepthwiseJob, Part

cdef extern from "pplconv_pixels.h" nogil:
    void pplconv_copy_pixels(char *dst, const char *src, int64_t bytes)


cdef struct Rows:
    # The rows of the input that some rows of the output see.
    int64_t top, bottom


cdef inline Rows rows_seen(const DepthwiseJob *j, int64_t row, int64_t row_end) noexcept nogil:
    cdef Rows r
    cdef int64_t step = j.shape.geometry.stride_h, pad = j.shape.geometry.pad_top
    r.top = least(most(row * step - pad, 0), j.shape.geometry.ih)
    r.bottom = ((row_end - 1) * step - pad
                + (j.shape.geometry.kh - 1) * j.shape.geometry.dilation_h + 1)
    r.bottom = most(least(r.bottom, j.shape.geometry.ih), r.top)
    return r


cdef inline int64_t all_vectors(const DepthwiseJob *j) noexcept nogil:
    """Vectors of packed weights: the last one of each block of neighbours may be a part."""
    return (j.channels // j.neighbours * j.vectors
            + ceil_div(j.channels % j.neighbours, j.lanes))


cdef inline const char *weights_at(const DepthwiseJob *j, const Tensors *t,
                                   int64_t channel) noexcept nogil:
    """Packed weights from a channel on, the first one of a vector."""
    cdef int64_t vector = (channel // j.neighbours * j.vectors
                           + channel % j.neighbours // j.lanes)
    return t.weights + vector * j.shape.ic * j.shape.taps * j.vector_bytes


cdef inline void copy_channels(const DepthwiseJob *j, const char *x, int64_t channels,
                               int64_t rows, char *slab) noexcept nogil:
    """Copy some channels of each pixel of some rows: in the copy, pixels follow each other."""
    cdef int64_t size = channels * j.shape.size.source, row, _column
    cdef const char *pixel
    for row in range(rows):
        pixel = x + row * j.shape.x.row
        for _column in range(j.shape.geometry.iw):
            pplconv_copy_pixels(slab, pixel, size)
            slab += size
            pixel += j.shape.x.pixel


cdef inline void run_planes_turned(const DepthwiseJob *j, const Tensors *t, const Part *p,
                                   char *scratch) noexcept nogil:
    """NCHW: rows of some planes become pixels in the scratch, and their sums planes again."""
    cdef pplconv_pack_channels_args c
    cdef pplconv_depthwise_channels_args a
    cdef pplconv_store_transposed_args s
    cdef int64_t offset, channels = p.channel_end - p.channel
    cdef int64_t pixel = channels * j.shape.size.operand
    cdef Rows r = rows_seen(j, p.row, p.row_end)
    c.src = (t.x + p.image * j.shape.x.image + p.channel * j.shape.x.block
             + r.top * j.shape.x.row)
    c.src_cs, c.src_rs = j.shape.x.block, j.shape.x.row
    c.dst = scratch + j.at.slab_offset
    c.dst_ps, c.dst_rs = pixel, j.shape.geometry.iw * pixel
    c.rows, c.columns = r.bottom - r.top, j.shape.geometry.iw
    c.channels = c.fill = channels
    j.pack_channels(&c)
    a.src = <char *> c.dst - r.top * c.dst_rs
    a.src_ps, a.src_rs = pixel, c.dst_rs
    a.dst_ps, a.dst_rs = pixel, j.shape.geometry.ow * pixel
    a.dst = scratch + j.at.out_offset - p.row * a.dst_rs
    a.weights = weights_at(j, t, p.channel)
    a.first_row, a.rows = p.row, p.row_end - p.row
    a.channels = channels
    a.multiplier = a.depth = 1
    a.phase = a.flags = 0
    a.bias = a.residual = a.clip = NULL
    a.residual_rs = a.residual_ps = 0
    a.geometry = &j.shape.geometry
    j.by_channels(&a)
    offset = (p.image * j.shape.y.image + p.channel * j.shape.y.block + p.row * j.shape.y.row)
    s.src, s.src_rs = scratch + j.at.out_offset, pixel
    s.dst, s.dst_rs = t.y + offset, j.shape.y.block
    s.rows, s.columns = a.rows * j.shape.geometry.ow, channels
    s.bias = t.bias + p.channel * j.shape.size.bias
    s.residual, s.residual_rs = t.residual + offset, s.dst_rs
    s.clip = t.clip
    s.flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_COLUMN)
    j.store_transposed(&s)
    if follows(t):
        complete(&j.shape, t, t.y + offset, s.dst_rs, channels, s.rows, p.channel, True)
