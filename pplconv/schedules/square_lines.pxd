# cython: cdivision=True
"""Filters of squares from the image's rows to the results: of bytes, and means."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_MEANS_BESIDE, PPLCONV_SUMS_SIGNED, PPLCONV_SUMS_UNSIGNED, find, find_if_any)
from pplconv.schedules.band_job cimport BandJob
from pplconv.schedules.base cimport least
from pplconv.schedules.image_rows cimport IMAGE, RESULTS, ROWS, RUNS, VALUE, WEIGHTS
from pplconv.schedules.pixel_loops cimport (
    MOST_ROWS, MOST_TOGETHER, PixelJob, filter_pixels)
from pplconv.schedules.work cimport Tensors


cdef enum:
    # Sides of squares whose sums of rows are in registers.
    SMALL = 3
    MIDDLE = 5
    # Rows that are made together: more of them share more sums, but long ones are read from as many
    # places at once, whose lines may be in few sets of a cache. Bytes of a row that is long.
    TOGETHER = 16
    LONG = 1024


cdef inline void take_sizes(BandJob *j) noexcept nogil:
    """Take the sizes of a square and of pixels."""
    cdef PixelJob *p = &j.squares
    p.side, p.size = j.tap_rows, j.pixel
    p.pixel, p.width = j.channels * j.pixel, j.width * j.pixel


cdef inline bint take_squares(BandJob *j, words, str isa) except -1:
    """Take a square of bytes that is a row times a column, if there is a kernel."""
    cdef PixelJob *p = &j.squares
    if words is None or not words.squares:
        return False
    if j.tap_rows != j.tap_columns or j.tap_rows not in (SMALL, MIDDLE) or (
            j.result != 1 or j.pass_count != 2):
        raise ValueError("squares are a row times a column, and become bytes")
    p.kernel = find_if_any("filter_squares", "u8", isa)
    take_sizes(j)
    p.weighed = j.weighed[0] or j.weighed[1]
    p.mode, p.add, p.factor, p.shift = j.mode, j.add, j.factor, j.shift
    p.together = TOGETHER
    return p.kernel != NULL


cdef inline int take_means(BandJob *j, bint is_signed, str isa) except -1:
    """Take the mean of a square of pixels of 16 bits or 8."""
    cdef PixelJob *p = &j.squares
    take_sizes(j)
    if j.tap_rows != j.tap_columns or not SMALL <= j.tap_rows <= MOST_ROWS or (
            j.count != 1 or j.result != p.size or p.size > 2 or (
                p.size == 1 and j.tap_rows <= MIDDLE)):
        raise ValueError("means are of squares, and of the type of their pixels")
    if (p.side - 1) * p.pixel > PPLCONV_MEANS_BESIDE * p.size:
        raise ValueError("squares are not too wide")
    p.kernel = find("filter_means", "u8" if p.size == 1 else "s16", isa)
    p.weighed = True
    p.mode = PPLCONV_SUMS_SIGNED if is_signed else PPLCONV_SUMS_UNSIGNED
    p.together = MOST_TOGETHER
    if p.side in (SMALL, MIDDLE):
        if p.width >= LONG:
            p.together = TOGETHER
    else:
        # Sums of columns at borders would take as long as all others.
        p.short_row = LONG
    return 0


cdef inline void run_squares(const void *job, const Tensors *t, int64_t task,
                             char *scratch) noexcept nogil:
    """Filter a band, several rows at a time."""
    cdef const BandJob *j = <const BandJob *> job
    cdef int64_t first = task * j.rows
    filter_pixels(&j.squares, <const int64_t *> t.arrays[ROWS] + first,
                  least(j.rows, j.height - first), <const int64_t *> t.arrays[RUNS], j.run_count,
                  t.arrays[IMAGE], j.image_rs, t.arrays[VALUE], t.arrays[WEIGHTS],
                  t.arrays[RESULTS] + first * j.result_rs, j.result_rs, NULL, scratch)
