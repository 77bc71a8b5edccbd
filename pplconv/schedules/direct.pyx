# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Direct convolution: the batch-reduce GEMM on pixels whose channels are neighbours.

A row of outputs reads, for one row of the kernel, one stretch of input that moves along with
it; so a sum over taps and channels is a sum over a few such stretches, and the microkernel
takes them as a list of segments. Nothing is packed in NHWC and NCHWc. In NCHW the rows that a
task needs are laid into a slab with neighbouring channels first, once, which is a ninth of
what im2col would write for a 3x3 kernel.

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
    pplconv_pack_channels_args,
    pplconv_pack_weights_args,
    pplconv_segment,
    pplconv_store_transposed_args,
)
from pplconv.memory.workspace cimport Buffer
from pplconv.schedules.base cimport (
    Schedule,
    Tensors,
    activate,
    ceil_div,
    channel_offset,
    check_tile,
    epilogue_flags,
    finish_converted,
    least,
    most,
    convert_in,
    zero_tail,
)


cdef struct Part:
    # What a task works on; `x` is where pixel (0, 0) of the image would lie.
    int64_t image, group, row, row_end, oc, oc_end
    const char *x
    char *scratch


cdef struct Rectangle:
    # Outputs that see the same taps.
    int64_t row, row_end, column, column_end
    int64_t k, segments


cdef struct Place:
    # Where a panel of output channels begins in an image, and how many panels are left in its
    # block of channels; an unblocked array is one block without end.
    int64_t offset, left


cdef inline Place place_of(const DirectJob *j, int64_t channel) noexcept nogil:
    """The place of the panel that begins at a channel, counted over all groups."""
    cdef Place place
    place.offset = channel_offset(&j.shape.y, j.shape.size.destination, channel)
    place.left = INT64_MAX
    if j.shape.y.block:
        place.left = j.block_panels - channel % j.shape.y.width // j.panel
    return place


cdef inline void next_panel(const DirectJob *j, Place *place) noexcept nogil:
    """Go on to the next panel, which may be in another block."""
    place.offset += j.panel * j.shape.size.destination
    place.left -= 1
    if place.left == 0:
        place.left = j.block_panels
        place.offset += j.block_step


cdef const char *make_slab(const DirectJob *j, const Tensors *t, const Part *part) noexcept nogil:
    """Lay the rows that a task needs into the slab, channels side by side."""
    cdef pplconv_pack_channels_args c
    cdef int64_t step = j.shape.geometry.stride_h, top, bottom
    top = part.row * step - j.shape.geometry.pad_top
    bottom = ((part.row_end - 1) * step - j.shape.geometry.pad_top
              + (j.shape.geometry.kh - 1) * j.shape.geometry.dilation_h + 1)
    top = most(top, 0)
    bottom = least(bottom, j.shape.geometry.ih)
    c.dst = part.scratch + j.slab_offset
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
        c.fill = j.shape.ic
        if not j.shape.converts:
            j.pack_channels(&c)
        elif j.slab:
            convert_planes(j, t, part, top, &c)
        else:
            convert_rows(j, t, part, top, bottom - top, <char *> c.dst)
    return <const char *> c.dst - top * j.x.row


cdef void convert_planes(const DirectJob *j, const Tensors *t, const Part *part, int64_t top,
                         pplconv_pack_channels_args *c) noexcept nogil:
    """Lay rows of an array of another type into the slab, a few channels of a row at a time."""
    cdef int64_t rows = c.rows, row, channel
    cdef char *slab = <char *> c.dst
    cdef char *stage = part.scratch + j.stage_offset
    cdef const char *x = (t.x + part.image * j.shape.x.image + top * j.shape.x.row
                          + part.group * j.shape.ic * j.shape.x.block)
    c.src = stage
    c.src_cs = c.src_rs = j.shape.geometry.iw * j.shape.size.operand
    c.rows = 1
    for row in range(rows):
        channel = 0
        while channel < j.shape.ic:
            c.channels = c.fill = least(j.stage_channels, j.shape.ic - channel)
            convert_in(&j.shape, x + row * j.shape.x.row + channel * j.shape.x.block,
                       j.shape.x.block, stage, c.src_cs, c.channels, j.shape.geometry.iw)
            c.dst = slab + row * j.x.row + channel * j.shape.size.operand
            j.pack_channels(c)
            channel += c.channels
    c.dst = slab


