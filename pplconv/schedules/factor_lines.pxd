# cython: cdivision=True
"""Columns and rows of 16-bit integers by products of pairs, from the image's rows to the results.

A row with its border is copied, and a kernel makes sums along it, which lie in a ring that stays in
L2: a strip of columns goes down a band. Another kernel makes results of these sums, and lists those
whose rounding is open. They are summed up again of longer weights, from the image; what sees the
border, or is half way, is made again as other filters of integers are.
"""

from libc.stdint cimport int16_t, int64_t

from pplconv._kernels cimport (
    PPLCONV_PAIR_BLOCK,
    pplconv_pair_column_sums_args,
    pplconv_pair_row_sums_args,
)
from pplconv.schedules.base cimport ceil_div, least, most
from pplconv.schedules.float_lines cimport MOST_TAP_ROWS, pitch_of
from pplconv.schedules.image_rows cimport IMAGE, RESULTS, ROWS, RUN, RUNS, read_part
from pplconv.schedules.integer_lines cimport (
    BEHIND, INDEX, LINE, PIXEL, IntegerLines, fill_value, filter_block, filter_rows,
    lay_out_integers)
from pplconv.schedules.pair_lines cimport (
    PAIRS, RING_BYTES, SETTLED, WHOLE_PAIRS, WORD, PairLines)
from pplconv.schedules.work cimport Tensors


cdef enum:
    # Numbers in front of the weights: those of `pair_row_sums`, which end with what is subtracted
    # from pixels, those of `pair_column_sums`, how many weights the column has, and fraction, start
    # and error of longer weights.
    FLIP = 2
    OF_COLUMN = 3
    COLUMN_TAPS = 8
    OF_AGAIN = 9
    FACTORS = 12
    # Bytes of a sum along a row.
    SUM = 4
    # If more results than this are listed, and more than one of so many, all are made again.
    FEW_LISTED = 16
    SHARE_OF_RESULTS = 256


cdef inline int64_t lay_out_factors(PairLines *j) noexcept nogil:
    """Choose strips, and lay out a thread's scratch; gives its bytes."""
    cdef const IntegerLines *lines = &j.lines
    cdef int64_t end = lay_out_integers(&j.lines), channels = lines.channels
    cdef int64_t pixels = lines.width // channels, numbers, count
    # As long as those of kernels: the ring has twice as many bytes.
    j.strip = most(RING_BYTES // (lines.tap_rows * WORD * channels), WHOLE_PAIRS)
    count = ceil_div(pixels, j.strip)
    j.strip = least(ceil_div(ceil_div(pixels, count), WHOLE_PAIRS) * WHOLE_PAIRS, pixels)
    numbers = j.strip * channels
    j.pitch = pitch_of(ceil_div(numbers, PPLCONV_PAIR_BLOCK) * PPLCONV_PAIR_BLOCK * SUM)
    j.line_place = ceil_div(end, LINE) * LINE
    # The last pair may lack its second tap, and a block results.
    j.ring_place = j.line_place + pitch_of((numbers + lines.across * channels) * WORD + BEHIND)
    j.list_place = j.ring_place + lines.tap_rows * j.pitch
    return j.list_place + SETTLED * numbers * INDEX + LINE


cdef inline void sum_row(const PairLines *j, const Tensors *t, int64_t row, char *scratch,
                         char *dst, int64_t start, int64_t pixels) noexcept nogil:
    """Make sums along a row with its border, for some columns of results."""
    cdef const IntegerLines *lines = &j.lines
    cdef const int64_t *numbers = <const int64_t *> t.arrays[PAIRS]
    cdef int64_t at = (<const int64_t *> t.arrays[ROWS])[row]
    cdef pplconv_pair_row_sums_args a
    a.src, a.dst = scratch + j.line_place, dst
    read_part(&j.reader, <const int64_t *> t.arrays[RUNS], lines.run_count, lines.longest_run,
              lines.channels, t.arrays[IMAGE] + at * lines.image_rs if at >= 0 else NULL,
              t.arrays[PIXEL], scratch + j.line_place, start, pixels + lines.across - 1)
    a.pairs, a.step, a.count = (
        (lines.across + 1) // 2, lines.channels * WORD, pixels * lines.channels)
    a.parameters, a.weights = numbers, numbers + FACTORS
    j.pair(&a)


cdef inline bint sum_again(const PairLines *j, const Tensors *t, int64_t row, int64_t pixel,
                           int64_t channel) noexcept nogil:
    """Make a result again of longer weights; false at a border, or if its rounding stays open."""
    cdef const IntegerLines *lines = &j.lines
    cdef const int64_t *numbers = <const int64_t *> t.arrays[PAIRS]
    cdef const int64_t *weights = numbers + FACTORS + (lines.across + 1) // 2 + (
        numbers[COLUMN_TAPS])
    cdef const int64_t *run = <const int64_t *> t.arrays[RUNS] + RUN * lines.longest_run
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS] + row
    cdef int64_t fraction = numbers[OF_AGAIN], sum = numbers[OF_AGAIN + 1]
    cdef int64_t near = numbers[OF_AGAIN + 2], flip = numbers[FLIP], r, k
    cdef int64_t at = (run[1] + pixel - run[0]) * lines.channels + channel
    cdef const int16_t *x
    if run[1] < 0 or pixel < run[0] or pixel + lines.across > run[0] + run[2]:
        return False
    for r in range(lines.tap_rows):
        if rows[r] < 0:
            return False
        x = <const int16_t *> (t.arrays[IMAGE] + rows[r] * lines.image_rs) + at
        for k in range(lines.across):
            sum += <int16_t> (x[k * lines.channels] ^ flip) * weights[k]
        weights += lines.across
    if (sum + near) & ((<int64_t> 1 << fraction) - 1) <= 2 * near:
        return False
    sum = least(most(sum >> fraction, -1 << 15), (1 << 15) - 1)
    (<int16_t *> (t.arrays[RESULTS] + row * lines.result_rs))[
        pixel * lines.channels + channel] = <int16_t> (sum ^ flip)
    return True


