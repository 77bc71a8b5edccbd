# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Winograd's minimal filtering F(n x n, r x r): pre-processing, products, post-processing.

The loops of the OpenPPL Arm Server slides: a block of tiles is transformed (pre), multiplied
position by position with the transformed weights (gemm), and transformed back on the last segment
of input channels (post); the same store does the epilogue. A block's V and M stay
in L2; the transform of the whole image never exists.

Everything runs in vectors of channels. Where the user's channels are neighbours (NHWC, a block
of NCHWc) the transforms read and write the user's arrays; in NCHW a slab of pixels with one
vector of channels each, small enough for L1, lies in between.

The transforms spread an infinity or NaN of the input over a tile, and finite numbers may overflow
in them. So post watches its sums, and computes those that are not finite again as direct sums. No
block, segment or team decides which ones: the sums do not depend on these.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_ACCUMULATE,
    PPLCONV_B_PADDED,
    PPLCONV_BIAS_COLUMN,
    find,
    find_gemm_family,
    pplconv_gemm_args,
    pplconv_pack_channels_args,
    pplconv_store_transposed_args,
    pplconv_winograd_input_args,
    pplconv_winograd_output_args,
    pplconv_winograd_weights_args,
)
from pplconv.schedules.base cimport (
    Schedule,
    Tensors,
    activate,
    ceil_div,
    channel_offset,
    check_offsets,
    check_tile,
    epilogue_flags,
    finish_converted,
    least,
    most,
    convert_in,
    zero_tail,
)
from pplconv.schedules.panels cimport Share, check_panels, offset_in, panels_of, share_of
from pplconv.schedules.winograd_finish cimport finish_tiles
from pplconv.schedules.winograd_job cimport Piece, WinogradFields, WinogradJob, WinogradOffsets


cdef inline Piece piece_at(const WinogradJob *j, int64_t tile, int64_t end) noexcept nogil:
    """The longest piece that begins at `tile` and ends before `end`."""
    cdef Piece p
    cdef int64_t rest, column
    p.image = tile // j.tiles_image
    rest = tile - p.image * j.tiles_image
    column = rest % j.tiles_w
    p.y = rest // j.tiles_w * j.plan.n
    p.x = column * j.plan.n
    p.tiles = least(least(end - tile, j.tiles_w - column), j.plan.slab_tiles)
    p.first = tile
    return p


cdef void pre(const WinogradJob *j, const Tensors *t, int64_t group, int64_t tile_begin,
              int64_t tile_end, int64_t ic_begin, int64_t ic_end, char *scratch) noexcept nogil:
    """V of a block of tiles and a segment of input channels."""
    cdef pplconv_winograd_input_args a
    cdef pplconv_pack_channels_args c
    cdef int64_t e = j.shape.size.operand, tile = tile_begin, channel, count, top, left
    cdef int64_t width = j.shape.x.width
    cdef const char *image
    cdef Piece p
    a.dst_ts = j.plan.v_row
    a.dst_ps = j.at.v_position
    while tile < tile_end:
        p = piece_at(j, tile, tile_end)
        top = p.y - j.shape.geometry.pad_top
        left = p.x - j.shape.geometry.pad_left
        a.row_begin = least(most(0, -top), j.t)
        a.row_end = most(least(j.t, j.shape.geometry.ih - top), a.row_begin)
        a.column_begin = most(0, -left)
        a.column_end = least(j.shape.geometry.iw - left, p.tiles * j.plan.n + j.plan.r - 1)
        a.column_end = most(a.column_end, a.column_begin)
        a.tiles = p.tiles
        image = t.x + p.image * j.shape.x.image + top * j.shape.x.row + left * j.shape.x.pixel
        channel = ic_begin
        while channel < ic_end:
            count = ic_end - channel
            a.dst = scratch + (tile - tile_begin) * j.plan.v_row + (channel - ic_begin) * e
            a.src = image + channel_offset(&j.shape.x, j.shape.size.source,
                                           group * j.shape.ic + channel)
            a.src_rs = j.shape.x.row
            a.src_ps = j.shape.x.pixel
            if width == 1:
                count = least(count, j.lanes)
                c.rows = a.row_end - a.row_begin
                c.columns = a.column_end - a.column_begin
                c.src = (<const char *> a.src + a.row_begin * a.src_rs
                         + a.column_begin * a.src_ps)
                c.src_cs = j.shape.x.block
                c.src_rs = a.src_rs
                c.dst = scratch + j.at.slab_offset
                c.dst_rs = j.plan.slab_row
                c.dst_ps = j.lanes * e
                c.channels = count
                c.fill = count
                if c.rows > 0 and c.columns > 0:
                    if j.shape.converts:
                        stage_planes(j, &c, scratch + j.at.stage_offset)
                    j.pack_channels(&c)
                a.src_rs = c.dst_rs
                a.src_ps = c.dst_ps
                a.src = (<const char *> c.dst - a.row_begin * a.src_rs
                         - a.column_begin * a.src_ps)
            else:
                # Up to the end of this block of channels.
                count = least(count, width - (group * j.shape.ic + channel) % width)
                if j.shape.converts:
                    count = least(count, j.lanes)
                    convert_pixels(j, &a, count, scratch + j.at.slab_offset)
            a.channels = count
            j.input(&a)
            channel += count
        tile += p.tiles


