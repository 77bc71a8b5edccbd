# cython: cdivision=True
"""Filters of floating point in blocks of four rows of results, which share the pixels they load.

Most of a wide row is read where it lies in the image. What sees the border, and narrow rows, are
read from copies of a few rows, with the pixels beyond the border.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_filter_floats_args, pplconv_kernel
from pplconv.schedules.base cimport ceil_div, least, most
from pplconv.schedules.image_rows cimport (
    IMAGE,
    PLACES,
    RESULTS,
    ROWS,
    RUNS,
    VALUE,
    WEIGHTS,
    Reader,
    read_numbers,
)
from pplconv.schedules.work cimport Tensors

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_repeat(void *dst, const void *number, int64_t count, int64_t size)
    void pplconv_copy_few(void *dst, const void *src, int64_t bytes)


cdef enum:
    # Rows of results that a kernel makes together, and of a kernel's taps.
    BLOCK = 4
    MOST_TAP_ROWS = 32
    MOST_RING = MOST_TAP_ROWS + 2 * BLOCK
    LINE_BYTES = 64
    # Numbers from which on a part of a row is read in place, and of results at a border.
    IN_PLACE = 512
    EDGE = 16


cdef struct FloatLines:
    Reader reader
    pplconv_kernel filter
    # Rows of results, and of a band; rows and columns of taps; whether the columns come first.
    int64_t height, rows, tap_rows, across
    bint separable
    # Channels; pixels of a row with its border, and numbers of a row of results.
    int64_t channels, columns, width
    int64_t image_rs, result_rs
    # Results of a row are numbers before `begin`, numbers that are read in place, and numbers from
    # `end` on; pixels of a row's copy before `right`, which those from `end` on see.
    int64_t begin, end, left, right
    # Bytes from number 0 of a row with its border to that of the image.
    int64_t shift
    int64_t run_count
    bint has_value, stream
    # The last rows, in a ring: copies of their borders, or of all, and sums along them.
    int64_t ring, copy_pitch, sums_pitch
    # Offsets in a thread's scratch.
    int64_t right_place, value_place, sums_place


cdef inline int64_t pitch_of(int64_t bytes) noexcept nogil:
    """Give whole cache lines, so that rows lie in different sets of a cache."""
    cdef int64_t lines = ceil_div(bytes, LINE_BYTES)
    return LINE_BYTES * (lines + (lines % 16 == 0))


cdef inline int64_t lay_out_lines(FloatLines *j, const int64_t *rows,
                                  const int64_t *runs, int64_t longest) noexcept nogil:
    """Choose what is read in place, and lay out a thread's scratch; gives its bytes."""
    cdef const int64_t *run = runs + 3 * longest
    cdef int64_t beside = j.across - 1, halo = j.tap_rows - 1, i
    cdef int64_t begin = run[0], end = run[0] + run[2] - beside, wide = j.columns - beside
    cdef int64_t edge = ceil_div(EDGE, j.channels), numbers = j.channels * j.reader.element
    cdef int64_t value_bytes = 0
    # A border has a vector of results, if there is one.
    begin = most(begin, edge) if begin else 0
    end = least(end, wide - edge) if end < wide else wide
    if run[1] < 0 or j.reader.read != NULL or (end - begin) * j.channels < IN_PLACE:
        begin = end = wide
    j.shift = (run[1] - run[0]) * numbers
    j.begin, j.end = begin * j.channels, end * j.channels
    j.left = begin + beside if begin else 0
    j.right = end
    j.right_place = j.left * numbers
    j.copy_pitch = pitch_of(j.right_place + (0 if end == wide else (j.columns - end) * numbers))
    j.ring = BLOCK + ceil_div(halo, BLOCK) * BLOCK
    j.sums_pitch = pitch_of(j.width * j.reader.element) if j.separable else 0
    j.has_value = False
    for i in range(j.height + halo):
        if rows[i] < 0 and j.begin < j.end:
            j.has_value = True
            value_bytes = pitch_of(j.columns * numbers)
    j.value_place = j.ring * j.copy_pitch
    j.sums_place = j.value_place + value_bytes
    return j.sums_place + j.ring * j.sums_pitch


cdef inline void read_pixels(const FloatLines *j, const char *src, char *dst,
                             int64_t count) noexcept nogil:
    if j.reader.read == NULL and count <= 1:
        pplconv_copy_few(dst, src, count * j.reader.element)
    else:
        read_numbers(&j.reader, src, dst, count)