cdef void convert_rows(const DirectJob *j, const Tensors *t, const Part *part, int64_t top,
                       int64_t rows, char *slab) noexcept nogil:
    """The same where channels are neighbours in the image already, all of them or in blocks."""
    cdef int64_t _block, row, columns = j.x.pixel // j.shape.size.operand
    cdef const char *x = (t.x + part.image * j.shape.x.image + top * j.shape.x.row
                          + channel_offset(&j.shape.x, j.shape.size.source,
                                           part.group * j.shape.ic))
    for _block in range(j.channel_blocks):
        if j.shape.x.pixel == columns * j.shape.size.source:
            convert_in(&j.shape, x, j.shape.x.row, slab, j.x.row, rows,
                       columns * j.shape.geometry.iw)
        else:
            for row in range(rows):
                convert_in(&j.shape, x + row * j.shape.x.row, j.shape.x.pixel, slab + row * j.x.row,
                           j.x.pixel, j.shape.geometry.iw, columns)
        x += j.shape.x.block
        slab += j.x.block


cdef void list_segments(const DirectJob *j, const Range *rows, const Range *columns,
                        Rectangle *r, char *scratch) noexcept nogil:
    """List the segments that a rectangle's outputs sum over, in the order of packed weights."""
    cdef pplconv_segment *s = <pplconv_segment *> scratch
    cdef int64_t block, kh, kw, piece, step, weights = j.channels * j.panel * j.shape.size.weight
    # Taps of one row of the kernel that touch in memory are one segment.
    step = columns.high - columns.low if j.taps_touch else 1
    r.k = step * j.channels
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
    """The tiles of one rectangle, for panels of output channels."""
    cdef pplconv_gemm_args g
    cdef int64_t e = j.shape.size.operand, panel, line, run, at, m
    cdef int64_t flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_COLUMN)
    cdef int64_t channels = oc_end - oc_begin, channel = part.group * j.shape.oc + oc_begin
    cdef int64_t panels = ceil_div(channels, j.panel), last_n = channels - (panels - 1) * j.panel
    cdef int64_t whole = ceil_div(j.panel, j.lanes) - 1, last = ceil_div(last_n, j.lanes) - 1
    cdef int64_t height = r.row_end - r.row, width = r.column_end - r.column
    cdef int64_t lines, length, pieces, size, offset
    cdef bint down
    cdef const char *origin
    cdef const char *weights = (t.weights + part.group * j.weights_group
                                + oc_begin // j.panel * j.panel_bytes)
    cdef const char *bias = t.bias + channel * j.shape.size.bias
    cdef Place place, first = place_of(j, channel)
    cdef pplconv_kernel kernel
    memset(&g, 0, sizeof(g))
    # Narrow rectangles, such as the left border, are walked down instead of along.
    down = not j.slab and ceil_div(width, j.mr) * height > ceil_div(height, j.mr) * width
    lines, length = (width, height) if down else (height, width)
    pieces = ceil_div(length, j.mr)
    size = ceil_div(length, pieces)
    g.k = r.k
    g.segments = part.scratch
    g.segment_count = r.segments
    g.a_ks = e
    g.b_ks = j.panel * j.shape.size.weight
    g.b_ahead = j.b_ahead
    g.a_rs = (j.shape.geometry.stride_h * j.x.row if down
              else j.shape.geometry.stride_w * j.x.pixel)
    g.clip = t.clip
    if j.slab:
        g.c_rs = j.nr * j.shape.size.sum
        g.c_vs = j.lanes * j.shape.size.sum
        g.flags = 0
    else:
        g.c_rs = j.shape.y.row if down else j.shape.y.pixel
        # In blocked arrays each vector of a wide tile goes to a block of its own.
        g.c_vs = (j.shape.y.block if j.shape.y.block and j.panel > j.shape.y.width
                  else j.lanes * j.shape.size.destination)
        g.residual_rs = g.c_rs
        g.residual_vs = g.c_vs
        g.flags = flags
        if j.shape.converts:
            g.c_rs = j.nr * j.shape.size.sum
            g.c_vs = j.lanes * j.shape.size.sum
    if j.panel == j.nr:
        g.flags |= PPLCONV_B_PADDED
    for line in range(lines):
        for run in range(pieces):
            at = run * size
            m = least(size, length - at)
            if down:
                origin = pixel_at(j, part, r.row + at, r.column + line)
                offset = (r.row + at) * j.shape.y.row + (r.column + line) * j.shape.y.pixel
            else:
                origin = pixel_at(j, part, r.row + line, r.column + at)
                offset = (r.row + line) * j.shape.y.row + (r.column + at) * j.shape.y.pixel
            offset += part.image * j.shape.y.image
            g.a = origin
            # A tile of short sums takes a few hundred cycles, so this loop must not divide.
            g.b = weights
            g.bias = bias
            g.n = j.panel
            kernel = j.gemm.tile[whole][m - 1]
            place = first
            for panel in range(panels):
                if panel == panels - 1:
                    g.n = last_n
                    kernel = j.gemm.tile[last][m - 1]
                if j.slab:
                    # A run of pixels is stored transposed when it is whole.
                    g.c = part.scratch + j.run_offset + at * g.c_rs
                elif j.shape.converts:
                    g.c = part.scratch + j.run_offset
                else:
                    g.c = t.y + offset + place.offset
                    g.residual = t.residual + offset + place.offset
                kernel(&g)
                if j.shape.converts and not j.slab:
                    convert_tile(j, t, &g, m, channel + panel * j.panel, offset + place.offset)
                elif t.activation and not j.slab:
                    finish(j, t, &g, m, channel + panel * j.panel)
                g.b = <const char *> g.b + j.panel_bytes
                g.bias = <const char *> g.bias + j.panel * j.shape.size.bias
                next_panel(j, &place)
        if j.slab:
            store_run(j, t, part, r, line, oc_begin, oc_end, flags)


cdef void finish(const DirectJob *j, const Tensors *t, const pplconv_gemm_args *g, int64_t rows,
                 int64_t channel) noexcept nogil:
    """Activate a tile that was just stored, vector by vector where blocks lie apart."""
    cdef int64_t v, step = g.n if g.c_vs == j.lanes * j.shape.size.destination else j.lanes
    for v in range(ceil_div(g.n, step)):
        activate(&j.shape, t, <char *> g.c + v * g.c_vs, g.c_rs, rows, least(step, g.n - v * step),
                 channel + v * step, False)


cdef void convert_tile(const DirectJob *j, const Tensors *t, const pplconv_gemm_args *g,
                       int64_t rows, int64_t channel, int64_t offset) noexcept nogil:
    """Finish a tile in the scratch on its way to the output, where blocks may lie apart."""
    cdef int64_t v = 0, at = 0, step = g.n
    if g.residual_vs != j.lanes * j.shape.size.destination:
        step = j.lanes
    while at < g.n:
        finish_converted(&j.shape, t, <char *> g.c + at * j.shape.size.sum, g.c_rs,
                         offset + v * g.residual_vs, g.residual_rs, rows, least(step, g.n - at),
                         channel + at, False)
        at += step
        v += 1


cdef inline const char *pixel_at(const DirectJob *j, const Part *part, int64_t row,
                                 int64_t column) noexcept nogil:
    """Where tap (0, 0) of an output pixel lies, or would lie."""
    return (part.x + (row * j.shape.geometry.stride_h - j.shape.geometry.pad_top) * j.x.row
            + (column * j.shape.geometry.stride_w - j.shape.geometry.pad_left) * j.x.pixel)


cdef void store_run(const DirectJob *j, const Tensors *t, const Part *part, const Rectangle *r,
                    int64_t line, int64_t oc_begin, int64_t oc_end,
                    int64_t flags) noexcept nogil:
    """Store a run of finished pixels into channel planes, with the epilogue."""
    cdef pplconv_store_transposed_args s
    cdef int64_t channel = part.group * j.shape.oc + oc_begin
    cdef int64_t offset = (part.image * j.shape.y.image + (r.row + line) * j.shape.y.row
                           + r.column * j.shape.y.pixel + channel * j.shape.y.block)
    s.src = part.scratch + j.run_offset
    s.src_rs = j.nr * j.shape.size.sum
    s.dst = t.y + offset
    s.dst_rs = j.shape.y.block
    s.rows = r.column_end - r.column
    s.columns = oc_end - oc_begin
    s.bias = t.bias + channel * j.shape.size.bias
    s.residual = t.residual + offset
    s.residual_rs = s.dst_rs
    s.clip = t.clip
    s.flags = flags
    if j.shape.converts:
        s.dst = part.scratch + j.stage_offset
        s.dst_rs = j.run_pixels * j.shape.size.sum
    j.store_transposed(&s)
    if j.shape.converts:
        finish_converted(&j.shape, t, <char *> s.dst, s.dst_rs, offset, s.residual_rs, s.columns,
                         s.rows, channel, True)
    elif t.activation:
        activate(&j.shape, t, s.dst, s.dst_rs, s.columns, s.rows, channel, True)


cdef void run_rectangles(const DirectJob *j, const Tensors *t, const Part *part, int64_t oc_begin,
                         int64_t oc_end) noexcept nogil:
    """Every output of a task, for the panels of some output channels."""
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
            run_tiles(j, t, part, &r, oc_begin, oc_end)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const DirectJob *j = <const DirectJob *> job
    cdef Part part
    cdef int64_t panel, oc, rest = task
    part.scratch = scratch
    part.oc = rest % j.oc_segments * j.oc_segment
    rest = rest // j.oc_segments
    part.row = rest % j.row_segments * j.row_segment
    rest = rest // j.row_segments
    part.group = rest % j.shape.groups
    part.image = rest // j.shape.groups
    part.oc_end = least(part.oc + j.oc_segment, j.shape.oc)
    part.row_end = least(part.row + j.row_segment, j.shape.geometry.oh)
    if j.slab or j.shape.converts:
        part.x = make_slab(j, t, &part)
    else:
        part.x = (t.x + part.image * j.shape.x.image
                  + channel_offset(&j.shape.x, j.shape.size.source, part.group * j.shape.ic))
    if j.pixels_inner or j.slab:
        for panel in range(ceil_div(part.oc_end - part.oc, j.panel)):
            oc = part.oc + panel * j.panel
            run_rectangles(j, t, &part, oc, least(oc + j.panel, part.oc_end))
    else:
        run_rectangles(j, t, &part, part.oc, part.oc_end)
    if not j.slab:
        zero_tail(&j.shape, part.group * j.shape.oc + part.oc_end,
                  t.y + part.image * j.shape.y.image + part.row * j.shape.y.row,
                  part.row_end - part.row, j.shape.geometry.ow)


cdef void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                     int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of every group's panels."""
    cdef const DirectJob *j = <const DirectJob *> job
    cdef pplconv_pack_weights_args p
    cdef int64_t group, panels = ceil_div(j.shape.oc, j.panel)
    p.oc_begin = panels * index // pieces * j.panel
    p.oc_end = least(panels * (index + 1) // pieces * j.panel, j.shape.oc)
    p.ic = j.shape.ic
    p.taps = j.shape.taps
    p.panel_width = j.panel
    p.channel_block = j.channels
    p.src_ks = j.shape.size.weight
    p.src_os = j.shape.ic * j.shape.taps * p.src_ks
    for group in range(j.shape.groups):
        p.src = weights + group * j.shape.oc * p.src_os
        p.dst = packed + group * j.weights_group
        j.pack_weights(&p)


cdef int check_ranges(const Range *ranges, int64_t count, int64_t outputs, int64_t inputs,
                      int64_t kernel, int64_t stride, int64_t dilation, int64_t pad) except -1:
    """Refuse ranges that miss an output or a tap inside the image, or see a tap outside it."""
    cdef int64_t i, first, last, at = 0
    for i in range(count):
        r = &ranges[i]
        if (r.begin != at or not at < r.end <= outputs
                or not 0 <= r.low <= r.high <= kernel):
            raise ValueError("ranges of outputs do not follow one another")
        at = r.end
        # Where tap 0 of the first and of the last output lies.
        first = r.begin * stride - pad
        last = (r.end - 1) * stride - pad
        if r.low < r.high and (first + r.low * dilation < 0
                               or last + (r.high - 1) * dilation >= inputs):
            raise ValueError("a range sees taps outside the image")
        if ((r.low > 0 and last + (r.low - 1) * dilation >= 0)
                or (r.high < kernel and first + r.high * dilation < inputs)):
            raise ValueError("a range leaves out taps inside the image")
    if at != outputs:
        raise ValueError("ranges do not cover the outputs")
    return 0


cdef class DirectSchedule(Schedule):
    """A candidate of ``algorithms.direct`` compiled."""

    def __cinit__(self, dict fields, str isa):
        cdef str dtype = fields["numerics"].operand
        cdef DirectJob *j = &self.own
        cdef Range *ranges
        cdef int64_t i
        memset(j, 0, sizeof(DirectJob))
        j.shape = self.shape
        find_gemm_family(dtype, isa, &j.gemm)
        j.pack_channels = find("pack_channels", dtype, isa)
        j.pack_weights = find("pack_weights", dtype, isa)
        j.store_transposed = find("store_transposed", dtype, isa)
        j.lanes = j.gemm.lanes
        j.slab = fields["slab"]
        j.x = self.shape.x
        j.run_pixels = fields["run_pixels"]
        j.stage_channels = fields["stage_channels"]
        j.stage_offset = fields["stage_offset"]
        if j.slab or j.shape.converts:
            j.x.pixel = fields["slab_pixel"]
            j.x.row = fields["slab_row"]
            if not j.slab:
                j.x.block = fields["slab_rows"] * j.x.row
        j.channels = fields["channels"]
        j.panel = fields["panel"]
        if j.channels < 1 or j.panel < 1:
            raise ValueError("blocks and panels are at least 1")
        j.channel_blocks = ceil_div(j.shape.ic, j.channels)
        j.taps_touch = fields["taps_touch"]
        j.pixels_inner = fields["pixels_inner"]
        j.mr = fields["mr"]
        j.nr = fields["nr"]
        j.vectors = j.nr // j.lanes
        j.b_ahead = fields["b_ahead"]
        j.row_segment = fields["row_segment"]
        j.oc_segment = fields["oc_segment"]
        j.slab_offset = fields["slab_offset"]
        j.run_offset = fields["run_offset"]
        j.panel_bytes = (j.channel_blocks * j.channels * j.shape.taps * j.panel
                         * j.shape.size.weight)
        j.weights_group = ceil_div(j.shape.oc, j.panel) * j.panel_bytes
        rows, columns = fields["rows"], fields["columns"]
        j.row_count, j.column_count = len(rows), len(columns)
        self.ranges = Buffer((len(rows) + len(columns)) * sizeof(Range))
        ranges = <Range *> self.ranges.data
        for i, (begin, end, low, high) in enumerate([*rows, *columns]):
            ranges[i].begin, ranges[i].end, ranges[i].low, ranges[i].high = begin, end, low, high
        j.rows = ranges
        j.columns = ranges + j.row_count
        self.check(fields["slab_rows"])
        if j.shape.y.block:
            j.block_panels = most(j.shape.y.width // j.panel, 1)
            j.block_step = (most(j.panel // j.shape.y.width, 1) * j.shape.y.block
                            - j.block_panels * j.panel * j.shape.size.destination)
        j.oc_segments = ceil_div(j.shape.oc, j.oc_segment)
        j.row_segments = ceil_div(j.shape.geometry.oh, j.row_segment)
        self.job = j
        self.task = run_task
        self.pack = pack_range

    cdef int check(self, int64_t slab_rows) except -1:
        """Refuse a plan that the loops could not carry out inside its memory."""
        cdef DirectJob *j = &self.own
        cdef int64_t e = j.shape.size.operand, i, rows, longest = 0
        g = &j.shape.geometry
        check_tile(&j.gemm, j.mr, j.nr)
        if min(j.row_segment, j.oc_segment) < 1:
            raise ValueError("segments are at least 1")
        if j.panel > j.nr:
            raise ValueError("a panel is no wider than the tile")
        if j.oc_segment % j.panel and j.oc_segment < j.shape.oc:
            raise ValueError("oc_segment must be whole panels")
        check_ranges(j.rows, j.row_count, g.oh, g.ih, g.kh, g.stride_h, g.dilation_h, g.pad_top)
        check_ranges(j.columns, j.column_count, g.ow, g.iw, g.kw, g.stride_w, g.dilation_w,
                     g.pad_left)
        for i in range(j.column_count):
            longest = most(longest, j.columns[i].end - j.columns[i].begin)
        rows = least((j.row_segment - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1, g.ih)
        if (j.slab or j.shape.converts) and (
                slab_rows < rows or j.x.row < g.iw * j.x.pixel
                or j.x.pixel < (j.shape.ic if j.shape.x.block == 0 or j.slab
                                else j.shape.x.width) * e):
            raise ValueError("the slab is smaller than what goes into it")
        if j.slab and (j.shape.x.width != 1 or j.shape.y.width != 1):
            raise ValueError("a slab is laid from planes and stored into planes")
        if j.x.pixel % e or j.x.row % e or j.slab_offset % e or j.run_offset % e:
            raise ValueError("offsets are whole elements")
        if not j.slab and j.shape.y.width == 1 and least(j.panel, j.shape.oc) > 1:
            raise ValueError("channels that lie apart need a slab")
        if j.channels != (j.shape.ic if j.slab else least(j.x.width, j.shape.ic)):
            raise ValueError("blocks of channels are those of the array")
        if j.taps_touch and g.kw > 1 and (g.dilation_w != 1 or j.x.pixel != j.channels * e):
            raise ValueError("taps do not touch where they lie apart")
        if (j.shape.y.block and not j.slab and j.shape.y.width % j.panel
                and (j.shape.y.width != j.lanes or j.panel % j.lanes)):
            raise ValueError("vectors of output channels must not cross blocks of the array")
        if self.tasks and (
                j.slab_offset < j.channel_blocks * j.shape.taps * sizeof(pplconv_segment)
                or (j.slab and (longest > j.run_pixels
                                or j.run_offset < j.slab_offset + slab_rows * j.x.row
                                or self.thread_scratch
                                < j.run_offset + j.run_pixels * j.nr * j.shape.size.sum))
                or self.thread_scratch < j.slab_offset):
            raise ValueError("the scratch is too small")
        if self.tasks and j.shape.converts:
            self.check_converted(slab_rows)
        if self.tasks != (j.shape.batch * j.shape.groups * ceil_div(g.oh, j.row_segment)
                          * ceil_div(j.shape.oc, j.oc_segment)):
            raise ValueError("the tasks are not those of the segments")
        if self.weight_bytes < j.shape.groups * j.weights_group:
            raise ValueError("packed weights are larger than their memory")
        return 0

    cdef int check_converted(self, int64_t slab_rows) except -1:
        """Refuse scratch in which converted arrays overlap or do not fit."""
        cdef DirectJob *j = &self.own
        cdef int64_t e = j.shape.size.operand, sum = j.shape.size.sum, stage = 0
        cdef int64_t run = j.mr * j.nr * sum
        if j.stage_offset % e:
            raise ValueError("offsets are whole elements")
        if j.slab:
            if j.stage_channels < 1:
                raise ValueError("planes are converted at least one at a time")
            run = j.run_pixels * j.nr * sum
            stage = most(j.stage_channels * j.shape.geometry.iw * e, j.nr * j.run_pixels * sum)
        if (j.run_offset < j.slab_offset + j.channel_blocks * slab_rows * j.x.row
                or j.stage_offset < j.run_offset + run
                or self.thread_scratch < j.stage_offset + stage):
            raise ValueError("the scratch is too small for what is converted")
        return 0
