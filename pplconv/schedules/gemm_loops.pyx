# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The GEMM nest: 1x1 on the user's array, and tiled im2col.

The nest is that of the OpenPPL Arm Server slides for tiled im2col: group and image outside,
and inside one parallel region over (group, image, segment of output pixels, segment of
output channels) each task packs a tile of pixels, once per block of K, and runs the GEMM
microkernel over it. Two of the slides' steps fall away here: in both NCHW and NHWC a group
is a slice that strides describe, so it is always in place and no buffer is copied in or out.
In NCHWc a group may begin and end within blocks: its pixels are gathered from all blocks that hold
some of its channels, and its output channels are computed block by block.

Two orientations, one microkernel. ``pixels``: vectors run over output pixels and weights
are broadcast (the natural one for NCHW). ``channels``: vectors run over output channels and
pixels are broadcast (the natural one for NHWC; for NCHW the tile then goes through scratch
and is stored transposed, which pays where an image has too few pixels to fill vectors).
"""

from libc.stdint cimport int64_t
from libc.string cimport memset, memcpy

from pplconv._kernels cimport (
    PPLCONV_ACCUMULATE,
    PPLCONV_B_PADDED,
    PPLCONV_BIAS_COLUMN,
    PPLCONV_BIAS_ROW,
    find,
    find_gemm_family,
    pplconv_gemm_args,
    pplconv_release_tiles_args,
    pplconv_pack_weights_args,
    make_pixel_runs,
    pplconv_pad_channels_args,
    pplconv_run,
    pplconv_store_transposed_args,
)
from pplconv.schedules.base cimport (
    Memory,
    Schedule,
    Tensors,
    array_bytes,
    complete,
    follows,
    ceil_div,
    epilogue_flags,
    find_release,
    finish_converted,
    least,
    mover_of,
    rounds_in_tiles,
    zero_tail,
    convert_in,
)
from pplconv.schedules.gemm_job cimport GemmJob, GemmOffsets, Product, source_at, weights_at
from pplconv.schedules.gemm_checks cimport check_plan, pixel_tasks
from pplconv.schedules.nest_job cimport (
    NestOffsets,
    Tile,
    input_at,
    y_offset,
    gather_block,
    pack_block,
)
from pplconv.schedules.panel_offsets cimport (
    Share,
    bytes_of,
    depth,
    fetch_panel,
    panels_of,
    share_of,
)


# How the GEMM nest packs weights: the panels that its tiles read.


cdef inline void pack_panels(const GemmJob *j, pplconv_pack_weights_args *p,
                             Share share) noexcept nogil:
    """Pack panels of a group, with zeros after K if a step is longer than a group of k."""
    cdef int64_t used = bytes_of(&j.panels, j.nest.k), left = j.panels.panel_bytes - used, panel
    cdef char *packed = <char *> p.dst
    if left == 0:
        j.nest.pack_weights(p)
        return
    for panel in range(share.begin // j.panels.width, ceil_div(share.end, j.panels.width)):
        p.oc_begin = panel * j.panels.width
        p.oc_end = least(p.oc_begin + j.panels.width, share.end)
        # The kernel counts panels without the zeros.
        p.dst = packed + panel * left
        j.nest.pack_weights(p)
        memset(packed + panel * j.panels.panel_bytes + used, 0, left)


cdef inline void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                            int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of every group's panels."""
    cdef const GemmJob *j = <const GemmJob *> job
    cdef pplconv_pack_weights_args p
    cdef Share share = share_of(&j.panels, index, pieces)
    cdef int64_t group
    p.oc_begin, p.oc_end = share.begin, share.end
    p.ic = j.nest.shape.ic
    p.taps = j.nest.shape.taps
    p.panel_width, p.kr = j.panels.width, j.panels.kr
    p.channel_block = j.nest.shape.ic if j.plan.x_in_rows else 1
    p.src_os, p.src_ks = j.weights_column, j.weights_row
    if j.nest.shape.converts_weights:  # what was converted is dense
        p.src_os, p.src_ks = j.nest.k * j.nest.shape.size.weight, j.nest.shape.size.weight
    for group in range(j.nest.shape.groups):
        p.src = weights + group * (j.nest.shape.oc * p.src_os if j.nest.shape.converts_weights
                                   else j.weights_group)
        p.dst = packed + group * j.panels.bytes
        pack_panels(j, &p, share)


