# cython: cdivision=True
"""Filters of 16-bit integers by products of pairs, from the image's rows to the results.

Rows with their borders are copied, in pairs of pixels, into a ring that stays in L1: a strip of
columns goes down a band. A kernel makes the results of a row, and lists vectors of results whose
rounding is open even with longer weights. They are half way, or so near that chance does not lead
there: they are made again as other filters of integers are.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_LEAST_PAIR_RESULTS,
    PPLCONV_PAIR_CHANNELS,
    PPLCONV_PAIR_RESULTS,
    find_if_any,
    pplconv_kernel,
    pplconv_pair_pixels_args,
    pplconv_pair_sums_args,
)
from pplconv.schedules.base cimport ceil_div, least, most
from pplconv.schedules.float_lines cimport MOST_TAP_ROWS, pitch_of
from pplconv.schedules.image_rows cimport (
    IMAGE, RESULTS, ROWS, RUN, RUNS, Part, Reader, part_of, read_part)
from pplconv.schedules.integer_lines cimport (
    BEHIND, INDEX, LINE, PIXEL, IntegerLines, fill_value, filter_block, filter_rows,
    lay_out_integers)
from pplconv.schedules.work cimport Tensors


cdef enum:
    PAIRS = 12
    WORD = 2
    # Numbers in front of the weights.
    PARAMETERS = 9
    # Numbers of a pair of weights, for both pixels.
    FINE = 4
    # Rows of results whose listed vectors are settled together. If more than one of so many
    # vectors is listed, all are made again.
    SETTLED = 8
    SHARE = 8
    # Bytes of a ring, which stays in L2: long rows of an image are foreseen where they are read.
    RING_BYTES = 1 << 17
    # Pixels of a strip that are no whole blocks of vectors only at the end of a row.
    WHOLE_PAIRS = 256


cdef struct PairLines:
    IntegerLines lines
    # `pair` makes pairs of neighbours of a row; of bytes, those of columns. Of a column and a row,
    # it makes sums along rows.
    pplconv_kernel kernel, pair
    bint factored
    Reader reader
    # Pixels of a strip; bytes from row to row of pixels, or of sums along rows.
    int64_t strip, pitch
    # Offsets in a thread's scratch.
    int64_t line_place, ring_place, made_place, list_place


cdef inline bint take_pairs(PairLines *j, const IntegerLines *lines, paired,
                            bint factored) except -1:
    """Take weights of pairs, by kernels of some instruction set; none if `paired` is.

    Weights of a column and a row, if `factored`, run as ``run_factor_lines`` has them. Bytes, of a
    kernel, run as ``run_row_pairs`` does.
    """
    cdef int64_t size = lines.result
    if paired is None:
        return False
    if size != lines.reader.pixel or not 1 <= size <= WORD or (
            size < WORD and (lines.low or factored)) or (
            not 1 <= lines.channels <= PPLCONV_PAIR_CHANNELS):
        raise ValueError("pairs are of bytes or 16-bit integers, of few channels")
    j.lines, j.factored = lines[0], factored
    j.reader.read, j.reader.pixel, j.reader.element = NULL, size, size
    if factored:
        j.kernel = find_if_any("pair_column_sums", "s16", paired)
        j.pair = find_if_any("pair_row_sums", "s16", paired)
    else:
        j.kernel = find_if_any("pair_sums", "s16", paired)
        j.pair = (find_if_any("pair_pixels", "s16", paired) if size == WORD
                  else find_if_any("pair_rows", "u8", paired))
    return j.kernel != NULL and j.pair != NULL


cdef inline int64_t lay_out_pairs(PairLines *j) noexcept nogil:
    """Choose strips, and lay out a thread's scratch; gives its bytes."""
    cdef const IntegerLines *lines = &j.lines
    cdef int64_t end = lay_out_integers(&j.lines), channels = lines.channels
    cdef int64_t pixels = lines.width // channels, numbers, count
    j.strip = most(RING_BYTES // (lines.tap_rows * WORD * channels), WHOLE_PAIRS)
    count = ceil_div(pixels, j.strip)
    j.strip = least(ceil_div(ceil_div(pixels, count), WHOLE_PAIRS) * WHOLE_PAIRS, pixels)
    # A pair may lack its second pixel.
    numbers = (j.strip + lines.across) * channels
    j.pitch = pitch_of(numbers * WORD + BEHIND)
    j.line_place = ceil_div(end, LINE) * LINE
    j.ring_place = j.line_place + j.pitch
    j.made_place = j.ring_place + lines.tap_rows * j.pitch
    j.list_place = j.made_place + j.pitch
    return j.list_place + SETTLED * (numbers // PPLCONV_LEAST_PAIR_RESULTS + 1) * INDEX + LINE


cdef inline void pair_pixels(const PairLines *j, const char *src, char *dst, int64_t pixels,
                             bint back) noexcept nogil:
    """Make pairs of pixels, or pixels of pairs."""
    cdef pplconv_pair_pixels_args a
    a.src, a.dst, a.channels, a.back = src, dst, j.lines.channels, back
    a.count = pixels * j.lines.channels
    j.pair(&a)


cdef inline void read_pairs(const PairLines *j, const Tensors *t, int64_t row, char *scratch,
                            char *dst, int64_t start, int64_t pixels) noexcept nogil:
    """Read some columns of a row with its border, in pairs of pixels."""
    cdef const IntegerLines *lines = &j.lines
    cdef const int64_t *runs = <const int64_t *> t.arrays[RUNS]
    cdef int64_t at = (<const int64_t *> t.arrays[ROWS])[row], bytes = lines.channels * WORD
    cdef int64_t left = pixels, right = pixels
    cdef const char *src = t.arrays[IMAGE] + at * lines.image_rs if at >= 0 else NULL
    cdef char *line = scratch + j.line_place
    cdef Part part
    if lines.channels == 1:
        read_part(&j.reader, runs, lines.run_count, lines.longest_run, 1, src, t.arrays[PIXEL],
                  dst, start, pixels)
        return
    if src != NULL and part_of(runs + RUN * lines.longest_run, start, start + pixels, &part) and (
            part.at >= 0):
        # Whole pairs of pixels that lie in the image.
        left = part.to + part.to % 2
        right = most(part.to + part.count - (part.to + part.count) % 2, left)
        if right > left:
            pair_pixels(j, src + (part.at + left - part.to) * bytes, dst + left * bytes,
                        right - left, False)
    if left:
        read_part(&j.reader, runs, lines.run_count, lines.longest_run, lines.channels, src,
                  t.arrays[PIXEL], line, start, left)
        pair_pixels(j, line, dst, left, False)
    if right < pixels:
        read_part(&j.reader, runs, lines.run_count, lines.longest_run, lines.channels, src,
                  t.arrays[PIXEL], line, start + right, pixels - right)
        pair_pixels(j, line, dst + right * bytes, pixels - right, False)


cdef inline void settle_pairs(const PairLines *j, const Tensors *t, int64_t row, int64_t lines,
                              int64_t start, int64_t pixels, int64_t numbers,
                              const int64_t *open, int64_t found, char *scratch) noexcept nogil:
    """Make listed results of some rows again, of `numbers` each."""
    cdef int64_t channels = j.lines.channels, k, first, end
    fill_value(&j.lines, t, scratch)
    if found * SHARE > lines * ceil_div(numbers, PPLCONV_PAIR_RESULTS):
        filter_rows(&j.lines, t, row, lines, start, start + pixels, scratch)
        return
    for k in range(found):
        # Pixels of the first pair and of the last one.
        first = open[k] % numbers // (2 * channels) * 2
        end = (open[k] % numbers + PPLCONV_PAIR_RESULTS - 1) // (2 * channels) * 2 + 2
        filter_block(&j.lines, t, row + open[k] // numbers, 1, start + first,
                     start + least(end, pixels), scratch)


cdef inline void run_pair_lines(const void *job, const Tensors *t, int64_t task,
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
    cdef pplconv_pair_sums_args a
    cdef char *results
    a.rows, a.tap_rows, a.pairs, a.step = (
        seen, lines.tap_rows, lines.across // 2 + 1, 2 * channels * WORD)
    a.parameters, a.fine = numbers, numbers + PARAMETERS
    a.weights = numbers + PARAMETERS + FINE * a.tap_rows * a.pairs
    a.open_count, a.second = &listed, NULL
    while start < width:
        pixels = least(j.strip, width - start)
        a.count = pixels * channels
        if channels > 1:
            # Of whole pairs.
            a.count = ceil_div(pixels, 2) * 2 * channels
        for k in range(halo):
            read_pairs(j, t, first + k, scratch, scratch + j.ring_place + k * j.pitch, start,
                       pixels + lines.across - 1)
        newest, row = halo, first
        while row < end:
            count = least(SETTLED, end - row)
            found = 0
            for k in range(count):
                read_pairs(j, t, row + k + halo, scratch,
                           scratch + j.ring_place + newest * j.pitch, start,
                           pixels + lines.across - 1)
                newest = newest + 1 if newest < halo else 0
                for i in range(lines.tap_rows):
                    # The oldest row is behind the newest one.
                    seen[i] = scratch + j.ring_place + (
                        newest + i if newest + i <= halo else newest + i - halo - 1) * j.pitch
                results = t.arrays[RESULTS] + (row + k) * lines.result_rs + (
                    start * channels * WORD)
                a.dst = results if channels == 1 else scratch + j.made_place
                a.open = open + found
                j.kernel(&a)
                for i in range(found, found + listed):
                    open[i] += k * a.count
                found += listed
                if channels > 1:
                    pair_pixels(j, scratch + j.made_place, results, pixels, True)
            if found:
                settle_pairs(j, t, row, count, start, pixels, a.count, open, found, scratch)
            row += count
        start += pixels
