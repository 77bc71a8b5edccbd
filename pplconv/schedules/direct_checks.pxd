# cython: cdivision=True
"""Checks of direct convolution's plans: no plan may lead the loops outside its memory."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_segment
from pplconv.schedules.base cimport Schedule, ceil_div, least, most
from pplconv.schedules.direct_job cimport DirectFields, DirectJob, DirectOffsets, Range
from pplconv.schedules.panel_offsets cimport depth


cdef inline int check_ranges(const Range *ranges, int64_t count, int64_t outputs, int64_t inputs,
                             int64_t kernel, int64_t stride, int64_t dilation,
                             int64_t pad) except -1:
    # Refuse ranges that miss an output or a tap inside the image, or see a tap outside it.
    cdef int64_t i, first, last, at = 0
    for i in range(count):
        r = &ranges[i]
        if (r.begin != at or not at < r.end <= outputs
                or not 0 <= r.low <= r.high <= kernel):
            raise ValueError("ranges of outputs do not follow one another")
        at = r.end
        # Input index of tap 0, for the first and for the last output.
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


cdef inline int check_plan(Schedule schedule, const DirectJob *j) except -1:
    # Refuse a plan that the loops could not carry out inside its memory.
    cdef const DirectFields *f = &j.plan
    cdef const DirectOffsets *at = &j.at
    cdef int64_t e = j.shape.size.operand, i, rows, longest = 0
    g = &j.shape.geometry
    if min(f.row_segment, f.oc_segment, f.finish_panels) < 1:
        raise ValueError("segments are at least 1")
    if f.turned != (f.slab and j.shape.exact):
        raise ValueError("integer sums from planes, and no others, are turned")
    if f.turned and f.turned_pixel < least(f.oc_segment, j.shape.oc) * j.shape.size.destination:
        raise ValueError("pixels of outputs are smaller than what goes into them")
    if f.slab and not (f.turned or f.pixels_inner):
        raise ValueError("runs of outputs are stored panel by panel")
    if f.finish_panels > 1 and (not j.shape.exact or j.y.block):
        raise ValueError("only integer sums of neighbouring channels wait for one another")
    if f.oc_segment % f.panel_width and f.oc_segment < j.shape.oc:
        raise ValueError("oc_segment must be whole panels")
    check_ranges(j.rows, j.row_count, g.oh, g.ih, g.kh, g.stride_h, g.dilation_h, g.pad_top)
    check_ranges(j.columns, j.column_count, g.ow, g.iw, g.kw, g.stride_w, g.dilation_w,
                 g.pad_left)
    for i in range(j.column_count):
        longest = most(longest, j.columns[i].end - j.columns[i].begin)
    rows = least((f.row_segment - 1) * g.stride_h + (g.kh - 1) * g.dilation_h + 1, g.ih)
    if f.gathered and (
            f.slab_rows < rows or j.x.row < g.iw * j.x.pixel
            or j.x.pixel < (depth(j.shape.ic, f.kr) if j.shape.x.block == 0 or f.slab
                            else j.shape.x.width) * e):
        raise ValueError("the slab is smaller than what goes into it")
    if f.slab and (j.shape.x.width != 1 or j.shape.y.width != 1):
        raise ValueError("a slab is laid from planes and stored into planes")
    if j.x.pixel % e or j.x.row % e:
        raise ValueError("offsets are whole elements")
    if not f.slab and j.shape.y.width == 1 and least(f.panel_width, j.shape.oc) > 1:
        raise ValueError("channels that lie apart need a slab")
    if f.gathered != (f.slab or j.shape.converts_in or f.channels % f.kr != 0):
        raise ValueError("gathered says otherwise than types and groups of channels")
    if f.kr > 1 and (j.shape.x.block or j.shape.y.block) and not f.slab:
        raise ValueError("kernels that take several k together take no blocks of channels")
    if f.channels != (j.shape.ic if f.slab else least(j.x.width, j.shape.ic)):
        raise ValueError("blocks of channels are those of the array")
    if depth(f.channels, f.kr) != f.channels and j.channel_blocks > 1:
        raise ValueError("blocks of channels must be whole groups of kr")
    if f.taps_touch and g.kw > 1 and (
            g.dilation_w != 1 or j.x.pixel != depth(f.channels, f.kr) * e):
        raise ValueError("taps do not touch where they lie apart")
    if (j.shape.y.block and not f.slab and j.shape.y.width % f.panel_width
            and (j.shape.y.width != j.lanes or f.panel_width % j.lanes)):
        raise ValueError("vectors of output channels must not cross blocks of the array")
    if schedule.tasks and (
            at.slab_offset < j.channel_blocks * j.shape.taps * sizeof(pplconv_segment)
            or (f.slab and not f.turned
                and (longest > f.run_pixels
                     or at.run_offset < at.slab_offset + f.slab_rows * j.x.row
                     or schedule.thread_scratch
                     < at.run_offset + f.run_pixels * f.nr * j.shape.size.sum))
            or schedule.thread_scratch < at.slab_offset):
        raise ValueError("the scratch is too small")
    if schedule.tasks and (j.shape.converts_in or j.shape.converts_out or f.gathered):
        check_converted(schedule, j)
    if schedule.tasks != (j.shape.batch * j.shape.groups * ceil_div(g.oh, f.row_segment)
                          * ceil_div(j.shape.oc, f.oc_segment)):
        raise ValueError("the tasks are not those of the segments")
    schedule.check_weights(j.shape.groups * j.panels.bytes)
    return 0


cdef inline int check_converted(Schedule schedule, const DirectJob *j) except -1:
    # Refuse scratch in which converted arrays overlap or do not fit.
    cdef const DirectFields *f = &j.plan
    cdef int64_t e = j.shape.size.operand, sum = j.shape.size.sum, stage = 0
    cdef int64_t run = f.mr * f.nr * f.finish_panels * sum
    cdef int64_t slab = j.channel_blocks * f.slab_rows * j.x.row if f.gathered else 0
    cdef int64_t outputs = 0
    if f.turned:
        outputs = least(f.row_segment, j.shape.geometry.oh) * j.y.row
    if f.slab:
        if not f.turned:
            run = f.run_pixels * f.nr * sum
        if j.shape.converts_in:
            if f.stage_channels < 1:
                raise ValueError("planes are converted at least one at a time")
            stage = f.stage_channels * j.shape.geometry.iw * e
        if j.shape.converts_out and not f.turned:
            stage = most(stage, f.nr * f.run_pixels * sum)
    elif not j.shape.converts_out:
        run = 0
    if (j.at.run_offset < j.at.slab_offset + slab
            or j.at.stage_offset < j.at.run_offset + run
            or j.at.turned_offset < j.at.stage_offset + stage
            or schedule.thread_scratch < j.at.turned_offset + outputs):
        raise ValueError("the scratch is too small for what is converted")
    return 0
