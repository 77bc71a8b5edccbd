# cython: cdivision=True
"""Filters of bytes by products of pairs, from the image's rows to the results.

Two rows with their borders become one row of pairs, and a kernel makes two rows of results of such
rows. So the channels of a pixel need no other order. A strip of columns goes down a band, as of
16-bit integers; and results whose rounding is open are made again in the same way.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_LEAST_PAIR_RESULTS,
    PPLCONV_PAIR_RESULTS,
    pplconv_pair_rows_args,
    pplconv_pair_sums_args,
)
from pplconv.schedules.base cimport ceil_div, least, most
from pplconv.schedules.float_lines cimport MOST_TAP_ROWS, pitch_of
from pplconv.schedules.image_rows cimport (
    IMAGE, RESULTS, ROWS, RUN, RUNS, Part, part_of, read_part)
from pplconv.schedules.integer_lines cimport (
    BEHIND, INDEX, LINE, PIXEL, IntegerLines, fill_value, filter_block, lay_out_integers)
from pplconv.schedules.pair_lines cimport (
    FINE, PAIRS, PARAMETERS, RING_BYTES, SHARE, WHOLE_PAIRS, WORD, PairLines)
from pplconv.schedules.work cimport Tensors


cdef enum:
    # Bytes of a pair.
    BOTH = 2 * WORD
    # Rows of a pair.
    TWO = 2


cdef inline int64_t lay_out_row_pairs(PairLines *j) noexcept nogil:
    """Choose strips, and lay out a thread's scratch; gives its bytes."""
    cdef const IntegerLines *lines = &j.lines
    cdef int64_t end = lay_out_integers(&j.lines), channels = lines.channels
    cdef int64_t pixels = lines.width // channels, numbers, count, rows = lines.tap_rows // TWO + 1
    j.strip = most(RING_BYTES // (rows * BOTH * channels), WHOLE_PAIRS)
    count = ceil_div(pixels, j.strip)
    j.strip = least(ceil_div(ceil_div(pixels, count), WHOLE_PAIRS) * WHOLE_PAIRS, pixels)
    numbers = (j.strip + lines.across) * channels
    j.pitch = pitch_of(numbers * BOTH + BEHIND)
    # Two rows of bytes, then those of pairs, then results that nobody asked for.
    j.line_place = ceil_div(end, LINE) * LINE
    j.ring_place = j.line_place + j.pitch
    j.made_place = j.ring_place + rows * j.pitch
    j.list_place = j.made_place + j.pitch
    return j.list_place + (
        TWO * numbers // PPLCONV_LEAST_PAIR_RESULTS + 1) * INDEX + LINE


cdef inline void read_both(const PairLines *j, const Tensors *t, int64_t row, char *scratch,
                           char *dst, int64_t start, int64_t pixels) noexcept nogil:
    """Read some columns of two rows with their borders, as pairs."""
    cdef const IntegerLines *lines = &j.lines
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS]
    cdef int64_t numbers = pixels * lines.channels, at, k
    cdef char *line = scratch + j.line_place
    cdef pplconv_pair_rows_args a
    a.first, a.second, a.dst, a.count = line, line + numbers, dst, numbers
    for k in range(TWO):
        # Weights of a row behind the last one are zeros.
        at = rows[least(row + k, lines.height + lines.tap_rows - 2)]
        read_part(&j.reader, <const int64_t *> t.arrays[RUNS], lines.run_count, lines.longest_run,
                  lines.channels, t.arrays[IMAGE] + at * lines.image_rs if at >= 0 else NULL,
                  t.arrays[PIXEL], line + k * numbers, start, pixels)
    j.pair(&a)


cdef inline void settle_both(const PairLines *j, const Tensors *t, int64_t row, int64_t lines,
                             int64_t start, int64_t pixels, const int64_t *open, int64_t found,
                             char *scratch) noexcept nogil:
    """Make listed results of one row or two again."""
    cdef int64_t channels = j.lines.channels, numbers = pixels * channels, k, first, end
    fill_value(&j.lines, t, scratch)
    if found * SHARE > ceil_div(TWO * numbers, PPLCONV_PAIR_RESULTS):
        filter_block(&j.lines, t, row, lines, start, start + pixels, scratch)
        return
    for k in range(found):
        first = open[k] // TWO
        end = least(first + PPLCONV_PAIR_RESULTS // TWO, numbers)
        filter_block(&j.lines, t, row, lines, start + first // channels,
                     start + ceil_div(end, channels), scratch)


cdef inline void run_row_pairs(const void *job, const Tensors *t, int64_t task,
                               char *scratch) noexcept nogil:
    """Filter a band, strip by strip, two rows at a time."""
    cdef const PairLines *j = <const PairLines *> job
    cdef const IntegerLines *lines = &j.lines
    cdef int64_t first = task * lines.rows, end = least(first + lines.rows, lines.height), row, k
    cdef int64_t channels = lines.channels, width = lines.width // channels, start = 0
    cdef int64_t halo = lines.tap_rows // TWO, found, pixels, newest, count
    cdef const int64_t *numbers = <const int64_t *> t.arrays[PAIRS]
    cdef (const char *)[MOST_TAP_ROWS] seen
    cdef pplconv_pair_sums_args a
    a.rows, a.tap_rows, a.pairs, a.step = seen, halo + 1, lines.across, channels * BOTH
    a.parameters, a.fine = numbers, numbers + PARAMETERS
    a.weights = numbers + PARAMETERS + FINE * a.tap_rows * a.pairs
    a.open, a.open_count = scratch + j.list_place, &found
    while start < width:
        pixels = least(j.strip, width - start)
        a.count = TWO * pixels * channels
        for k in range(halo):
            read_both(j, t, first + TWO * k, scratch, scratch + j.ring_place + k * j.pitch, start,
                      pixels + lines.across - 1)
        newest, row = halo, first
        while row < end:
            read_both(j, t, row + TWO * halo, scratch, scratch + j.ring_place + newest * j.pitch,
                      start, pixels + lines.across - 1)
            newest = newest + 1 if newest < halo else 0
            for k in range(halo + 1):
                # The oldest row is behind the newest one.
                seen[k] = scratch + j.ring_place + (
                    newest + k if newest + k <= halo else newest + k - halo - 1) * j.pitch
            a.dst = t.arrays[RESULTS] + row * lines.result_rs + start * channels
            count = least(TWO, end - row)
            a.second = a.dst + lines.result_rs if count == TWO else scratch + j.made_place
            j.kernel(&a)
            if found:
                settle_both(j, t, row, count, start, pixels,
                            <const int64_t *> (scratch + j.list_place), found, scratch)
            row += count
        start += pixels
