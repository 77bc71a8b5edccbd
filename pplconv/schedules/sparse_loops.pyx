# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Convolution and products with sparse weights.

Weights of a panel of output channels are a list of terms. A term is a k that is not pruned: its
distance from the k of the term before, and the weights of the panel's channels there. A term
multiplies the row of pixels of its k. So pixels of a task are packed as in tiled im2col, one row
for each k, or are read in place from channel planes. If channels of a pixel are neighbours, vectors
may run over the panel's channels instead, and pixels are read in place.

Kernels of more than one tap may read planes that are copied ("laid") into the scratch once, with
their padding (``sparse_pixels.pxd``).

The outer loop runs over tiles of pixels. A tile stays in L1 or L2 while the terms of all panels are
read: they are few bytes for many FMAs. A task is a segment of pixels and a part of the panels.
Parts cost the same, counted by values, so that a team is evenly loaded whatever was pruned. No sum
is divided, and its order is that of the terms: any team gives the same bits.

The blocks of 1xN along output channels, and sparse kernels of any size, follow MNN's sparse
convolution.
"""

from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_ACCUMULATE,
    PPLCONV_B_PADDED,
    PPLCONV_BIAS_COLUMN,
    PPLCONV_BIAS_ROW,
    PPLCONV_CLIP,
    PPLCONV_RESIDUAL,
    find,
    find_sparse_family,
    pplconv_panel,
    pplconv_sparse_channels_args,
    pplconv_sparse_pixels_args,
    pplconv_convert_out_args,
    pplconv_store_transposed_args,
    pplconv_pack_sparse_args,
)
from pplconv.schedules.base cimport (
    Schedule,
    Tensors,
    ceil_div,
    complete,
    epilogue_flags,
    finish_converted,
    follows,
    least,
    mover_of,
    zero_tail,
    most,
)
from pplconv.schedules.sparse_job cimport (
    Range,
    SparseJob,
    SparseOffsets,
    SparseRoom,
    TapPlaces,
    border,
    panel_channel,
    panel_width,
    table_entries,
    table_index,
    table_of,
)
from pplconv.schedules.nest_job cimport Tile, y_offset
from pplconv.schedules.panel_offsets cimport panels_of
from pplconv.schedules.sparse_checks cimport check_plan, weight_places
from pplconv.schedules.sparse_pixels cimport lay_rows, Pixels, panel_of, rows_of


# Store sums from the scratch, a row of pixels for each channel, into the output.


cdef struct Sums:
    # Sums of a tile that have their bias, and are clipped unless there is a residual: of channels
    # `channel` up to `end`, and `pixels` from `pixel` on. Their rows are a tile's pixels long.
    char *at
    int64_t channel, end, pixel, pixels


cdef inline void store_planes(const SparseJob *j, const Tensors *t, const Tile *tile,
                              const Sums *sums) noexcept nogil:
    """Store sums into planes."""
    cdef pplconv_convert_out_args s
    cdef int64_t offset = y_offset(&j.nest, tile, sums.channel, sums.pixel)
    cdef int64_t own = tile.group * j.nest.bias_group + sums.channel
    s.src, s.src_rs = sums.at, j.plan.width * j.nest.shape.size.sum
    s.rows, s.columns, s.fill = sums.end - sums.channel, sums.pixels, 0
    if j.nest.shape.converts_out:
        finish_converted(&j.nest.shape, t, sums.at, s.src_rs, offset, j.nest.shape.y.block, s.rows,
                         s.columns, own, True)
        return
    s.dst, s.dst_rs = t.y + offset, j.nest.shape.y.block
    s.residual, s.residual_rs = t.residual + offset, s.dst_rs
    s.clip, s.flags = t.clip, 0
    if t.residual != NULL:
        s.flags = PPLCONV_RESIDUAL
        if t.clip != NULL:
            s.flags |= PPLCONV_CLIP
    j.store_sums(&s)
    if follows(t):
        complete(&j.nest.shape, t, t.y + offset, s.dst_rs, s.rows, s.columns, own, True)


cdef inline void store_rows(const SparseJob *j, const Tensors *t, const Tile *tile,
                            const Sums *sums, char *scratch) noexcept nogil:
    """Store sums as rows of channels.

    In blocked arrays, channels are stored block by block.
    """
    cdef pplconv_store_transposed_args s
    cdef int64_t row = j.plan.width * j.nest.shape.size.sum, channel = sums.channel, left, offset
    cdef int64_t width = j.nest.shape.y.width, own
    s.src_rs = row
    s.columns = sums.pixels
    s.bias = NULL
    s.clip = t.clip
    s.flags = 0
    if t.residual != NULL and not j.nest.shape.converts_out:
        s.flags = PPLCONV_RESIDUAL
        if t.clip != NULL:
            s.flags |= PPLCONV_CLIP
    while channel < sums.end:
        own = tile.group * j.nest.shape.oc + channel
        left = sums.end - channel
        if j.plan.in_blocks:
            left = least(left, width - own % width)
        offset = y_offset(&j.nest, tile, channel, sums.pixel)
        s.src = sums.at + (channel - sums.channel) * row
        s.rows = left
        s.dst, s.dst_rs = t.y + offset, j.nest.shape.y.pixel
        s.residual, s.residual_rs = t.residual + offset, s.dst_rs
        if j.nest.shape.converts_out:
            s.dst, s.dst_rs = scratch + j.at.plane_offset, j.plan.chunk * j.nest.shape.size.sum
        j.nest.store_transposed(&s)
        if j.nest.shape.converts_out:
            finish_converted(&j.nest.shape, t, <char *> s.dst, s.dst_rs, offset,
                             j.nest.shape.y.pixel, sums.pixels, left, own, False)
        elif follows(t):
            complete(&j.nest.shape, t, t.y + offset, s.dst_rs, sums.pixels, left, own, False)
        channel += left


cdef inline void store_sums(const SparseJob *j, const Tensors *t, const Tile *tile, Sums *sums,
                            char *scratch) noexcept nogil:
    """Store sums of neighbouring pixels, as planes or as rows."""
    if j.plan.x_in_rows:
        store_rows(j, t, tile, sums, scratch)
    else:
        store_planes(j, t, tile, sums)


cdef inline void store_laid(const SparseJob *j, const Tensors *t, const Tile *tile, char *at,
                            int64_t channel, int64_t end, char *scratch) noexcept nogil:
    """Store a tile's part of each row of outputs, for some channels.

    The tile's pixels are laid pixels, counted from row `tile.first_row` of the outputs on.
    """
    cdef int64_t row = tile.pixel // j.plan.laid_row, last = tile.pixel + tile.pixels
    cdef int64_t begin, ow = j.nest.shape.geometry.ow
    cdef Sums sums
    sums.channel, sums.end = channel, end
    while row * j.plan.laid_row < last:
        begin = most(row * j.plan.laid_row, tile.pixel)
        sums.pixels = least(row * j.plan.laid_row + ow, last) - begin
        if sums.pixels > 0:
            sums.at = at + (begin - tile.pixel) * j.nest.shape.size.sum
            sums.pixel = (tile.first_row + row) * ow + begin - row * j.plan.laid_row
            store_sums(j, t, tile, &sums, scratch)
        row += 1


# How sparse weights are packed: counted, placed, and filled in.
#
# Packed weights are a table of panels, the steps of all terms, and their values. The table has an
# entry for each panel of each group and block of K. So the terms of all panels are counted first,
# and filled in when it is known where each panel begins.


cdef inline void describe_panel(const SparseJob *j, const char *weights, int64_t group,
                                int64_t block, int64_t panel,
                                pplconv_pack_sparse_args *p) noexcept nogil:
    """Describe one block of K of a panel to the kernel that packs it."""
    cdef int64_t size = j.nest.shape.size.weight, channel = panel_channel(j, panel)
    p.src_ks = size
    p.src_os = j.nest.k * size
    p.src = weights + (group * j.nest.shape.oc + channel) * p.src_os
    p.ic = j.nest.shape.ic
    p.taps = j.nest.shape.taps
    p.channel_block = j.channel_block
    p.kw = j.nest.shape.geometry.kw
    p.channel_step = j.channel_step
    p.row_dilation, p.row_stride = j.rows.dilation, j.rows.stride
    p.row_step, p.row_phase = j.rows.step, j.rows.phase
    p.column_dilation, p.column_stride = j.columns.dilation, j.columns.stride
    p.column_step, p.column_phase = j.columns.step, j.columns.phase
    p.width = panel_width(j, panel)
    p.rows = least(p.width, j.nest.shape.oc - channel)
    p.kr = j.plan.kr
    p.k_begin = block * j.plan.k_block
    p.k_end = least(p.k_begin + j.plan.k_block, j.nest.k)


cdef inline void count_range(const void *job, const char *weights, char *packed, int64_t index,
                             int64_t pieces) noexcept nogil:
    """Count the terms of piece `index` of `pieces` of every group's panels, into the table."""
    cdef const SparseJob *j = <const SparseJob *> job
    cdef pplconv_panel *table = <pplconv_panel *> packed
    cdef pplconv_pack_sparse_args p
    cdef int64_t group, block, panel, at
    p.steps = p.values = NULL
    p.room = 0
    for group in range(j.nest.shape.groups):
        for block in range(j.k_blocks):
            for panel in range(j.panels * index // pieces, j.panels * (index + 1) // pieces):
                at = table_index(j, group, block, panel)
                describe_panel(j, weights, group, block, panel, &p)
                p.count = &table[at].term
                j.pack_sparse(&p)
                table[at].value = table[at].term * p.width


cdef inline void place_panels(const void *job, const char *weights, char *packed, int64_t index,
                              int64_t pieces) noexcept nogil:
    """Turn the counts into offsets: where the terms and values of each panel begin."""
    cdef const SparseJob *j = <const SparseJob *> job
    cdef pplconv_panel *table = <pplconv_panel *> packed
    cdef pplconv_panel sum, own
    cdef int64_t at, entries = table_entries(j)
    sum.term = sum.value = 0
    for at in range(entries):
        own = table[at]
        table[at] = sum
        sum.term += own.term
        sum.value += own.value
    table[entries] = sum


cdef inline bint has_room(const SparseJob *j, const char *packed) noexcept nogil:
    """Whether the counted terms and values fit the room that the plan has for them."""
    cdef const pplconv_panel *last = table_of(packed) + table_entries(j)
    return last.term <= j.room.terms and last.value <= j.room.values


cdef inline void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                            int64_t pieces) noexcept nogil:
    """Fill in the terms of piece `index` of `pieces` of every group's panels."""
    cdef const SparseJob *j = <const SparseJob *> job
    cdef const pplconv_panel *table = table_of(packed)
    cdef pplconv_pack_sparse_args p
    cdef int64_t group, block, panel, at, count
    if not has_room(j, packed):
        return
    p.count = &count
    for group in range(j.nest.shape.groups):
        for block in range(j.k_blocks):
            for panel in range(j.panels * index // pieces, j.panels * (index + 1) // pieces):
                at = table_index(j, group, block, panel)
                describe_panel(j, weights, group, block, panel, &p)
                p.steps = packed + j.steps_at + table[at].term * <int64_t> sizeof(int32_t)
                p.values = packed + j.values_at + table[at].value * j.nest.shape.size.weight
                p.room = table[at + 1].term - table[at].term
                j.pack_sparse(&p)


cdef inline int64_t last_place(const TapPlaces *taps, int64_t count) noexcept nogil:
    """The furthest place of `count` rows of taps, or columns."""
    cdef int64_t seen = (count - 1) * taps.dilation
    return seen // taps.stride * taps.step + least(seen, taps.stride - 1) * taps.phase


cdef inline int64_t places_of(const SparseJob *j, int64_t k) noexcept nogil:
    """Number of places in the input that terms of a block of `k` may reach."""
    g = &j.nest.shape.geometry
    if k == 0:
        return 0
    if not j.plan.laid:
        return k
    return ((k // j.nest.shape.taps - 1) * j.channel_step + last_place(&j.rows, g.kh)
            + last_place(&j.columns, g.kw) + 1)


cdef inline bint is_sound(const SparseJob *j, const char *packed) noexcept nogil:
    """Whether packed weights from elsewhere keep the loops inside the weights and pixels."""
    cdef const pplconv_panel *table = table_of(packed)
    cdef const int32_t *steps = <const int32_t *> (packed + j.steps_at)
    cdef int64_t at, term, k, left, count, entries = table_entries(j)
    if table[0].term != 0 or table[0].value != 0:
        return False
    for at in range(entries):
        count = table[at + 1].term - table[at].term
        if count < 0 or count % j.plan.kr or table[at + 1].term > j.room.terms:
            return False
        if table[at + 1].value - table[at].value != count * panel_width(j, at % j.panels):
            return False
        left = at // j.panels % j.k_blocks * j.plan.k_block
        left = places_of(j, least(j.plan.k_block, j.nest.k - left))
        k = 0
        for term in range(table[at].term, table[at + 1].term):
            k += steps[term]
            if k < 0 or k >= left:
                return False
    return has_room(j, packed)


cdef inline int64_t run_of(const SparseJob *j, int64_t panel, int64_t end) noexcept nogil:
    """How many panels from `panel` on one call takes: panels of one width, at most a chunk."""
    cdef int64_t largest = j.plan.chunk // panel_width(j, panel)
    if panel < j.whole_panels:
        end = least(end, j.whole_panels)
    return least(end - panel, largest)


cdef void panels_by_pixels(const SparseJob *j, const Tensors *t, const Tile *tile, const Pixels *x,
                           Range panels, char *scratch) noexcept nogil:
    """Multiply a tile of pixels, a row for each k, by panels of weights."""
    cdef pplconv_sparse_pixels_args a
    cdef Sums sums
    cdef const pplconv_panel *place = table_of(t.weights)
    cdef int64_t vectors = ceil_div(tile.pixels, j.nest.lanes) - 1, panel = panels.begin
    cdef int64_t offset, width, channel, channels, sum = j.nest.shape.size.sum
    cdef int64_t waiting = panel_channel(j, panels.begin)
    cdef bint waits = j.plan.x_in_rows or j.plan.laid or j.nest.shape.converts_out
    memset(&a, 0, sizeof(a))
    place += table_index(j, tile.group, tile.k_begin // j.plan.k_block, 0)
    a.x, a.x_ks = x.at, x.k
    a.n = tile.pixels
    a.clip = t.clip
    if j.plan.fetches:
        a.x_ahead = j.plan.width * j.nest.shape.size.operand  # where the next tile begins
    a.c_vs = a.residual_vs = j.nest.lanes * sum
    a.c_rs = a.residual_rs = j.plan.width * sum if waits else j.nest.shape.y.block
    a.flags = PPLCONV_B_PADDED if x.padded else 0
    if not tile.first:
        a.flags |= PPLCONV_ACCUMULATE
    if tile.last:
        a.flags |= epilogue_flags(&j.nest.shape, t, PPLCONV_BIAS_ROW)
        if waits and a.flags & PPLCONV_RESIDUAL:
            # Residual and clip are applied when the sums are stored.
            a.flags &= ~(PPLCONV_RESIDUAL | PPLCONV_CLIP)
    while panel < panels.end:
        channel, width = panel_channel(j, panel), panel_width(j, panel)
        a.panels = run_of(j, panel, panels.end)
        channels = a.panels * width
        a.c_ps = a.residual_ps = width * a.c_rs
        offset = y_offset(&j.nest, tile, channel, tile.pixel)
        a.places = place + panel
        a.steps = (<const int32_t *> (t.weights + j.steps_at)) + place[panel].term
        a.values = t.weights + j.values_at + place[panel].value * j.nest.shape.size.weight
        a.bias = t.bias + (tile.group * j.nest.bias_group + channel) * j.nest.shape.size.bias
        a.c, a.residual = t.y + offset, t.residual + offset
        if waits:
            a.c = scratch + j.at.tile_offset
        if j.k_blocks > 1 and waits:
            # The sums of all panels stay in the scratch between blocks of K.
            a.c = <char *> a.c + (channel - waiting) * a.c_rs
        if panel < j.whole_panels:
            j.family.tile[vectors](&a)
        else:
            j.single.tile[vectors](&a)
        panel += a.panels
        if not tile.last:
            continue
        if j.plan.laid:
            store_laid(j, t, tile, <char *> a.c, channel, channel + channels, scratch)
        elif j.plan.x_in_rows:
            sums.at, sums.channel, sums.end = <char *> a.c, channel, channel + channels
            sums.pixel, sums.pixels = tile.pixel, tile.pixels
            store_rows(j, t, tile, &sums, scratch)
        elif j.nest.shape.converts_out:
            finish_converted(&j.nest.shape, t, <char *> a.c, a.c_rs, offset,
                             j.nest.shape.y.block, channels, tile.pixels,
                             tile.group * j.nest.bias_group + channel, True)
        elif follows(t):
            complete(&j.nest.shape, t, <char *> a.c, a.c_rs, channels, tile.pixels,
                     tile.group * j.nest.bias_group + channel, True)


cdef void panels_by_channels(const SparseJob *j, const Tensors *t, const Tile *tile,
                             const Pixels *x, Range panels, char *scratch) noexcept nogil:
    """Multiply panels of weights by a tile of pixels whose channels are neighbours."""
    cdef pplconv_sparse_channels_args a
    cdef const pplconv_panel *place = table_of(t.weights) + table_index(j, tile.group, 0, 0)
    cdef int64_t panel = panels.begin, offset, channel, columns, own, left
    cdef int64_t sum = j.nest.shape.size.sum, width = j.plan.sparse_panel
    cdef bint waits = j.nest.shape.converts_out
    memset(&a, 0, sizeof(a))
    a.x, a.x_ks, a.x_rs = x.at, x.k, x.pixel
    a.clip = t.clip
    a.c_vs = a.residual_vs = j.nest.lanes * sum
    a.c_rs = a.residual_rs = j.plan.chunk * sum if waits else j.nest.shape.y.pixel
    a.c_ps = a.residual_ps = width * sum
    a.flags = epilogue_flags(&j.nest.shape, t, PPLCONV_BIAS_COLUMN)
    while panel < panels.end:
        channel = panel_channel(j, panel)
        own = tile.group * j.nest.shape.oc + channel
        left = j.nest.shape.oc - channel
        a.n = least(width, left)
        a.panels = 1
        if left >= width:
            # Take several whole panels at once if they are neighbours in the output.
            a.panels = least(least(panels.end - panel, j.plan.chunk // width), left // width)
            if j.plan.in_blocks:
                a.panels = least(a.panels,
                                 (j.nest.shape.y.width - own % j.nest.shape.y.width) // width)
        columns = (a.panels - 1) * width + a.n
        offset = y_offset(&j.nest, tile, channel, tile.pixel)
        a.places = place + panel
        a.steps = (<const int32_t *> (t.weights + j.steps_at)) + place[panel].term
        a.values = t.weights + j.values_at + place[panel].value * j.nest.shape.size.weight
        own = tile.group * j.nest.bias_group + channel
        a.bias = t.bias + own * j.nest.shape.size.bias
        a.c, a.residual = t.y + offset, t.residual + offset
        if waits:
            a.c = scratch + j.at.tile_offset
        j.family.tile[tile.pixels - 1](&a)
        panel += a.panels
        if waits:
            finish_converted(&j.nest.shape, t, <char *> a.c, a.c_rs, offset,
                             j.nest.shape.y.pixel, tile.pixels, columns, own, False)
        elif follows(t):
            complete(&j.nest.shape, t, <char *> a.c, a.c_rs, tile.pixels, columns, own, False)


cdef void run_tile(const SparseJob *j, const Tensors *t, Tile *tile, Range panels,
                   char *scratch) noexcept nogil:
    """Compute a tile of pixels of some output channels from start to finish."""
    cdef Pixels x
    cdef int64_t block
    if not j.plan.by_pixels:
        tile.k_begin, tile.k_end, tile.first, tile.last = 0, j.nest.k, True, True
        x = rows_of(j, t, tile, scratch)
        panels_by_channels(j, t, tile, &x, panels, scratch)
        return
    for block in range(j.k_blocks):
        tile.k_begin = block * j.plan.k_block
        tile.k_end = least(tile.k_begin + j.plan.k_block, j.nest.k)
        tile.first = block == 0
        tile.last = block == j.k_blocks - 1
        x = panel_of(j, t, tile, scratch)
        panels_by_pixels(j, t, tile, &x, panels, scratch)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    """Compute a segment of pixels of a part of the output channels."""
    cdef const SparseJob *j = <const SparseJob *> job
    cdef const pplconv_panel *table = table_of(t.weights)
    cdef Tile tile
    cdef Range panels
    cdef int64_t part = task % j.plan.parts, rest = task // j.plan.parts, end
    memset(&tile, 0, sizeof(tile))
    tile.pixel = rest % j.hw_segments * j.plan.hw_segment
    rest = rest // j.hw_segments
    tile.image = rest % j.plan.images
    tile.group = rest // j.plan.images
    panels.begin = border(j, table, tile.group, part)
    panels.end = border(j, table, tile.group, part + 1)
    if panels.begin == panels.end:
        return
    end = least(tile.pixel + j.plan.hw_segment, j.plan.pixels)
    if j.plan.in_blocks and panels.end == j.panels:
        zero_tail(&j.nest.shape, (tile.group + 1) * j.nest.shape.oc,
                  t.y + tile.image * j.nest.shape.y.image + tile.pixel * j.nest.shape.y.pixel, 1,
                  end - tile.pixel)
    if j.plan.laid:
        # From here on pixels are laid pixels, counted from the first row of the segment.
        tile.first_row = tile.pixel // j.nest.shape.geometry.ow
        end = end // j.nest.shape.geometry.ow - tile.first_row
        lay_rows(j, t, &tile, scratch)
        tile.pixel = 0
        end = (end - 1) * j.plan.laid_row + j.nest.shape.geometry.ow
    while tile.pixel < end:
        tile.pixels = least(j.plan.width, end - tile.pixel)
        run_tile(j, t, &tile, panels, scratch)
        tile.pixel += j.plan.width


# For the names of its members.
cdef SparseOffsets no_offsets
cdef SparseRoom no_room


cdef class SparseSchedule(Schedule):
    """A candidate of ``algorithms.sparse`` compiled."""

    # All members of these structs may be as large as a size; so may pixels, of all images together.
    sizes = Schedule.sizes.union(no_offsets, no_room, ("pixels", "hw_segment"))

    def __cinit__(self, dict fields, str isa):
        numerics = fields["numerics"]
        cdef str dtype = mover_of(numerics.operand)
        cdef SparseJob *j = &self.own
        cdef int64_t size
        memset(j, 0, sizeof(SparseJob))
        j.nest.shape = self.shape
        j.nest.k = self.shape.ic * self.shape.taps
        # Each member by its name, from the numbers that `check_numbers` has seen.
        j.nest.plan = fields
        j.nest.at = fields
        j.plan = fields
        j.at = fields
        j.room = fields
        j.nest.x_group, j.nest.y_group, j.nest.bias_group = fields["matrices"]
        self.check_matrices(fields["matrices"])
        find_sparse_family(numerics.product, isa, j.plan.sparse_panel, j.plan.kr,
                           j.plan.by_pixels, &j.family)
        j.nest.lanes = j.family.lanes
        if j.plan.by_pixels:
            find_sparse_family(numerics.product, isa, 1, j.plan.kr, True, &j.single)
        j.pack_sparse = find("pack_sparse", mover_of(numerics.weights), isa)
        j.nest.pack_rows = find("pack_rows", dtype, isa)
        j.nest.pack_weights = find("pack_weights", dtype, isa)
        # Kernels of float32 move integer sums: nothing is computed with them on the way.
        j.nest.store_transposed = find(
            "store_transposed", "f32" if numerics.exact else numerics.accumulator, isa)
        if numerics.narrow:
            j.nest.pad_channels = find("pad_channels", dtype, isa)
        else:
            j.nest.pack_pixels = find("pack_pixels", dtype, isa)
        if j.plan.laid and self.shape.size.source >= 4:
            j.copy_strided = find("copy_strided", numerics.source, isa)
        if j.plan.laid and not numerics.exact:
            j.store_sums = find("convert_out", 2 * numerics.operand, isa)
        check_plan(j, self.tasks, self.thread_scratch)
        j.nest.pixels = panels_of(j.plan.width, 1, j.plan.width, j.plan.k_block,
                                  self.shape.size.operand)
        size = weight_places(j)
        self.check_weights(size)
        self.job = j
        self.one_phase(run_task)
        self.count, self.place, self.pack = count_range, place_panels, pack_range

    cdef int pack_weights(self, const char *weights, char *packed, int team) except -1:
        """Pack weights, which may be no denser than the plan says."""
        Schedule.pack_weights(self, weights, packed, team)
        return self.check_room(packed)

    cdef int pack_part(self, const char *weights, char *packed, int team, int part,
                       int parts) except -1:
        """Pack some of the output channels; the first part counts the terms of all of them."""
        Schedule.pack_part(self, weights, packed, team, part, parts)
        return self.check_room(packed)

    cdef int check_room(self, const char *packed) except -1:
        if not has_room(&self.own, packed):
            raise ValueError("weight has more weights that are not zero than the plan is for")
        return 0

    cdef int check_packed(self, const char *packed) except -1:
        if not is_sound(&self.own, packed):
            raise ValueError("packed weights are not what the plan's loops can follow")
        return 0
