# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Depthwise convolution of bytes: exact sums of a few rows and channels, requantized from scratch.

Kernels read the user's bytes in place, and divide a chunk into registers themselves. A chunk is
small enough that its sums stay in L1 until they are finished.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    find,
    pplconv_depthwise_bytes_channels_args,
    pplconv_depthwise_bytes_pixels_args,
    pplconv_pack_depthwise_bytes_args,
)
from pplconv.schedules.base cimport (
    Schedule,
    Tensors,
    ceil_div,
    check_offsets,
    finish_converted,
    least,
)

from pplconv._kernels import rows, serving

cdef enum:
    # Bytes of a slab line beyond the columns that a kernel sees, as its contract demands.
    SLAB_ROOM = 64
    UNIT_HEADER = 64


cdef struct Part:
    int64_t image, channel, channel_end, row, row_end


cdef void run_planes(const DepthwiseBytesJob *j, const Tensors *t, const Part *p,
                     char *scratch) noexcept nogil:
    """NCHW: vectors over pixels."""
    cdef pplconv_depthwise_bytes_pixels_args a
    cdef int64_t pixels = (p.row_end - p.row) * j.shape.geometry.ow
    a.src = t.x + p.image * j.shape.x.image + p.channel // j.multiplier * j.shape.x.block
    a.src_cs = j.shape.x.block
    a.dst = scratch + j.at.out_offset
    a.dst_cs = pixels * j.shape.size.sum
    a.weights = t.weights + p.channel * j.at.unit_bytes
    a.weights_us = j.at.unit_bytes
    a.slab = scratch + j.at.slab_offset
    a.slab_rs = j.at.slab_line
    a.first_row = p.row
    a.rows = p.row_end - p.row
    a.channels = p.channel_end - p.channel
    a.multiplier = j.multiplier
    a.x_zero = t.x_zero
    a.geometry = &j.shape.geometry
    j.by_pixels(&a)
    finish_converted(&j.shape, t, scratch + j.at.out_offset, a.dst_cs,
                     p.image * j.shape.y.image + p.channel * j.shape.y.block
                     + p.row * j.shape.y.row, j.shape.y.block, a.channels, pixels, p.channel, True)