cdef void stage_planes(const WinogradJob *j, pplconv_pack_channels_args *c,
                       char *stage) noexcept nogil:
    """Convert planes of halves, so that they can be packed."""
    cdef int64_t channel, row_bytes = c.columns * j.shape.size.operand
    for channel in range(c.channels):
        convert_in(&j.shape, <const char *> c.src + channel * c.src_cs, c.src_rs,
                   stage + channel * c.rows * row_bytes, row_bytes, c.rows, c.columns)
    c.src = stage
    c.src_rs = row_bytes
    c.src_cs = c.rows * row_bytes


cdef void convert_pixels(const WinogradJob *j, pplconv_winograd_input_args *a, int64_t channels,
                         char *slab) noexcept nogil:
    """Convert the pixels of a vector's channels into the slab."""
    cdef int64_t row, columns = a.column_end - a.column_begin
    cdef int64_t pixel = j.lanes * j.shape.size.operand
    for row in range(a.row_begin, a.row_end):
        convert_in(&j.shape, <const char *> a.src + row * a.src_rs + a.column_begin * a.src_ps,
                   a.src_ps, slab + (row - a.row_begin) * j.plan.slab_row, pixel, columns, channels)
    a.src_rs = j.plan.slab_row
    a.src_ps = pixel
    a.src = slab - a.row_begin * a.src_rs - a.column_begin * a.src_ps


cdef void product(const WinogradJob *j, const Tensors *t, int64_t group, int64_t tiles,
                  int64_t ic_begin, int64_t ic_end, int64_t oc_begin, int64_t oc_end,
                  char *scratch) noexcept nogil:
    """M of a block of output channels, position by position."""
    cdef pplconv_gemm_args g
    cdef int64_t e = j.shape.size.operand, position, panel, piece, row
    cdef int64_t first = offset_in(&j.panels, oc_begin, ic_begin)
    cdef int64_t group_bytes = j.positions * j.panels.bytes
    cdef const char *u
    memset(&g, 0, sizeof(g))
    g.k = ic_end - ic_begin
    g.a_rs = j.plan.v_row
    g.a_ks = e
    g.b_ks = j.panels.down
    g.b_ahead = j.plan.b_ahead
    g.c_rs = j.plan.m_row
    g.c_vs = j.lanes * j.shape.size.sum
    g.flags = PPLCONV_B_PADDED if ic_begin == 0 else PPLCONV_B_PADDED | PPLCONV_ACCUMULATE
    for position in range(j.positions):
        u = t.weights + group * group_bytes + position * j.panels.bytes + first
        for panel in range(ceil_div(oc_end - oc_begin, j.plan.nr)):
            g.b = u + panel * j.panels.panel_bytes
            # M is padded to whole panels, so no panel is narrower.
            g.n = j.plan.nr
            for piece in range(ceil_div(tiles, j.plan.mr)):
                row = piece * j.plan.mr
                g.a = scratch + position * j.at.v_position + row * j.plan.v_row
                g.c = (scratch + j.at.m_offset + position * j.at.m_position + row * j.plan.m_row
                       + panel * j.plan.nr * j.shape.size.sum)
                j.gemm.tile[j.vectors - 1][least(j.plan.mr, tiles - row) - 1](&g)


