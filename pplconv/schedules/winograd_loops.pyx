# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Winograd's minimal filtering F(n x n, r x r): pre-processing, products, post-processing.

The loops of the OpenPPL Arm Server slides: a block of tiles is transformed (pre), multiplied
position by position with the transformed weights (gemm), and transformed back after the last
segment of input channels (post), together with the epilogue. A block's V and M stay in L2; the
transform of the whole image never exists.

If L2 holds few tiles, all weights would be read again for every few tiles. So a plan may be staged:
V and M of many tiles are in scratch that the team shares, in L3 or memory, and each step is a phase
of its own. In a phase the threads share the tiles (pre, post) or the positions and output channels
(gemm), so that each weight is read once a round. The sums are the same.

Everything runs in vectors of channels. Where the user's channels are neighbours (NHWC, a block of
NCHWc) the transforms read and write the user's arrays; in NCHW pixels pass through a slab, small
enough for L1, with one vector of channels each.

The transforms spread an infinity or NaN of the input over a tile, and finite numbers may overflow
in them. So post checks its sums, and recomputes those that are not finite as direct sums. Blocks,
segments and team do not change which ones, as the sums do not depend on them.

Bytes are exact: V has 16-bit words, products add up pairs of them in int32, and post leaves sums in
the slab, from where they are requantized. The planner has made sure that no sum needs more than 30
bits, as M needs two more than the sum.

A kernel of other than r x r taps is cut into subkernels of r x r, with zeros where the last ones
end (Huang et al., "DWM: A Decomposable Winograd Method for Convolution Acceleration", 2020). V has
the input's channels once for each subkernel, from patches that lie r pixels apart, and the products
add them all up.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_ACCUMULATE,
    PPLCONV_B_PADDED,
    find,
    find_gemm_family,
    pplconv_gemm_args,
    pplconv_direct_sums_args,
    pplconv_winograd_output_args,
    PPLCONV_BIAS_COLUMN,
    pplconv_store_transposed_args,
)
from pplconv.schedules.base cimport (
    Schedule,
    Tensors,
    ceil_div,
    check_offsets,
    check_tile,
    least,
    most,
    mover_of,
    channel_offset,
    Memory,
    complete,
    follows,
    epilogue_flags,
    finish_converted,
    zero_tail,
)
from pplconv.schedules.panel_offsets cimport (
    check_panels,
    fetch_panel,
    offset_in,
    panels_of,
)
from pplconv.schedules.winograd_input cimport pre
from pplconv.schedules.winograd_job cimport (
    Piece,
    Place,
    WinogradFields,
    WinogradJob,
    WinogradOffsets,
    piece_at,
    place_of,
)
from pplconv.schedules.winograd_packing cimport GATHERED, pack_range


# The inverse transform of Winograd's loops, and direct sums in place of spoiled ones.


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
    d.kh = j.shape.geometry.kh
    d.kw = j.shape.geometry.kw
    d.halves = j.halves
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
    # This is rare, so it goes tile by tile. The transform is repeated from M into M itself, as a
    # tile is read completely before its first sum is stored.
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


# The last step of Winograd's loops: M becomes outputs, epilogue included.


cdef inline void store_slab(const WinogradJob *j, const Tensors *t, int64_t group, int64_t channel,
                            int64_t offset, const pplconv_winograd_output_args *a, int64_t flags,
                            char *stage) noexcept nogil:
    # Store a slab of outputs into channel planes, with the epilogue.
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
        if j.shape.converts_out:
            s.dst = stage
            s.dst_rs = a.columns * j.shape.size.sum
        j.store_transposed(&s)
        if j.shape.converts_out:
            finish_converted(&j.shape, t, stage, s.dst_rs, offset + row * j.shape.y.row,
                             s.residual_rs, s.columns, s.rows, group * j.shape.oc + channel, True)
        elif follows(t):
            complete(&j.shape, t, s.dst, s.dst_rs, s.columns, s.rows,
                     group * j.shape.oc + channel, True)


