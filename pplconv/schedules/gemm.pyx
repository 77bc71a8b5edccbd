# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The GEMM nest: 1x1 on the user's array, and tiled im2col.

The nest is that of the OpenPPL Arm Server slides for tiled im2col: group and image outside,
and inside one parallel region over (group, image, segment of output pixels, segment of
output channels) each task packs a tile of pixels, once per block of K, and runs the GEMM
microkernel over it. Two of the slides' steps fall away here: in both NCHW and NHWC a group
is a slice that strides describe, so it is always in place and no buffer is copied in or out.
In NCHWc a group may begin and end within blocks: its pixels are gathered from the blocks that it
has a part in, and its output channels are computed block by block.

Two orientations, one microkernel. ``pixels``: vectors run over output pixels and weights
are broadcast (the natural one for NCHW). ``channels``: vectors run over output channels and
pixels are broadcast (the natural one for NHWC; for NCHW the tile then goes through scratch
and is stored transposed, which pays where an image has too few pixels to fill vectors).
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_ACCUMULATE,
    PPLCONV_B_PADDED,
    PPLCONV_BIAS_COLUMN,
    PPLCONV_BIAS_ROW,
    find,
    find_gemm_family,
    make_pixel_runs,
    pplconv_gemm_args,
    pplconv_pack_pixels_args,
    pplconv_pack_rows_args,
    pplconv_pack_weights_args,
    pplconv_run,
    pplconv_store_transposed_args,
)
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


cdef struct Tile:
    # What a task works on: one image and group, a segment of pixels and of channels.
    int64_t image, group, pixel, pixels, channel, channels
    int64_t k_begin, k_end, run_count
    bint first, last


cdef struct Product:
    # The product C = A B of a task, tile by tile: where the first tile's operands lie, and the
    # bytes from a tile to the one below it and to the one beside it.
    int64_t rows, columns
    const char *a
    const char *b
    char *c
    const char *residual
    const char *bias
    int64_t a_down, b_across, c_down, c_across, bias_down, bias_across
    bint rows_inner
    # Whether C is a tile in the scratch; then each panel is stored transposed when it is whole.
    bint transposed
    # If C has to be converted: its place in the output, as offsets like those of C.
    int64_t y, y_rs, y_down, y_across


cdef struct Rows:
    # The rows of an image that some output pixels see.
    int64_t top, bottom