cdef inline void read_part(const FloatLines *j, const Tensors *t, int64_t row, char *dst,
                           int64_t begin, int64_t end) noexcept nogil:
    """Copy pixels of a row with its border."""
    cdef const int64_t *run = <const int64_t *> t.arrays[RUNS]
    cdef int64_t numbers = j.channels * j.reader.element, first, count, _i
    cdef const char *src
    if row < 0:
        pplconv_repeat(dst, t.arrays[VALUE], (end - begin) * j.channels, j.reader.element)
        return
    src = t.arrays[IMAGE] + row * j.image_rs
    for _i in range(j.run_count):
        first = most(run[0], begin)
        count = least(run[0] + run[2], end) - first
        if count <= 0:
            pass
        elif run[1] < 0:
            pplconv_repeat(dst, t.arrays[VALUE], count * j.channels, j.reader.element)
            dst += count * numbers
        else:
            read_pixels(j, src + (run[1] + first - run[0]) * j.channels * j.reader.pixel, dst,
                        count * j.channels)
            dst += count * numbers
        run += 3


cdef inline void take_lines(const FloatLines *j, const Tensors *t, int64_t first, int64_t count,
                            int64_t slot, const char **places, char *scratch) noexcept nogil:
    """Copy what lies at the borders of some rows, and note where the rows are."""
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS] + first
    cdef int64_t k
    cdef char *copied
    for k in range(count):
        copied = scratch + (slot + k) * j.copy_pitch
        places[slot + k] = scratch + j.value_place
        if rows[k] >= 0:
            places[slot + k] = t.arrays[IMAGE] + rows[k] * j.image_rs + j.shift
        if j.left:
            read_part(j, t, rows[k], copied, 0, j.left)
        if j.end < j.width:
            read_part(j, t, rows[k], copied + j.right_place, j.right, j.columns)


cdef inline void filter_lines(const FloatLines *j, pplconv_filter_floats_args *a, int64_t slot,
                              const char **places, const char *scratch,
                              char *dst) noexcept nogil:
    """Filter rows of pixels from a slot of the ring on, part by part."""
    cdef (const char *)[MOST_RING] rows
    cdef int64_t[4] ends
    cdef int64_t part, k, at
    ends[0], ends[1], ends[2], ends[3] = 0, j.begin, j.end, j.width
    a.rows = rows
    for part in range(3):
        a.count = ends[part + 1] - ends[part]
        if not a.count:
            continue
        at = slot
        for k in range(a.lines + a.tap_rows - 1):
            if part == 1:
                rows[k] = places[at] + j.begin * j.reader.element
            else:
                rows[k] = scratch + at * j.copy_pitch + (j.right_place if part else 0)
            at = at + 1 if at + 1 < j.ring else 0
        a.dst = dst + ends[part] * j.reader.element
        j.filter(a)


cdef inline void sum_columns(const FloatLines *j, pplconv_filter_floats_args *a, int64_t slot,
                             const char *sums) noexcept nogil:
    """Filter columns of sums of rows from a slot of the ring on."""
    cdef (const char *)[MOST_RING] rows
    cdef int64_t k
    for k in range(a.lines + a.tap_rows - 1):
        rows[k] = sums + slot * j.sums_pitch
        slot = slot + 1 if slot + 1 < j.ring else 0
    a.rows = rows
    j.filter(a)


cdef inline void run_float_lines(const void *job, const Tensors *t, int64_t task,
                                 char *scratch) noexcept nogil:
    """Filter a band, from the image's rows to the results."""
    cdef const FloatLines *j = <const FloatLines *> job
    cdef int64_t first = task * j.rows, count = least(j.rows, j.height - first)
    # The first rows lie so that later blocks do not run around the ring's end.
    cdef int64_t halo = j.tap_rows - 1, ahead = j.ring - halo, row = 0, taken = 0, slot, more
    cdef int64_t place = 0
    cdef (const char *)[MOST_RING] places
    cdef pplconv_filter_floats_args a, column
    cdef char *sums = scratch + j.sums_place
    a.dst_rs, a.places, a.weights = j.result_rs, t.arrays[PLACES], t.arrays[WEIGHTS]
    a.tap_rows, a.across, a.stream = j.tap_rows, j.across, j.stream
    column = a
    if j.separable:
        a.dst_rs, a.tap_rows, a.stream = j.sums_pitch, 1, 0
        column.weights = t.arrays[WEIGHTS] + j.across * j.reader.element
        column.places, column.across, column.count = &place, 1, j.width
    if j.has_value:
        pplconv_repeat(scratch + j.value_place, t.arrays[VALUE], j.columns * j.channels,
                       j.reader.element)
    while row < count:
        column.lines = least(BLOCK, count - row)
        while taken < row + column.lines + halo:
            slot = (taken + ahead) % j.ring
            more = least(BLOCK - slot % BLOCK, row + column.lines + halo - taken)
            take_lines(j, t, first + taken, more, slot, places, scratch)
            if j.separable:
                a.lines = more
                filter_lines(j, &a, slot, places, scratch, sums + slot * j.sums_pitch)
            taken += more
        slot = (row + ahead) % j.ring
        column.dst = t.arrays[RESULTS] + (first + row) * j.result_rs
        if j.separable:
            sum_columns(j, &column, slot, sums)
        else:
            a.lines = column.lines
            filter_lines(j, &a, slot, places, scratch, <char *> column.dst)
        row += column.lines
