# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Convolution in groups of one input channel (depthwise), or of few and as many outputs.

Little or nothing is summed over channels, so nothing is packed but the weights: planes are
computed in vectors of pixels (NCHW, depthwise alone), and pixels in vectors of channels (NHWC,
NCHWc). A few channels at a time may be gathered in the scratch: planes turned into pixels, and
their sums back, or channels of pixels copied, as caches hold few pixels whose distance is a large
power of two. A task is a segment of
rows of a segment of channels of one image. Arrays that are converted, and exact sums of bytes, go
through the scratch piece by piece: the piece's sums stay in L1 until they are stored. Kernels read
bytes where the caller has them.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from pplconv._kernels cimport (
    PPLCONV_BIAS_COLUMN,
    PPLCONV_BIAS_ROW,
    find,
    pplconv_depthwise_bytes_channels_args,
    pplconv_depthwise_bytes_pixels_args,
    pplconv_depthwise_channels_args,
    pplconv_depthwise_pixels_args,
    pplconv_pack_depthwise_args,
    pplconv_pack_depthwise_bytes_args,
)
from pplconv.schedules.base cimport (
    Schedule,
    Tensors,
    complete,
    follows,
    ceil_div,
    channel_offset,
    check_offsets,
    epilogue_flags,
    finish_converted,
    least,
    most,
    convert_in,
    zero_tail,
)
from pplconv.schedules.depthwise_job cimport (
    DepthwiseCut,
    DepthwiseJob,
    DepthwiseOffsets,
    Part,
    UnitFields,
    UnitOffsets,
)
from pplconv.schedules.depthwise_gathered cimport (
    Rows,
    all_vectors,
    copy_channels,
    rows_seen,
    run_planes_turned,
    weights_at,
)
from pplconv.schedules.work cimport padding_of

from pplconv._kernels import rows as kernels, serving

cdef enum:
    # Bytes that a padded line of a plane has beyond the columns that a kernel sees, as the kernel's
    # contract asks.
    SLAB_ROOM = 64
    UNIT_HEADER = 64


cdef void run_planes(const DepthwiseJob *j, const Tensors *t, const Part *p) noexcept nogil:
    """NCHW: vectors over pixels."""
    cdef pplconv_depthwise_pixels_args a
    cdef int64_t offset
    offset = p.image * j.shape.y.image + p.channel * j.shape.y.block
    a.src = t.x + p.image * j.shape.x.image + p.channel // j.multiplier * j.shape.x.block
    a.src_cs = j.shape.x.block
    a.dst = t.y + offset
    a.dst_cs = j.shape.y.block
    a.weights = t.weights + p.channel * j.shape.taps * j.shape.size.weight
    a.first_row = p.row
    a.rows = p.row_end - p.row
    a.channels = p.channel_end - p.channel
    a.multiplier = j.multiplier
    a.bias = t.bias + p.channel * j.shape.size.bias
    a.residual = t.residual + offset
    a.residual_cs = a.dst_cs
    a.clip = t.clip
    a.flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_ROW)
    a.geometry = &j.shape.geometry
    j.by_pixels(&a)
    if follows(t):
        complete(&j.shape, t, t.y + offset + p.row * j.shape.y.row, j.shape.y.block, a.channels,
                 a.rows * j.shape.geometry.ow, p.channel, True)