cdef inline Rows rows_seen(const GemmJob *j, int64_t pixel, int64_t pixels) noexcept nogil:
    """The rows that output pixels of one image see, without rows of padding."""
    cdef Rows r
    cdef int64_t step = j.shape.geometry.stride_h, pad = j.shape.geometry.pad_top
    r.top = most(pixel // j.shape.geometry.ow * step - pad, 0)
    r.bottom = ((pixel + pixels - 1) // j.shape.geometry.ow * step - pad
                + (j.shape.geometry.kh - 1) * j.shape.geometry.dilation_h + 1)
    r.bottom = most(least(r.bottom, j.shape.geometry.ih), r.top)
    return r


cdef inline int64_t y_offset(const GemmJob *j, const Tile *tile, int64_t channel,
                             int64_t pixel) noexcept nogil:
    # `channel` within the group, `pixel` as the job counts pixels
    return (tile.image * j.shape.y.image + pixel * j.shape.y.pixel
            + channel_offset(&j.shape.y, j.shape.size.destination,
                             tile.group * j.shape.oc + channel))


cdef inline const char *weights_at(const GemmJob *j, const Tensors *t,
                                   const Tile *tile) noexcept nogil:
    # Panels lie one after another, each K x panel_width.
    cdef int64_t padded = ceil_div(j.shape.oc, j.panel_width) * j.panel_width
    cdef int64_t column = tile.channel % j.panel_width
    return t.weights + (
        (tile.group * padded + tile.channel - column) * j.k + tile.k_begin * j.panel_width + column
    ) * j.shape.size.weight


cdef void pack_block(const GemmJob *j, const Tensors *t, const Tile *tile,
                     char *scratch) noexcept nogil:
    """Pack the tile's pixels for its block of K, from channel planes."""
    cdef pplconv_pack_pixels_args p
    cdef int64_t channels = (tile.k_end - tile.k_begin) // j.shape.taps, done = 0
    cdef int64_t channels_in = j.shape.groups * j.shape.ic
    cdef int64_t row = j.shape.geometry.iw * j.shape.size.source
    cdef int64_t plane = j.shape.geometry.ih * row
    cdef Rows r
    p.src = t.x + plane * (tile.image * channels_in + tile.group * j.shape.ic
                           + tile.k_begin // j.shape.taps)
    p.src_cs = plane
    p.dst = scratch
    p.dst_cs = j.shape.taps * j.pixel_panel * j.shape.size.operand
    p.channels = channels
    p.runs = scratch + j.runs_offset
    p.run_count = tile.run_count
    p.stride = j.shape.geometry.stride_w
    if not j.shape.converts:
        j.pack_pixels(&p)
        return
    r = rows_seen(j, tile.pixel, tile.pixels)
    p.src_cs = j.slab_rows * j.shape.geometry.iw * j.shape.size.operand
    p.src = scratch + j.slab_offset - r.top * j.shape.geometry.iw * j.shape.size.operand
    while done < channels:
        p.channels = least(j.slab_channels, channels - done)
        convert_in(&j.shape, t.x + r.top * row
                   + plane * (tile.image * channels_in + tile.group * j.shape.ic
                              + tile.k_begin // j.shape.taps + done),
                   plane, scratch + j.slab_offset, p.src_cs, p.channels,
                   (r.bottom - r.top) * j.shape.geometry.iw)
        j.pack_pixels(&p)
        p.dst = <char *> p.dst + p.channels * p.dst_cs
        done += p.channels


cdef void gather_converted(const GemmJob *j, const Tensors *t, int64_t image, const char *channel,
                           pplconv_pack_rows_args *r, char *slab) noexcept nogil:
    """Do what `pack_rows` does, after converting rows of the image into the slab."""
    cdef int64_t area = j.shape.geometry.oh * j.shape.geometry.ow, first = r.first
    cdef int64_t end = first + r.pixels, iw = j.shape.geometry.iw, row, step, count
    cdef Rows rows
    r.src_ns = 0
    r.src_ps = r.channels * j.shape.size.operand
    step = iw * r.src_ps
    while first < end:
        # A segment of pixels may go on in the next image.
        r.first = first % area
        r.pixels = least(end - first, area - r.first)
        rows = rows_seen(j, r.first, r.pixels)
        for row in range(rows.top, rows.bottom):
            convert_in(&j.shape, channel + (image + first // area) * j.shape.x.image
                       + row * j.shape.x.row, j.shape.x.pixel, slab + (row - rows.top) * step,
                       r.src_ps, iw, r.channels)
        r.src = slab - rows.top * step
        j.pack_rows(r)
        count = r.pixels
        r.dst = <char *> r.dst + count * r.dst_rs
        first += count


cdef void gather_block(const GemmJob *j, const Tensors *t, const Tile *tile,
                       char *scratch) noexcept nogil:
    """Pack the tile's pixels for its block of K, from each block of channels that holds some."""
    cdef pplconv_pack_rows_args r
    cdef int64_t packed = 0, channel = tile.group * j.shape.ic
    while packed < j.shape.ic:
        r.src_ns = j.shape.x.image
        r.src_ps = j.shape.x.pixel
        r.dst_rs = j.packed_row
        r.dst_ts = j.shape.ic * j.shape.size.operand
        r.first = tile.pixel
        r.pixels = tile.pixels
        r.geometry = &j.shape.geometry
        r.channels = least(j.shape.ic - packed, j.shape.x.width - channel % j.shape.x.width)
        r.src = (t.x + tile.image * j.shape.x.image
                 + channel_offset(&j.shape.x, j.shape.size.source, channel))
        r.dst = scratch + packed * j.shape.size.operand
        r.k_begin, r.k_end = tile.k_begin, tile.k_end
        if r.channels < j.shape.ic:
            # The block of K is whole taps.
            r.k_begin = r.k_begin // j.shape.ic * r.channels
            r.k_end = r.k_end // j.shape.ic * r.channels
        packed += r.channels
        channel += r.channels
        if j.shape.converts:
            gather_converted(j, t, 0, <const char *> r.src, &r, scratch + j.slab_offset)
        else:
            j.pack_rows(&r)


cdef void convert_block(const GemmJob *j, const Tensors *t, const Tile *tile,
                        char *scratch) noexcept nogil:
    """Convert the tile's pixels for its block of K, which are multiplied as they lie."""
    cdef int64_t e = j.shape.size.source, k = tile.k_end - tile.k_begin
    cdef int64_t channels_in = j.shape.groups * j.shape.ic
    cdef int64_t channel = tile.group * j.shape.ic + tile.k_begin
    if j.channels_last:
        convert_in(&j.shape, t.x + (tile.pixel * channels_in + channel) * e, channels_in * e,
                   scratch, j.packed_row, tile.pixels, k)
    else:
        convert_in(&j.shape,
                   t.x + ((tile.image * channels_in + channel) * j.pixels + tile.pixel) * e,
                   j.pixels * e, scratch, j.packed_row, k, tile.pixels)


cdef void multiply(const GemmJob *j, const Tensors *t, const Tile *tile, const Product *p,
                   pplconv_gemm_args *g, char *scratch) noexcept nogil:
    """Run the microkernel over the tiles of C.

    If K is short, a tile takes a few hundred cycles and hides nothing, so this loop must not
    divide.
    """
    cdef int64_t tall = ceil_div(p.rows, j.mr), wide = ceil_div(p.columns, j.nr)
    cdef int64_t last_m = p.rows - (tall - 1) * j.mr, last_n = p.columns - (wide - 1) * j.nr
    cdef int64_t last_vectors = ceil_div(last_n, j.lanes)
    cdef int64_t outer, inner, i, k, m, vectors, offset, channel
    cdef int64_t outer_count = wide if p.rows_inner else tall
    cdef int64_t inner_count = tall if p.rows_inner else wide
    for outer in range(outer_count):
        for inner in range(inner_count):
            i, k = (inner, outer) if p.rows_inner else (outer, inner)
            m, vectors, g.n = j.mr, j.vectors, j.nr
            if i == tall - 1:
                m = last_m
            if k == wide - 1:
                vectors, g.n = last_vectors, last_n
            offset = i * p.c_down + k * p.c_across
            g.a = p.a + i * p.a_down
            g.b = p.b + k * p.b_across
            g.c = p.c + offset
            g.residual = p.residual + offset
            g.bias = p.bias + i * p.bias_down + k * p.bias_across
            j.gemm.tile[vectors - 1][m - 1](g)
            if not tile.last:
                continue
            if p.transposed:
                if i == tall - 1:
                    store_panel(j, t, tile, tile.channel + k * j.nr, g.n, p.c + k * p.c_across,
                                g.c_rs, scratch)
                continue
            channel = tile.channel + (k * j.nr if j.channels_in_vectors else i * j.mr)
            if j.shape.converts:
                finish_converted(&j.shape, t, <char *> g.c, g.c_rs,
                                 p.y + i * p.y_down + k * p.y_across, p.y_rs, m, g.n,
                                 tile.group * j.shape.oc + channel, not j.channels_in_vectors)
            elif t.activation:
                activate(&j.shape, t, <char *> g.c, g.c_rs, m, g.n,
                         tile.group * j.shape.oc + channel, not j.channels_in_vectors)


cdef inline Product product_of(const GemmJob *j, const Tensors *t, const Tile *tile,
                               pplconv_gemm_args *g) noexcept nogil:
    """The part that both orientations share; the epilogue comes with the last block of K."""
    cdef Product p
    cdef int64_t offset = y_offset(j, tile, tile.channel, tile.pixel)
    memset(&p, 0, sizeof(p))
    memset(g, 0, sizeof(g[0]))
    g.k = tile.k_end - tile.k_begin
    g.b_ahead = j.b_ahead
    g.c_vs = g.residual_vs = j.lanes * j.shape.size.sum
    g.clip = t.clip
    if not tile.first:
        g.flags |= PPLCONV_ACCUMULATE
    p.c = t.y + offset
    p.residual = t.residual + offset
    p.bias = t.bias + (tile.group * j.shape.oc + tile.channel) * j.shape.size.bias
    # One orientation has its pixels in rows, the other in columns.
    p.rows_inner = j.pixels_inner == j.channels_in_vectors
    p.y = offset
    return p


cdef inline void place_in_scratch(const GemmJob *j, const Tile *tile, Product *p,
                                  pplconv_gemm_args *g, char *scratch) noexcept nogil:
    """Put C into the scratch; each tile is converted from there when its sum is whole."""
    p.y_rs, p.y_down, p.y_across = g.c_rs, p.c_down, p.c_across
    p.c = scratch + j.tile_offset
    g.c_rs = j.tile_row
    if tile.first and tile.last:
        p.c_down = p.c_across = 0
    else:
        # Tiles wait for the rest of K; in blocked arrays, each part has the place of its channels.
        p.c_down = j.mr * j.tile_row
        p.c_across = j.nr * j.shape.size.sum
        if j.channels_in_vectors:
            p.c += tile.channel % j.oc_segment * j.shape.size.sum


cdef void gemm_pixels(const GemmJob *j, const Tensors *t, const Tile *tile,
                      char *scratch) noexcept nogil:
    """Vectors over pixels, weights broadcast; NCHW."""
    cdef pplconv_gemm_args g
    cdef Product p = product_of(j, t, tile, &g)
    cdef int64_t e = j.shape.size.operand, w = j.shape.size.weight
    cdef int64_t plane = j.pixels * j.shape.size.destination, channel
    p.rows = tile.channels
    p.columns = tile.pixels
    p.a = weights_at(j, t, tile)
    p.a_down = j.mr * j.k * w
    p.b_across = j.nr * e
    p.c_across = j.nr * j.shape.size.destination
    p.c_down = j.mr * plane
    p.bias_down = j.mr * j.shape.size.bias
    if j.packed:
        g.flags |= PPLCONV_B_PADDED
        p.b = scratch
        p.b_across *= j.k_block
        g.b_ks = j.nr * e
    elif j.shape.converts:
        p.b = scratch
        g.b_ks = j.packed_row
    else:
        channel = (tile.image * j.shape.groups + tile.group) * j.shape.ic + tile.k_begin
        p.b = t.x + (channel * j.pixels + tile.pixel) * e
        g.b_ks = plane
    g.a_rs = w
    g.a_ks = j.panel_width * w
    g.c_rs = g.residual_rs = plane
    if tile.last:
        g.flags |= epilogue_flags(&j.shape, t, PPLCONV_BIAS_ROW)
    if j.shape.converts:
        place_in_scratch(j, tile, &p, &g, scratch)
    multiply(j, t, tile, &p, &g, scratch)


cdef void gemm_channels(const GemmJob *j, const Tensors *t, const Tile *tile,
                        char *scratch) noexcept nogil:
    """Vectors over output channels, pixels broadcast; NCHW through a tile.

    In NCHWc the tile's channels lie in one block and in one panel.
    """
    cdef pplconv_gemm_args g
    cdef Product p = product_of(j, t, tile, &g)
    cdef int64_t e = j.shape.size.operand, w = j.shape.size.weight
    cdef int64_t channel, channels_in = j.shape.groups * j.shape.ic
    p.rows = tile.pixels
    p.columns = tile.channels
    p.b = weights_at(j, t, tile)
    p.b_across = j.nr * j.k * w
    p.c_across = j.nr * j.shape.size.destination
    p.bias_across = j.nr * j.shape.size.bias
    if j.panel_width == j.nr and tile.channel % j.panel_width == 0:
        g.flags |= PPLCONV_B_PADDED
    g.b_ks = j.panel_width * w
    if j.channels_last:
        if tile.last:
            g.flags |= epilogue_flags(&j.shape, t, PPLCONV_BIAS_COLUMN)
        g.c_rs = j.shape.y.pixel
        g.a_rs = j.packed_row if j.packed or j.shape.converts else channels_in * e
        g.a_ks = e
        channel = tile.group * j.shape.ic + tile.k_begin
        p.a = t.x + (tile.pixel * channels_in + channel) * e
    else:
        p.transposed = True
        p.c = scratch + j.tile_offset
        p.c_across = j.nr * j.shape.size.sum
        if tile.first and tile.last:
            # A panel whose sum is whole is stored at once, and the next panel takes its place.
            p.c_across = 0
        g.c_rs = j.tile_row
        g.a_rs = e
        g.a_ks = (j.pixel_panel if j.packed else j.pixels) * e
        if j.shape.converts and not j.packed:
            g.a_ks = j.packed_row
        channel = tile.image * channels_in + tile.group * j.shape.ic + tile.k_begin
        p.a = t.x + (channel * j.pixels + tile.pixel) * e
    if j.packed or j.shape.converts:
        p.a = scratch
    g.residual_rs = g.c_rs
    p.a_down = j.mr * g.a_rs
    p.c_down = j.mr * g.c_rs
    if j.shape.converts and j.channels_last:
        place_in_scratch(j, tile, &p, &g, scratch)
    multiply(j, t, tile, &p, &g, scratch)


cdef void gemm_blocks(const GemmJob *j, const Tensors *t, const Tile *tile,
                      char *scratch) noexcept nogil:
    """The same, cut where a block of output channels or a panel of weights ends; NCHWc."""
    cdef Tile part = tile[0]
    cdef int64_t end = tile.channel + tile.channels, width = j.shape.y.width, left
    while part.channel < end:
        left = width - (tile.group * j.shape.oc + part.channel) % width
        left = least(left, j.panel_width - part.channel % j.panel_width)
        part.channels = least(left, end - part.channel)
        gemm_channels(j, t, &part, scratch)
        part.channel += part.channels
    if tile.last:
        zero_tail(&j.shape, tile.group * j.shape.oc + end,
                  t.y + tile.image * j.shape.y.image + tile.pixel * j.shape.y.pixel,
                  1, tile.pixels)


cdef void store_panel(const GemmJob *j, const Tensors *t, const Tile *tile, int64_t channel,
                      int64_t channels, const char *c_tile, int64_t c_rs,
                      char *scratch) noexcept nogil:
    """Store a finished panel of (pixels, channels) into NCHW, with the epilogue."""
    cdef pplconv_store_transposed_args s
    cdef int64_t offset = y_offset(j, tile, channel, tile.pixel)
    s.src = c_tile
    s.src_rs = c_rs
    s.dst = t.y + offset
    s.dst_rs = j.pixels * j.shape.size.destination
    s.rows = tile.pixels
    s.columns = channels
    s.bias = t.bias + (tile.group * j.shape.oc + channel) * j.shape.size.bias
    s.residual = t.residual + offset
    s.residual_rs = s.dst_rs
    s.clip = t.clip
    s.flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_COLUMN)
    if j.shape.converts:
        s.dst = scratch + j.plane_offset
        s.dst_rs = j.plane_row
    j.store_transposed(&s)
    if j.shape.converts:
        finish_converted(&j.shape, t, <char *> s.dst, s.dst_rs, offset, s.residual_rs, channels,
                         tile.pixels, tile.group * j.shape.oc + channel, True)
    elif t.activation:
        activate(&j.shape, t, t.y + offset, s.dst_rs, channels, tile.pixels,
                 tile.group * j.shape.oc + channel, True)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    """Compute one segment of outputs from start to finish."""
    cdef const GemmJob *j = <const GemmJob *> job
    cdef Tile tile
    cdef int64_t oc_index, hw_index, group_begin, group, rest = task
    oc_index = rest % j.oc_segments
    rest = rest // j.oc_segments
    hw_index = rest % j.hw_segments
    rest = rest // j.hw_segments
    tile.run_count = 0
    tile.image = rest % j.images
    group_begin = rest // j.images * j.group_segment
    tile.pixel = hw_index * j.hw_segment
    tile.pixels = least(j.hw_segment, j.pixels - tile.pixel)
    tile.channel = oc_index * j.oc_segment
    tile.channels = least(j.oc_segment, j.shape.oc - tile.channel)
    if j.packed and not j.channels_last:
        # All channels and groups of the segment share the table.
        tile.run_count = make_pixel_runs(
            &j.shape.geometry, tile.pixel, tile.pixels, j.lanes, j.pixel_panel,
            j.k_block * j.pixel_panel, <pplconv_run *> (scratch + j.runs_offset))
    for group in range(group_begin, least(group_begin + j.group_segment, j.shape.groups)):
        tile.group = group
        tile.k_begin = 0
        tile.first = True
        while True:
            tile.k_end = least(tile.k_begin + j.k_block, j.k)
            tile.last = tile.k_end == j.k
            if j.packed and j.channels_last:
                gather_block(j, t, &tile, scratch)
            elif j.packed:
                pack_block(j, t, &tile, scratch)
            elif j.shape.converts:
                convert_block(j, t, &tile, scratch)
            if j.in_blocks:
                gemm_blocks(j, t, &tile, scratch)
            elif j.channels_in_vectors:
                gemm_channels(j, t, &tile, scratch)
            else:
                gemm_pixels(j, t, &tile, scratch)
            if tile.last:
                break
            tile.k_begin = tile.k_end
            tile.first = False


cdef void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                     int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of every group's panels."""
    cdef const GemmJob *j = <const GemmJob *> job
    cdef pplconv_pack_weights_args p
    cdef int64_t group, panels = ceil_div(j.shape.oc, j.panel_width)
    cdef int64_t padded = panels * j.panel_width
    p.oc_begin = panels * index // pieces * j.panel_width
    p.oc_end = least(panels * (index + 1) // pieces * j.panel_width, j.shape.oc)
    p.ic = j.shape.ic
    p.taps = j.shape.taps
    p.panel_width = j.panel_width
    p.channel_block = j.shape.ic if j.channels_last else 1
    for group in range(j.shape.groups):
        p.src = weights + group * j.shape.oc * j.k * j.shape.size.weight
        p.dst = packed + group * padded * j.k * j.shape.size.weight
        j.pack_weights(&p)


cdef class GemmSchedule(Schedule):
    """A `Nest` of ``algorithms.nest`` compiled."""

    def __cinit__(self, dict fields, str isa):
        cdef str dtype = fields["numerics"].operand
        cdef GemmJob *j = &self.own
        memset(j, 0, sizeof(GemmJob))
        j.shape = self.shape
        find_gemm_family(dtype, isa, &j.gemm)
        j.pack_pixels = find("pack_pixels", dtype, isa)
        j.pack_rows = find("pack_rows", dtype, isa)
        j.pack_weights = find("pack_weights", dtype, isa)
        j.store_transposed = find("store_transposed", dtype, isa)
        j.k = j.shape.ic * j.shape.taps
        j.images = fields["images"]
        j.pixels = fields["pixels"]
        j.channels_last = fields["channels_last"]
        j.in_blocks = j.channels_last and j.shape.x.block != 0
        j.channels_in_vectors = fields["channels_in_vectors"]
        j.packed = fields["packed"]
        j.pixels_inner = fields["pixels_inner"]
        j.mr = fields["mr"]
        j.lanes = j.gemm.lanes
        j.nr = fields["nr"]
        j.vectors = j.nr // j.lanes
        j.panel_width = fields["panel_width"]
        j.k_block = fields["k_block"]
        j.oc_segment = fields["oc_segment"]
        j.hw_segment = fields["hw_segment"]
        j.group_segment = fields["group_segment"]
        j.b_ahead = fields["b_ahead"]
        j.pixel_panel = fields["pixel_panel"]
        j.packed_row = fields["packed_row"]
        j.tile_row = fields["tile_row"]
        j.slab_rows = fields["slab_rows"]
        j.slab_channels = fields["slab_channels"]
        j.slab_offset = fields["slab_offset"]
        j.plane_offset = fields["plane_offset"]
        j.plane_row = fields["plane_row"]
        j.runs_offset = fields["runs_offset"]
        j.tile_offset = fields["tile_offset"]
        self.check()
        j.oc_segments = ceil_div(j.shape.oc, j.oc_segment)
        j.hw_segments = ceil_div(j.pixels, j.hw_segment)
        self.job = j
        self.task = run_task
        self.pack = pack_range

    cdef int check_scratch(self) except -1:
        """Refuse scratch in which packed pixels, runs and tile overlap or do not fit."""
        cdef GemmJob *j = &self.own
        cdef int64_t e = j.shape.size.operand, packed = 0, runs = 0, tile = 0, width, entries
        if j.runs_offset % e or j.tile_offset % e or j.packed_row % e or j.tile_row % e:
            raise ValueError("offsets are whole elements")
        if j.packed and j.channels_last:
            if j.packed_row < least(j.k_block, j.k) * e:
                raise ValueError("rows of the scratch are shorter than what goes into them")
            packed = j.hw_segment * j.packed_row
        elif j.packed:
            # Runs end with whole vectors; vectors over pixels are read up to a tile's width.
            width = ceil_div(j.hw_segment, j.lanes) * j.lanes
            if j.pixel_panel < width if j.channels_in_vectors else j.pixel_panel != j.nr:
                raise ValueError("panels of pixels are not as wide as what reads them")
            packed = ceil_div(j.hw_segment, j.pixel_panel) * j.pixel_panel * j.k_block
            if packed >= 1 << 31:
                raise ValueError("packed pixels of a task are counted in 32 bits")
            packed *= e
            # A run ends with a vector, a row, a panel or the segment.
            entries = least(j.hw_segment, j.pixels)
            entries = (ceil_div(entries, j.lanes) + ceil_div(entries, j.shape.geometry.ow) + 1
                       + 2 * ceil_div(entries, j.pixel_panel)) if entries else 0
            runs = j.shape.taps * entries * sizeof(pplconv_run)
        if j.channels_in_vectors and not j.channels_last:
            width = 1 if j.k_block >= j.k else ceil_div(least(j.oc_segment, j.shape.oc), j.nr)
            width *= j.nr
            if j.tile_row < width * j.shape.size.sum:
                raise ValueError("rows of the tile are shorter than what goes into them")
            tile = j.hw_segment * j.tile_row
        if (j.runs_offset < packed or j.tile_offset < j.runs_offset + runs
                or (self.tasks and self.thread_scratch < j.tile_offset + tile)):
            raise ValueError("the scratch is too small")
        if j.shape.converts:
            self.check_converted(tile)
        return 0

    cdef int check_converted(self, int64_t tile) except -1:
        """Refuse scratch in which converted arrays overlap or do not fit.

        `tile` is the size of the tile that is stored transposed.
        """
        cdef GemmJob *j = &self.own
        cdef int64_t e = j.shape.size.operand, rows, columns, spanned
        cdef int64_t block = 0, planes = 0, slab = 0
        g = &j.shape.geometry
        if j.slab_offset % e or j.plane_offset % e or j.plane_row % e:
            raise ValueError("offsets are whole elements")
        if not j.packed:
            rows, columns = j.hw_segment, least(j.k_block, j.k)
            if not j.channels_last:
                rows, columns = columns, rows
            if j.packed_row < columns * e:
                raise ValueError("rows of the scratch are shorter than what goes into them")
            block = rows * j.packed_row
        else:
            spanned = least(ceil_div(j.hw_segment - 1, most(g.ow, 1)) + 1, g.oh)
            spanned = (spanned - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1
            if j.slab_rows < least(spanned, g.ih):
                raise ValueError("the slab has fewer rows than what goes into it")
            if j.slab_channels < 1 or (j.channels_last and j.slab_channels < least(
                    j.shape.ic, j.shape.x.width)):
                raise ValueError("the slab has fewer channels than what goes into it")
            slab = j.slab_channels * j.slab_rows * g.iw * e
        if j.channels_in_vectors and not j.channels_last:
            if j.plane_row < j.hw_segment * j.shape.size.sum:
                raise ValueError("planes are smaller than what goes into them")
            planes = j.nr * j.plane_row
        else:
            rows, columns = ((j.hw_segment, j.oc_segment) if j.channels_in_vectors
                             else (j.oc_segment, j.hw_segment))
            if j.k_block >= j.k:
                rows, columns = j.mr, j.nr
            if j.tile_row < columns * j.shape.size.sum:
                raise ValueError("rows of the tile are shorter than what goes into them")
            tile = rows * j.tile_row
        if self.tasks and (j.runs_offset < block or j.plane_offset < j.tile_offset + tile
                           or j.slab_offset < j.plane_offset + planes
                           or self.thread_scratch < j.slab_offset + slab):
            raise ValueError("the scratch is too small")
        return 0

    cdef int check(self) except -1:
        """Refuse a plan that the loops could not carry out inside its memory."""
        cdef GemmJob *j = &self.own
        cdef int64_t panels, images, e = j.shape.size.weight
        g = &j.shape.geometry
        check_tile(&j.gemm, j.mr, j.nr)
        if not j.channels_last and (j.shape.x.width != 1 or j.shape.x.block == 0):
            raise ValueError("channels_last says otherwise than the arrays")
        images = j.shape.batch if j.shape.x.block else 1
        if j.images != images or j.images * j.pixels != j.shape.batch * g.oh * g.ow:
            raise ValueError("images and pixels are not those of the geometry")
        if j.in_blocks and not j.packed:
            raise ValueError("channels in blocks must be packed")
        if not j.packed and (j.shape.taps != 1 or g.ih != g.oh or g.iw != g.ow or g.pad_top
                             or g.pad_left or g.stride_h != 1 or g.stride_w != 1):
            raise ValueError("only pixels of a 1x1 kernel are used as they lie")
        if min(j.k_block, j.oc_segment, j.hw_segment, j.group_segment) < 1:
            raise ValueError("blocks and segments are at least 1")
        if j.panel_width < 1 or j.panel_width > j.nr if j.in_blocks else j.panel_width != (
                j.nr if j.channels_in_vectors else j.mr):
            raise ValueError("panels of weights are not as wide as the tile that reads them")
        if j.channels_in_vectors and not j.channels_last and not j.pixels_inner:
            raise ValueError("a panel that is stored transposed has its pixels innermost")
        if not j.channels_in_vectors and j.channels_last:
            raise ValueError("where channels are neighbours, vectors run over output channels")
        if j.oc_segment % j.panel_width and j.oc_segment < j.shape.oc:
            raise ValueError("oc_segment must be whole panels")
        if not j.channels_in_vectors and j.hw_segment % j.lanes and j.hw_segment < j.pixels:
            raise ValueError("hw_segment must be whole vectors")
        if j.packed and not j.channels_last and j.k_block % j.shape.taps:
            raise ValueError("k_block must be whole channels")
        if j.in_blocks and j.k_block < j.k and j.k_block % j.shape.ic:
            raise ValueError("k_block must be whole taps")
        self.check_scratch()
        panels = ceil_div(j.shape.oc, j.panel_width)
        if self.weight_bytes < j.shape.groups * panels * j.panel_width * j.k * e:
            raise ValueError("packed weights are larger than their memory")
        if self.tasks != (j.images * ceil_div(j.shape.oc, j.oc_segment)
                          * ceil_div(j.pixels, j.hw_segment)
                          * ceil_div(j.shape.groups, j.group_segment)):
            raise ValueError("the tasks are not those of the segments")
        return 0