cdef void run_pixels(const DepthwiseBytesJob *j, const Tensors *t, const Part *p,
                     char *scratch) noexcept nogil:
    """NHWC: vectors over channels."""
    cdef pplconv_depthwise_bytes_channels_args a
    a.src = (t.x + p.image * j.shape.x.image + p.channel // j.multiplier * j.shape.size.source)
    a.src_rs = j.shape.x.row
    a.src_ps = j.shape.x.pixel
    a.channels = p.channel_end - p.channel
    a.dst_ps = ceil_div(a.channels * j.shape.size.sum, j.vector_bytes) * j.vector_bytes
    a.dst_rs = j.shape.geometry.ow * a.dst_ps
    a.dst = scratch + j.at.out_offset - p.row * a.dst_rs
    a.weights = t.weights + p.channel // j.plan.unit * j.at.unit_bytes
    a.weights_us = j.at.unit_bytes
    a.first_row = p.row
    a.rows = p.row_end - p.row
    a.first_column = 0
    a.columns = j.shape.geometry.ow
    a.multiplier = j.multiplier
    a.phase = p.channel % j.multiplier
    a.x_zero = t.x_zero
    a.geometry = &j.shape.geometry
    j.by_channels(&a)
    finish_converted(&j.shape, t, scratch + j.at.out_offset, a.dst_ps,
                     p.image * j.shape.y.image + p.channel * j.shape.size.destination
                     + p.row * j.shape.y.row, j.shape.y.pixel, a.rows * j.shape.geometry.ow,
                     a.channels, p.channel, False)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const DepthwiseBytesJob *j = <const DepthwiseBytesJob *> job
    cdef Part p
    cdef int64_t rest = task, row_end, channel, channel_end
    p.row = rest % j.row_segments * j.plan.row_segment
    row_end = least(p.row + j.plan.row_segment, j.shape.geometry.oh)
    rest = rest // j.row_segments
    channel = rest % j.channel_segments * j.plan.channel_segment
    channel_end = least(channel + j.plan.channel_segment, j.channels)
    p.image = rest // j.channel_segments
    while p.row < row_end:
        p.row_end = least(p.row + j.plan.row_chunk, row_end)
        p.channel = channel
        while p.channel < channel_end:
            p.channel_end = least(p.channel + j.plan.channel_chunk, channel_end)
            if j.plan.pixels:
                run_planes(j, t, &p, scratch)
            else:
                run_pixels(j, t, &p, scratch)
            p.channel = p.channel_end
        p.row = p.row_end


cdef void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                     int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of the units."""
    cdef const DepthwiseBytesJob *j = <const DepthwiseBytesJob *> job
    cdef pplconv_pack_depthwise_bytes_args p
    cdef int64_t units = ceil_div(j.channels, j.plan.unit)
    p.src = weights
    p.dst = packed
    p.dst_us = j.at.unit_bytes
    p.begin = units * index // pieces * j.plan.unit
    p.end = least(units * (index + 1) // pieces * j.plan.unit, j.channels)
    p.pixels = j.plan.pixels
    p.multiplier = j.multiplier
    p.geometry = &j.shape.geometry
    j.pack_weights(&p)


# For the names of its members.
cdef DepthwiseBytesOffsets no_offsets

# Bytes of a vector of each kernel by its symbol.
cdef dict _vectors = {row["symbol"]: row["vector_bytes"] for row in rows()
                      if row["op"] == "depthwise_bytes_channels"}


cdef class DepthwiseBytesSchedule(Schedule):
    """A candidate of ``algorithms.depthwise_bytes`` compiled."""

    # All members of the struct may be as large as a size.
    sizes = Schedule.sizes.union(no_offsets)

    def __cinit__(self, dict fields, str isa):
        cdef str dtype = fields["numerics"].operand
        cdef DepthwiseBytesJob *j = &self.own
        memset(j, 0, sizeof(DepthwiseBytesJob))
        j.shape = self.shape
        j.by_pixels = find("depthwise_bytes_pixels", dtype, isa)
        j.by_channels = find("depthwise_bytes_channels", dtype, isa)
        j.pack_weights = find("pack_depthwise_bytes", dtype, isa)
        j.vector_bytes = _vectors[serving("depthwise_bytes_channels", dtype, isa)]
        j.multiplier = j.shape.oc
        j.channels = j.shape.groups * j.shape.oc
        # Each member by its name, from the numbers that `check_numbers` has seen.
        j.plan = fields
        j.at = fields
        self.check()
        self.check_scratch()
        j.channel_segments = ceil_div(j.channels, j.plan.channel_segment)
        j.row_segments = ceil_div(j.shape.geometry.oh, j.plan.row_segment)
        self.job = j
        self.one_phase(run_task)
        self.pack = pack_range

    cdef int check(self) except -1:
        """Refuse a plan that the loops could not carry out with these arrays and weights."""
        cdef DepthwiseBytesJob *j = &self.own
        cdef DepthwiseBytesFields *f = &j.plan
        cdef int64_t together, unit, needed, lines
        g = &j.shape.geometry
        if j.shape.ic != 1:
            raise ValueError("depthwise groups have one input channel")
        if j.shape.converts_in or not j.shape.exact or j.shape.size.filter != 2:
            raise ValueError("bytes are read as they are, with weights of 16 bits")
        unit = 1 if f.pixels else j.vector_bytes
        if f.unit != unit:
            raise ValueError(f"units of packed weights have {unit} channels")
        if f.pixels == (j.shape.y.width > 1) or (j.shape.y.width > 1
                                                 and j.shape.y.width < j.channels):
            raise ValueError("all channels are neighbours, or none are")
        if min(f.channel_segment, f.row_segment, f.channel_chunk, f.row_chunk) < 1:
            raise ValueError("segments and chunks are at least 1")
        # Planes of a group stay together; channels of pixels are cut into whole units.
        together = j.multiplier if f.pixels else unit
        if ((f.channel_segment % together and f.channel_segment < j.channels)
                or (f.channel_chunk % together and f.channel_chunk < f.channel_segment)):
            raise ValueError("channels must be cut between groups or units")
        if self.tasks != (j.shape.batch * ceil_div(j.channels, f.channel_segment)
                          * ceil_div(g.oh, f.row_segment)):
            raise ValueError("the tasks are not those of the segments")
        if f.pixels:
            needed = 8 + 8 * g.kh * ceil_div(g.kw, 4)
        else:
            needed = UNIT_HEADER + unit * 2 * j.shape.taps
            if g.kh == g.kw and (g.kh == 3 or g.kh == 5):
                lines = ceil_div(g.kh + 2, 4)
                needed = max(needed, UNIT_HEADER + unit * 4 * (1 + 4 * g.kw * lines))
        if j.at.unit_bytes < needed or j.at.unit_bytes % 8:
            raise ValueError("a unit of packed weights has no room for them")
        self.check_weights(ceil_div(j.channels, unit) * j.at.unit_bytes)
        return 0

    cdef int check_scratch(self) except -1:
        """Refuse scratch in which padded lines and sums overlap or do not fit."""
        cdef DepthwiseBytesJob *j = &self.own
        cdef DepthwiseBytesFields *f = &j.plan
        cdef int64_t channels, slab = 0, e = j.shape.size.sum
        g = &j.shape.geometry
        check_offsets({"out_offset": j.at.out_offset}, e)
        channels = least(f.channel_chunk, f.channel_segment)
        if f.pixels:
            slab = ((f.row_chunk - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1) * j.at.slab_line
            if j.at.slab_line <= (g.ow - 1) * g.stride_w + (g.kw - 1) * g.dilation_w + SLAB_ROOM:
                raise ValueError("a padded line has no room for what a row of outputs sees")
        else:
            channels = ceil_div(channels * e, j.vector_bytes) * j.vector_bytes // e
        # There is room for a vector after the last plane.
        if self.tasks and (
                j.at.out_offset < j.at.slab_offset + slab
                or self.thread_scratch < (j.at.out_offset + channels * f.row_chunk * g.ow * e
                                          + j.vector_bytes)):
            raise ValueError("the scratch is too small for padded lines and sums")
        return 0