cdef void run_planes_converted(const DepthwiseJob *j, const Tensors *t, const Part *p,
                               char *scratch) noexcept nogil:
    """NCHW with conversions: rows of a few channels go through the scratch."""
    cdef pplconv_depthwise_pixels_args a
    cdef int64_t e = j.shape.size.operand, row, offset
    cdef const char *src
    cdef int64_t channel = p.channel // j.multiplier
    cdef int64_t channels = ceil_div(p.channel_end - p.channel, j.multiplier)
    cdef Rows r = rows_seen(j, p.row, p.row_end)
    a.src = t.x + p.image * j.shape.x.image + channel * j.shape.x.block
    a.src_cs = j.shape.x.block
    if j.shape.converts_in:
        row = j.shape.geometry.iw * e
        src = <const char *> a.src + r.top * j.shape.x.row
        a.src_cs = j.plan.slab_rows * row
        a.src = scratch + j.at.slab_offset - r.top * row
        convert_in(&j.shape, src, j.shape.x.block, scratch + j.at.slab_offset, a.src_cs, channels,
                   (r.bottom - r.top) * j.shape.geometry.iw)
    offset = p.image * j.shape.y.image + p.channel * j.shape.y.block
    a.dst, a.dst_cs = t.y + offset, j.shape.y.block
    a.residual, a.residual_cs = t.residual + offset, j.shape.y.block
    if j.shape.converts_out:
        row = j.shape.geometry.ow * j.shape.size.sum
        a.dst_cs = (p.row_end - p.row) * row
        a.dst = scratch + j.at.out_offset - p.row * row
    a.weights = t.weights + p.channel * j.shape.taps * j.shape.size.weight
    a.first_row = p.row
    a.rows = p.row_end - p.row
    a.channels = p.channel_end - p.channel
    a.multiplier = j.multiplier
    a.bias = t.bias + p.channel * j.shape.size.bias
    a.clip = t.clip
    a.flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_ROW)
    a.geometry = &j.shape.geometry
    j.by_pixels(&a)
    offset += p.row * j.shape.y.row
    if j.shape.converts_out:
        finish_converted(&j.shape, t, scratch + j.at.out_offset, a.dst_cs, offset,
                         j.shape.y.block, a.channels, a.rows * j.shape.geometry.ow, p.channel,
                         True)
    elif follows(t):
        complete(&j.shape, t, t.y + offset, j.shape.y.block, a.channels,
                 a.rows * j.shape.geometry.ow, p.channel, True)


cdef void run_planes_bytes(const DepthwiseJob *j, const Tensors *t, const Part *p,
                           char *scratch) noexcept nogil:
    """The same of bytes: exact sums in the scratch, then stored."""
    cdef pplconv_depthwise_bytes_pixels_args a
    cdef int64_t pixels = (p.row_end - p.row) * j.shape.geometry.ow
    a.src = t.x + p.image * j.shape.x.image + p.channel // j.multiplier * j.shape.x.block
    a.src_cs = j.shape.x.block
    a.dst = scratch + j.at.out_offset
    a.dst_cs = pixels * j.shape.size.sum
    a.weights = t.weights + p.channel * j.unit_at.unit_bytes
    a.weights_us = j.unit_at.unit_bytes
    a.slab = scratch + j.at.slab_offset
    a.slab_rs = j.unit_at.slab_line
    a.first_row = p.row
    a.rows = p.row_end - p.row
    a.channels = p.channel_end - p.channel
    a.multiplier = j.multiplier
    a.x_zero = padding_of(t)
    a.geometry = &j.shape.geometry
    j.by_pixels(&a)
    finish_converted(&j.shape, t, scratch + j.at.out_offset, a.dst_cs,
                     p.image * j.shape.y.image + p.channel * j.shape.y.block
                     + p.row * j.shape.y.row, j.shape.y.block, a.channels, pixels, p.channel, True)


