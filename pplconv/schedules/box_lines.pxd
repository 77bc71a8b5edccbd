# cython: cdivision=True
"""Filters of floating point by a column and a row, mostly of equal taps, in strips of columns.

Sums of columns are made of rows where they lie in the image, some rows of results at a time, and
stay in L1. The pixels beyond a border are copies of others, and so are their sums. Rows of equal
taps are summed up by way of sums of a few neighbours.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    pplconv_box_columns_args, pplconv_box_rows_args, pplconv_filter_floats_args, pplconv_kernel,
    pplconv_near_rows_args)
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
    # Bytes of the sums of a strip: in L1, or in a part of L2 where sums of one row's neighbours are
    # in L1, or in all of L2 where those of all rows are stored, too, as kernels lose more at both
    # ends of short rows. Results of a strip at least.
    STRIP_BYTES = 28672
    NEAR_STRIP_BYTES = 3 << 15
    LONG_STRIP_BYTES = 1 << 20
    LEAST_STRIP = 128
    VECTORS = 128
    MOST_TAPS = 128
    # Bytes that kernels read behind a row.
    BEHIND = 448


cdef struct BoxLines:
    FloatLines lines
    # Make sums of columns and of rows of equal taps, the latter in registers or by way of sums of
    # neighbours; NULL for others.
    pplconv_kernel columns, rows, near
    # Neighbours of a row that are summed up first, or 0; taps of the sums of a row, and where they
    # are.
    int64_t neighbours, taps
    int64_t[MOST_TAPS] places
    # Rows of results whose columns share sums, the first row's place in such a block, rows that are
    # made together, and results of a strip, in pixels.
    int64_t block, past, together, strip
    # Bytes from row to row of sums; where the sums of neighbours lie behind those of columns.
    int64_t pitch, wide
    int64_t longest
    # Number of the first row of results, in all rows of the image.
    int64_t origin


cdef inline int64_t lay_out_boxes(BoxLines *j, int64_t longest) noexcept nogil:
    """Choose strips, and lay out a thread's scratch; gives its bytes."""
    cdef const FloatLines *f = &j.lines
    cdef int64_t numbers = f.channels * f.reader.element, beside = f.across - 1, k
    cdef int64_t left = f.across % j.neighbours if j.neighbours else f.across
    j.longest = longest
    # The same blocks for all bands of an image, whatever their rows: so are the results.
    j.block = least(f.tap_rows, BOX_ROWS)
    j.past = (j.origin % j.block + j.block) % j.block
    j.together = BOX_ROWS // j.block * j.block
    j.strip = LONG_STRIP_BYTES // (2 * j.together * numbers) - beside
    if j.rows != NULL:
        j.strip = STRIP_BYTES // (j.together * numbers) - beside
    elif j.near != NULL:
        j.strip = NEAR_STRIP_BYTES // (j.together * numbers) - beside
    j.strip = most(j.strip, most(LEAST_STRIP // f.channels, 1))
    if j.strip >= VECTORS:
        j.strip -= j.strip % VECTORS
    j.strip = least(j.strip, f.width // f.channels)
    j.wide = pitch_of((j.strip + beside) * numbers)
    j.pitch = j.wide + (BEHIND if j.rows != NULL or j.near != NULL else j.wide)
    for k in range(j.taps):
        j.places[k] = k * numbers
        if k >= left:
            j.places[k] = j.wide + (left + (k - left) * j.neighbours) * numbers
    # Behind the sums lie a row of the value and sums of one row's neighbours.
    return j.together * j.pitch + 2 * j.wide + BEHIND + LINE_BYTES


cdef inline void sum_part(const BoxLines *j, const Tensors *t, int64_t first, int64_t lines,
                          const char *value, const Part *part, char *sums) noexcept nogil:
    """Make sums of columns of a part of a strip, from rows of the image or of the value."""
    cdef const FloatLines *f = &j.lines
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS] + first
    cdef const char *weights = t.arrays[WEIGHTS] + (j.neighbours + j.taps) * f.reader.element
    cdef int64_t numbers = f.channels * f.reader.element, count = part.count * f.channels, row
    cdef int64_t place = 0
    cdef (const char *)[MOST_SEEN] seen
    cdef char *dst = sums + part.to * numbers
    cdef pplconv_box_columns_args b
    cdef pplconv_filter_floats_args a
    for row in range(lines + f.tap_rows - 1):
        seen[row] = value
        if part.at >= 0 and rows[row] >= 0:
            seen[row] = t.arrays[IMAGE] + rows[row] * f.image_rs + part.at * numbers
    if j.columns != NULL:
        b.rows, b.dst, b.dst_rs, b.weight = seen, dst, j.pitch, weights
        b.lines, b.taps, b.count = lines, f.tap_rows, count
        b.block, b.past = j.block, (j.past + first) % j.block
        j.columns(&b)
        return
    a.rows, a.dst, a.dst_rs, a.places, a.weights = seen, dst, j.pitch, &place, weights
    a.lines, a.tap_rows, a.across, a.count = lines, f.tap_rows, 1, count
    a.stream, a.down = 0, NULL
    f.filter(&a)


cdef inline void sum_columns_of(const BoxLines *j, const Tensors *t, int64_t first, int64_t lines,
                                const char *value, char *sums, int64_t start,
                                int64_t pixels) noexcept nogil:
    """Make sums of columns of a strip, with those beyond the border."""
    cdef const FloatLines *f = &j.lines
    cdef const int64_t *runs = <const int64_t *> t.arrays[RUNS]
    cdef int64_t numbers = f.channels * f.reader.element, row, k
    cdef Part longest, part
    cdef bint has_longest = part_of(runs + RUN * j.longest, start, start + pixels, &longest)
    has_longest = has_longest and longest.at >= 0
    if has_longest:
        sum_part(j, t, first, lines, value, &longest, sums)
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
        else:
            sum_part(j, t, first, lines, value, &part, sums)


cdef inline void sum_strip(const BoxLines *j, const Tensors *t, int64_t lines, char *sums,
                           char *near, char *dst, int64_t pixels) noexcept nogil:
    """Make some rows of results of a strip, from their sums of columns."""
    cdef const FloatLines *f = &j.lines
    cdef (const char *)[BOX_ROWS] rows
    cdef pplconv_box_rows_args b
    cdef pplconv_near_rows_args n
    cdef pplconv_filter_floats_args a
    cdef int64_t k
    if j.rows != NULL:
        b.src, b.src_rs, b.dst, b.dst_rs = sums, j.pitch, dst, f.result_rs
        b.weight, b.lines, b.taps, b.count = t.arrays[WEIGHTS], lines, f.across, pixels
        b.stream = f.stream
        j.rows(&b)
        return
    if j.near != NULL:
        n.src, n.src_rs, n.dst, n.dst_rs = sums, j.pitch, dst, f.result_rs
        n.near, n.weight, n.lines, n.taps = near, t.arrays[WEIGHTS], lines, f.across
        n.step, n.neighbours, n.count = f.channels, j.neighbours, pixels * f.channels
        n.stream = f.stream
        j.near(&n)
        return
    for k in range(lines):
        rows[k] = sums + k * j.pitch
    a.rows, a.lines, a.tap_rows, a.down, a.stream = rows, lines, 1, NULL, 0
    if j.neighbours:
        a.places, a.weights, a.across = t.arrays[PLACES], t.arrays[WEIGHTS], j.neighbours
        a.dst, a.dst_rs = sums + j.wide, j.pitch
        a.count = (pixels + f.across - j.neighbours) * f.channels
        f.filter(&a)
    a.places, a.across = <const void *> &j.places[0], j.taps
    a.weights = t.arrays[WEIGHTS] + j.neighbours * f.reader.element
    a.dst, a.dst_rs, a.count = dst, f.result_rs, pixels * f.channels
    a.stream = f.stream and pixels * f.channels == f.width
    f.filter(&a)


cdef inline void run_strip(const BoxLines *j, const Tensors *t, int64_t row, int64_t end,
                           int64_t start, int64_t pixels, char *scratch) noexcept nogil:
    """Filter rows of a strip."""
    cdef const FloatLines *f = &j.lines
    cdef int64_t numbers = f.channels * f.reader.element, lines
    cdef const char *value = scratch + j.together * j.pitch
    cdef char *near = scratch + j.together * j.pitch + j.wide
    while row < end:
        # Whole blocks, but at both ends of a band.
        lines = least(j.together - (j.past + row) % j.block, end - row)
        sum_columns_of(j, t, row, lines, value, scratch, start, pixels + f.across - 1)
        sum_strip(j, t, lines, scratch, near,
                  t.arrays[RESULTS] + row * f.result_rs + start * numbers, pixels)
        row += lines


cdef inline void run_box_lines(const void *job, const Tensors *t, int64_t task,
                               char *scratch) noexcept nogil:
    """Filter a band, from the image's rows to the results."""
    cdef const BoxLines *j = <const BoxLines *> job
    cdef const FloatLines *f = &j.lines
    cdef int64_t first = task * f.rows, end = least(first + f.rows, f.height), start = 0
    cdef int64_t width = f.width // f.channels
    pplconv_repeat(scratch + j.together * j.pitch, t.arrays[VALUE],
                   (j.strip + f.across - 1) * f.channels, f.reader.element)
    while start < width:
        run_strip(j, t, first, end, start, least(j.strip, width - start), scratch)
        start += j.strip