cdef inline void settle_results(const PairLines *j, const Tensors *t, int64_t row, int64_t lines,
                                int64_t start, int64_t pixels, const int64_t *open,
                                int64_t found, char *scratch) noexcept nogil:
    """Make listed results of some rows again."""
    cdef int64_t channels = j.lines.channels, numbers = pixels * channels, k, line, at
    cdef bint filled = False
    if found > FEW_LISTED and found * SHARE_OF_RESULTS > lines * numbers:
        fill_value(&j.lines, t, scratch)
        filter_rows(&j.lines, t, row, lines, start, start + pixels, scratch)
        return
    for k in range(found):
        line, at = row + open[k] // numbers, open[k] % numbers
        if sum_again(j, t, line, start + at // channels, at % channels):
            continue
        if not filled:
            fill_value(&j.lines, t, scratch)
            filled = True
        at = start + at // channels
        filter_block(&j.lines, t, line, 1, at, at + 1, scratch)


cdef inline void run_factor_lines(const void *job, const Tensors *t, int64_t task,
                                  char *scratch) noexcept nogil:
    """Filter a band, strip by strip, row by row."""
    cdef const PairLines *j = <const PairLines *> job
    cdef const IntegerLines *lines = &j.lines
    cdef int64_t first = task * lines.rows, end = least(first + lines.rows, lines.height), row, k, i
    cdef int64_t channels = lines.channels, width = lines.width // channels, start = 0
    cdef int64_t halo = lines.tap_rows - 1, count, found, listed, pixels, newest
    cdef int64_t *open = <int64_t *> (scratch + j.list_place)
    cdef const int64_t *numbers = <const int64_t *> t.arrays[PAIRS]
    cdef (const char *)[MOST_TAP_ROWS] seen
    cdef (const char *)[MOST_TAP_ROWS] opposite
    cdef char *ring = scratch + j.ring_place
    cdef pplconv_pair_column_sums_args a
    a.first, a.second, a.taps = seen, opposite, numbers[COLUMN_TAPS]
    a.parameters, a.weights = numbers + OF_COLUMN, numbers + FACTORS + (lines.across + 1) // 2
    a.open_count = &listed
    while start < width:
        pixels = least(j.strip, width - start)
        a.count = pixels * channels
        for k in range(halo):
            sum_row(j, t, first + k, scratch, ring + k * j.pitch, start, pixels)
        newest, row = halo, first
        while row < end:
            count = least(SETTLED, end - row)
            found = 0
            for k in range(count):
                sum_row(j, t, row + k + halo, scratch, ring + newest * j.pitch, start, pixels)
                newest = newest + 1 if newest < halo else 0
                for i in range(lines.tap_rows):
                    # The oldest row is behind the newest one.
                    seen[i] = ring + (
                        newest + i if newest + i <= halo else newest + i - halo - 1) * j.pitch
                for i in range(a.taps):
                    # Of equal weight; the row itself, where there is none.
                    opposite[i] = seen[halo - i if a.taps <= halo else i]
                a.dst = t.arrays[RESULTS] + (row + k) * lines.result_rs + start * channels * WORD
                a.open = open + found
                j.kernel(&a)
                for i in range(found, found + listed):
                    open[i] += k * a.count
                found += listed
            if found:
                settle_results(j, t, row, count, start, pixels, open, found, scratch)
            row += count
        start += pixels