cdef void post(const WinogradJob *j, const Tensors *t, int64_t group, int64_t tile_begin,
               int64_t tile_end, int64_t oc_begin, int64_t oc_end,
               char *scratch) noexcept nogil:
    """The outputs of a block of tiles and of output channels, epilogue included."""
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
            a.src = (scratch + j.at.m_offset + (tile - tile_begin) * j.plan.m_row
                     + (channel - oc_begin) * e)
            if width == 1:
                count = least(count, j.lanes)
                a.dst = scratch + j.at.slab_offset
                a.dst_rs = j.plan.slab_row
                a.dst_ps = j.lanes * e
                a.flags = 0
                a.channels = count
                finish_tiles(j, t, group, channel, &p, &a)
                store_slab(j, t, group, channel, offset, &a, flags, scratch + j.at.stage_offset)
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
                if j.shape.converts:
                    count = least(count, j.lanes)
                    a.dst = scratch + j.at.slab_offset
                    a.dst_rs = j.plan.slab_row
                    a.dst_ps = j.lanes * e
                a.channels = count
                finish_tiles(j, t, group, channel, &p, &a)
                if j.shape.converts:
                    for row in range(a.rows):
                        finish_converted(&j.shape, t, <char *> a.dst + row * a.dst_rs, a.dst_ps,
                                         offset + row * j.shape.y.row, j.shape.y.pixel, a.columns,
                                         count, group * j.shape.oc + channel, False)
                elif t.activation:
                    for row in range(a.rows):
                        activate(&j.shape, t, <char *> a.dst + row * a.dst_rs, a.dst_ps, a.columns,
                                 count, group * j.shape.oc + channel, False)
                zero_tail(&j.shape, group * j.shape.oc + channel + count,
                          t.y + image, a.rows, a.columns)
            channel += count
        tile += p.tiles


cdef void store_slab(const WinogradJob *j, const Tensors *t, int64_t group, int64_t channel,
                     int64_t offset, const pplconv_winograd_output_args *a,
                     int64_t flags, char *stage) noexcept nogil:
    """Store a slab of outputs into channel planes, with the epilogue."""
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
        if j.shape.converts:
            s.dst = stage
            s.dst_rs = a.columns * j.shape.size.sum
        j.store_transposed(&s)
        if j.shape.converts:
            finish_converted(&j.shape, t, stage, s.dst_rs, offset + row * j.shape.y.row,
                             s.residual_rs, s.columns, s.rows, group * j.shape.oc + channel, True)
        elif t.activation:
            activate(&j.shape, t, s.dst, s.dst_rs, s.columns, s.rows,
                     group * j.shape.oc + channel, True)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const WinogradJob *j = <const WinogradJob *> job
    cdef int64_t oc_index = task % j.oc_segments, rest = task // j.oc_segments
    cdef int64_t group = rest % j.shape.groups
    cdef int64_t tile_begin = rest // j.shape.groups * j.plan.tile_block
    cdef int64_t tile_end = least(tile_begin + j.plan.tile_block, j.tiles)
    cdef int64_t oc_begin = oc_index * j.plan.oc_segment
    cdef int64_t oc_end = least(oc_begin + j.plan.oc_segment, j.shape.oc)
    cdef int64_t i, ic, ic_end, o, oc, oc_stop
    for i in range(ceil_div(j.shape.ic, j.plan.ic_segment)):
        ic = i * j.plan.ic_segment
        ic_end = least(ic + j.plan.ic_segment, j.shape.ic)
        pre(j, t, group, tile_begin, tile_end, ic, ic_end, scratch)
        for o in range(ceil_div(oc_end - oc_begin, j.plan.oc_block)):
            oc = oc_begin + o * j.plan.oc_block
            oc_stop = least(oc + j.plan.oc_block, oc_end)
            product(j, t, group, tile_end - tile_begin, ic, ic_end, oc, oc_stop, scratch)
            if ic_end == j.shape.ic:
                post(j, t, group, tile_begin, tile_end, oc, oc_stop, scratch)


cdef void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                     int64_t pieces) noexcept nogil:
    """Transform and pack piece `index` of `pieces` of every group's panels."""
    cdef const WinogradJob *j = <const WinogradJob *> job
    cdef pplconv_winograd_weights_args p
    cdef Share share = share_of(&j.panels, index, pieces)
    cdef int64_t group
    cdef int64_t filters = j.shape.oc * j.shape.ic * j.shape.taps * j.shape.size.weight
    p.dst_ps = j.panels.bytes
    p.oc_begin, p.oc_end = share.begin, share.end
    p.ic = j.shape.ic
    p.ic_padded = j.shape.ic
    p.panel_width = j.panels.width
    if p.oc_begin >= p.oc_end:
        return
    for group in range(j.shape.groups):
        p.src = weights + group * filters
        p.dst = packed + group * j.positions * j.panels.bytes
        j.weights(&p)


# For the names of its members.
cdef WinogradOffsets no_offsets