cdef inline void pack_own(const GemmJob *j, const Tensors *t, const Tile *tile,
                          char *packed) noexcept nogil:
    """Pack the task's part of a matrix (k, oc) or (oc, k): its output channels, a block of K."""
    cdef pplconv_pack_weights_args p
    p.src = source_at(j, t, tile)
    p.dst = packed
    p.oc_begin, p.oc_end = 0, tile.channels
    p.ic = tile.k_end - tile.k_begin
    p.taps = p.channel_block = 1
    p.panel_width, p.kr = j.panels.width, j.panels.kr
    p.src_os, p.src_ks = j.weights_column, j.weights_row
    j.nest.pack_weights(&p)


cdef inline void find_weights(const GemmJob *j, const Tensors *t, const Tile *tile, Product *p,
                              pplconv_gemm_args *g, char *scratch) noexcept nogil:
    """Point to the tile's weights, where they run in vectors."""
    if j.plan.weights_in_place:
        p.b = source_at(j, t, tile)
        p.b_across = j.plan.nr * j.nest.shape.size.weight
        g.b_ks = j.weights_row
    else:
        p.b = weights_at(j, t, tile)
        p.b_across = j.panels.panel_bytes
        g.b_ks = j.panels.down
        if j.panels.width == j.plan.nr and tile.channel % j.panels.width == 0:
            g.flags |= PPLCONV_B_PADDED
    if j.plan.weights_by_task:
        p.b = scratch + j.at.weights_offset
        p.b_across = bytes_of(&j.panels, p.k)


# Rows of pixels for the tiles of the GEMM nest: filled up to whole groups of K, copied, aligned.


cdef inline void fill_groups(const GemmJob *j, const Tile *tile, char *scratch) noexcept nogil:
    """Fill up the last group of K in rows of the scratch with zeros."""
    cdef int64_t e = j.nest.shape.size.operand, k = tile.k_end - tile.k_begin, row
    cdef int64_t more = depth(k, j.plan.kr) - k
    if more == 0:
        return
    for row in range(tile.pixels):
        memset(scratch + row * j.nest.plan.packed_row + k * e, 0, more * e)


cdef inline void copy_block(const GemmJob *j, const Tensors *t, const Tile *tile,
                            char *scratch) noexcept nogil:
    """Copy the tile's pixels for its block of K, converted and with K in whole groups."""
    cdef int64_t e = j.nest.shape.size.source, k = tile.k_end - tile.k_begin
    cdef const char *src = input_at(&j.nest, t, tile) + tile.pixel * j.nest.shape.x.pixel
    cdef pplconv_pad_channels_args a
    if not j.nest.shape.converts_in:
        a.src, a.src_rs, a.src_ps = src + tile.k_begin * e, 0, j.nest.shape.x.pixel
        a.dst, a.dst_rs, a.dst_ps = scratch, 0, j.nest.plan.packed_row
        a.rows, a.columns, a.channels = 1, tile.pixels, k
        a.fill = depth(k, j.plan.kr)
        j.nest.pad_channels(&a)
        return
    fill_groups(j, tile, scratch)
    if j.plan.x_in_rows:
        convert_in(&j.nest.shape, src + tile.k_begin * e, j.nest.shape.x.pixel, scratch,
                   j.nest.plan.packed_row, tile.pixels, k)
    else:
        convert_in(&j.nest.shape, src + tile.k_begin * j.nest.shape.x.block,
                   j.nest.shape.x.block, scratch, j.nest.plan.packed_row, k, tile.pixels)


cdef inline void move_rows(const GemmJob *j, const char *a, int64_t rows, int64_t k,
                           char *scratch) noexcept nogil:
    """Copy rows of A so that each begins with a cache line: tile registers load whole lines."""
    cdef int64_t row
    for row in range(rows):
        memcpy(scratch + j.at.moved_offset + row * j.plan.moved_row,
               a + row * j.nest.shape.x.pixel, k)


cdef inline void begin_pixels(const GemmJob *j, Tile *tile, int64_t pixel,
                              char *scratch) noexcept nogil:
    """Go on to the segment of pixels that begins with `pixel`."""
    tile.pixel = pixel
    tile.pixels = least(j.plan.hw_segment, j.plan.pixels - pixel)
    if j.plan.packed and not j.plan.x_in_rows:
        # All channels and groups of the segment share the table.
        tile.run_count = make_pixel_runs(
            &j.nest.shape.geometry, tile.pixel, tile.pixels, j.nest.lanes, j.nest.pixels.width,
            j.nest.pixels.panel_bytes // j.nest.shape.size.operand,
            <pplconv_run *> (scratch + j.nest.at.runs_offset))


