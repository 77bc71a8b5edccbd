# cython: cdivision=True
"""Filters of floating point by a column, and then by a long row of equal taps.

The column is taken where rows lie in the image, some rows of results at a time. The pixels beyond a
border are copies of others, and so are their sums. Rows are made of sums of a few neighbours.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_filter_floats_args
from pplconv.schedules.base cimport least
from pplconv.schedules.float_lines cimport LINE_BYTES, MOST_TAP_ROWS, FloatLines, lay_out_lines
from pplconv.schedules.image_rows cimport IMAGE, PLACES, RESULTS, ROWS, RUNS, VALUE, WEIGHTS
from pplconv.schedules.work cimport Tensors

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_repeat(void *dst, const void *number, int64_t count, int64_t size)

cdef extern from "pplconv_words.h" nogil:
    void pplconv_copy_words(void *dst, const void *src, int64_t bytes)


cdef enum:
    # Rows of results that are made together.
    BOX_ROWS = 16


cdef struct BoxLines:
    FloatLines lines
    # Neighbours of a row that are summed up first, numbers of such sums, and where they lie behind
    # the sums of columns of a row; taps of the sums of a row.
    int64_t neighbours, wide_count, wide, taps
    # Bytes from row to row of sums; the run of pixels whose columns are summed up.
    int64_t pitch, longest


cdef inline int64_t lay_out_boxes(BoxLines *j, const int64_t *rows, const int64_t *runs,
                                  int64_t longest) noexcept nogil:
    """Lay out a thread's scratch; gives its bytes, or 0 if other loops are to run."""
    cdef const int64_t *whole = runs + 3 * longest
    cdef int64_t k
    if j.neighbours == 0:
        return lay_out_lines(&j.lines, rows, runs, longest)
    # The pixels of all runs are in the longest one, or outside of the image.
    for k in range(j.lines.run_count):
        if runs[3 * k + 1] >= 0 and not (
                0 <= runs[3 * k + 1] - whole[1] <= whole[2] - runs[3 * k + 2]):
            return 0
    j.longest = longest
    return (BOX_ROWS + 1) * j.pitch + LINE_BYTES if whole[1] >= 0 else 0


cdef inline void sum_columns_of(const BoxLines *j, const Tensors *t, int64_t first, int64_t count,
                                const char *value, char *sums) noexcept nogil:
    """Make the sums of columns of some rows of results, with those beyond the border."""
    cdef const FloatLines *f = &j.lines
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS] + first
    cdef const int64_t *runs = <const int64_t *> t.arrays[RUNS]
    cdef const int64_t *whole = runs + 3 * j.longest
    cdef int64_t numbers = f.channels * f.reader.element, place = 0, row, k
    cdef (const char *)[MOST_TAP_ROWS + BOX_ROWS] seen
    cdef pplconv_filter_floats_args a
    cdef const int64_t *run
    for row in range(count + f.tap_rows - 1):
        seen[row] = value
        if rows[row] >= 0:
            seen[row] = t.arrays[IMAGE] + rows[row] * f.image_rs + whole[1] * numbers
    a.rows, a.places, a.lines, a.tap_rows, a.across = seen, &place, count, f.tap_rows, 1
    a.weights = t.arrays[WEIGHTS] + (j.neighbours + j.taps) * f.reader.element
    a.dst, a.dst_rs, a.count = sums + whole[0] * numbers, j.pitch, whole[2] * f.channels
    a.stream, a.down = 0, NULL
    f.filter(&a)
    for k in range(f.run_count):
        run = runs + 3 * k
        if k == j.longest:
            continue
        if run[1] < 0:
            # Sums of the value alone.
            for row in range(f.tap_rows):
                seen[row] = value
            a.dst, a.lines, a.count = sums + run[0] * numbers, 1, run[2] * f.channels
            f.filter(&a)
            for row in range(1, count):
                pplconv_copy_words(sums + row * j.pitch + run[0] * numbers,
                                   sums + run[0] * numbers, run[2] * numbers)
            continue
        for row in range(count):
            pplconv_copy_words(
                sums + row * j.pitch + run[0] * numbers,
                sums + row * j.pitch + (whole[0] + run[1] - whole[1]) * numbers, run[2] * numbers)


cdef inline void run_box_lines(const void *job, const Tensors *t, int64_t task,
                               char *scratch) noexcept nogil:
    """Filter a band, from the image's rows to the results."""
    cdef const BoxLines *j = <const BoxLines *> job
    cdef const FloatLines *f = &j.lines
    cdef int64_t first = task * f.rows, end = least(first + f.rows, f.height), k
    cdef const char *value = scratch + BOX_ROWS * j.pitch
    cdef (const char *)[BOX_ROWS] rows
    cdef pplconv_filter_floats_args a
    pplconv_repeat(<void *> value, t.arrays[VALUE], f.columns * f.channels, f.reader.element)
    for k in range(BOX_ROWS):
        rows[k] = scratch + k * j.pitch
    a.rows, a.tap_rows, a.down = rows, 1, NULL
    while first < end:
        a.lines = least(BOX_ROWS, end - first)
        sum_columns_of(j, t, first, a.lines, value, scratch)
        a.places, a.weights, a.across = t.arrays[PLACES], t.arrays[WEIGHTS], j.neighbours
        a.dst, a.dst_rs, a.count, a.stream = scratch + j.wide, j.pitch, j.wide_count, 0
        f.filter(&a)
        a.places = <const int64_t *> t.arrays[PLACES] + j.neighbours
        a.weights, a.across = t.arrays[WEIGHTS] + j.neighbours * f.reader.element, j.taps
        a.dst, a.dst_rs = t.arrays[RESULTS] + first * f.result_rs, f.result_rs
        a.count, a.stream = f.width, f.stream
        f.filter(&a)
        first += a.lines
