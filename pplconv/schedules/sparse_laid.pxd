# cython: cdivision=True
"""Rows of planes laid into the scratch with zeros around them, and outputs stored row by row.

At stride 1 a tap reads the pixels of a row as they lie, some places further on. So nothing is
copied for each tap, and vectors run on from row to row: where a row of outputs has ended, the few
sums up to the next one mean nothing, and are left out when sums are stored.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_DO_ADD,
    PPLCONV_DO_CLIP,
    make_pixel_runs,
    pplconv_elementwise_args,
    pplconv_instruction,
    pplconv_pack_pixels_args,
    pplconv_run,
    pplconv_stream,
)
from pplconv.schedules.base cimport (
    Tensors,
    complete,
    finish_converted,
    follows,
    least,
    most,
)
from pplconv.schedules.gemm_job cimport Tile, input_at, y_offset
from pplconv.schedules.sparse_job cimport SparseJob


cdef inline void lay_rows(const SparseJob *j, const Tensors *t, const Tile *tile, int64_t first,
                          int64_t rows, char *scratch) noexcept nogil:
    """Lay what output rows `first` to `first + rows` of the tile's image and group see."""
    cdef pplconv_pack_pixels_args p
    cdef int64_t seen = rows + (j.nest.shape.geometry.kh - 1) * j.nest.shape.geometry.dilation_h
    p.runs = scratch + j.at.runs_offset
    p.run_count = make_pixel_runs(
        &j.around, first * j.plan.laid_row, seen * j.plan.laid_row, j.nest.lanes,
        j.plan.laid_plane, j.plan.laid_plane, <pplconv_run *> (scratch + j.at.runs_offset))
    p.src = input_at(&j.nest, t, tile)
    p.src_cs = j.nest.shape.x.block
    p.dst = scratch + j.at.panel_offset
    p.dst_cs = j.plan.laid_plane * j.nest.shape.size.operand
    p.channels = j.nest.shape.ic
    p.stride = 1
    j.nest.pack_pixels(&p)


cdef inline void store_part(const SparseJob *j, const Tensors *t, char *sums, int64_t row,
                            int64_t offset, int64_t channels, int64_t pixels,
                            int64_t channel) noexcept nogil:
    """Store a part of a row of outputs of some channels; sums have their bias, and are clipped
    unless there is a residual.
    """
    cdef pplconv_elementwise_args e
    cdef pplconv_stream[5] streams
    cdef pplconv_instruction[2] code
    if j.nest.shape.converts_out:
        finish_converted(&j.nest.shape, t, sums, row, offset, j.nest.shape.y.block, channels,
                         pixels, channel, True)
        return
    memset(&code, 0, sizeof(code))
    streams[0].data, streams[0].rs, streams[0].step, streams[0].reg = sums, row, True, 0
    e.input_count, e.code_count = 1, 0
    if t.residual != NULL:
        streams[1].data = <char *> t.residual + offset
        streams[1].rs, streams[1].step, streams[1].reg = j.nest.shape.y.block, True, 1
        code[0].op, code[0].b = PPLCONV_DO_ADD, 1
        e.input_count, e.code_count = 2, 1
        if t.clip != NULL:
            streams[2].data = <char *> t.clip
            streams[3].data = <char *> t.clip + j.nest.shape.size.bias
            streams[2].rs = streams[3].rs = streams[2].step = streams[3].step = 0
            streams[2].reg, streams[3].reg = 2, 3
            code[1].op, code[1].b, code[1].c = PPLCONV_DO_CLIP, 2, 3
            e.input_count, e.code_count = 4, 2
    streams[4].data = t.y + offset
    streams[4].rs, streams[4].step, streams[4].reg = j.nest.shape.y.block, True, 0
    e.inputs, e.outputs, e.output_count, e.code = streams, &streams[4], 1, code
    e.rows, e.columns = channels, pixels
    j.nest.shape.elementwise(&e)
    if follows(t):
        complete(&j.nest.shape, t, t.y + offset, j.nest.shape.y.block, channels, pixels, channel,
                 True)


cdef inline void store_laid(const SparseJob *j, const Tensors *t, const Tile *tile, char *sums,
                            int64_t channel, int64_t channels) noexcept nogil:
    """Store what a tile has of each row of outputs, of some channels.

    The tile's pixels count laid pixels from row `tile.run_count` of the outputs on.
    """
    cdef int64_t row = tile.pixel // j.plan.laid_row, end = tile.pixel + tile.pixels
    cdef int64_t begin, last, place, sum = j.nest.shape.size.sum, ow = j.nest.shape.geometry.ow
    while row * j.plan.laid_row < end:
        begin = most(row * j.plan.laid_row, tile.pixel)
        last = least(row * j.plan.laid_row + ow, end)
        if begin < last:
            place = (tile.run_count + row) * ow + begin - row * j.plan.laid_row
            store_part(j, t, sums + (begin - tile.pixel) * sum, j.plan.width * sum,
                       y_offset(&j.nest, tile, channel, place), channels, last - begin,
                       tile.group * j.nest.bias_group + channel)
        row += 1