cdef inline void bring_pixels(const GemmJob *j, const Tensors *t, const Tile *tile,
                              char *scratch) noexcept nogil:
    """Pack or copy a block of K of the segment's pixels, if tiles do not read them in place."""
    if j.plan.packed and j.plan.x_in_rows:
        fill_groups(j, tile, scratch)
        gather_block(&j.nest, t, tile, scratch)
    elif j.plan.packed:
        pack_block(&j.nest, t, tile, scratch)
    elif j.plan.copied:
        copy_block(j, t, tile, scratch)


# A finished panel of the GEMM nest on its way into channel planes.


cdef inline void store_panel(const GemmJob *j, const Tensors *t, const Tile *tile,
                             int64_t channel, int64_t channels, const char *c_tile, int64_t c_rs,
                             char *scratch) noexcept nogil:
    """Store a finished panel of (pixels, channels) into NCHW, with the epilogue."""
    cdef pplconv_store_transposed_args s
    cdef int64_t offset = y_offset(&j.nest, tile, channel, tile.pixel)
    s.src = c_tile
    s.src_rs = c_rs
    s.dst = t.y + offset
    s.dst_rs = j.nest.shape.y.block
    s.rows = tile.pixels
    s.columns = channels
    s.bias = t.bias + (tile.group * j.nest.bias_group + channel) * j.nest.shape.size.bias
    s.residual = t.residual + offset
    s.residual_rs = s.dst_rs
    s.clip = t.clip
    s.flags = epilogue_flags(&j.nest.shape, t, PPLCONV_BIAS_COLUMN)
    if j.nest.shape.converts_out:
        s.dst = scratch + j.at.plane_offset
        s.dst_rs = j.plan.plane_row
    j.nest.store_transposed(&s)
    if j.nest.shape.converts_out:
        finish_converted(&j.nest.shape, t, <char *> s.dst, s.dst_rs, offset, s.residual_rs,
                         channels, tile.pixels, tile.group * j.nest.bias_group + channel, True)
    elif follows(t):
        complete(&j.nest.shape, t, t.y + offset, s.dst_rs, channels, tile.pixels,
                 tile.group * j.nest.bias_group + channel, True)


cdef enum:
    LINE = 64  # bytes
    FINISHED = 8  # tiles that are finished together, so that they are in L1 and calls are few