cdef void run_pixels(const DepthwiseJob *j, const Tensors *t, const Part *p) noexcept nogil:
    """NHWC and NCHWc: vectors over channels, block by block."""
    cdef pplconv_depthwise_channels_args a
    cdef int64_t channel = p.channel, image, offset, row
    a.src_rs = j.shape.x.row
    a.src_ps = j.shape.x.pixel
    a.dst_rs = j.shape.y.row
    a.dst_ps = j.shape.y.pixel
    a.first_row = p.row
    a.rows = p.row_end - p.row
    a.multiplier = j.multiplier
    a.depth = j.shape.ic
    a.residual_rs = a.dst_rs
    a.residual_ps = a.dst_ps
    a.clip = t.clip
    a.flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_COLUMN)
    a.geometry = &j.shape.geometry
    image = p.image * j.shape.y.image
    while channel < p.channel_end:
        a.channels = least(p.channel_end - channel,
                           j.shape.y.width - channel % j.shape.y.width)
        a.phase = channel % j.multiplier
        a.src = (t.x + p.image * j.shape.x.image
                 + channel_offset(&j.shape.x, j.shape.size.source, channel // j.multiplier))
        offset = image + channel_offset(&j.shape.y, j.shape.size.destination, channel)
        a.dst = t.y + offset
        a.residual = t.residual + offset
        a.weights = weights_at(j, t, channel)
        a.bias = t.bias + channel * j.shape.size.bias
        j.by_channels(&a)
        if follows(t):
            for row in range(p.row, p.row_end):
                complete(&j.shape, t, t.y + offset + row * j.shape.y.row, j.shape.y.pixel,
                         j.shape.geometry.ow, a.channels, channel, False)
        channel += a.channels
    # `zero_tail` counts channels over all groups, as this task does.
    zero_tail(&j.shape, p.channel_end,
              t.y + image + p.row * j.shape.y.row, p.row_end - p.row, j.shape.geometry.ow)


cdef inline void convert_rows(const DepthwiseJob *j, const char *x, int64_t channels, int64_t rows,
                              char *slab) noexcept nogil:
    """Convert rows of some channels, which lie densely then."""
    cdef int64_t pixel = channels * j.shape.size.operand, columns = j.shape.geometry.iw, row
    if j.shape.x.row == columns * j.shape.x.pixel:
        if j.shape.x.pixel == channels * j.shape.size.source:
            convert_in(&j.shape, x, 0, slab, 0, 1, rows * columns * channels)
        else:
            convert_in(&j.shape, x, j.shape.x.pixel, slab, pixel, rows * columns, channels)
        return
    for row in range(rows):
        convert_in(&j.shape, x + row * j.shape.x.row, j.shape.x.pixel,
                   slab + row * columns * pixel, pixel, columns, channels)


cdef void run_pixels_converted(const DepthwiseJob *j, const Tensors *t, const Part *p,
                               char *scratch) noexcept nogil:
    """NHWC and NCHWc with conversions or gathered: rows of some channels go through the scratch."""
    cdef pplconv_depthwise_channels_args a
    cdef int64_t e = j.shape.size.operand, channel = p.channel // j.multiplier, offset, row
    cdef int64_t together
    cdef int64_t channels = (p.channel_end - 1) // j.multiplier - channel + 1
    cdef Rows r = rows_seen(j, p.row, p.row_end)
    cdef const char *x = (t.x + p.image * j.shape.x.image + r.top * j.shape.x.row
                          + channel_offset(&j.shape.x, j.shape.size.source, channel))
    a.src_ps, a.src_rs = j.shape.x.pixel, j.shape.x.row
    a.src = x - r.top * j.shape.x.row
    if j.shape.converts_in or j.plan.gathered:
        a.src_ps = channels * e
        a.src_rs = j.shape.geometry.iw * a.src_ps
        a.src = scratch + j.at.slab_offset - r.top * a.src_rs
        if j.plan.gathered:
            copy_channels(j, x, channels, r.bottom - r.top, scratch + j.at.slab_offset)
        else:
            convert_rows(j, x, channels, r.bottom - r.top, scratch + j.at.slab_offset)
    a.channels = p.channel_end - p.channel
    offset = (p.image * j.shape.y.image
              + channel_offset(&j.shape.y, j.shape.size.destination, p.channel))
    a.dst, a.residual = t.y + offset, t.residual + offset
    a.dst_ps, a.dst_rs = j.shape.y.pixel, j.shape.y.row
    a.residual_ps, a.residual_rs = a.dst_ps, a.dst_rs
    if j.shape.converts_out:
        a.dst_ps = a.channels * j.shape.size.sum
        a.dst_rs = j.shape.geometry.ow * a.dst_ps
        a.dst = scratch + j.at.out_offset - p.row * a.dst_rs
    a.weights = weights_at(j, t, p.channel)
    a.first_row = p.row
    a.rows = p.row_end - p.row
    a.multiplier = j.multiplier
    a.phase = p.channel % j.multiplier
    a.depth = j.shape.ic
    a.bias = t.bias + p.channel * j.shape.size.bias
    a.clip = t.clip
    a.flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_COLUMN)
    a.geometry = &j.shape.geometry
    j.by_channels(&a)
    if j.shape.converts_out:
        # Rows without gaps between them are finished together.
        row, together = p.row, 1
        if j.shape.y.row == j.shape.geometry.ow * j.shape.y.pixel:
            together = a.rows
        while row < p.row_end:
            finish_converted(&j.shape, t, <char *> a.dst + row * a.dst_rs, a.dst_ps,
                             offset + row * j.shape.y.row, j.shape.y.pixel,
                             together * j.shape.geometry.ow, a.channels, p.channel, False)
            row += together
    elif follows(t):
        for row in range(p.row, p.row_end):
            complete(&j.shape, t, t.y + offset + row * j.shape.y.row, j.shape.y.pixel,
                     j.shape.geometry.ow, a.channels, p.channel, False)


cdef void run_pixels_bytes(const DepthwiseJob *j, const Tensors *t, const Part *p,
                           char *scratch) noexcept nogil:
    """The same of bytes, of NHWC: exact sums in the scratch, then stored."""
    cdef pplconv_depthwise_bytes_channels_args a
    a.src = (t.x + p.image * j.shape.x.image + p.channel // j.multiplier * j.shape.size.source)
    a.src_rs = j.shape.x.row
    a.src_ps = j.shape.x.pixel
    a.channels = p.channel_end - p.channel
    a.dst_ps = ceil_div(a.channels * j.shape.size.sum, j.vector_bytes) * j.vector_bytes
    a.dst_rs = j.shape.geometry.ow * a.dst_ps
    a.dst = scratch + j.at.out_offset - p.row * a.dst_rs
    a.weights = t.weights + p.channel // j.unit_plan.unit * j.unit_at.unit_bytes
    a.weights_us = j.unit_at.unit_bytes
    a.first_row = p.row
    a.rows = p.row_end - p.row
    a.first_column = 0
    a.columns = j.shape.geometry.ow
    a.multiplier = j.multiplier
    a.phase = p.channel % j.multiplier
    a.x_zero = padding_of(t)
    a.geometry = &j.shape.geometry
    j.by_channels(&a)
    finish_converted(&j.shape, t, scratch + j.at.out_offset, a.dst_ps,
                     p.image * j.shape.y.image + p.channel * j.shape.size.destination
                     + p.row * j.shape.y.row, j.shape.y.pixel, a.rows * j.shape.geometry.ow,
                     a.channels, p.channel, False)


cdef void run_pieces(const DepthwiseJob *j, const Tensors *t, const Part *p,
                     char *scratch) noexcept nogil:
    """Run a part in pieces that fit the scratch, up to the end of each block of channels."""
    cdef Part piece = p[0]
    cdef int64_t width = j.shape.y.width
    while piece.row < p.row_end:
        piece.row_end = least(piece.row + j.cut.row_chunk, p.row_end)
        piece.channel = p.channel
        while piece.channel < p.channel_end:
            piece.channel_end = least(piece.channel + j.cut.channel_chunk, p.channel_end)
            if width > 1:
                piece.channel_end = least(piece.channel_end,
                                          piece.channel + width - piece.channel % width)
            j.run_piece(j, t, &piece, scratch)
            piece.channel = piece.channel_end
        piece.row = piece.row_end
    if width > 1:
        zero_tail(&j.shape, p.channel_end, t.y + p.image * j.shape.y.image
                  + p.row * j.shape.y.row, p.row_end - p.row, j.shape.geometry.ow)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const DepthwiseJob *j = <const DepthwiseJob *> job
    cdef Part p
    cdef int64_t rest = task
    p.row = rest % j.row_segments * j.cut.row_segment
    p.row_end = least(p.row + j.cut.row_segment, j.shape.geometry.oh)
    rest = rest // j.row_segments
    p.channel = rest % j.channel_segments * j.cut.channel_segment
    p.channel_end = least(p.channel + j.cut.channel_segment, j.channels)
    p.image = rest // j.channel_segments
    if j.run_piece != NULL:
        run_pieces(j, t, &p, scratch)
    elif j.shape.y.width == 1:
        run_planes(j, t, &p)
    else:
        run_pixels(j, t, &p)


cdef inline bint by_planes(const DepthwiseJob *j) noexcept nogil:
    """Whether vectors run over pixels, so that weights lie as they are."""
    return j.shape.y.width == 1 and not j.plan.gathered


cdef void pack_planes(const void *job, const char *weights, char *packed, int64_t index,
                      int64_t pieces) noexcept nogil:
    """Copy piece `index` of `pieces` of the channels' kernels."""
    cdef const DepthwiseJob *j = <const DepthwiseJob *> job
    cdef int64_t kernel = j.shape.taps * j.shape.size.weight
    cdef int64_t begin = j.channels * index // pieces, end = j.channels * (index + 1) // pieces
    memcpy(packed + begin * kernel, weights + begin * kernel, <size_t> ((end - begin) * kernel))


cdef void pack_vectors(const void *job, const char *weights, char *packed, int64_t index,
                       int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of the vectors of channels."""
    cdef const DepthwiseJob *j = <const DepthwiseJob *> job
    cdef pplconv_pack_depthwise_args p
    cdef int64_t vectors = all_vectors(j), n, channel
    cdef int64_t vector = vectors * index // pieces, end = vectors * (index + 1) // pieces
    p.taps = j.shape.ic * j.shape.taps
    while vector < end:
        n = least(end - vector, j.vectors - vector % j.vectors)
        channel = vector // j.vectors * j.neighbours + vector % j.vectors * j.lanes
        p.channels = least(n * j.lanes, j.neighbours - channel % j.neighbours)
        p.channels = least(p.channels, j.channels - channel)
        p.src = weights + channel * p.taps * j.shape.size.weight
        p.dst = packed + vector * p.taps * j.vector_bytes
        j.pack_weights(&p)
        vector += n


cdef void pack_units(const void *job, const char *weights, char *packed, int64_t index,
                     int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of the units."""
    cdef const DepthwiseJob *j = <const DepthwiseJob *> job
    cdef pplconv_pack_depthwise_bytes_args p
    cdef int64_t units = ceil_div(j.channels, j.unit_plan.unit)
    p.src = weights
    p.dst = packed
    p.dst_us = j.unit_at.unit_bytes
    p.begin = units * index // pieces * j.unit_plan.unit
    p.end = least(units * (index + 1) // pieces * j.unit_plan.unit, j.channels)
    p.pixels = j.unit_plan.pixels
    p.multiplier = j.multiplier
    p.geometry = &j.shape.geometry
    j.pack_weights(&p)


# For the names of their members.
cdef DepthwiseOffsets no_offsets
cdef UnitOffsets no_unit_offsets

# Bytes of a vector of each kernel by its symbol.
cdef dict _vectors = {row["symbol"]: row["vector_bytes"] for row in kernels()
                      if row["op"] in ("depthwise_channels", "depthwise_bytes_channels")}


cdef class CutSchedule(Schedule):
    """Depthwise loops without their kernels: the cut into tasks."""

    # All members of the struct may be as large as a size.
    sizes = Schedule.sizes.union(no_offsets)

    def __cinit__(self, dict fields, str isa):
        cdef DepthwiseJob *j = &self.own
        memset(j, 0, sizeof(DepthwiseJob))
        j.shape = self.shape
        j.channels = j.shape.groups * j.shape.oc
        # Groups of several input channels have as many outputs: each begins where its inputs do.
        j.multiplier = j.shape.oc if j.shape.ic == 1 else 1
        # Each member by its name, from the numbers that `check_numbers` has seen.
        j.cut = fields
        j.at = fields
        if min(j.cut.channel_segment, j.cut.row_segment) < 1:
            raise ValueError("segments are at least 1")
        j.channel_segments = ceil_div(j.channels, j.cut.channel_segment)
        j.row_segments = ceil_div(j.shape.geometry.oh, j.cut.row_segment)
        if self.tasks != j.shape.batch * j.channel_segments * j.row_segments:
            raise ValueError("the tasks are not those of the segments")
        self.job = j
        self.one_phase(run_task)

    cdef int check_chunks(self, int64_t together) except -1:
        """Refuse pieces that are empty or separate channels that a kernel computes together."""
        cdef DepthwiseCut *f = &self.own.cut
        if min(f.channel_chunk, f.row_chunk) < 1:
            raise ValueError("chunks are at least 1")
        if ((f.channel_segment % together and f.channel_segment < self.own.channels)
                or (f.channel_chunk % together and f.channel_chunk < f.channel_segment)):
            raise ValueError("channels must be cut between groups, units or vectors")
        return 0


cdef class DepthwiseSchedule(CutSchedule):
    """A candidate of ``algorithms.depthwise`` compiled."""

    def __cinit__(self, dict fields, str isa):
        cdef str dtype = fields["numerics"].operand
        cdef DepthwiseJob *j = &self.own
        j.by_pixels = find("depthwise_pixels", dtype, isa)
        j.by_channels = find("depthwise_channels", dtype, isa)
        j.pack_weights = find("pack_depthwise", dtype, isa)
        j.vector_bytes = _vectors[serving("depthwise_channels", dtype, isa)]
        j.plan = fields
        if j.shape.converts_in or j.shape.converts_out or j.plan.gathered:
            j.run_piece = run_planes_converted if j.shape.y.width == 1 else run_pixels_converted
        if j.plan.gathered and j.shape.y.width == 1:
            j.run_piece = run_planes_turned
            j.pack_channels = find("pack_channels", dtype, isa)
            j.store_transposed = find("store_transposed", dtype, isa)
        check_offsets(j.at, j.shape.size.operand)
        j.lanes = j.vector_bytes // j.shape.size.operand
        # Of planes that are turned, all channels become neighbours.
        j.neighbours = most(j.channels if j.shape.y.width == 1 else j.shape.y.width, 1)
        j.vectors = ceil_div(j.neighbours, j.lanes)
        self.check()
        self.pack = pack_planes if by_planes(j) else pack_vectors

    cdef int check(self) except -1:
        """Refuse a plan that the loops could not carry out inside its memory."""
        cdef DepthwiseJob *j = &self.own
        cdef int64_t segment = j.cut.channel_segment
        if segment % j.shape.oc and segment < j.channels:
            raise ValueError("channel_segment must be whole groups")
        if j.shape.ic != 1:
            self.check_groups()
        if by_planes(j):
            self.check_weights(j.channels * j.shape.taps * j.shape.size.weight)
        else:
            if (segment < j.channels and segment % j.neighbours
                    and (segment % j.lanes
                         or (j.neighbours < j.channels and j.neighbours % j.lanes))):
                raise ValueError("channel_segment must be whole vectors of packed weights")
            self.check_weights(all_vectors(j) * j.shape.ic * j.shape.taps * j.vector_bytes)
        if j.shape.converts_in or j.shape.converts_out:
            self.check_converted()
        if j.plan.gathered:
            self.check_gathered()
        return 0

    cdef int check_gathered(self) except -1:
        """Refuse scratch in which gathered channels overlap or do not fit."""
        cdef DepthwiseJob *j = &self.own
        self.check_chunks(j.lanes)
        if j.shape.converts_in or j.shape.converts_out:
            raise ValueError("only arrays that are not converted are gathered")
        if j.shape.ic != 1 or j.shape.oc != 1:
            raise ValueError("channels are gathered where each input channel has one output")
        return self.check_slab(True, j.shape.y.width == 1)

    cdef int check_groups(self) except -1:
        """Refuse groups of several channels that the kernel could not compute in its vectors."""
        cdef DepthwiseJob *j = &self.own
        if j.shape.ic < 1 or j.shape.ic != j.shape.oc:
            raise ValueError("groups of several input channels have as many outputs")
        if j.shape.ic & (j.shape.ic - 1) and j.shape.ic % 16:
            raise ValueError("groups have a power of two of channels, or a multiple of 16")
        if j.shape.x.width != j.channels or j.shape.y.width != j.channels:
            raise ValueError("the channels of all groups must be neighbours")
        return 0

    cdef int check_converted(self) except -1:
        """Refuse scratch in which converted arrays overlap or do not fit."""
        cdef DepthwiseJob *j = &self.own
        cdef int64_t together = most(j.lanes, j.shape.ic)
        self.check_chunks(j.shape.oc if j.shape.y.width == 1 else together)
        return self.check_slab(j.shape.converts_in, j.shape.converts_out)

    cdef int check_slab(self, bint inputs, bint outputs) except -1:
        """Refuse scratch in which a chunk of these arrays overlaps another or does not fit."""
        cdef DepthwiseJob *j = &self.own
        cdef int64_t channels = j.cut.channel_chunk, rows, slab = 0, sums = 0
        g = &j.shape.geometry
        if inputs:
            rows = (j.cut.row_chunk - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1
            if j.plan.slab_rows < least(rows, g.ih):
                raise ValueError("the slab has fewer rows than what goes into it")
            slab = channels * j.plan.slab_rows * g.iw * j.shape.size.operand
        if outputs:
            sums = channels * j.cut.row_chunk * g.ow * j.shape.size.sum
        if self.tasks and (j.at.out_offset < j.at.slab_offset + slab
                           or self.thread_scratch < j.at.out_offset + sums):
            raise ValueError("the scratch is too small for a chunk")
        return 0


cdef class DepthwiseBytesSchedule(CutSchedule):
    """A candidate of ``algorithms.depthwise_bytes`` compiled."""

    sizes = CutSchedule.sizes.union(no_unit_offsets)

    def __cinit__(self, dict fields, str isa):
        cdef str dtype = fields["numerics"].operand
        cdef DepthwiseJob *j = &self.own
        j.by_pixels = find("depthwise_bytes_pixels", dtype, isa)
        j.by_channels = find("depthwise_bytes_channels", dtype, isa)
        j.pack_weights = find("pack_depthwise_bytes", dtype, isa)
        j.vector_bytes = _vectors[serving("depthwise_bytes_channels", dtype, isa)]
        j.unit_plan = fields
        j.unit_at = fields
        j.run_piece = run_planes_bytes if j.unit_plan.pixels else run_pixels_bytes
        self.check()
        self.check_scratch()
        self.pack = pack_units

    cdef int check(self) except -1:
        """Refuse a plan that the loops could not carry out with these arrays and weights."""
        cdef DepthwiseJob *j = &self.own
        cdef UnitFields *f = &j.unit_plan
        cdef int64_t unit, needed, lines
        g = &j.shape.geometry
        if j.shape.ic != 1:
            raise ValueError("depthwise groups of bytes have one input channel")
        if j.shape.converts_in or not j.shape.exact or j.shape.size.filter != 2:
            raise ValueError("bytes are read as they are, with weights of 16 bits")
        unit = 1 if f.pixels else j.vector_bytes
        if f.unit != unit:
            raise ValueError(f"units of packed weights have {unit} channels")
        if j.shape.y.width != (1 if f.pixels else j.channels):
            raise ValueError("all channels are neighbours, or none are")
        # Planes go with the others of their group, pixels in whole units.
        self.check_chunks(j.multiplier if f.pixels else unit)
        if f.pixels:
            needed = 8 + 8 * g.kh * ceil_div(g.kw, 4)
        else:
            needed = UNIT_HEADER + unit * 2 * j.shape.taps
            if g.kh == g.kw and (g.kh == 3 or g.kh == 5):
                lines = ceil_div(g.kh + 2, 4)
                needed = max(needed, UNIT_HEADER + unit * 4 * (1 + 4 * g.kw * lines))
        if j.unit_at.unit_bytes < needed or j.unit_at.unit_bytes % 8:
            raise ValueError("a unit of packed weights has no room for them")
        self.check_weights(ceil_div(j.channels, unit) * j.unit_at.unit_bytes)
        return 0

    cdef int check_scratch(self) except -1:
        """Refuse scratch in which padded lines and sums overlap or do not fit."""
        cdef DepthwiseJob *j = &self.own
        cdef int64_t channels, line = j.unit_at.slab_line, slab = 0, e = j.shape.size.sum
        g = &j.shape.geometry
        check_offsets({"out_offset": j.at.out_offset}, e)
        channels = least(j.cut.channel_chunk, j.cut.channel_segment)
        if j.unit_plan.pixels:
            slab = ((j.cut.row_chunk - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1) * line
            if line <= (g.ow - 1) * g.stride_w + (g.kw - 1) * g.dilation_w + SLAB_ROOM:
                raise ValueError("a padded line has no room for what a row of outputs sees")
        else:
            channels = ceil_div(channels * e, j.vector_bytes) * j.vector_bytes // e
        # Behind the last plane there is room for a vector.
        if self.tasks and (
                j.at.out_offset < j.at.slab_offset + slab
                or self.thread_scratch < (j.at.out_offset + channels * j.cut.row_chunk * g.ow * e
                                          + j.vector_bytes)):
            raise ValueError("the scratch is too small for padded lines and sums")
        return 0
