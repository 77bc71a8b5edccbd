# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Direct convolution: the batch-reduce GEMM on pixels whose channels are neighbours.

For one row of the kernel, an output reads one stretch of an input row, which moves along with the
output. So a sum over taps and channels is a sum over a few such stretches, and the microkernel
takes them as a list of segments. Nothing is packed in NHWC and NCHWc. In NCHW the rows that a task
needs are first copied, once, into a slab with neighbouring channels: a ninth of what im2col would
write for a 3x3 kernel. On their way back, outputs of a floating-point type are stored into planes
run by run. Integer sums are finished as in NHWC, tile by tile, and stay in the scratch as pixels;
when all of a task are there, it turns them into planes: bytes in place of sums.

Outputs that see the same taps form rectangles: the inside, where all taps lie in the image, and its
borders, where taps on padding are left out of the list instead of being multiplied. This comes from
the direct convolution of the OpenPPL Arm Server slides, whose vectors run over output channels too,
and from the batch-reduce kernels of libxsmm and oneDNN.
"""

from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_B_PADDED,
    PPLCONV_BIAS_COLUMN,
    find,
    find_gemm_family,
    pplconv_gemm_args,
    pplconv_kernel,
    pplconv_pack_weights_args,
    pplconv_release_tiles_args,
    pplconv_segment,
    pplconv_store_transposed_args,
    pplconv_pack_channels_args,
    pplconv_pad_channels_args,
)
from pplconv.memory.workspace cimport Buffer
from pplconv.schedules.base cimport (
    Schedule,
    Tensors,
    follows,
    ceil_div,
    channel_offset,
    check_offsets,
    check_tile,
    epilogue_flags,
    find_release,
    least,
    most,
    mover_of,
    rounds_in_tiles,
    zero_tail,
    complete,
    finish_converted,
    scale_block,
    convert_in,
)
from pplconv.schedules.direct_job cimport (
    DirectFields,
    DirectJob,
    DirectOffsets,
    Part,
    Range,
    Rectangle,
)
from pplconv.schedules.direct_checks cimport check_plan
from pplconv.schedules.panel_offsets cimport (
    Share,
    bytes_of,
    check_panels,
    depth,
    offset_in,
    panels_of,
    share_of,
)


# A tile or a run of sums on its way to the output.


cdef inline void finish(const DirectJob *j, const Tensors *t, const pplconv_gemm_args *g,
                        int64_t rows, int64_t channel) noexcept nogil:
    """Complete a tile that was just stored, vector by vector if each is in a block of its own."""
    cdef int64_t v, step = g.n if g.c_vs == j.lanes * j.shape.size.destination else j.lanes
    for v in range(ceil_div(g.n, step)):
        complete(&j.shape, t, <char *> g.c + v * g.c_vs, g.c_rs, rows, least(step, g.n - v * step),
                 channel + v * step, False)


cdef inline void convert_tiles(const DirectJob *j, const Tensors *t, const Rectangle *r,
                               const pplconv_gemm_args *g, int64_t rows, int64_t channel,
                               int64_t offset, int64_t before) noexcept nogil:
    """Finish a tile in the scratch on its way to the output; its vectors may go to several blocks.

    Integer sums of the `before` panels to its left, still in the scratch, are finished with it.
    """
    cdef int64_t v = 0, at = 0, step = g.n, width = before * j.panels.width
    if j.shape.exact:
        scale_block(&j.shape, t, <char *> g.c - width * j.shape.size.sum, g.c_rs,
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
    if j.shape.converts_out:
        finish_converted(&j.shape, t, <char *> s.dst, s.dst_rs, offset, s.residual_rs, s.columns,
                         s.rows, channel, True)
    elif follows(t):
        complete(&j.shape, t, s.dst, s.dst_rs, s.columns, s.rows, channel, True)


# The slab of direct convolution's loops: rows of the input with neighbouring channels.


cdef inline void convert_planes(const DirectJob *j, const Tensors *t, const Part *part, int64_t top,
                                pplconv_pack_channels_args *c) noexcept nogil:
    # Convert rows of channel planes and lay them into the slab, a few channels of a row at a time.
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
    # Convert rows into the slab whose channels are neighbours in the image, all of them or in
    # blocks.
    cdef int64_t _block, row, columns = j.x.pixel // j.shape.size.operand
    if j.shape.x.block == 0:  # without the zeros that fill up groups of channels
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
    # Copy rows whose channels are neighbours into the slab, filling up groups of channels.
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
                # Convert in place. Fill elements need not stay zero: their weights are zero.
                convert_in(&j.shape, <const char *> c.dst, j.x.row, <char *> c.dst, j.x.row,
                           c.rows, c.columns * j.x.pixel // j.shape.size.operand)
            return <const char *> c.dst - top * j.x.row
        if c.fill != j.shape.ic:
            # Groups of channels are filled up with zeros.
            memset(c.dst, 0, c.rows * j.x.row)
        if j.plan.slab:
            convert_planes(j, t, part, top, &c)
        else:
            convert_rows(j, t, part, top, bottom - top, <char *> c.dst)
    return <const char *> c.dst - top * j.x.row


cdef inline Tensors turned(const DirectJob *j, const Tensors *t, const Part *part) noexcept nogil:
    # The same arrays, but outputs and residual are pixels in the scratch. The residual is turned
    # into the place of the outputs: each of its elements is read before that output is stored.
    cdef Tensors own = t[0]
    cdef pplconv_pack_channels_args c
    cdef char *first = part.scratch + j.at.turned_offset
    own.y = first - (part.image * j.y.image + part.row * j.y.row
                     + (part.group * j.shape.oc + part.oc) * j.shape.size.destination)
    if t.residual != NULL:
        own.residual = own.y
        c.src = (t.residual + part.image * j.shape.y.image + part.row * j.shape.y.row
                 + (part.group * j.shape.oc + part.oc) * j.shape.y.block)
        c.src_cs, c.dst, c.dst_ps = j.shape.y.block, first, j.y.pixel
        c.channels = c.fill = part.oc_end - part.oc
        c.rows, c.src_rs, c.dst_rs = part.row_end - part.row, j.shape.y.row, j.y.row
        c.columns = j.shape.geometry.ow
        j.turn(&c)
    return own


cdef inline void turn_back(const DirectJob *j, const Tensors *t, const Part *part) noexcept nogil:
    # Turn all outputs of a task into planes. To the kernel, these are the pixels of an image.
    cdef pplconv_pack_channels_args c
    cdef int64_t pixels = j.shape.geometry.ow, row = part.row, step = 1
    c.src = part.scratch + j.at.turned_offset
    c.src_cs, c.src_rs, c.dst_rs = j.y.pixel, 0, 0
    c.dst_ps, c.rows, c.columns = j.shape.y.block, 1, part.oc_end - part.oc
    if j.shape.y.row == pixels * j.shape.y.pixel:  # rows follow one another
        step = part.row_end - part.row
    c.channels = c.fill = pixels * step
    while row < part.row_end:
        c.dst = (t.y + part.image * j.shape.y.image + row * j.shape.y.row
                 + (part.group * j.shape.oc + part.oc) * j.shape.y.block)
        j.turn(&c)
        c.src = <const char *> c.src + step * j.y.row
        row += step


cdef struct Place:
    # Where a panel of output channels begins in an image, and how many panels are left in its block
    # of channels; an unblocked array counts as one endless block.
    int64_t offset, left


cdef inline Place place_of(const DirectJob *j, int64_t channel) noexcept nogil:
    """The place of the panel that begins at a channel, counted over all groups."""
    cdef Place place
    place.offset = channel_offset(&j.y, j.shape.size.destination, channel)
    place.left = INT64_MAX
    if j.y.block:
        place.left = j.block_panels - channel % j.y.width // j.panels.width
    return place


cdef inline void next_panel(const DirectJob *j, Place *place) noexcept nogil:
    """Go on to the next panel, which may be in another block."""
    place.offset += j.panels.width * j.shape.size.destination
    place.left -= 1
    if place.left == 0:
        place.left = j.block_panels
        place.offset += j.block_step


cdef void list_segments(const DirectJob *j, const Range *rows, const Range *columns,
                        Rectangle *r, char *scratch) noexcept nogil:
    """List the segments that a rectangle's outputs sum over, in the order of packed weights."""
    cdef pplconv_segment *s = <pplconv_segment *> scratch
    cdef int64_t block, kh, kw, piece, step
    cdef int64_t weights = bytes_of(&j.panels, j.plan.channels)
    # Taps of one row of the kernel that touch in memory are one segment.
    step = columns.high - columns.low if j.plan.taps_touch else 1
    r.k = step * depth(j.plan.channels, j.plan.kr)
    r.segments = 0
    if step == 0:
        r.k = 0
        return
    for block in range(j.channel_blocks):
        for kh in range(rows.low, rows.high):
            for piece in range((columns.high - columns.low) // step):
                kw = columns.low + piece * step
                s[r.segments].a = (block * j.x.block + kh * j.shape.geometry.dilation_h * j.x.row
                                   + kw * j.shape.geometry.dilation_w * j.x.pixel)
                s[r.segments].b = (block * j.shape.taps + kh * j.shape.geometry.kw + kw) * weights
                r.segments += 1
    if r.segments == 0:
        r.k = 0


cdef void run_tiles(const DirectJob *j, const Tensors *t, const Part *part, const Rectangle *r,
                    int64_t oc_begin, int64_t oc_end) noexcept nogil:
    """Compute the tiles of one rectangle, for some panels of output channels."""
    cdef pplconv_gemm_args g
    cdef const DirectFields *f = &j.plan
    cdef int64_t e = j.shape.size.operand, panel, line, run, at, m, across = j.panels.width
    cdef bint rounds = not f.slab and rounds_in_tiles(&j.shape, t)
    cdef bint converts = j.shape.converts_out and not rounds
    cdef int64_t flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_COLUMN, rounds)
    cdef int64_t channels = oc_end - oc_begin, channel = part.group * j.shape.oc + oc_begin
    cdef int64_t panels = ceil_div(channels, across), last_n = channels - (panels - 1) * across
    cdef int64_t whole = ceil_div(across, j.lanes) - 1, last = ceil_div(last_n, j.lanes) - 1
    cdef int64_t height = r.row_end - r.row, width = r.column_end - r.column
    cdef int64_t lines, length, pieces, size, offset, waiting = 0
    cdef bint down, by_runs = f.slab and not f.turned
    cdef const char *origin
    cdef const char *weights = (t.weights + part.group * j.panels.bytes
                                + offset_in(&j.panels, oc_begin, 0))
    cdef const char *bias = t.bias + channel * j.shape.size.bias
    cdef Place place, first = place_of(j, channel)
    cdef pplconv_kernel kernel
    memset(&g, 0, sizeof(g))
    # Narrow rectangles, such as the left border, are walked down instead of along.
    down = not by_runs and ceil_div(width, f.mr) * height > ceil_div(height, f.mr) * width
    lines, length = (width, height) if down else (height, width)
    pieces = ceil_div(length, f.mr)
    size = ceil_div(length, pieces)
    g.k = r.k
    g.segments = part.scratch
    g.segment_count = r.segments
    g.a_ks = e * f.kr
    g.tiles = part.tiles
    g.b_ks = j.panels.down
    g.b_ahead, g.b_ahead_ks = f.b_ahead, g.b_ks
    g.a_rs = (j.shape.geometry.stride_h * j.x.row if down
              else j.shape.geometry.stride_w * j.x.pixel)
    g.clip = t.clip
    if by_runs:
        g.c_rs = f.nr * j.shape.size.sum
        g.c_vs = j.lanes * j.shape.size.sum
        g.flags = 0
    else:
        g.c_rs = j.y.row if down else j.y.pixel
        # In blocked arrays each vector of a wide tile goes to a block of its own.
        g.c_vs = (j.y.block if j.y.block and across > j.y.width
                  else j.lanes * j.shape.size.destination)
        g.residual_rs = g.c_rs
        g.residual_vs = g.c_vs
        g.flags = flags
        if converts:
            g.c_rs = f.nr * f.finish_panels * j.shape.size.sum
            g.c_vs = j.lanes * j.shape.size.sum
    if across == f.nr:
        g.flags |= PPLCONV_B_PADDED
    for line in range(lines):
        for run in range(pieces):
            at = run * size
            m = least(size, length - at)
            if down:
                origin = pixel_at(j, part, r.row + at, r.column + line)
                offset = (r.row + at) * j.y.row + (r.column + line) * j.y.pixel
            else:
                origin = pixel_at(j, part, r.row + line, r.column + at)
                offset = (r.row + line) * j.y.row + (r.column + at) * j.y.pixel
            offset += part.image * j.y.image
            g.a = origin
            # A tile of short sums takes a few hundred cycles, so this loop must not divide.
            g.b = weights
            g.bias = bias
            g.n = across
            kernel = j.gemm.tile[whole][m - 1]
            place = first
            for panel in range(panels):
                if panel == panels - 1:
                    g.n = last_n
                    kernel = j.gemm.tile[last][m - 1]
                if by_runs:
                    # A run of pixels is stored transposed when it is whole.
                    g.c = part.scratch + j.at.run_offset + at * g.c_rs
                elif converts:
                    g.c = part.scratch + j.at.run_offset + waiting * across * j.shape.size.sum
                else:
                    g.c = t.y + offset + place.offset
                    g.residual = t.residual + offset + place.offset
                kernel(&g)
                if converts and not by_runs:
                    waiting += 1
                    if waiting == f.finish_panels or panel == panels - 1:
                        convert_tiles(j, t, r, &g, m, channel + panel * across,
                                      offset + place.offset, waiting - 1)
                        waiting = 0
                elif follows(t) and not by_runs:
                    finish(j, t, &g, m, channel + panel * across)
                g.b = <const char *> g.b + j.panels.panel_bytes
                g.bias = <const char *> g.bias + across * j.shape.size.bias
                next_panel(j, &place)
        if by_runs:
            store_run(j, t, part, r, line, oc_begin, oc_end, flags)