cdef void multiply(const GemmJob *j, const Tensors *t, const Tile *tile, const Product *p,
                   pplconv_gemm_args *g, char *scratch) noexcept nogil:
    """Run the microkernel over the tiles of C.

    If K is short, a tile takes a few hundred cycles and hides nothing, so this loop must not
    divide.
    """
    cdef int64_t mr = j.plan.mr, nr = j.plan.nr
    cdef int64_t tall = ceil_div(p.rows, mr), wide = ceil_div(p.columns, nr)
    cdef int64_t last_m = p.rows - (tall - 1) * mr, last_n = p.columns - (wide - 1) * nr
    cdef int64_t last_vectors = ceil_div(last_n, j.nest.lanes)
    cdef int64_t outer, inner, i, k, m, vectors, offset, channel, first, width, height
    cdef int64_t waiting = 0
    cdef const char *ends
    cdef int64_t outer_count = wide if p.rows_inner else tall
    cdef int64_t inner_count = tall if p.rows_inner else wide
    # Whether the tiles of the inner loop are one block of C.
    cdef bint joined = (p.c_down == mr * g.c_rs if p.rows_inner
                        else p.c_across == nr * j.nest.shape.size.sum)
    for outer in range(outer_count):
        for inner in range(inner_count):
            i, k = (inner, outer) if p.rows_inner else (outer, inner)
            m, vectors, g.n = mr, j.vectors, nr
            if i == tall - 1:
                m = last_m
            if k == wide - 1:
                vectors, g.n = last_vectors, last_n
            offset = i * p.c_down + (waiting if p.waits else k) * p.c_across
            g.a = p.a + i * p.a_down
            if p.moves:
                if inner == 0:
                    move_rows(j, <const char *> g.a, m, p.k, scratch)
                g.a = scratch + j.at.moved_offset
            g.b = p.b + k * p.b_across
            g.c = p.c + offset
            g.residual = p.residual + offset
            g.bias = p.bias + i * p.bias_down + k * p.bias_across
            g.b_ahead, g.b_ahead_ks = j.plan.b_ahead, g.b_ks
            if p.whole_k > p.k:
                ends = <const char *> g.a + (m - 1) * g.a_rs
                ends += p.whole_k * j.nest.shape.size.operand
                g.k = p.whole_k if ends <= p.a_end else p.k
            if inner > 0 and p.rows_inner and k + 1 < wide and not j.plan.weights_in_place:
                fetch_panel(g, p.b_across, inner, tall)
            j.gemm.tile[vectors - 1][m - 1](g)
            if p.rounds or not tile.last:
                continue
            if p.transposed:
                if i == tall - 1:
                    store_panel(j, t, tile, tile.channel + k * nr, g.n, p.c + k * p.c_across,
                                g.c_rs, scratch)
                continue
            channel = tile.channel + (k * nr if j.plan.channels_in_vectors else i * mr)
            if j.nest.shape.converts_out:
                if waiting + 1 < j.plan.finish_panels and k + 1 < wide:
                    waiting += 1
                    continue
                first, width = k - waiting, waiting * nr
                finish_converted(&j.nest.shape, t, <char *> g.c - waiting * p.c_across, g.c_rs,
                                 p.y + i * p.y_down + first * p.y_across, p.y_rs, m,
                                 width + g.n, tile.group * j.nest.bias_group + channel - width,
                                 not j.plan.channels_in_vectors)
                waiting = 0
            elif follows(t):
                if joined and waiting + 1 < FINISHED and inner + 1 < inner_count:
                    waiting += 1
                    continue
                first, width, height = 0, g.n, m
                if p.rows_inner:
                    first, height = waiting * p.c_down, m + waiting * mr
                else:
                    first, width = waiting * p.c_across, g.n + waiting * nr
                if p.rows_inner != j.plan.channels_in_vectors:
                    channel -= waiting * (mr if p.rows_inner else nr)
                waiting = 0
                complete(&j.nest.shape, t, <char *> g.c - first, g.c_rs, height, width,
                         tile.group * j.nest.bias_group + channel, not j.plan.channels_in_vectors)


cdef inline Product product_of(const GemmJob *j, const Tensors *t, const Tile *tile,
                               pplconv_gemm_args *g) noexcept nogil:
    """Set up the part of a product that both orientations share; the caller adds the epilogue."""
    cdef Product p
    cdef int64_t offset = y_offset(&j.nest, tile, tile.channel, tile.pixel)
    memset(&p, 0, sizeof(p))
    memset(g, 0, sizeof(g[0]))
    g.k = p.k = p.whole_k = tile.k_end - tile.k_begin
    g.c_vs = g.residual_vs = j.nest.lanes * j.nest.shape.size.sum
    g.clip = t.clip
    g.tiles = tile.tiles
    if not tile.first:
        g.flags |= PPLCONV_ACCUMULATE
    p.c = t.y + offset
    p.residual = t.residual + offset
    p.bias = t.bias + (tile.group * j.nest.bias_group + tile.channel) * j.nest.shape.size.bias
    # One orientation has its pixels in rows, the other in columns.
    p.rows_inner = j.plan.pixels_inner == j.plan.channels_in_vectors
    p.y = offset
    return p


cdef inline void place_in_scratch(const GemmJob *j, const Tile *tile, Product *p,
                                  pplconv_gemm_args *g, char *scratch) noexcept nogil:
    """Put C into the scratch; each tile is converted from there when its sum is complete."""
    p.y_rs, p.y_down, p.y_across = g.c_rs, p.c_down, p.c_across
    p.c = scratch + j.at.tile_offset
    g.c_rs = j.plan.tile_row
    p.waits = tile.first and tile.last
    if p.waits:
        p.c_down, p.c_across = 0, j.plan.nr * j.nest.shape.size.sum
    else:
        # Tiles stay for the rest of K; in blocked arrays each part has a place by its channels.
        p.c_down = j.plan.mr * j.plan.tile_row
        p.c_across = j.plan.nr * j.nest.shape.size.sum
        if j.plan.channels_in_vectors:
            p.c += tile.channel % j.plan.oc_segment * j.nest.shape.size.sum