cdef class WinogradSchedule(Schedule):
    """A candidate of ``algorithms.winograd`` compiled."""

    # All members of the struct may be as large as a size.
    sizes = Schedule.sizes.union(no_offsets)

    def __cinit__(self, dict fields, str isa):
        cdef str dtype = fields["numerics"].operand
        cdef WinogradJob *j = &self.own
        memset(j, 0, sizeof(WinogradJob))
        j.shape = self.shape
        # Each member by its name, from the numbers that `check_numbers` has seen.
        j.plan = fields
        j.at = fields
        check_offsets(j.at, j.shape.size.operand)
        j.t = j.plan.n + j.plan.r - 1
        j.positions = j.t * j.t
        find_gemm_family(dtype, isa, fields["numerics"].kr, &j.gemm)
        j.input = find("winograd_input", dtype, isa, j.plan.n, j.plan.r)
        j.output = find("winograd_output", dtype, isa, j.plan.n, j.plan.r)
        j.weights = find("winograd_weights", dtype, isa, j.plan.n, j.plan.r)
        j.direct_sums = find("direct_sums", dtype, isa)
        j.pack_channels = find("pack_channels", dtype, isa)
        j.store_transposed = find("store_transposed", dtype, isa)
        j.lanes = j.gemm.lanes
        j.tiles_w = ceil_div(j.shape.geometry.ow, j.plan.n)
        j.tiles_image = j.tiles_w * ceil_div(j.shape.geometry.oh, j.plan.n)
        j.tiles = j.tiles_image * j.shape.batch
        j.vectors = j.plan.nr // j.lanes
        check_tile(&j.gemm, j.plan.mr, j.plan.nr)
        check_panels(j.plan.panel_width, j.plan.kr, &j.gemm, j.plan.nr, True)
        j.panels = panels_of(j.plan.panel_width, j.plan.kr, j.shape.oc, j.shape.ic,
                             j.shape.size.weight)
        self.check()
        j.oc_segments = ceil_div(j.shape.oc, j.plan.oc_segment)
        self.job = j
        self.task = run_task
        self.pack = pack_range

    cdef int check(self) except -1:
        """Refuse a plan that the loops could not carry out inside its memory."""
        cdef WinogradJob *j = &self.own
        cdef WinogradFields *f = &j.plan
        cdef WinogradOffsets *at = &j.at
        cdef int64_t e = j.shape.size.operand, slab = 0
        g = &j.shape.geometry
        if (g.kh != f.r or g.kw != f.r or g.stride_h != 1 or g.stride_w != 1
                or g.dilation_h != 1 or g.dilation_w != 1):
            raise ValueError("Winograd's tiles do not fit this kernel, stride or dilation")
        if min(f.tile_block, f.ic_segment, f.oc_block, f.oc_segment, f.slab_tiles) < 1:
            raise ValueError("blocks and segments are at least 1")
        if ((f.oc_segment % f.panel_width and f.oc_segment < j.shape.oc)
                or f.oc_block % f.panel_width):
            raise ValueError("oc_segment and oc_block must be whole panels")
        if f.ic_segment < j.shape.ic and f.oc_block < least(f.oc_segment, j.shape.oc):
            raise ValueError("M must hold the whole segment where ic is cut")
        if 1 < j.shape.x.width < j.shape.ic and f.ic_segment % j.shape.x.width \
                and f.ic_segment < j.shape.ic:
            raise ValueError("ic_segment must be whole blocks of channels")
        if f.v_row % e or f.m_row % e or f.slab_row % e:
            raise ValueError("offsets are whole elements")
        if f.v_row < least(f.ic_segment, j.shape.ic) * e or f.m_row < f.oc_block * e:
            raise ValueError("rows of the scratch are shorter than what goes into them")
        if (at.v_position < f.tile_block * f.v_row or at.m_position < f.tile_block * f.m_row
                or at.m_offset < j.positions * at.v_position
                or at.slab_offset < at.m_offset + j.positions * at.m_position):
            raise ValueError("positions of the scratch overlap")
        if j.shape.x.width == 1 or j.shape.y.width == 1 or j.shape.converts:
            if f.slab_row < (f.slab_tiles * f.n + f.r - 1) * j.lanes * e:
                raise ValueError("rows of the slab are too short")
            slab = j.t * f.slab_row
        if j.shape.converts:
            if at.stage_offset < at.slab_offset + slab:
                raise ValueError("planes overlap the slab")
            slab += at.stage_offset - at.slab_offset
        if self.tasks and self.thread_scratch < at.slab_offset + slab:
            raise ValueError("the scratch is too small")
        if self.tasks != (ceil_div(j.tiles, f.tile_block) * j.shape.groups
                          * ceil_div(j.shape.oc, f.oc_segment)):
            raise ValueError("the tasks are not those of the segments")
        self.check_weights(j.shape.groups * j.positions * j.panels.bytes)
        return 0
