# cython: cdivision=True
"""Rows of a band: pixels read in the type of sums, and sums rounded to results."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_exact_sums_args, pplconv_round_sums_args
from pplconv.schedules.band_job cimport BandJob
from pplconv.schedules.image_rows cimport (
    IMAGE, RESULTS, ROWS, RUNS, VALUE, read_part, sort_numbers)
from pplconv.schedules.integer_lines cimport AGAIN, EXACT, LIMITS
from pplconv.schedules.work cimport Tensors

cdef enum:
    # Numbers of a kernel's `LIMITS`.
    PARAMETERS = 5
    DOUBLE = 8


cdef inline void read_row(const BandJob *j, const Tensors *t, int64_t row,
                          char *dst) noexcept nogil:
    """Read a row of the image, or fill in the value of a row beyond its border."""
    cdef int64_t at = (<const int64_t *> t.arrays[ROWS])[row]
    read_part(&j.reader, <const int64_t *> t.arrays[RUNS], j.run_count, j.longest_run, j.channels,
              t.arrays[IMAGE] + at * j.image_rs if at >= 0 else NULL, t.arrays[VALUE], dst, 0,
              j.columns)


cdef inline void settle(const BandJob *j, const Tensors *t, int64_t k, const char *band, char *dst,
                        int64_t *open, int64_t count, char *sums) noexcept nogil:
    """Compute the open results of a band again, with exact integers."""
    cdef pplconv_exact_sums_args a
    if j.separable:
        sort_numbers(open, count)
    a.src, a.src_rs, a.step = band, j.line_pitch, j.channels
    a.rows, a.columns, a.separable = j.tap_rows, j.tap_columns, j.separable
    a.taps = t.arrays[EXACT] + k * j.taps * DOUBLE
    a.low, a.high = j.low, j.high
    a.dst, a.dst_rs, a.size = dst, j.result_rs, j.result
    a.open, a.count, a.pitch, a.scratch = open, count, j.rows, sums
    j.exact(&a)


cdef inline int64_t round_row(const BandJob *j, const Tensors *t, int64_t k, int64_t row,
                              const char *band, const char *sums, char *dst, int64_t *open,
                              int64_t count) noexcept nogil:
    """Round the sums of a row of a band, and list what is open; gives how many are listed."""
    cdef pplconv_round_sums_args a
    cdef int64_t found, i
    a.count, a.size = j.width, j.result
    a.parameters = t.arrays[LIMITS] + k * PARAMETERS * j.element
    a.open_count = &found
    a.pixels_rs, a.step = j.line_pitch, j.channels
    a.rows, a.columns = j.again_rows, j.tap_columns
    a.again = NULL
    if j.again_rows:
        a.again = t.arrays[AGAIN] + k * j.again_numbers * DOUBLE
    a.src, a.dst = sums, dst + row * j.result_rs
    a.pixels, a.open = band + row * a.pixels_rs, open + count
    j.round(&a)
    for i in range(count, count + found):
        open[i] = open[i] * j.rows + row
    return count + found


cdef inline int64_t settle_rows(const BandJob *j, const Tensors *t, int64_t k, bint is_last,
                                const char *band, char *dst, char *scratch,
                                int64_t count) noexcept nogil:
    """Settle what is open after the last row of a band, or once the list is full."""
    if count > j.room - j.width or (count and is_last):
        settle(j, t, k, band, dst, <int64_t *> (scratch + j.open_place), count,
               scratch + j.exact_place)
        return 0
    return count
