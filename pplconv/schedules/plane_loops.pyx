# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""im2col whose rows stay in place: vectors run along rows of outputs, weights are broadcast.

At stride 1 the pixels that a row of outputs reads for one tap are a stretch of an image row, which
moves by a pixel from tap to tap. So a sum over channels and taps is a sum over a few stretches, one
for each channel and row of the kernel, and the microkernel takes them as a list of segments, whose
step from one k to the next is a pixel. So nothing is copied for each tap. Only the padding has to
be added: the rows that a task needs are copied, once, into a slab with zeros around them, a ninth
of what im2col writes for a 3x3 kernel. This is for images of few channels, as in the first layer of
a network, whose im2col takes as long as the products.
"""

from libc.stdint cimport INT32_MAX, int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_BIAS_ROW,
    find,
    find_gemm_family,
    make_pixel_runs,
    pplconv_gemm_args,
    pplconv_pack_pixels_args,
    pplconv_pack_weights_args,
    pplconv_run,
    pplconv_segment,
)
from pplconv.schedules.base cimport (
    Schedule,
    Tensors,
    complete,
    follows,
    ceil_div,
    check_offsets,
    check_tile,
    epilogue_flags,
    least,
)
from pplconv.schedules.panel_offsets cimport Share, check_panels, panels_of, share_of


cdef struct Part:
    # What a task works on.
    int64_t image, group, row, row_end
    char *scratch


cdef void list_segments(const PlanesJob *j, const Part *part) noexcept nogil:
    """List the stretches that outputs sum over, in the order of packed weights."""
    cdef pplconv_segment *s = <pplconv_segment *> part.scratch
    cdef int64_t channel, kh, e = j.shape.size.operand
    for channel in range(j.shape.ic):
        for kh in range(j.shape.geometry.kh):
            s.a = (channel * j.shape.taps + kh * j.shape.geometry.kw) * j.panels.down
            s.b = (channel * j.plane + kh * j.shape.geometry.dilation_h * j.plan.slab_width) * e
            s += 1


cdef void lay_rows(const PlanesJob *j, const Tensors *t, const Part *part) noexcept nogil:
    """Copy the rows that a task sees into the slab, with zeros as padding."""
    cdef pplconv_pack_pixels_args p
    cdef const char *image = t.x + part.image * j.shape.x.image
    cdef int64_t first = part.row * j.shape.geometry.stride_h, rows
    rows = ((part.row_end - 1 - part.row) * j.shape.geometry.stride_h
            + (j.shape.geometry.kh - 1) * j.shape.geometry.dilation_h + 1)
    p.runs = part.scratch + j.at.runs_offset
    p.run_count = make_pixel_runs(
        &j.around, first * j.plan.slab_width, rows * j.plan.slab_width, j.lanes, j.plane, j.plane,
        <pplconv_run *> (part.scratch + j.at.runs_offset))
    p.src = image + part.group * j.shape.ic * j.shape.x.block
    p.src_cs = j.shape.x.block
    p.dst = part.scratch + j.at.slab_offset
    p.dst_cs = j.plane * j.shape.size.operand
    p.channels = j.shape.ic
    p.stride = 1
    j.pack_pixels(&p)


cdef void run_row(const PlanesJob *j, const Tensors *t, const Part *part, int64_t row,
                  pplconv_gemm_args *g) noexcept nogil:
    """Compute a row of outputs of all channels, tile by tile."""
    cdef int64_t e = j.shape.size.operand, out = j.shape.size.destination, width, at = 0
    cdef int64_t oc, m, step = j.shape.geometry.stride_h * j.plan.slab_width * e
    cdef int64_t channel = part.group * j.shape.oc
    cdef int64_t offset = (part.image * j.shape.y.image + row * j.shape.y.row
                           + channel * j.shape.y.block)
    cdef const char *b = part.scratch + j.at.slab_offset + (row - part.row) * step
    cdef const char *weights = t.weights + part.group * j.panels.bytes
    while at < j.shape.geometry.ow:
        g.n = width = least(j.plan.nr, j.shape.geometry.ow - at)
        width = ceil_div(width, j.lanes) - 1
        oc = 0
        g.a = weights
        g.b = b + at * e
        while oc < j.shape.oc:
            m = least(j.plan.mr, j.shape.oc - oc)
            g.c = t.y + offset + oc * j.shape.y.block + at * out
            g.residual = t.residual + offset + oc * j.shape.y.block + at * out
            g.bias = t.bias + (channel + oc) * j.shape.size.bias
            j.gemm.tile[width][m - 1](g)
            if follows(t):
                complete(&j.shape, t, <char *> g.c, g.c_rs, m, g.n, channel + oc, True)
            g.a = <const char *> g.a + j.panels.panel_bytes
            oc += j.plan.mr
        at += j.plan.nr


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const PlanesJob *j = <const PlanesJob *> job
    cdef pplconv_gemm_args g
    cdef Part part
    cdef int64_t row, rest = task
    part.scratch = scratch
    part.row = rest % j.row_segments * j.plan.row_segment
    part.row_end = least(part.row + j.plan.row_segment, j.shape.geometry.oh)
    rest = rest // j.row_segments
    part.group = rest % j.shape.groups
    part.image = rest // j.shape.groups
    list_segments(j, &part)
    lay_rows(j, t, &part)
    memset(&g, 0, sizeof(g))
    g.segments = scratch
    g.segment_count = j.shape.ic * j.shape.geometry.kh
    # Without segments, the kernel would take A and B from where they begin.
    g.k = j.shape.geometry.kw if g.segment_count else 0
    g.a_rs = j.panels.across
    g.a_ks = j.panels.down
    g.b_ks = g.b_ahead_ks = j.shape.geometry.dilation_w * j.shape.size.operand
    g.c_rs = g.residual_rs = j.shape.y.block
    g.c_vs = g.residual_vs = j.lanes * j.shape.size.destination
    g.clip = t.clip
    g.flags = epilogue_flags(&j.shape, t, PPLCONV_BIAS_ROW)
    for row in range(part.row, part.row_end):
        run_row(j, t, &part, row, &g)


cdef void pack_range(const void *job, const char *weights, char *packed, int64_t index,
                     int64_t pieces) noexcept nogil:
    """Pack piece `index` of `pieces` of every group's panels."""
    cdef const PlanesJob *j = <const PlanesJob *> job
    cdef pplconv_pack_weights_args p
    cdef Share share = share_of(&j.panels, index, pieces)
    cdef int64_t group
    p.oc_begin, p.oc_end = share.begin, share.end
    p.ic = j.shape.ic
    p.taps = j.shape.taps
    p.panel_width, p.kr = j.panels.width, j.panels.kr
    p.channel_block = 1
    p.src_ks = j.shape.size.weight
    p.src_os = j.shape.ic * j.shape.taps * p.src_ks
    for group in range(j.shape.groups):
        p.src = weights + group * j.shape.oc * p.src_os
        p.dst = packed + group * j.panels.bytes
        j.pack_weights(&p)


