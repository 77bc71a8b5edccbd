# cython: cdivision=True
"""The slab of direct convolution's loops: rows of the input with neighbouring channels."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport pplconv_pack_channels_args, pplconv_pad_channels_args
from pplconv.schedules.base cimport Tensors, channel_offset, convert_in, least, most
from pplconv.schedules.direct_job cimport DirectJob, Part
from pplconv.schedules.panels cimport depth


cdef inline void convert_planes(const DirectJob *j, const Tensors *t, const Part *part, int64_t top,
                                pplconv_pack_channels_args *c) noexcept nogil:
    # Lay rows of an array of another type into the slab, a few channels of a row at a time.
    cdef int64_t rows = c.rows, row, channel
    cdef char *slab = <char *> c.dst
    cdef char *stage = part.scratch + j.at.stage_offset
    cdef const char *x = (t.x + part.image * j.shape.x.image + top * j.shape.x.row
                          + part.group * j.shape.ic * j.shape.x.block)
    c.src = stage
    c.src_cs = c.src_rs = j.shape.geometry.iw * j.shape.size.operand
    c.rows = 1
    for row in range(rows):
        channel = 0
        while channel < j.shape.ic:
            c.channels = c.fill = least(j.plan.stage_channels, j.shape.ic - channel)
            convert_in(&j.shape, x + row * j.shape.x.row + channel * j.shape.x.block,
                       j.shape.x.block, stage, c.src_cs, c.channels, j.shape.geometry.iw)
            c.dst = slab + row * j.x.row + channel * j.shape.size.operand
            j.pack_channels(c)
            channel += c.channels
    c.dst = slab


cdef inline void convert_rows(const DirectJob *j, const Tensors *t, const Part *part, int64_t top,
                              int64_t rows, char *slab) noexcept nogil:
    # The same where channels are neighbours in the image already, all of them or in blocks.
    cdef int64_t _block, row, columns = j.x.pixel // j.shape.size.operand
    if j.shape.x.block == 0:  # without what whole groups of channels need besides
        columns = j.shape.ic
    cdef const char *x = (t.x + part.image * j.shape.x.image + top * j.shape.x.row
                          + channel_offset(&j.shape.x, j.shape.size.source,
                                           part.group * j.shape.ic))
    for _block in range(j.channel_blocks):
        if (j.shape.x.pixel == columns * j.shape.size.source
                and j.x.pixel == columns * j.shape.size.operand):
            convert_in(&j.shape, x, j.shape.x.row, slab, j.x.row, rows,
                       columns * j.shape.geometry.iw)
        else:
            for row in range(rows):
                convert_in(&j.shape, x + row * j.shape.x.row, j.shape.x.pixel, slab + row * j.x.row,
                           j.x.pixel, j.shape.geometry.iw, columns)
        x += j.shape.x.block
        slab += j.x.block


cdef inline void pad_rows(const DirectJob *j, const Tensors *t, const Part *part, int64_t top,
                          const pplconv_pack_channels_args *c) noexcept nogil:
    # Lay rows whose channels are neighbours into the slab, in whole groups of channels.
    cdef pplconv_pad_channels_args p
    p.src = (t.x + part.image * j.shape.x.image + top * j.shape.x.row
             + part.group * j.shape.ic * j.shape.size.source)
    p.src_rs, p.src_ps = j.shape.x.row, j.shape.x.pixel
    p.dst, p.dst_rs, p.dst_ps = c.dst, c.dst_rs, c.dst_ps
    p.rows, p.columns, p.channels, p.fill = c.rows, c.columns, c.channels, c.fill
    j.pad_channels(&p)


cdef inline const char *make_slab(const DirectJob *j, const Tensors *t,
                                  const Part *part) noexcept nogil:
    # Lay the rows that a task needs into the slab, channels side by side.
    cdef pplconv_pack_channels_args c
    cdef int64_t step = j.shape.geometry.stride_h, top, bottom
    top = part.row * step - j.shape.geometry.pad_top
    bottom = ((part.row_end - 1) * step - j.shape.geometry.pad_top
              + (j.shape.geometry.kh - 1) * j.shape.geometry.dilation_h + 1)
    top = most(top, 0)
    bottom = least(bottom, j.shape.geometry.ih)
    c.dst = part.scratch + j.at.slab_offset
    if top < bottom:
        c.src = (t.x + part.image * j.shape.x.image + top * j.shape.x.row
                 + part.group * j.shape.ic * j.shape.x.block)
        c.src_cs = j.shape.x.block
        c.src_rs = j.shape.x.row
        c.dst_rs = j.x.row
        c.dst_ps = j.x.pixel
        c.rows = bottom - top
        c.columns = j.shape.geometry.iw
        c.channels = j.shape.ic
        c.fill = depth(j.shape.ic, j.plan.kr)
        if not j.shape.converts_in or j.shape.size.source == j.shape.size.operand:
            if j.plan.slab:
                j.pack_channels(&c)
            else:
                pad_rows(j, t, part, top, &c)
            if j.shape.converts_in:
                # In its place. What becomes of the zeros meets weights of zero.
                convert_in(&j.shape, <const char *> c.dst, j.x.row, <char *> c.dst, j.x.row,
                           c.rows, c.columns * j.x.pixel // j.shape.size.operand)
            return <const char *> c.dst - top * j.x.row
        if c.fill != j.shape.ic:
            # What groups of channels lack is zero.
            memset(c.dst, 0, c.rows * j.x.row)
        if j.plan.slab:
            convert_planes(j, t, part, top, &c)
        else:
            convert_rows(j, t, part, top, bottom - top, <char *> c.dst)
    return <const char *> c.dst - top * j.x.row