cdef inline void post(const WinogradJob *j, const Tensors *t, int64_t group, int64_t tile_begin,
                      int64_t tile_end, int64_t oc_begin, int64_t oc_end,
                      const Place *at) noexcept nogil:
    # Compute the outputs of a block of tiles and of output channels, epilogue included.
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
            a.src = at.m + (tile - at.tile) * j.plan.m_row + (channel - oc_begin) * e
            if width == 1:
                count = least(count, j.plan.slab_channels)
                a.dst = at.slab
                a.dst_rs = j.plan.slab_row
                a.dst_ps = j.plan.slab_channels * e
                a.flags = 0
                a.channels = count
                finish_tiles(j, t, group, channel, &p, &a)
                store_slab(j, t, group, channel, offset, &a, flags, at.stage)
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
                if j.shape.converts_out:
                    count = least(count, j.plan.slab_channels)
                    a.dst = at.slab
                    a.dst_rs = j.plan.slab_row
                    a.dst_ps = j.plan.slab_channels * e
                a.channels = count
                finish_tiles(j, t, group, channel, &p, &a)
                if j.shape.converts_out:
                    for row in range(a.rows):
                        finish_converted(&j.shape, t, <char *> a.dst + row * a.dst_rs, a.dst_ps,
                                         offset + row * j.shape.y.row, j.shape.y.pixel, a.columns,
                                         count, group * j.shape.oc + channel, False)
                elif follows(t):
                    for row in range(a.rows):
                        complete(&j.shape, t, <char *> a.dst + row * a.dst_rs, a.dst_ps, a.columns,
                                 count, group * j.shape.oc + channel, False)
                zero_tail(&j.shape, group * j.shape.oc + channel + count,
                          t.y + image, a.rows, a.columns)
            channel += count
        tile += p.tiles


cdef struct Round:
    # A block of tiles of one group, and the number of a task in it.
    int64_t group, tile_begin, tile_end, task


cdef struct Part:
    # Tiles and channels of one task of a transform, in the block of tiles that begins with `first`.
    int64_t group, first, tile_begin, tile_end, begin, end


cdef void product(const WinogradJob *j, const Tensors *t, int64_t group, int64_t tiles,
                  int64_t first, int64_t end, int64_t ic_begin, int64_t ic_end, int64_t oc_begin,
                  int64_t oc_end, const Place *at) noexcept nogil:
    """Compute M of the positions from `first` to `end`, for a block of output channels."""
    cdef pplconv_gemm_args g
    cdef int64_t position, panel, piece, row, across
    cdef int64_t tall = ceil_div(tiles, j.plan.mr), wide = ceil_div(oc_end - oc_begin, j.plan.nr)
    cdef int64_t weights = offset_in(&j.panels, oc_begin, ic_begin)
    cdef int64_t group_bytes = j.positions * j.panels.bytes
    cdef const char *u
    memset(&g, 0, sizeof(g))
    g.k = ic_end - ic_begin
    g.a_rs = j.plan.v_row
    g.a_ks = j.panels.kr * j.shape.size.operand
    g.b_ks = j.panels.down
    g.c_rs = j.plan.m_row
    g.c_vs = j.lanes * j.shape.size.sum
    g.flags = PPLCONV_B_PADDED if ic_begin == 0 else PPLCONV_B_PADDED | PPLCONV_ACCUMULATE
    for position in range(first, end):
        u = t.weights + group * group_bytes + position * j.panels.bytes + weights
        for panel in range(wide):
            g.b = u + panel * j.panels.panel_bytes
            # Distance to the next panel, of this position or of the next one.
            across = j.panels.panel_bytes
            if panel == wide - 1:
                across = j.panels.bytes - panel * j.panels.panel_bytes
            # M is padded to whole panels, so no panel is narrower.
            g.n = j.plan.nr
            for piece in range(tall):
                row = piece * j.plan.mr
                g.b_ahead, g.b_ahead_ks = j.plan.b_ahead, g.b_ks
                if piece > 0:
                    fetch_panel(&g, across, piece, tall)
                g.a = at.v + position * j.at.v_position + row * j.plan.v_row
                g.c = (at.m + position * j.at.m_position + row * j.plan.m_row
                       + panel * j.plan.nr * j.shape.size.sum)
                j.gemm.tile[j.vectors - 1][least(j.plan.mr, tiles - row) - 1](&g)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    """Compute a block of tiles and a segment of output channels from start to finish."""
    cdef const WinogradJob *j = <const WinogradJob *> job
    cdef int64_t oc_index = task % j.oc_segments, rest = task // j.oc_segments
    cdef int64_t group = rest % j.shape.groups
    cdef int64_t tile_begin = rest // j.shape.groups * j.plan.tile_block
    cdef int64_t tile_end = least(tile_begin + j.plan.tile_block, j.tiles)
    cdef int64_t oc_begin = oc_index * j.plan.oc_segment
    cdef int64_t oc_end = least(oc_begin + j.plan.oc_segment, j.shape.oc)
    cdef int64_t i, ic, ic_end, o, oc, oc_stop
    cdef Place at = place_of(j, tile_begin, scratch, scratch)
    for i in range(ceil_div(j.depth, j.plan.ic_segment)):
        ic = i * j.plan.ic_segment
        ic_end = least(ic + j.plan.ic_segment, j.depth)
        pre(j, t, group, tile_begin, tile_end, ic, ic_end, &at)
        for o in range(ceil_div(oc_end - oc_begin, j.plan.oc_block)):
            oc = oc_begin + o * j.plan.oc_block
            oc_stop = least(oc + j.plan.oc_block, oc_end)
            product(j, t, group, tile_end - tile_begin, 0, j.positions, ic, ic_end, oc, oc_stop,
                    &at)
            if ic_end == j.depth:
                post(j, t, group, tile_begin, tile_end, oc, oc_stop, &at)