cdef void gemm_pixels(const GemmJob *j, const Tensors *t, const Tile *tile,
                      char *scratch) noexcept nogil:
    """Vectors over pixels, weights broadcast; NCHW."""
    cdef pplconv_gemm_args g
    cdef Product p = product_of(j, t, tile, &g)
    cdef int64_t e = j.nest.shape.size.operand, plane = j.nest.shape.y.block
    p.rows = tile.channels
    p.columns = tile.pixels
    p.a = weights_at(j, t, tile)
    p.a_down = j.panels.panel_bytes
    p.b_across = j.plan.nr * e
    p.c_across = j.plan.nr * j.nest.shape.size.destination
    p.c_down = j.plan.mr * plane
    p.bias_down = j.plan.mr * j.nest.shape.size.bias
    if j.plan.packed:
        g.flags |= PPLCONV_B_PADDED
        p.b = scratch
        p.b_across = j.nest.pixels.panel_bytes
        g.b_ks = j.nest.pixels.down
    elif j.plan.copied:
        p.b = scratch
        g.b_ks = j.nest.plan.packed_row
    else:
        g.b_ks = j.nest.shape.x.block
        p.b = input_at(&j.nest, t, tile) + tile.k_begin * g.b_ks + tile.pixel * e
    g.a_rs = j.panels.across
    g.a_ks = j.panels.down
    g.c_rs = g.residual_rs = plane
    if tile.last:
        g.flags |= epilogue_flags(&j.nest.shape, t, PPLCONV_BIAS_ROW)
    if j.nest.shape.converts_out:
        place_in_scratch(j, tile, &p, &g, scratch)
    multiply(j, t, tile, &p, &g, scratch)


cdef void gemm_channels(const GemmJob *j, const Tensors *t, const Tile *tile,
                        char *scratch) noexcept nogil:
    """Vectors over output channels, pixels broadcast; planes are stored through a tile.

    In NCHWc the tile's channels lie in one block and in one panel.
    """
    cdef pplconv_gemm_args g
    cdef Product p = product_of(j, t, tile, &g)
    cdef int64_t e = j.nest.shape.size.operand
    p.rows = tile.pixels
    p.columns = tile.channels
    p.c_across = j.plan.nr * j.nest.shape.size.destination
    p.bias_across = j.plan.nr * j.nest.shape.size.bias
    find_weights(j, t, tile, &p, &g, scratch)
    p.a = input_at(&j.nest, t, tile) + tile.pixel * j.nest.shape.x.pixel
    if j.plan.x_in_rows:
        g.a_rs = j.nest.plan.packed_row if j.plan.packed or j.plan.copied else j.nest.shape.x.pixel
        g.a_ks = e * j.plan.kr
    else:
        g.a_rs = e
        g.a_ks = j.nest.pixels.down if j.plan.packed else j.nest.shape.x.block
        if j.plan.copied:
            g.a_ks = j.nest.plan.packed_row
    p.a += tile.k_begin // j.plan.kr * g.a_ks
    if j.plan.y_in_rows:
        p.rounds = tile.first and tile.last and rounds_in_tiles(&j.nest.shape, t)
        if p.rounds:
            g.c_vs = g.residual_vs = j.nest.lanes * j.nest.shape.size.destination
        if tile.last:
            g.flags |= epilogue_flags(&j.nest.shape, t, PPLCONV_BIAS_COLUMN, p.rounds)
        g.c_rs = j.nest.shape.y.pixel
    else:
        p.transposed = True
        p.c = scratch + j.at.tile_offset
        p.c_across = j.plan.nr * j.nest.shape.size.sum
        if tile.first and tile.last:
            # A panel whose sum is complete is stored at once, and the next panel takes its place.
            p.c_across = 0
        g.c_rs = j.plan.tile_row
    if j.plan.packed or j.plan.copied:
        p.a = scratch
    g.residual_rs = g.c_rs
    if tile.k_end == j.nest.k:
        p.whole_k = depth(p.k, j.plan.k_step)
        p.a_end = t.x + j.x_bytes if p.a != scratch else scratch + tile.pixels * g.a_rs
    p.a_down = j.plan.mr * g.a_rs
    # Copying costs as much as four panels lose by rows that cross cache lines.
    p.moves = (j.plan.moved_row and (<size_t> p.a % LINE or g.a_rs % LINE)
               and p.k > LINE and p.columns > 4 * j.plan.nr)
    if p.moves:
        g.a_rs = j.plan.moved_row
        p.a_end = scratch + j.at.moved_offset + j.plan.mr * j.plan.moved_row
    p.c_down = j.plan.mr * g.c_rs
    if j.nest.shape.converts_out and j.plan.y_in_rows and not p.rounds:
        place_in_scratch(j, tile, &p, &g, scratch)
    multiply(j, t, tile, &p, &g, scratch)


