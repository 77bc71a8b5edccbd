# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Pooling and resampling of images whose channels are neighbours."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memmove, memset

from pplconv._kernels cimport (
    PPLCONV_POOL_MAX,
    PPLCONV_POOL_SUM,
    find,
    pplconv_pool_args,
    pplconv_pool_places_args,
    pplconv_resample_args,
)
from pplconv.memory.arrays cimport address_of
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.brain_rows cimport (
    BRAIN_BYTES,
    WIDE_BYTES,
    find_brain_rows,
    narrow_rows,
    widen_rows,
)
from pplconv.schedules.work cimport Tensors, Work

import numpy as np

from pplconv.memory.dtypes import DTYPES
from pplconv.schedules.work import check_numbers, extent_of

cdef enum:
    # Of a scale, which kernels take with all their bits.
    SCALE_BYTES = 8
    # Images of bfloat16 are float32 for a few rows at a time, and for these channels if they would
    # take more room otherwise.
    LEAST_CHANNELS = 32
    WIDE_ROOM = 1 << 18


cdef inline int64_t first_seen(const PoolJob *j, int64_t row) noexcept nogil:
    """The first input row that an output row sees."""
    return row * j.stride_h - j.pad_top + j.rows[row].low * j.dilation_h


cdef inline int64_t rows_seen(const PoolJob *j, int64_t row) noexcept nogil:
    """Input rows from the first one that an output row sees to the last."""
    return (j.rows[row].high - 1 - j.rows[row].low) * j.dilation_h + 1


cdef inline void pool_row(const PoolJob *j, int64_t row, const char *x, char *y,
                          const char *scales) noexcept nogil:
    """Compute an output row, from the first input row that it sees on."""
    cdef pplconv_pool_args a
    cdef const Sight *down = &j.rows[row]
    cdef const Sight *across
    cdef int64_t c
    a.channels, a.kind = j.channels, j.kind
    a.src_ps, a.src_rs = j.stride_w * j.x.pixel, j.dilation_h * j.x.row
    a.src_cs, a.dst_ps = j.dilation_w * j.x.pixel, j.y.pixel
    for c in range(j.column_count):
        across = &j.columns[c]
        a.src = x + (across.begin * j.stride_w - j.pad_left
                     + across.low * j.dilation_w) * j.x.pixel
        a.dst = y + across.begin * j.y.pixel
        a.pixels = across.end - across.begin
        a.rows, a.columns = down.high - down.low, across.high - across.low
        # There is the reciprocal of each number of taps.
        a.scale = scales + down.count * across.count * SCALE_BYTES
        j.kernel(&a)


