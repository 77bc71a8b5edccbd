# cython: cdivision=True
"""Filters of floating point by a column and a row, one of equal taps, in strips of columns.

Sums of columns are made of rows where they lie in the image, some rows of results at a time, and
stay in L1. The pixels beyond a border are copies of others, and so are their sums. Rows of equal
taps are summed up by way of sums of a few neighbours.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    pplconv_box_columns_args, pplconv_filter_floats_args, pplconv_kernel)
from pplconv.schedules.base cimport least, most
from pplconv.schedules.float_lines cimport (
    LINE_BYTES, MOST_TAP_ROWS, FloatLines, pitch_of)
from pplconv.schedules.image_rows cimport (
    IMAGE, PLACES, RESULTS, ROWS, RUN, RUNS, VALUE, WEIGHTS, Part, part_of)
from pplconv.schedules.work cimport Tensors

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_repeat(void *dst, const void *number, int64_t count, int64_t size)

cdef extern from "pplconv_words.h" nogil:
    void pplconv_copy_words(void *dst, const void *src, int64_t bytes)


cdef enum:
    # Rows of results that are made together, and all rows that these see.
    BOX_ROWS = 16
    MOST_SEEN = MOST_TAP_ROWS + BOX_ROWS - 1
    # Bytes of the sums of a strip, which leaves room in L1; results of a strip at least.
    STRIP_BYTES = 20000
    LEAST_STRIP = 128
    VECTORS = 128
    MOST_TAPS = 128


cdef struct BoxLines:
    FloatLines lines
    # Makes sums of columns of equal taps; NULL for others.
    pplconv_kernel columns
    # Neighbours of a row that are summed up first, or 0; taps of the sums of a row, and where they
    # are.
    int64_t neighbours, taps
    int64_t[MOST_TAPS] places
    # Rows of results that are made together, and results of a strip, in pixels.
    int64_t together, strip
    # Bytes from row to row of sums; where the sums of neighbours lie behind those of columns.
    int64_t pitch, wide
    int64_t longest


cdef inline int64_t lay_out_boxes(BoxLines *j, int64_t longest) noexcept nogil:
    """Choose strips, and lay out a thread's scratch; gives its bytes."""
    cdef const FloatLines *f = &j.lines
    cdef int64_t numbers = f.channels * f.reader.element, beside = f.across - 1, k
    cdef int64_t left = f.across % j.neighbours if j.neighbours else f.across
    j.longest = longest
    # Sums that kernels share are of as many rows of results as there are taps.
    j.together = most(BOX_ROWS // f.tap_rows, 1) * least(f.tap_rows, BOX_ROWS)
    j.strip = STRIP_BYTES // (2 * j.together * numbers) - beside
    j.strip = most(j.strip, most(LEAST_STRIP // f.channels, 1))
    if j.strip >= VECTORS:
        j.strip -= j.strip % VECTORS
    j.strip = least(j.strip, f.width // f.channels)
    j.wide = pitch_of((j.strip + beside) * numbers)
    j.pitch = 2 * j.wide
    for k in range(j.taps):
        j.places[k] = k * numbers
        if k >= left:
            j.places[k] = j.wide + (left + (k - left) * j.neighbours) * numbers
    return j.together * j.pitch + j.wide + LINE_BYTES


cdef inline void sum_rows_of(const BoxLines *j, const Tensors *t, const char **rows, int64_t lines,
                             char *dst, int64_t count) noexcept nogil:
    """Make sums of columns of some rows."""
    cdef const FloatLines *f = &j.lines
    cdef const char *weights = t.arrays[WEIGHTS] + (j.neighbours + j.taps) * f.reader.element
    cdef int64_t place = 0
    cdef pplconv_box_columns_args b
    cdef pplconv_filter_floats_args a
    if j.columns != NULL:
        b.rows, b.dst, b.dst_rs, b.weight = rows, dst, j.pitch, weights
        b.lines, b.taps, b.count = lines, f.tap_rows, count
        j.columns(&b)
        return
    a.rows, a.dst, a.dst_rs, a.places, a.weights = rows, dst, j.pitch, &place, weights
    a.lines, a.tap_rows, a.across, a.count = lines, f.tap_rows, 1, count
    a.stream, a.down = 0, NULL
    f.filter(&a)


cdef inline void sum_columns_of(const BoxLines *j, const Tensors *t, int64_t first, int64_t lines,
                                const char *value, char *sums, int64_t start,
                                int64_t pixels) noexcept nogil:
    """Make sums of columns of a strip, with those beyond the border."""
    cdef const FloatLines *f = &j.lines
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS] + first
    cdef const int64_t *runs = <const int64_t *> t.arrays[RUNS]
    cdef int64_t numbers = f.channels * f.reader.element, seen_rows = lines + f.tap_rows - 1, row, k
    cdef (const char *)[MOST_SEEN] seen
    cdef Part longest, part
    cdef bint has_longest = part_of(runs + RUN * j.longest, start, start + pixels, &longest)
    has_longest = has_longest and longest.at >= 0
    if has_longest:
        for row in range(seen_rows):
            seen[row] = value
            if rows[row] >= 0:
                seen[row] = t.arrays[IMAGE] + rows[row] * f.image_rs + longest.at * numbers
        sum_rows_of(j, t, seen, lines, sums + longest.to * numbers, longest.count * f.channels)
    for k in range(f.run_count):
        if has_longest and k == j.longest or (
                not part_of(runs + RUN * k, start, start + pixels, &part)):
            continue
        if has_longest and part.at >= longest.at and (
                part.at + part.count <= longest.at + longest.count):
            for row in range(lines):
                pplconv_copy_words(
                    sums + row * j.pitch + part.to * numbers,
                    sums + row * j.pitch + (longest.to + part.at - longest.at) * numbers,
                    part.count * numbers)
            continue
        for row in range(seen_rows):
            seen[row] = value
            if part.at >= 0 and rows[row] >= 0:
                seen[row] = t.arrays[IMAGE] + rows[row] * f.image_rs + part.at * numbers
        sum_rows_of(j, t, seen, lines, sums + part.to * numbers, part.count * f.channels)


cdef inline void run_box_lines(const void *job, const Tensors *t, int64_t task,
                               char *scratch) noexcept nogil:
    """Filter a band, from the image's rows to the results."""
    cdef const BoxLines *j = <const BoxLines *> job
    cdef const FloatLines *f = &j.lines
    cdef int64_t first = task * f.rows, end = least(first + f.rows, f.height), k, start, pixels
    cdef int64_t numbers = f.channels * f.reader.element, width = f.width // f.channels
    cdef const char *value = scratch + j.together * j.pitch
    cdef (const char *)[BOX_ROWS] rows
    cdef pplconv_filter_floats_args a
    pplconv_repeat(<void *> value, t.arrays[VALUE], (j.strip + f.across - 1) * f.channels,
                   f.reader.element)
    for k in range(j.together):
        rows[k] = scratch + k * j.pitch
    a.rows, a.tap_rows, a.down = rows, 1, NULL
    while first < end:
        a.lines = least(j.together, end - first)
        start = 0
        while start < width:
            pixels = least(j.strip, width - start)
            sum_columns_of(j, t, first, a.lines, value, scratch, start, pixels + f.across - 1)
            if j.neighbours:
                a.places, a.weights, a.across = t.arrays[PLACES], t.arrays[WEIGHTS], j.neighbours
                a.dst, a.dst_rs, a.stream = scratch + j.wide, j.pitch, 0
                a.count = (pixels + f.across - j.neighbours) * f.channels
                f.filter(&a)
            a.places = <const void *> &j.places[0]
            a.weights, a.across = t.arrays[WEIGHTS] + j.neighbours * f.reader.element, j.taps
            a.dst = t.arrays[RESULTS] + first * f.result_rs + start * numbers
            a.dst_rs, a.count, a.stream = f.result_rs, pixels * f.channels, 0
            f.filter(&a)
            start += pixels
        first += a.lines