cdef void gemm_blocks(const GemmJob *j, const Tensors *t, const Tile *tile,
                      char *scratch) noexcept nogil:
    """NCHWc: `gemm_channels`, cut where a block of output channels or a panel of weights ends."""
    cdef Tile part = tile[0]
    cdef int64_t end = tile.channel + tile.channels, width = j.nest.shape.y.width, left
    while part.channel < end:
        left = width - (tile.group * j.nest.shape.oc + part.channel) % width
        left = least(left, j.panels.width - part.channel % j.panels.width)
        part.channels = least(left, end - part.channel)
        gemm_channels(j, t, &part, scratch)
        part.channel += part.channels
    if tile.last:
        zero_tail(&j.nest.shape, tile.group * j.nest.shape.oc + end,
                  t.y + tile.image * j.nest.shape.y.image + tile.pixel * j.nest.shape.y.pixel,
                  1, tile.pixels)


cdef void multiply_block(const GemmJob *j, const Tensors *t, Tile *tile,
                         char *scratch) noexcept nogil:
    """Add a block of K to a segment of outputs."""
    bring_pixels(j, t, tile, scratch)
    if j.nest.plan.in_blocks:
        gemm_blocks(j, t, tile, scratch)
    elif j.plan.channels_in_vectors:
        gemm_channels(j, t, tile, scratch)
    else:
        gemm_pixels(j, t, tile, scratch)


cdef void all_pixels(const GemmJob *j, const Tensors *t, Tile *tile,
                     char *scratch) noexcept nogil:
    """Pack a block of K of the task's weights, and multiply all segments of pixels by it."""
    cdef int64_t pixel = 0
    pack_own(j, t, tile, scratch + j.at.weights_offset)
    while pixel < j.plan.pixels:
        begin_pixels(j, tile, pixel, scratch)
        multiply_block(j, t, tile, scratch)
        pixel += j.plan.hw_segment


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    """Compute one segment of outputs from start to finish."""
    cdef const GemmJob *j = <const GemmJob *> job
    cdef Tile tile
    cdef pplconv_release_tiles_args released
    cdef int64_t oc_index, hw_index, group_begin, group, tiles = 0, rest = task
    tile.tiles = &tiles
    oc_index = rest % j.oc_segments
    rest = rest // j.oc_segments
    hw_index = rest % j.hw_segments
    rest = rest // j.hw_segments
    tile.run_count = tile.first_row = 0
    tile.image = rest % j.plan.images
    group_begin = rest // j.plan.images * j.plan.group_segment
    begin_pixels(j, &tile, hw_index * j.plan.hw_segment, scratch)
    tile.channel = oc_index * j.plan.oc_segment
    tile.channels = least(j.plan.oc_segment, j.nest.shape.oc - tile.channel)
    for group in range(group_begin, least(group_begin + j.plan.group_segment, j.nest.shape.groups)):
        tile.group = group
        tile.k_begin = 0
        tile.first = True
        while True:
            tile.k_end = least(tile.k_begin + j.plan.k_block, j.nest.k)
            tile.last = tile.k_end == j.nest.k
            if j.plan.weights_by_task:
                all_pixels(j, t, &tile, scratch)
            else:
                multiply_block(j, t, &tile, scratch)
            if tile.last:
                break
            tile.k_begin = tile.k_end
            tile.first = False
    if j.release != NULL:
        released.tiles = &tiles
        j.release(&released)


# For the names of their members.
cdef NestOffsets no_offsets
cdef GemmOffsets no_more_offsets