cdef inline const char *pixel_at(const DirectJob *j, const Part *part, int64_t row,
                                 int64_t column) noexcept nogil:
    """Address of tap (0, 0) of an output pixel, even if it is outside the image."""
    return (part.x + (row * j.shape.geometry.stride_h - j.shape.geometry.pad_top) * j.x.row
            + (column * j.shape.geometry.stride_w - j.shape.geometry.pad_left) * j.x.pixel)


cdef void run_rectangles(const DirectJob *j, const Tensors *t, const Part *part, int64_t oc_begin,
                         int64_t oc_end) noexcept nogil:
    """Compute all output pixels of a task, for some panels of output channels."""
    cdef int64_t i, k
    cdef Rectangle r
    for i in range(j.row_count):
        r.row = most(j.rows[i].begin, part.row)
        r.row_end = least(j.rows[i].end, part.row_end)
        if r.row >= r.row_end:
            continue
        for k in range(j.column_count):
            r.column = j.columns[k].begin
            r.column_end = j.columns[k].end
            list_segments(j, &j.rows[i], &j.columns[k], &r, part.scratch)
            r.offsets = t.bias
            if t.offsets != NULL:
                r.offsets = t.offsets + ((i * j.column_count + k) * j.shape.groups * j.shape.oc
                                         * j.shape.size.sum)
            run_tiles(j, t, part, &r, oc_begin, oc_end)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const DirectJob *j = <const DirectJob *> job
    cdef Part part
    cdef Tensors own
    cdef pplconv_release_tiles_args released
    cdef int64_t panel, oc, tiles = 0, rest = task
    cdef const Tensors *whole = t
    part.scratch = scratch
    part.tiles = &tiles
    part.oc = rest % j.oc_segments * j.plan.oc_segment
    rest = rest // j.oc_segments
    part.row = rest % j.row_segments * j.plan.row_segment
    rest = rest // j.row_segments
    part.group = rest % j.shape.groups
    part.image = rest // j.shape.groups
    part.oc_end = least(part.oc + j.plan.oc_segment, j.shape.oc)
    part.row_end = least(part.row + j.plan.row_segment, j.shape.geometry.oh)
    if j.plan.gathered:
        part.x = make_slab(j, t, &part)
    else:
        part.x = (t.x + part.image * j.shape.x.image
                  + channel_offset(&j.shape.x, j.shape.size.source, part.group * j.shape.ic))
    if j.plan.turned:
        own = turned(j, t, &part)
        whole, t = t, &own
    if j.plan.pixels_inner:
        for panel in range(ceil_div(part.oc_end - part.oc, j.panels.width)):
            oc = part.oc + panel * j.panels.width
            run_rectangles(j, t, &part, oc, least(oc + j.panels.width, part.oc_end))
    else:
        run_rectangles(j, t, &part, part.oc, part.oc_end)
    if j.release != NULL:
        released.tiles = &tiles
        j.release(&released)
    if j.plan.turned:
        turn_back(j, whole, &part)
    if not j.plan.slab:
        zero_tail(&j.shape, part.group * j.shape.oc + part.oc_end,
                  t.y + part.image * j.shape.y.image + part.row * j.shape.y.row,
                  part.row_end - part.row, j.shape.geometry.ow)


