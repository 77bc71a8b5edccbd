# cython: cdivision=True
"""Structs and helpers of loops over images, groups and segments of pixels: GEMM nest and sparse."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel, pplconv_pack_pixels_args, pplconv_pack_rows_args
from pplconv.schedules.base cimport Shape, Tensors, channel_offset, convert_in, least, most
from pplconv.schedules.panel_offsets cimport Panels
from pplconv.schedules.work cimport padding_of


# Pixels of a task, packed or gathered from blocks of channels, one block of K at a time.


cdef struct Rows:
    # The rows of an image that some output pixels see.
    int64_t top, bottom


cdef inline Rows rows_seen(const NestJob *j, int64_t pixel, int64_t pixels) noexcept nogil:
    """The image rows that output pixels see; rows of padding are left out."""
    cdef Rows r
    cdef int64_t step = j.shape.geometry.stride_h, pad = j.shape.geometry.pad_top
    r.top = most(pixel // j.shape.geometry.ow * step - pad, 0)
    r.bottom = ((pixel + pixels - 1) // j.shape.geometry.ow * step - pad
                + (j.shape.geometry.kh - 1) * j.shape.geometry.dilation_h + 1)
    r.bottom = most(least(r.bottom, j.shape.geometry.ih), r.top)
    return r


cdef inline void pack_block(const NestJob *j, const Tensors *t, const Tile *tile,
                            char *scratch) noexcept nogil:
    """Pack the tile's pixels for its block of K, from channel planes."""
    cdef pplconv_pack_pixels_args p
    cdef int64_t channels = (tile.k_end - tile.k_begin) // j.shape.taps, done = 0
    cdef int64_t row = j.shape.geometry.iw * j.shape.size.source, plane = j.shape.x.block
    cdef const char *src = input_at(j, t, tile) + tile.k_begin // j.shape.taps * plane
    cdef Rows r
    p.src = src
    p.src_cs = plane
    p.dst = scratch
    p.dst_cs = j.shape.taps * j.pixels.down
    p.channels = channels
    p.runs = scratch + j.at.runs_offset
    p.run_count = tile.run_count
    p.stride = j.shape.geometry.stride_w
    if not j.shape.converts_in:
        j.pack_pixels(&p)
        return
    r = rows_seen(j, tile.pixel, tile.pixels)
    p.src_cs = j.plan.slab_rows * j.shape.geometry.iw * j.shape.size.operand
    p.src = scratch + j.at.slab_offset - r.top * j.shape.geometry.iw * j.shape.size.operand
    while done < channels:
        p.channels = least(j.plan.slab_channels, channels - done)
        convert_in(&j.shape, src + r.top * row + done * plane, plane, scratch + j.at.slab_offset,
                   p.src_cs, p.channels, (r.bottom - r.top) * j.shape.geometry.iw)
        j.pack_pixels(&p)
        p.dst = <char *> p.dst + p.channels * p.dst_cs
        done += p.channels


cdef inline void gather_converted(const NestJob *j, const char *channel,
                                  pplconv_pack_rows_args *r, char *slab) noexcept nogil:
    """Run `pack_rows` on rows of the image that are first converted into the slab."""
    cdef int64_t area = j.shape.geometry.oh * j.shape.geometry.ow, first = r.first
    cdef int64_t end = first + r.pixels, iw = j.shape.geometry.iw, row, step, count
    cdef int64_t pixels = iw, channels = r.channels
    cdef Rows rows
    if j.shape.x.pixel == channels * j.shape.size.source:
        # Few channels would leave most of a vector empty.
        pixels, channels = 1, iw * channels
    r.src_ns = 0
    r.src_ps = r.channels * j.shape.size.operand
    step = iw * r.src_ps
    while first < end:
        # A segment of pixels may go on in the next image.
        r.first = first % area
        r.pixels = least(end - first, area - r.first)
        rows = rows_seen(j, r.first, r.pixels)
        for row in range(rows.top, rows.bottom):
            convert_in(&j.shape, channel + first // area * j.shape.x.image
                       + row * j.shape.x.row, j.shape.x.pixel, slab + (row - rows.top) * step,
                       r.src_ps, pixels, channels)
        r.src = slab - rows.top * step
        j.pack_rows(r)
        count = r.pixels
        r.dst = <char *> r.dst + count * r.dst_rs
        first += count