cdef inline Round round_of(const WinogradJob *j, int64_t task, int64_t tasks) noexcept nogil:
    """Find the block of tiles and the group of a task; each round has `tasks`."""
    cdef Round r
    cdef int64_t index = task // tasks
    r.task = task - index * tasks
    r.group = index % j.shape.groups
    r.tile_begin = index // j.shape.groups * j.plan.tile_block
    r.tile_end = least(r.tile_begin + j.plan.tile_block, j.tiles)
    return r


cdef inline Part part_of(const WinogradJob *j, int64_t task, int64_t parts, int64_t part,
                         int64_t channels) noexcept nogil:
    """Find the tiles and channels of a transform's task; `parts` of `part` channels each."""
    cdef Part p
    cdef Round r = round_of(j, task, j.tile_parts * parts)
    p.group, p.first = r.group, r.tile_begin
    p.tile_begin = r.tile_begin + r.task % j.tile_parts * j.plan.tile_part
    p.tile_end = least(p.tile_begin + j.plan.tile_part, r.tile_end)
    p.begin = r.task // j.tile_parts * part
    p.end = least(p.begin + part, channels)
    return p


cdef void run_pre(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    """Compute V of some tiles and input channels of a round."""
    cdef const WinogradJob *j = <const WinogradJob *> job
    cdef Part p = part_of(j, task, j.ic_parts, j.plan.ic_part, j.depth)
    cdef Place at = place_of(j, p.first, t.shared, scratch)
    at.v += p.begin * j.shape.size.operand
    pre(j, t, p.group, p.tile_begin, p.tile_end, p.begin, p.end, &at)


cdef void run_product(const void *job, const Tensors *t, int64_t task,
                      char *scratch) noexcept nogil:
    """Compute M of a round, for one position and a segment of output channels."""
    cdef const WinogradJob *j = <const WinogradJob *> job
    cdef Round r = round_of(j, task, j.positions * j.oc_segments)
    cdef Place at = place_of(j, r.tile_begin, t.shared, scratch)
    cdef int64_t position = r.task // j.oc_segments
    cdef int64_t oc = r.task % j.oc_segments * j.plan.oc_segment, ic = 0, ic_end
    at.m += oc * j.shape.size.sum
    while ic < j.depth:
        ic_end = least(ic + j.plan.ic_segment, j.depth)
        product(j, t, r.group, r.tile_end - r.tile_begin, position, position + 1, ic, ic_end,
                oc, least(oc + j.plan.oc_segment, j.shape.oc), &at)
        at.v += (ic_end - ic) * j.shape.size.operand
        ic = ic_end


cdef void run_post(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    """Compute the outputs of some tiles and output channels of a round."""
    cdef const WinogradJob *j = <const WinogradJob *> job
    cdef Part p = part_of(j, task, j.oc_parts, j.plan.oc_part, j.shape.oc)
    cdef Place at = place_of(j, p.first, t.shared, scratch)
    at.m += p.begin * j.shape.size.sum
    post(j, t, p.group, p.tile_begin, p.tile_end, p.begin, p.end, &at)


# For the names of its members.
cdef WinogradOffsets no_offsets


cdef class WinogradSchedule(Schedule):
    """A candidate of ``algorithms.winograd`` compiled."""

    # All members of the struct may be as large as a size.
    sizes = Schedule.sizes.union(no_offsets)

    def __cinit__(self, dict fields, str isa):
        numerics = fields["numerics"]
        # Bytes are widened by the transform itself.
        cdef str pixels = numerics.source if numerics.exact else numerics.operand
        # Kernels of float32 move integer sums, without an epilogue.
        cdef str moved = "f32" if numerics.exact else numerics.accumulator
        cdef WinogradJob *j = &self.own
        memset(j, 0, sizeof(WinogradJob))
        self.reads_filters = not numerics.exact
        j.shape = self.shape
        # Each member by its name, from the numbers that `check_numbers` has seen.
        j.plan = fields
        j.at = fields
        check_offsets(j.at, most(j.shape.size.operand, j.shape.size.sum))
        j.t = j.plan.n + j.plan.r - 1
        j.positions = j.t * j.t
        j.converts_in = numerics.converts_in and not numerics.exact
        j.halves = {"f16": 1, "bf16": 2}.get(numerics.source, 0)
        j.pixel = j.shape.size.source if numerics.exact else j.shape.size.operand
        find_gemm_family(numerics.product, isa, numerics.kr, &j.gemm)
        # Of variants with patches of one size, those of 3x3 have kernels.
        j.input = find("winograd_input", pixels, isa, j.t - 2, 3)
        j.output = find("winograd_output", numerics.accumulator, isa, j.plan.n, j.plan.r)
        j.weights = find("winograd_weights", numerics.weights, isa, j.plan.n, j.plan.r)
        if not numerics.exact:
            j.direct_sums = find("direct_sums", numerics.accumulator, isa)
        j.pack_channels = find("pack_channels", mover_of(pixels), isa)
        j.store_transposed = find("store_transposed", moved, isa)
        # Kernels have been found for r, so it is not zero.
        j.across = ceil_div(j.shape.geometry.kw, j.plan.r)
        j.depth = ceil_div(j.shape.geometry.kh, j.plan.r) * j.across * j.shape.ic
        j.cut = j.shape.geometry.kh != j.plan.r or j.shape.geometry.kw != j.plan.r
        j.lanes = j.gemm.lanes
        j.tiles_w = ceil_div(j.shape.geometry.ow, j.plan.n)
        j.tiles_image = j.tiles_w * ceil_div(j.shape.geometry.oh, j.plan.n)
        j.tiles = j.tiles_image * j.shape.batch
        j.vectors = j.plan.nr // j.lanes
        check_tile(&j.gemm, j.plan.mr, j.plan.nr)
        check_panels(j.plan.panel_width, j.plan.kr, &j.gemm, j.plan.nr, True)
        j.panels = panels_of(j.plan.panel_width, j.plan.kr, j.shape.oc, j.depth,
                             j.shape.size.weight)
        self.check()
        self.set_phases()
        self.job = j
        self.pack = pack_range

    cdef int check(self) except -1:
        """Refuse a plan that the loops could not carry out inside its memory."""
        cdef WinogradJob *j = &self.own
        cdef WinogradFields *f = &j.plan
        cdef WinogradOffsets *at = &j.at
        cdef int64_t v = j.panels.kr * j.shape.size.operand, m = j.shape.size.sum, slab = 0
        g = &j.shape.geometry
        if g.stride_h != 1 or g.stride_w != 1 or g.dilation_h != 1 or g.dilation_w != 1:
            raise ValueError("Winograd's tiles do not fit this stride or dilation")
        if j.cut and (j.shape.exact or j.panels.kr > 1 or
                      f.panel_width * f.r * f.r * j.shape.size.weight > GATHERED):
            raise ValueError("these weights are not cut into subkernels")
        if min(f.tile_block, f.ic_segment, f.oc_block, f.oc_segment, f.slab_tiles,
               f.slab_channels, f.line_tiles) < 1:
            raise ValueError("blocks and segments are at least 1")
        if f.line_tiles > f.slab_tiles:
            raise ValueError("a slab must hold tiles of whole lines")
        if ((f.oc_segment % f.panel_width and f.oc_segment < j.shape.oc)
                or f.oc_block % f.panel_width):
            raise ValueError("oc_segment and oc_block must be whole panels")
        if f.ic_segment < j.depth and f.oc_block < least(f.oc_segment, j.shape.oc):
            raise ValueError("M must hold the whole segment where ic is cut")
        if 1 < j.shape.x.width < j.shape.ic and f.ic_segment % j.shape.x.width \
                and f.ic_segment < j.depth:
            raise ValueError("ic_segment must be whole blocks of channels")
        if f.ic_segment % j.panels.kr and f.ic_segment < j.depth:
            raise ValueError("ic_segment must be whole groups of channels")
        if f.v_row % v or f.m_row % m or f.slab_row % m:
            raise ValueError("offsets are whole elements")
        if f.staged:
            self.check_parts()
        # Products read whole groups of channels.
        if (f.v_row < ceil_div(j.depth if f.staged else least(f.ic_segment, j.depth),
                               j.panels.kr) * v
                or f.m_row < (ceil_div(j.shape.oc, f.nr) * f.nr if f.staged else f.oc_block) * m):
            raise ValueError("rows of the scratch are shorter than what goes into them")
        if (at.v_position < f.tile_block * f.v_row or at.m_position < f.tile_block * f.m_row
                or at.m_offset < j.positions * at.v_position
                or self.tasks and f.staged
                and self.shared_scratch < at.m_offset + j.positions * at.m_position
                or not f.staged and at.slab_offset < at.m_offset + j.positions * at.m_position):
            raise ValueError("positions of the scratch overlap")
        if j.shape.x.width == 1 or j.shape.y.width == 1 or j.shape.converts_in:
            if f.slab_row < (f.slab_tiles * f.n + j.across * f.r - 1) * f.slab_channels * m:
                raise ValueError("rows of the slab are too short")
            slab = j.t * f.slab_row
        if j.shape.converts_in:
            if at.stage_offset < at.slab_offset + slab:
                raise ValueError("planes overlap the slab")
            slab += at.stage_offset - at.slab_offset
        if self.tasks and self.thread_scratch < at.slab_offset + slab:
            raise ValueError("the scratch is too small")
        self.check_weights(j.shape.groups * j.positions * j.panels.bytes)
        return 0

    cdef int check_parts(self) except -1:
        """Refuse parts of a staged plan that cut vectors or blocks of channels."""
        cdef WinogradFields *f = &self.own.plan
        if min(f.tile_part, f.ic_part, f.oc_part) < 1:
            raise ValueError("parts are at least 1")
        # A block of channels, or a vector of them, is transformed by one task.
        shape = &self.own.shape
        for part, parted, channels, width in (
                (f.ic_part, self.own.depth, shape.ic, shape.x.width),
                (f.oc_part, shape.oc, shape.oc, shape.y.width)):
            if part < parted and (part % self.own.lanes or 1 < width < channels and part % width):
                raise ValueError("parts are whole vectors and blocks of channels")
        return 0

    cdef int set_phases(self) except -1:
        """Set the phases, and refuse a plan with another number of tasks."""
        cdef WinogradJob *j = &self.own
        cdef WinogradFields *f = &j.plan
        cdef int64_t blocks = ceil_div(j.tiles, f.tile_block) * j.shape.groups, most_tasks
        j.oc_segments = ceil_div(j.shape.oc, f.oc_segment)
        if not f.staged:
            if self.tasks != blocks * j.oc_segments:
                raise ValueError("the tasks are not those of the segments")
            self.one_phase(run_task)
            return 0
        j.tile_parts = ceil_div(least(f.tile_block, j.tiles), f.tile_part)
        j.ic_parts = ceil_div(j.depth, f.ic_part)
        j.oc_parts = ceil_div(j.shape.oc, f.oc_part)
        self.steps[0].task, self.steps[0].tasks = run_pre, j.tile_parts * j.ic_parts
        self.steps[1].task, self.steps[1].tasks = run_product, j.positions * j.oc_segments
        self.steps[2].task, self.steps[2].tasks = run_post, j.tile_parts * j.oc_parts
        self.phases = 3
        self.rounds = blocks
        most_tasks = most(self.steps[1].tasks, most(self.steps[0].tasks, self.steps[2].tasks))
        if self.tasks != (most_tasks if blocks else 0):
            raise ValueError("the tasks are not those of the parts")
        return 0