cdef void run_pool(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const PoolJob *j = <const PoolJob *> job
    cdef int64_t row = task % j.row_segments * j.row_segment, image = task // j.row_segments
    cdef int64_t end = least(row + j.row_segment, j.oh)
    for row in range(row, end):
        pool_row(j, row, t.arrays[1] + image * j.x.image + first_seen(j, row) * j.x.row,
                 t.arrays[0] + image * j.y.image + row * j.y.row, t.arrays[2])


cdef void run_brain_pool(const void *job, const Tensors *t, int64_t task,
                         char *scratch) noexcept nogil:
    """Rows of bfloat16 become float32 once, and stay for the outputs that see them."""
    cdef const PoolJob *j = <const PoolJob *> job
    cdef PoolJob wide = j[0]
    cdef int64_t begin = task % j.row_segments * j.row_segment, image = task // j.row_segments
    cdef int64_t end = least(begin + j.row_segment, j.oh), row, channel, first, last
    # The input rows in scratch: low <= row < high.
    cdef int64_t low, high
    cdef const char *x
    cdef char *y
    cdef char *result = scratch + j.held * j.iw * j.block * WIDE_BYTES
    channel = 0
    while channel < j.channels:
        wide.channels = least(j.block, j.channels - channel)
        wide.x.pixel = wide.y.pixel = wide.channels * WIDE_BYTES
        wide.x.row = j.iw * wide.x.pixel
        x = t.arrays[1] + image * j.x.image + channel * BRAIN_BYTES
        y = t.arrays[0] + image * j.y.image + channel * BRAIN_BYTES
        low = high = 0
        for row in range(begin, end):
            first = first_seen(j, row)
            last = first + rows_seen(j, row)
            if first < low or first >= high:
                low = high = first
            elif last - low > j.held:
                memmove(scratch, scratch + (first - low) * wide.x.row,
                        (high - first) * wide.x.row)
                low = first
            while high < last:
                widen_rows(&j.brain, x + high * j.x.row, j.x.pixel,
                           scratch + (high - low) * wide.x.row, wide.x.pixel, j.iw, wide.channels)
                high += 1
            pool_row(&wide, row, scratch + (first - low) * wide.x.row, result, t.arrays[2])
            narrow_rows(&j.brain, result, wide.y.pixel, y + row * j.y.row, j.y.pixel, j.ow,
                        wide.channels)
        channel += j.block


cdef int64_t channels_of_block(int64_t channels, int64_t pixels) noexcept:
    """Channels that are float32 at once, of so many pixels."""
    cdef int64_t fitting = WIDE_ROOM // WIDE_BYTES // pixels // LEAST_CHANNELS * LEAST_CHANNELS
    return least(channels, max(fitting, LEAST_CHANNELS))


cdef int read_sights(object given, Sight *sights, int64_t outputs, int64_t inputs, int64_t stride,
                     int64_t dilation, int64_t pad) except -1:
    """Copy the ranges of outputs; refuse gaps between them, and taps outside the image."""
    cdef int64_t at = 0, first
    cdef Sight *s
    for i, (begin, end, low, high, count) in enumerate(given):
        s = &sights[i]
        s.begin, s.end, s.low, s.high, s.count = begin, end, low, high, count
        if (s.begin != at or not s.begin < s.end <= outputs or not 0 <= s.low < s.high
                or not 1 <= s.count < 1 << 20):
            raise ValueError("each output sees some taps")
        # Then no product wraps around.
        if max(s.high, s.count) >> 31:
            raise MemoryError("pooling is beyond what the loops can address")
        at = s.end
        first = s.begin * stride - pad + s.low * dilation
        if first < 0 or (s.end - 1) * stride - pad + (s.high - 1) * dilation >= inputs:
            raise ValueError("an output sees what is not there")
    if at != outputs:
        raise ValueError("each output sees some taps")
    return 0


cdef int64_t most_counts(const Sight *sights, int64_t count) noexcept:
    cdef int64_t i, found = 1
    for i in range(count):
        found = max(found, sights[i].count)
    return found


cdef int64_t images_bytes(const Images *m, int64_t batch, int64_t height, int64_t width,
                          int64_t channels, int64_t element, bint written) except -1:
    return extent_of(channels * element, (batch, height, width), (m.image, m.row, m.pixel),
                     element, written)


cdef int64_t scratch_of(int64_t pixels, int64_t channels) except -1:
    """Bytes of so many pixels of float32."""
    if pixels >= (<int64_t> 1 << 47) // (channels * WIDE_BYTES):
        raise MemoryError("images of bfloat16 are beyond what the loops can address")
    return ceil_div(pixels * channels * WIDE_BYTES, 64) * 64


cdef class Pool(Work):
    """Pooling compiled: array 1 to array 0, with scales in array 2.

    Parameters
    ----------
    fields : dict
        ``dtype``; ``kind``, of ``PPLCONV_POOL_*``, of bytes the largest; ``batch``, ``channels``,
        ``ih``, ``iw``, ``oh``, ``ow``; ``stride``, ``dilation``, ``pads`` (top, left); ``x`` and
        ``y``, strides in bytes of image, row and pixel; ``rows`` and ``columns``, tuples (begin,
        end, low, high, count) of outputs that see the same taps, one for each output row;
        ``row_segment``. Array 2 has a scale of eight bytes for each number of taps, from 0 on.
    isa : str
        Which kernel to call.

    Raises
    ------
    ValueError
        If an output would see what is not there.
    """

    def __cinit__(self, dict fields, str isa):
        cdef PoolJob *j = &self.own
        cdef int64_t element, batch, ow
        memset(j, 0, sizeof(PoolJob))
        check_numbers(fields, frozenset())
        brain = fields["dtype"] == "bf16"
        j.kernel = find("pool", "f32" if brain else fields["dtype"], isa)
        element = DTYPES[fields["dtype"]].itemsize
        j.channels, j.oh = fields["channels"], fields["oh"]
        ow, batch = fields["ow"], fields["batch"]
        j.stride_h, j.stride_w = fields["stride"]
        j.dilation_h, j.dilation_w = fields["dilation"]
        j.pad_top, j.pad_left = fields["pads"]
        j.x.image, j.x.row, j.x.pixel = fields["x"]
        j.y.image, j.y.row, j.y.pixel = fields["y"]
        j.row_segment, j.kind = fields["row_segment"], fields["kind"]
        if (min(j.channels, j.oh, ow, batch, j.row_segment) < 1
                or min(fields["ih"], fields["iw"]) < 1
                or min(*fields["stride"], *fields["dilation"]) < 1
                or min(*fields["pads"], *fields["x"], *fields["y"]) < 0
                or j.kind not in (PPLCONV_POOL_MAX, PPLCONV_POOL_SUM)):
            raise ValueError("pooling has images, strides of at least 1, and a kind")
        if element == 1 and j.kind != PPLCONV_POOL_MAX:
            raise ValueError("pooling of bytes gives the largest")
        if max(*fields["stride"], *fields["dilation"], *fields["pads"]) >> 31 or max(
                *fields["x"], *fields["y"]) >> 47:
            raise MemoryError("pooling is beyond what the loops can address")
        j.column_count = len(fields["columns"])
        if len(fields["rows"]) != j.oh or not 0 < j.column_count <= ow:
            raise ValueError("each output sees some taps")
        j.rows = <Sight *> calloc(j.oh, sizeof(Sight))
        j.columns = <Sight *> calloc(j.column_count, sizeof(Sight))
        if j.rows == NULL or j.columns == NULL:
            raise MemoryError
        read_sights(fields["rows"], j.rows, j.oh, fields["ih"], j.stride_h, j.dilation_h,
                    j.pad_top)
        read_sights(fields["columns"], j.columns, ow, fields["iw"], j.stride_w, j.dilation_w,
                    j.pad_left)
        self.extents[0] = images_bytes(&j.y, batch, j.oh, ow, j.channels, element, True)
        self.extents[1] = images_bytes(&j.x, batch, fields["ih"], fields["iw"], j.channels,
                                       element, False)
        self.extents[2] = (most_counts(j.rows, j.oh) * most_counts(j.columns, j.column_count)
                           + 1) * SCALE_BYTES
        self.units[0], self.units[1], self.units[2] = element, element, SCALE_BYTES
        j.row_segments = ceil_div(j.oh, j.row_segment)
        self.tasks = batch * j.row_segments
        self.threads = 1
        self.job = j
        if brain:
            find_brain_rows(&j.brain, isa)
            j.iw, j.ow = fields["iw"], ow
            j.held = max([rows_seen(j, row) for row in range(j.oh)])
            j.held = least(2 * j.held, fields["ih"])
            j.block = channels_of_block(j.channels, j.held * j.iw + ow)
            self.thread_scratch = scratch_of(j.held * j.iw + ow, j.block)
        self.one_phase(run_brain_pool if brain else run_pool)

    def __dealloc__(self):
        free(self.own.rows)
        free(self.own.columns)


cdef inline int64_t seen_by(const PlacesAxis *a, int64_t output, int64_t *first) noexcept nogil:
    """Taps of an output that lie inside the image, one after the other; `first` is their input."""
    cdef int64_t start = output * a.stride - a.pad
    cdef int64_t low = ceil_div(-start, a.dilation) if start < 0 else 0
    cdef int64_t high = (a.inputs - 1 - start) // a.dilation + 1 if start < a.inputs else 0
    first[0] = start + low * a.dilation
    return max(least(high, a.kernel) - low, 0)


cdef inline int64_t alike(const PlacesAxis *a, int64_t output, int64_t first,
                          int64_t taps) noexcept nogil:
    """Outputs from this one on that see whole windows; 1 if its own window is not whole."""
    cdef int64_t last = a.inputs - 1 - (a.kernel - 1) * a.dilation - first
    if taps < a.kernel or last < 0:
        return 1
    return least(last // a.stride + 1, a.outputs - output)


cdef void run_places(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const PlacesJob *j = <const PlacesJob *> job
    cdef const PlacesAxis *deep = &j.axes[0]
    cdef const PlacesAxis *down = &j.axes[1]
    cdef const PlacesAxis *across = &j.axes[2]
    cdef pplconv_pool_places_args a
    cdef int64_t line = task % j.segments * j.segment, image = task // j.segments
    cdef int64_t end = least(line + j.segment, deep.outputs * down.outputs)
    cdef int64_t depth, row, column, depths, tap, z = 0, y = 0, x = 0, place
    cdef const char *src
    a.src_ps, a.src_rs = across.stride * across.x, down.dilation * down.x
    a.src_cs, a.dst_ps, a.places_ps = across.dilation * across.x, across.y, across.places
    a.place_ps, a.place_rs = across.stride * across.place, down.dilation * down.place
    a.place_cs, a.place_channel = across.dilation * across.place, j.place_channel
    a.channels = j.channels
    for line in range(line, end):
        depth, row = line // down.outputs, line % down.outputs
        depths = seen_by(deep, depth, &z)
        a.rows = seen_by(down, row, &y)
        column = 0
        while column < across.outputs:
            a.columns = seen_by(across, column, &x)
            a.pixels = alike(across, column, x, a.columns)
            a.dst = (t.arrays[0] + image * j.y_image + depth * deep.y + row * down.y
                     + column * across.y)
            a.places = (t.arrays[1] + image * j.places_image + depth * deep.places
                        + row * down.places + column * across.places)
            a.src, a.place, a.more = NULL, 0, 0
            if depths == 0 or a.rows == 0 or a.columns == 0:
                a.rows = 0
                j.kernel(&a)
                a.rows = seen_by(down, row, &y)
            else:
                src = t.arrays[2] + image * j.x_image + z * deep.x + y * down.x + x * across.x
                place = (image * j.place_image + z * deep.place + y * down.place
                         + x * across.place)
                for tap in range(depths):
                    a.src = src + tap * deep.dilation * deep.x
                    a.place, a.more = place + tap * deep.dilation * deep.place, tap > 0
                    j.kernel(&a)
            column += a.pixels


cdef class PoolPlaces(Work):
    """MaxPool with the places of maxima compiled: array 2 to arrays 0 and 1.

    Parameters
    ----------
    fields : dict
        ``dtype``; ``batch``, ``channels``; ``size``, ``out``, ``kernel``, ``stride``, ``dilation``,
        ``pads`` (before), each of three axes; ``x``, ``y``, ``places``, strides in
        bytes of image and axes; ``steps``, the distances of places of image, channel and axes;
        ``row_segment``, rows of a task. Array 1 is int64. Channels are contiguous.
    isa : str
        Which kernel to call.

    Raises
    ------
    ValueError
        If numbers do not describe images.
    """

    def __cinit__(self, dict fields, str isa):
        cdef PlacesJob *j = &self.own
        cdef PlacesAxis *a
        cdef int64_t element, batch
        cdef int d
        memset(j, 0, sizeof(PlacesJob))
        check_numbers(fields, frozenset())
        j.kernel = find("pool_places", fields["dtype"], isa)
        element = DTYPES[fields["dtype"]].itemsize
        j.channels, batch, j.segment = fields["channels"], fields["batch"], fields["row_segment"]
        counts = [(*fields[name],) for name in ("size", "out", "kernel", "stride", "dilation",
                                                "pads")]
        strides = [(*fields[name],) for name in ("x", "y", "places")]
        steps = (*fields["steps"],)
        if (min(j.channels, batch, j.segment) < 1 or {*map(len, counts)} != {3}
                or {*map(len, strides)} != {4} or len(steps) != 5
                or min(map(min, counts[:5])) < 1 or min(counts[5]) < 0
                or min(map(min, strides)) < 0 or min(steps) < 0):
            raise ValueError("pooling has images of three axes, and strides of at least 1")
        # Then no product wraps around: of a tap within the image, and of its place.
        if max(map(max, counts)) >> 31 or max(map(max, strides)) >> 47 or sum(
                [n * step for n, step in zip((batch, j.channels, *counts[0]), steps)]) >> 62:
            raise MemoryError("pooling is beyond what the loops can address")
        for d in range(3):
            a = &j.axes[d]
            a.inputs, a.outputs, a.kernel, a.stride, a.dilation, a.pad = [n[d] for n in counts]
            a.x, a.y, a.places = [s[d + 1] for s in strides]
            a.place = steps[d + 2]
        j.x_image, j.y_image, j.places_image = [s[0] for s in strides]
        j.place_image, j.place_channel = steps[:2]
        for d in range(3):
            self.extents[d] = extent_of(
                j.channels * (8 if d == 1 else element), (batch, *counts[1 if d < 2 else 0]),
                strides[(1, 2, 0)[d]], 8 if d == 1 else element, d < 2)
            self.units[d] = 8 if d == 1 else element
        self.written = 0b11
        j.segments = ceil_div(j.axes[0].outputs * j.axes[1].outputs, j.segment)
        self.tasks = batch * j.segments
        self.threads = 1
        self.job = j
        self.one_phase(run_places)


cdef void run_resample(const void *job, const Tensors *t, int64_t task,
                       char *scratch) noexcept nogil:
    cdef const ResampleJob *j = <const ResampleJob *> job
    cdef pplconv_resample_args a
    cdef const char **rows = <const char **> scratch
    cdef int64_t row = task % j.row_segments * j.row_segment, image = task // j.row_segments
    cdef int64_t end = least(row + j.row_segment, j.oh), tap
    cdef const char *x = t.arrays[1] + image * j.x.image
    a.rows, a.taps_y, a.taps_x, a.kind = rows, j.taps_y, j.taps_x, PPLCONV_POOL_SUM
    a.offset_x, a.weight_x = j.offsets, j.weights_x
    a.pixels, a.channels, a.dst_ps = j.ow, j.channels, j.y.pixel
    for row in range(row, end):
        for tap in range(j.taps_y):
            rows[tap] = x + j.rows[row * j.taps_y + tap] * j.x.row
        a.weight_y = j.weights_y + row * j.taps_y * j.element
        a.dst = t.arrays[0] + image * j.y.image + row * j.y.row
        j.kernel(&a)


cdef void run_brain_resample(const void *job, const Tensors *t, int64_t task,
                             char *scratch) noexcept nogil:
    """Rows of bfloat16 become float32, and stay until a row comes that takes their place."""
    cdef const ResampleJob *j = <const ResampleJob *> job
    cdef pplconv_resample_args a
    cdef const char **rows = <const char **> scratch
    # The input row at each place.
    cdef int64_t *found = <int64_t *> (scratch + j.taps_y * sizeof(char *))
    cdef char *wide = scratch + ceil_div((j.taps_y + j.held) * sizeof(int64_t), 64) * 64
    cdef int64_t begin = task % j.row_segments * j.row_segment, image = task // j.row_segments
    cdef int64_t end = least(begin + j.row_segment, j.oh), row, tap, channel, index, at
    cdef int64_t pixel = j.block * WIDE_BYTES
    cdef char *result = wide + j.held * j.iw * pixel
    cdef const char *x
    a.rows, a.taps_y, a.taps_x, a.kind = rows, j.taps_y, j.taps_x, PPLCONV_POOL_SUM
    a.offset_x, a.weight_x = j.offsets, j.weights_x
    a.pixels, a.dst, a.dst_ps = j.ow, result, pixel
    channel = 0
    while channel < j.channels:
        a.channels = least(j.block, j.channels - channel)
        x = t.arrays[1] + image * j.x.image + channel * BRAIN_BYTES
        for at in range(j.held):
            found[at] = -1
        for row in range(begin, end):
            for tap in range(j.taps_y):
                index = j.rows[row * j.taps_y + tap]
                at = index % j.held
                rows[tap] = wide + at * j.iw * pixel
                if found[at] != index:
                    widen_rows(&j.brain, x + index * j.x.row, j.x.pixel, wide + at * j.iw * pixel,
                               pixel, j.iw, a.channels)
                    found[at] = index
            a.weight_y = j.weights_y + row * j.taps_y * j.element
            j.kernel(&a)
            narrow_rows(&j.brain, result, pixel,
                        t.arrays[0] + image * j.y.image + row * j.y.row + channel * BRAIN_BYTES,
                        j.y.pixel, j.ow, a.channels)
        channel += j.block


cdef class Resample(Work):
    """Resampling compiled: array 1 to array 0.

    Parameters
    ----------
    fields : dict
        ``dtype``; ``batch``, ``channels``, ``ih``, ``iw``; ``x`` and ``y``, strides in bytes of
        image, row and pixel; ``rows`` and ``columns``, int64 arrays (outputs, taps) of the inputs
        that go into each output, and ``weights_y``, ``weights_x``, arrays of the same shapes of
        the type that sums are in; ``row_segment``. Bytes, whose type is ``"u8"``, are copied.
    isa : str
        Which kernel to call.

    Raises
    ------
    ValueError
        If an output would see what is not there.
    """

    def __cinit__(self, dict fields, str isa):
        cdef ResampleJob *j = &self.own
        cdef int64_t batch
        memset(j, 0, sizeof(ResampleJob))
        check_numbers(fields, frozenset())
        dtype = DTYPES[fields["dtype"]]
        weight = np.dtype(np.float32) if dtype.itemsize <= 2 else dtype
        # Copies, so that nobody can change them after these checks.
        down, across = [np.array(fields[n], np.int64, order="C") for n in ("rows", "columns")]
        weights = [np.array(fields[n], weight, order="C") for n in ("weights_y", "weights_x")]
        if (down.ndim != 2 or across.ndim != 2 or down.shape != weights[0].shape
                or across.shape != weights[1].shape or down.size == 0 or across.size == 0):
            raise ValueError("each output sees some inputs")
        if dtype.itemsize == 1 and down.shape[1] * across.shape[1] != 1:
            raise ValueError("bytes are copied, from one input each")
        if (down.min() < 0 or down.max() >= fields["ih"] or across.min() < 0
                or across.max() >= fields["iw"]):
            raise ValueError("an output sees what is not there")
        brain = fields["dtype"] == "bf16"
        j.kernel = find("resample", "f32" if brain else fields["dtype"], isa)
        j.element = weight.itemsize
        j.channels, batch = fields["channels"], fields["batch"]
        j.row_segment = fields["row_segment"]
        j.x.image, j.x.row, j.x.pixel = fields["x"]
        j.y.image, j.y.row, j.y.pixel = fields["y"]
        if (min(j.channels, batch, j.row_segment) < 1 or min(*fields["x"], *fields["y"]) < 0
                or max(*fields["x"], *fields["y"]) >> 47
                or max(j.channels, batch, fields["ih"], fields["iw"]) >> 31):
            raise ValueError("resampling has images, and strides that are not negative")
        (j.oh, j.taps_y), (j.ow, j.taps_x) = down.shape, across.shape
        if brain:
            find_brain_rows(&j.brain, isa)
            # The rows that an output sees have places of their own.
            j.held = (down.max(1) - down.min(1)).max() + 1
            j.iw = fields["iw"]
            j.block = channels_of_block(j.channels, j.held * j.iw + j.ow)
        across *= j.block * WIDE_BYTES if brain else j.x.pixel
        self.kept = [down, across, *weights]
        j.rows = <const int64_t *> address_of(down, NULL)
        j.offsets = <const int64_t *> address_of(across, NULL)
        j.weights_y, j.weights_x = address_of(weights[0], NULL), address_of(weights[1], NULL)
        self.extents[0] = images_bytes(&j.y, batch, j.oh, j.ow, j.channels, dtype.itemsize,
                                       True)
        self.extents[1] = images_bytes(&j.x, batch, fields["ih"], fields["iw"], j.channels,
                                       dtype.itemsize, False)
        self.units[0] = self.units[1] = dtype.itemsize
        j.row_segments = ceil_div(j.oh, j.row_segment)
        self.tasks = batch * j.row_segments
        # Each thread lists the rows of an output.
        self.thread_scratch = ceil_div((j.taps_y + j.held) * sizeof(char *), 64) * 64
        if brain:
            self.thread_scratch += scratch_of(j.held * j.iw + j.ow, j.block)
        self.threads = 1
        self.job = j
        self.one_phase(run_brain_resample if brain else run_resample)