cdef inline void gather_block(const NestJob *j, const Tensors *t, const Tile *tile,
                              char *scratch) noexcept nogil:
    """Pack the tile's pixels for its block of K, from one block of channels after the other."""
    cdef pplconv_pack_rows_args r
    cdef int64_t packed = 0, channel = 0, width = j.shape.ic
    cdef const char *src = input_at(j, t, tile)
    if j.plan.in_blocks:
        channel, width = tile.group * j.shape.ic, j.shape.x.width
        src = t.x + tile.image * j.shape.x.image
    while packed < j.shape.ic:
        r.src_ns = j.shape.x.image
        r.src_ps = j.shape.x.pixel
        r.dst_rs = j.plan.packed_row
        r.dst_ts = j.shape.ic * j.shape.size.operand
        r.first = tile.pixel
        r.pixels = tile.pixels
        r.geometry = &j.shape.geometry
        r.fill = padding_of(t)
        r.channels = least(j.shape.ic - packed, width - channel % width)
        r.src = src + channel_offset(&j.shape.x, j.shape.size.source, channel)
        r.dst = scratch + packed * j.shape.size.operand
        r.k_begin, r.k_end = tile.k_begin, tile.k_end
        if r.channels < j.shape.ic:
            # The block of K is whole taps.
            r.k_begin = r.k_begin // j.shape.ic * r.channels
            r.k_end = r.k_end // j.shape.ic * r.channels
        packed += r.channels
        channel += r.channels
        if j.shape.converts_in:
            gather_converted(j, <const char *> r.src, &r, scratch + j.at.slab_offset)
        else:
            j.pack_rows(&r)


cdef struct NestFields:
    # The candidate's decisions. Members have the names of its `own_fields`, from which Cython fills
    # them by name; so do those of `NestOffsets`.
    # Whether channels of a pixel lie in blocks (NCHWc).
    bint in_blocks
    # Layout of the scratch: bytes of a packed row. Converted pixels pass through a slab, which has
    # the rows of the image that a segment sees, some channels at a time.
    int64_t packed_row, slab_rows, slab_channels


cdef struct NestOffsets:
    # Offsets in one thread's scratch, in bytes, after the packed pixels.
    int64_t runs_offset, slab_offset


cdef struct NestJob:
    Shape shape
    NestFields plan
    NestOffsets at
    # How the pixels of a block of K are packed, if they come from planes.
    Panels pixels
    # More of the user's memory layout: bytes from one group to the next, unless channels are in
    # blocks; elements of bias and slopes from one group to the next.
    int64_t x_group, y_group, bias_group
    int64_t k, lanes
    pplconv_kernel pack_pixels, pack_rows, pad_channels, store_transposed, pack_weights


cdef struct Tile:
    # What a task works on: one image and group, a segment of pixels and of channels.
    int64_t image, group, pixel, pixels, channel, channels
    int64_t k_begin, k_end, run_count
    bint first, last
    # If planes are laid into the scratch: the row of outputs from which pixels are counted.
    int64_t first_row
    # The state that the kernels of this thread keep about their tile registers.
    int64_t *tiles


cdef inline const char *input_at(const NestJob *j, const Tensors *t,
                                 const Tile *tile) noexcept nogil:
    # The first pixel and channel of the tile's image and group, if channels are not in blocks.
    return t.x + tile.image * j.shape.x.image + tile.group * j.x_group


cdef inline int64_t y_offset(const NestJob *j, const Tile *tile, int64_t channel,
                             int64_t pixel) noexcept nogil:
    # `channel` within the group, `pixel` as the job counts pixels
    cdef int64_t offset = tile.image * j.shape.y.image + pixel * j.shape.y.pixel
    if j.plan.in_blocks:
        channel += tile.group * j.shape.oc
    else:
        offset += tile.group * j.y_group
    return offset + channel_offset(&j.shape.y, j.shape.size.destination, channel)