cdef int check_plan(Schedule schedule, const PlanesJob *j) except -1:
    """Refuse a plan that the loops could not carry out inside its memory."""
    cdef const PlanesFields *f = &j.plan
    cdef int64_t e = j.shape.size.operand, rows, runs
    g = &j.shape.geometry
    if j.shape.x.width != 1 or j.shape.y.width != 1 or j.shape.converts_in or f.kr != 1:
        raise ValueError("planes are read and written as they lie")
    if g.stride_w != 1:
        raise ValueError("stretches of pixels need a stride of 1 across")
    if f.row_segment < 1:
        raise ValueError("segments are at least 1")
    rows = ((least(f.row_segment, g.oh) - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1)
    if f.slab_rows < rows or f.slab_width < g.ow + (g.kw - 1) * g.dilation_w:
        raise ValueError("the slab is smaller than what goes into it")
    if g.ih * g.iw > INT32_MAX or j.plane > INT32_MAX:
        raise ValueError("planes are larger than the table of runs can say")
    # A run ends with a vector or a row; besides, one may begin after the padding of its row.
    runs = f.slab_rows * (ceil_div(f.slab_width, j.lanes) + 3) + 1
    if schedule.tasks and (
            j.at.runs_offset < j.shape.ic * g.kh * sizeof(pplconv_segment)
            or j.at.slab_offset < j.at.runs_offset + runs * sizeof(pplconv_run)
            or schedule.thread_scratch < j.at.slab_offset + j.shape.ic * j.plane * e):
        raise ValueError("the scratch is too small")
    if schedule.tasks != j.shape.batch * j.shape.groups * ceil_div(g.oh, f.row_segment):
        raise ValueError("the tasks are not those of the segments")
    schedule.check_weights(j.shape.groups * j.panels.bytes)
    return 0


# For the names of its members.
cdef PlanesOffsets no_offsets


cdef class PlanesSchedule(Schedule):
    """A candidate of ``algorithms.planes`` compiled."""

    # All members of the struct may be as large as a size.
    sizes = Schedule.sizes.union(no_offsets)

    def __cinit__(self, dict fields, str isa):
        cdef str dtype = fields["numerics"].operand
        cdef PlanesJob *j = &self.own
        memset(j, 0, sizeof(PlanesJob))
        j.shape = self.shape
        find_gemm_family(dtype, isa, fields["numerics"].kr, &j.gemm)
        j.pack_pixels = find("pack_pixels", dtype, isa)
        j.pack_weights = find("pack_weights", dtype, isa)
        j.lanes = j.gemm.lanes
        # Each member by its name, from the numbers that `check_numbers` has seen.
        j.plan = fields
        j.at = fields
        check_offsets(j.at, j.shape.size.operand)
        check_tile(&j.gemm, j.plan.mr, j.plan.nr)
        check_panels(j.plan.panel_width, j.plan.kr, &j.gemm, j.plan.mr, True)
        if min(j.plan.slab_rows, j.plan.slab_width) < 1:
            raise ValueError("the slab is smaller than what goes into it")
        j.plane = ceil_div(j.plan.slab_rows * j.plan.slab_width, j.lanes) * j.lanes
        j.around = j.shape.geometry
        j.around.oh = ((j.shape.geometry.oh - 1) * j.shape.geometry.stride_h
                       + (j.shape.geometry.kh - 1) * j.shape.geometry.dilation_h + 1)
        j.around.ow = j.plan.slab_width
        j.around.kh = j.around.kw = j.around.stride_h = 1
        j.around.dilation_h = j.around.dilation_w = 1
        j.panels = panels_of(j.plan.panel_width, j.plan.kr, j.shape.oc,
                             j.shape.ic * j.shape.taps, j.shape.size.weight)
        check_plan(self, j)
        # `check_plan` has seen that it is at least 1.
        j.row_segments = ceil_div(j.shape.geometry.oh, j.plan.row_segment)
        self.job = j
        self.one_phase(run_task)
        self.pack = pack_range