cdef void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                     int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of every group's panels."""
    cdef const DirectJob *j = <const DirectJob *> job
    cdef pplconv_pack_weights_args p
    cdef Share share = share_of(&j.panels, index, pieces)
    cdef int64_t group
    p.oc_begin, p.oc_end = share.begin, share.end
    p.ic = j.shape.ic
    p.taps = j.shape.taps
    p.panel_width, p.kr = j.panels.width, j.panels.kr
    p.channel_block = depth(j.plan.channels, j.panels.kr)
    p.src_ks = j.shape.size.weight
    p.src_os = j.shape.ic * j.shape.taps * p.src_ks
    for group in range(j.shape.groups):
        p.src = weights + group * j.shape.oc * p.src_os
        p.dst = packed + group * j.panels.bytes
        j.pack_weights(&p)


# For the names of its members.
cdef DirectOffsets no_offsets


cdef class DirectSchedule(Schedule):
    """A candidate of ``algorithms.direct`` compiled."""

    # All members of the struct may be as large as a size.
    sizes = Schedule.sizes.union(no_offsets)

    def __cinit__(self, dict fields, str isa):
        numerics = fields["numerics"]
        cdef str dtype = mover_of(numerics.operand)
        cdef DirectJob *j = &self.own
        cdef Range *ranges
        cdef int64_t i
        memset(j, 0, sizeof(DirectJob))
        j.shape = self.shape
        find_gemm_family(numerics.product, isa, numerics.kr, &j.gemm)
        j.pack_channels = find("pack_channels", dtype, isa)
        if numerics.narrow:
            j.pad_channels = find("pad_channels", dtype, isa)
        j.pack_weights = find("pack_weights", mover_of(numerics.weights), isa)
        if numerics.exact:
            # Kernels of float32 move all elements of its size.
            j.turn = find("pack_channels", "f32" if numerics.destination_bytes == 4
                          else mover_of(numerics.destination), isa)
        else:
            j.store_transposed = find("store_transposed", numerics.accumulator, isa)
        j.release = find_release(numerics.product, isa)
        j.lanes = j.gemm.lanes
        # Each member by its name, from the numbers that `check_numbers` has seen.
        j.plan = fields
        j.at = fields
        check_offsets(j.at, j.shape.size.operand)
        j.x = self.shape.x
        if j.plan.gathered:
            j.x.pixel = j.plan.slab_pixel
            j.x.row = j.plan.slab_row
            if not j.plan.slab:
                j.x.block = j.plan.slab_rows * j.x.row
        j.y = self.shape.y
        if j.plan.turned:
            j.y.block, j.y.width = 0, j.shape.groups * j.shape.oc
            j.y.pixel = j.plan.turned_pixel
            j.y.row = j.shape.geometry.ow * j.y.pixel
            j.y.image = j.shape.geometry.oh * j.y.row
        if j.plan.channels < 1:
            raise ValueError("blocks are at least 1")
        j.channel_blocks = ceil_div(j.shape.ic, j.plan.channels)
        check_tile(&j.gemm, j.plan.mr, j.plan.nr)
        check_panels(j.plan.panel_width, j.plan.kr, &j.gemm, j.plan.nr,
                     j.plan.slab or j.y.block == 0)
        j.panels = panels_of(
            j.plan.panel_width, j.plan.kr, j.shape.oc,
            j.channel_blocks * depth(j.plan.channels, j.plan.kr) * j.shape.taps,
            j.shape.size.weight)
        rows, columns = fields["rows"], fields["columns"]
        j.row_count, j.column_count = len(rows), len(columns)
        self.ranges = Buffer((len(rows) + len(columns)) * sizeof(Range))
        ranges = <Range *> self.ranges.data
        for i, (begin, end, low, high) in enumerate([*rows, *columns]):
            ranges[i].begin, ranges[i].end, ranges[i].low, ranges[i].high = begin, end, low, high
        j.rows = ranges
        j.columns = ranges + j.row_count
        check_plan(self, j)
        if j.y.block:
            j.block_panels = most(j.y.width // j.panels.width, 1)
            j.block_step = (most(j.panels.width // j.y.width, 1) * j.y.block
                            - j.block_panels * j.panels.width * j.shape.size.destination)
        j.oc_segments = ceil_div(j.shape.oc, j.plan.oc_segment)
        j.row_segments = ceil_div(j.shape.geometry.oh, j.plan.row_segment)
        self.job = j
        self.one_phase(run_task)
        self.pack = pack_range