cdef class GemmSchedule(Schedule):
    """A `Nest` of ``algorithms.nest`` compiled."""

    # All members of these structs may be as large as a size; so may pixels, of all images together.
    sizes = Schedule.sizes.union(no_offsets, no_more_offsets, ("b_ahead", "pixels"))

    def __cinit__(self, dict fields, str isa):
        numerics = fields["numerics"]
        cdef str dtype = mover_of(numerics.operand)
        cdef GemmJob *j = &self.own
        memset(j, 0, sizeof(GemmJob))
        j.nest.shape = self.shape
        find_gemm_family(numerics.product, isa, numerics.kr, &j.gemm)
        j.nest.k = j.nest.shape.ic * j.nest.shape.taps
        j.plan = fields
        j.nest.plan = fields
        if numerics.narrow:
            j.nest.pad_channels = find("pad_channels", dtype, isa)
            if j.plan.packed:
                j.nest.pack_rows = find("pack_rows", dtype, isa)
        else:
            j.nest.pack_pixels = find("pack_pixels", dtype, isa)
            j.nest.pack_rows = find("pack_rows", dtype, isa)
            j.nest.store_transposed = find("store_transposed", dtype, isa)
        j.nest.pack_weights = find("pack_weights", mover_of(numerics.weights), isa)
        j.release = find_release(numerics.product, isa)
        j.at = fields
        j.nest.at = fields
        (j.nest.x_group, j.nest.y_group, j.weights_group, j.weights_column, j.weights_row,
         j.nest.bias_group) = fields["matrices"]
        self.check_matrices(fields["matrices"])
        j.nest.lanes = j.gemm.lanes
        j.vectors = j.plan.nr // j.nest.lanes
        check_plan(j, self.tasks, self.thread_scratch)
        j.panels = panels_of(j.plan.panel_width, j.plan.kr, j.nest.shape.oc,
                             depth(j.nest.k, j.plan.k_step), j.nest.shape.size.weight)
        if j.plan.packed and not j.plan.x_in_rows:
            j.nest.pixels = panels_of(j.plan.pixel_panel, j.plan.kr, j.plan.hw_segment,
                                      j.plan.k_block, j.nest.shape.size.operand)
        self.reads_filters = j.plan.weights_in_place or j.plan.weights_by_task
        if not self.reads_filters:
            self.check_weights(j.nest.shape.groups * j.panels.bytes)
        # Tiles may read past the channels of a pixel only if the next bytes belong to the array.
        if (j.nest.shape.x.pixel == j.nest.shape.groups * j.nest.shape.ic * j.nest.shape.size.source
                and (j.nest.shape.batch == 1
                     or j.nest.shape.x.image == (j.nest.shape.geometry.ih
                                                 * j.nest.shape.geometry.iw
                                                 * j.nest.shape.x.pixel))):
            j.x_bytes = self.input_bytes()
        j.oc_segments = ceil_div(j.nest.shape.oc, j.plan.oc_segment)
        j.hw_segments = pixel_tasks(&j.plan)
        self.job = j
        self.one_phase(run_task)
        self.pack = pack_range

    cdef int64_t input_bytes(self) noexcept nogil:
        return self.matrix_bytes(&self.shape.x, self.shape.size.source, self.shape.ic,
                                 self.shape.geometry.ih, self.shape.geometry.iw,
                                 self.own.nest.x_group)

    cdef int64_t output_bytes(self) noexcept nogil:
        return self.matrix_bytes(&self.shape.y, self.shape.size.destination, self.shape.oc,
                                 self.shape.geometry.oh, self.shape.geometry.ow,
                                 self.own.nest.y_group)

    cdef int64_t source_bytes(self) noexcept nogil:
        """Bytes of the weights before packing, from the first element to the end of the last."""
        cdef const GemmJob *j = &self.own
        if j.nest.shape.converts_weights:  # what was converted is dense
            return Schedule.source_bytes(self)
        if min(j.nest.shape.groups, j.nest.shape.oc, j.nest.k) < 1:
            return 0
        return ((j.nest.shape.groups - 1) * j.weights_group
                + (j.nest.shape.oc - 1) * j.weights_column
                + (j.nest.k - 1) * j.weights_row + j.nest.shape.size.filter)

    cdef int64_t matrix_bytes(self, const Memory *m, int64_t element, int64_t channels,
                              int64_t height, int64_t width, int64_t group) noexcept nogil:
        """Bytes of the input or the output; `group` is the distance from one group to the next."""
        cdef const GemmJob *j = &self.own
        cdef Memory own = m[0]
        if j.nest.plan.in_blocks or min(j.nest.shape.groups, channels) < 1:
            return array_bytes(m, element, j.nest.shape.batch, j.nest.shape.groups * channels,
                               height, width)
        own.width = least(own.width, channels)  # not those of other groups
        return (array_bytes(&own, element, j.nest.shape.batch, channels, height, width)
                + (j.nest.shape.groups - 1) * group)
