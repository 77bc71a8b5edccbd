# cython: cdivision=True
"""Filters row by row: sums along a row, then those of a column from a ring of rows."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_SUMS_KEPT, pplconv_filter_floats_args, pplconv_filter_row_args)
from pplconv.schedules.band_job cimport MOST_PASSES, MOST_PLACES, BandJob
from pplconv.schedules.band_rows cimport read_row, round_row, settle_rows
from pplconv.schedules.base cimport least
from pplconv.schedules.image_rows cimport PLACES, RESULTS, WEIGHTS
from pplconv.schedules.work cimport Tensors

cdef enum:
    # Bytes of a sum in `words`.
    SHORT = 2


cdef inline void filter_line(const BandJob *j, const pplconv_filter_row_args *a) noexcept nogil:
    """Make the sums of a row, by the kernel of their type."""
    cdef pplconv_filter_floats_args f
    if j.words:
        j.filter(a)
        return
    f.rows, f.dst, f.places, f.weights = &a.src, a.dst, a.places, a.weights
    f.lines, f.tap_rows, f.across, f.count, f.stream, f.down = 1, 1, a.taps, a.count, 0, NULL
    j.filter(&f)


cdef inline void move_sums(const BandJob *j, const Tensors *t, pplconv_filter_row_args *a,
                           char *ring, int64_t newest, const char *before,
                           char *after) noexcept nogil:
    """Make the sums of columns from those of the row before: less the oldest row, plus the newest.

    The oldest row lies behind the newest one in the ring. The difference comes first, as it is a
    sum of fewer rows, so it is exact.
    """
    cdef pplconv_filter_row_args moved = a[0]
    cdef int64_t[3] places
    places[0] = before - ring
    places[1] = (newest + 1 if newest + 1 < j.ring else 0) * j.pitch
    places[2] = newest * j.pitch
    moved.src, moved.dst, moved.places, moved.taps = ring, after, places, 3
    moved.weights = t.arrays[WEIGHTS] + j.tap * (j.first_tap[1] + j.short_taps[1])
    moved.size, moved.mode = SHORT, PPLCONV_SUMS_KEPT
    filter_line(j, &moved)


cdef inline void add_neighbours(const BandJob *j, const Tensors *t,
                                const pplconv_filter_row_args *a, const char *ring, int64_t row,
                                int64_t *places) noexcept nogil:
    """Sum up the newest rows of a column, and give the places of its rows and of such sums.

    The sums lie in a second ring, behind the one of rows.
    """
    cdef pplconv_filter_row_args sums = a[0]
    cdef int64_t many = j.first[1], left = j.tap_rows % many, i
    cdef char *second = <char *> ring + j.ring * j.pitch
    if row < many - 1:
        return
    for i in range(many):
        places[i] = (row - i) % j.ring * j.pitch
    sums.src, sums.dst, sums.places, sums.taps = (
        ring, second + row % j.second * j.pitch, places, many)
    sums.weights = t.arrays[WEIGHTS] + j.tap * (j.first_tap[1] + j.short_taps[1])
    filter_line(j, &sums)
    if row >= j.halo:
        # The newest rows have their places.
        for i in range(j.tap_rows // many):
            places[left + i] = second - ring + (row - left - i * many) % j.second * j.pitch


cdef inline void finish_words(const BandJob *j, const pplconv_filter_row_args *a, const char *sums,
                              char *dst) noexcept nogil:
    """Make results of sums of 16 bits."""
    cdef pplconv_filter_row_args finished = a[0]
    cdef int64_t place = 0
    finished.src, finished.dst, finished.places, finished.taps = sums, dst, &place, 1
    finished.weights = NULL
    j.filter(&finished)


cdef inline void run_lines(const void *job, const Tensors *t, int64_t task,
                           char *scratch) noexcept nogil:
    """Filter a band row by row, from the image's rows to the results."""
    cdef const BandJob *j = <const BandJob *> job
    cdef int64_t first = task * j.rows, rows = least(j.rows, j.height - first), row, k, open = 0
    cdef int64_t last = j.pass_count - 1, at = 0, line = 0
    # A ring of sums of rows, or of rows where there is one pass; tables of places go round twice.
    cdef char *ring = scratch + j.places[1]
    cdef char *results = t.arrays[RESULTS] + first * j.result_rs
    cdef char *read
    cdef char *sums = scratch + j.places[MOST_PASSES]
    cdef char *before = NULL
    cdef const int64_t *places = <const int64_t *> t.arrays[PLACES] + j.first_tap[last]
    cdef pplconv_filter_row_args[MOST_PASSES] a
    cdef pplconv_filter_row_args wide, finish
    cdef int64_t[MOST_PLACES] moving
    for k in range(j.pass_count):
        a[k].places = <const int64_t *> t.arrays[PLACES] + j.first_tap[k]
        a[k].weights = t.arrays[WEIGHTS] + j.tap * j.first_tap[k] if j.weighed[k] else NULL
        a[k].taps, a[k].count = j.short_taps[k], j.width
        a[k].kind, a[k].size, a[k].mode = SHORT, SHORT, PPLCONV_SUMS_KEPT
        a[k].add, a[k].factor, a[k].shift = j.add, j.factor, j.shift
        a[k].low, a[k].high = j.low, j.high
    if j.words:
        a[0].kind, a[last].size, a[last].mode = 1, j.result, j.mode
    wide, finish = a[0], a[last]
    if j.first[0]:
        wide.places, wide.taps = <const int64_t *> t.arrays[PLACES], j.first[0]
        wide.weights, wide.count = t.arrays[WEIGHTS] if j.weighed[0] else NULL, j.wide_count
        a[0].kind = SHORT
        if j.words:
            a[0].weights = NULL
    if j.running:
        a[last].size, a[last].mode = SHORT, PPLCONV_SUMS_KEPT
    for row in range(rows + j.halo):
        read = scratch + line * j.line_pitch
        read_row(j, t, first + row, read)
        if j.first[0]:
            wide.src, wide.dst = read, read + j.wide
            filter_line(j, &wide)
        if last:
            a[0].src, a[0].dst = read, ring + at * j.pitch
            filter_line(j, &a[0])
        if j.first[1]:
            add_neighbours(j, t, &a[last], ring, row, moving)
        line, at = line + 1, at + 1
        if line == j.lines:
            line = 0
        if at == j.ring:
            at = 0
        if row < j.halo:
            continue
        if j.running and row > j.halo:
            move_sums(j, t, &a[last], ring, at - 1 if at else j.ring - 1, before, sums)
        else:
            # The oldest row is the next one in the ring.
            if not last and j.lines > j.tap_rows:
                a[last].src = scratch + (row - j.halo) * j.line_pitch
            else:
                a[last].src = ring
                a[last].places = places if j.running else places + at * j.place_step
            if j.first[1]:
                a[last].places = moving
            a[last].dst = sums
            if j.round == NULL and not j.running:
                a[last].dst = results + (row - j.halo) * j.result_rs
            filter_line(j, &a[last])
        if j.round != NULL:
            open = round_row(j, t, 0, row - j.halo, scratch, sums, results,
                             <int64_t *> (scratch + j.open_place), open)
            open = settle_rows(j, t, 0, row == rows + j.halo - 1, scratch, results, scratch, open)
        elif j.running:
            finish_words(j, &finish, sums, results + (row - j.halo) * j.result_rs)
        if j.running:
            before, sums = sums, scratch + j.places[MOST_PASSES] + (
                j.sums_pitch if sums == scratch + j.places[MOST_PASSES] else 0)
