# cython: cdivision=True
"""Filters of integers in blocks of rows: sums in floating point, rounded while they are in L1.

A block has few rows and a strip of columns. The sums of a column and a row are those of columns
first, from the image where it lies: only sums beyond the left and the right border are copied, as
whatever lies there is a copy of columns, or a value. Other kernels read their pixels as numbers.

Sums that may be rounded wrongly are rare. They are rounded again, from their pixels.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_EXACT_LIMBS,
    PPLCONV_PIXEL_LINES,
    pplconv_exact_sums_args,
    pplconv_filter_floats_args,
    pplconv_kernel,
    pplconv_pixel_columns_args,
    pplconv_round_sums_args,
    pplconv_whole_sums_args,
)
from pplconv.schedules.base cimport ceil_div, least, most
from pplconv.schedules.float_lines cimport MOST_TAP_ROWS, pitch_of
from pplconv.schedules.image_rows cimport (
    IMAGE,
    PLACES,
    RESULTS,
    ROWS,
    RUN,
    RUNS,
    VALUE,
    WEIGHTS,
    Part,
    Reader,
    part_of,
    read_part,
)
from pplconv.schedules.work cimport Tensors

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_repeat(void *dst, const void *number, int64_t count, int64_t size)
    void pplconv_copy_few(void *dst, const void *src, int64_t bytes)


cdef enum:
    LIMITS = 5
    EXACT = 6
    AGAIN = 7
    # Numbers of the type of sums: the greatest distance that needs no second look, the limits of
    # results, and one, the weight of sums. The value beyond the border as a pixel.
    NEAR = 10
    ONE = 3
    PIXEL = 11
    LINE = 64
    INDEX = sizeof(int64_t)
    # Rows of a block whose pixels are read as numbers, and rows that it sees.
    BLOCK_LINES = 8
    MOST_ROWS_SEEN = BLOCK_LINES + MOST_TAP_ROWS
    # Bytes of a block, which leaves room for the image's rows in L1, or lies in L2; numbers of a
    # strip at least.
    BLOCK_BYTES = 28672
    LONG_BLOCK_BYTES = 1 << 18
    LEAST_STRIP = 128
    # Pixels that are whole blocks of vectors, of any size and number of channels.
    WHOLE = 64
    # Results that are rounded again together, at least those of a listed block; bytes that a
    # kernel reads behind a row.
    TOGETHER = 64
    BEHIND = 256
    # Listed blocks have at least so many results.
    LEAST_BLOCK = 8


cdef struct IntegerLines:
    Reader reader
    # `columns` is NULL if the filter is no column and row, or pixels are of other types.
    pplconv_kernel columns, filter, whole, round, exact
    # Types of pixels and results, and bytes of a result.
    int64_t kind, result_kind, result
    # Rows of results, and of a band; rows and columns of taps; whether the columns come first.
    int64_t height, rows, tap_rows, across
    bint separable
    # Bytes of a block.
    int64_t block_bytes
    # Channels, numbers of a row of results, pixels of a row with its border.
    int64_t channels, width, columns_read
    int64_t image_rs, result_rs
    int64_t run_count, longest_run
    # Rows of taps that sums are made again with, or 0; limits of results.
    int64_t again_rows, low, high
    # Results of a strip, in pixels; rows of a block; bytes from row to row of sums and of pixels.
    int64_t strip, lines, sums_pitch, pixels_pitch
    # Offsets in a thread's scratch.
    int64_t value_place, sums_place, pixels_place, again_place, open_place, list_place, exact_place


cdef inline int64_t lay_out_integers(IntegerLines *j) noexcept nogil:
    """Choose strips, and lay out a thread's scratch; gives its bytes."""
    cdef int64_t element = j.reader.element, beside = j.across - 1, halo = j.tap_rows - 1
    cdef int64_t pixels = j.width // j.channels, rows, numbers, place
    j.lines = PPLCONV_PIXEL_LINES if j.separable else BLOCK_LINES
    rows = j.lines + halo if j.separable else 2 * j.lines + halo
    numbers = most(j.block_bytes // (rows * element), LEAST_STRIP)
    j.strip = most(numbers // j.channels, 1)
    if j.strip >= WHOLE:
        # No blocks that reach back, but at the end of a row.
        j.strip -= j.strip % WHOLE
    j.strip = least(j.strip, pixels)
    numbers = (j.strip + beside) * j.channels
    j.sums_pitch = j.pixels_pitch = pitch_of(numbers * element + BEHIND)
    j.value_place = place = 0
    place += ceil_div(numbers * j.reader.pixel, LINE) * LINE
    j.sums_place = place
    place += j.lines * j.sums_pitch
    j.pixels_place = place
    place += (j.tap_rows if j.separable else j.lines + halo) * j.pixels_pitch
    j.again_place = place
    place += j.sums_pitch
    j.open_place = place
    place += j.lines * (numbers // LEAST_BLOCK + 2) * INDEX
    j.list_place = ceil_div(place, LINE) * LINE
    j.exact_place = j.list_place + numbers * INDEX
    return j.exact_place + (j.tap_rows * PPLCONV_EXACT_LIMBS * INDEX if j.separable else 0) + LINE


cdef inline void sum_columns_of(const IntegerLines *j, pplconv_pixel_columns_args *a,
                                const char **rows, const char *value, int64_t at, char *dst,
                                int64_t pixels) noexcept nogil:
    """Make sums of some columns of the image, from pixel `at` on, or of the value if that is -1."""
    cdef (const char *)[MOST_ROWS_SEEN] seen
    cdef int64_t k
    for k in range(PPLCONV_PIXEL_LINES + j.tap_rows - 1):
        seen[k] = value
        if at >= 0 and rows[k] != NULL:
            seen[k] = rows[k] + at * j.channels * j.reader.pixel
    a.rows, a.dst, a.count = seen, dst, pixels * j.channels
    j.columns(a)


cdef inline void sum_strip(const IntegerLines *j, const Tensors *t, int64_t first,
                           const char **rows, char *scratch, int64_t start,
                           int64_t pixels) noexcept nogil:
    """Make sums of columns of a block, with those beyond the border."""
    cdef pplconv_pixel_columns_args a
    cdef const int64_t *runs = <const int64_t *> t.arrays[RUNS]
    cdef int64_t i, k, numbers = j.channels * j.reader.element, end = start + pixels
    cdef char *sums = scratch + j.sums_place
    cdef char *value = scratch + j.value_place
    cdef char *number
    cdef Part longest, part
    cdef bint has_longest = part_of(runs + RUN * j.longest_run, start, end, &longest)
    a.kind, a.dst_rs, a.taps = j.kind, j.sums_pitch, j.tap_rows
    a.weights = t.arrays[WEIGHTS] + j.across * j.reader.element
    has_longest = has_longest and longest.at >= 0
    if has_longest:
        sum_columns_of(j, &a, rows, value, longest.at, sums + longest.to * numbers, longest.count)
    for i in range(j.run_count):
        if has_longest and i == j.longest_run or not part_of(runs + RUN * i, start, end, &part):
            continue
        if has_longest and part.at >= longest.at and (
                part.at + part.count <= longest.at + longest.count):
            for k in range(PPLCONV_PIXEL_LINES):
                pplconv_copy_few(
                    sums + k * j.sums_pitch + part.to * numbers,
                    sums + k * j.sums_pitch + (longest.to + part.at - longest.at) * numbers,
                    part.count * numbers)
        elif part.at >= 0:
            sum_columns_of(j, &a, rows, value, part.at, sums + part.to * numbers, part.count)
        else:
            # All sums of the value are one number.
            sum_columns_of(j, &a, rows, value, part.at, sums + part.to * numbers, 1)
            for k in range(PPLCONV_PIXEL_LINES):
                number = sums + k * j.sums_pitch + part.to * numbers
                pplconv_repeat(number + j.reader.element, number, part.count * j.channels - 1,
                               j.reader.element)


cdef inline void sum_windows(const IntegerLines *j, const Tensors *t, const char **rows,
                             int64_t lines, char *scratch, int64_t start,
                             int64_t pixels) noexcept nogil:
    """Make sums of whole windows of a block, from pixels that are read as numbers."""
    cdef pplconv_filter_floats_args a
    cdef (const char *)[MOST_ROWS_SEEN] read
    cdef int64_t k
    for k in range(lines + j.tap_rows - 1):
        read[k] = scratch + j.pixels_place + k * j.pixels_pitch
        read_part(&j.reader, <const int64_t *> t.arrays[RUNS], j.run_count, j.longest_run,
                  j.channels, rows[k], t.arrays[VALUE], <char *> read[k], start,
                  pixels + j.across - 1)
    a.rows, a.dst, a.dst_rs = read, scratch + j.sums_place, j.sums_pitch
    a.places, a.weights = t.arrays[PLACES], t.arrays[WEIGHTS]
    a.lines, a.tap_rows, a.across = lines, j.tap_rows, j.across
    a.count, a.stream, a.down = pixels * j.channels, 0, NULL
    j.filter(&a)


cdef inline void round_again(const IntegerLines *j, const Tensors *t, const char **rows,
                             int64_t line, int64_t start, int64_t i, int64_t count, char *dst,
                             char *scratch) noexcept nogil:
    """Round some sums of a row of a block from number i on, by their pixels where they are open."""
    cdef pplconv_round_sums_args a
    cdef pplconv_exact_sums_args e
    cdef pplconv_filter_floats_args f
    cdef int64_t element = j.reader.element, found, k, skipped
    cdef const char *sums = scratch + j.sums_place + line * j.sums_pitch + i * element
    cdef char *windows = scratch + j.pixels_place
    if j.separable:
        skipped = i % j.channels
        for k in range(j.tap_rows):
            read_part(&j.reader, <const int64_t *> t.arrays[RUNS], j.run_count, j.longest_run,
                      j.channels, rows[line + k], t.arrays[VALUE], windows + k * j.pixels_pitch,
                      start + i // j.channels,
                      ceil_div(skipped + count, j.channels) + j.across - 1)
        windows += skipped * element
        f.rows, f.dst, f.dst_rs, f.places = &sums, scratch + j.again_place, 0, t.arrays[PLACES]
        f.weights, f.lines, f.tap_rows = t.arrays[WEIGHTS], 1, 1
        f.across, f.count, f.stream, f.down = j.across, count, 0, NULL
        j.filter(&f)
        sums = scratch + j.again_place
    else:
        windows += line * j.pixels_pitch + i * element
    a.src, a.dst, a.count, a.size = sums, dst, count, j.result
    a.parameters = t.arrays[LIMITS]
    a.open, a.open_count = scratch + j.list_place, &found
    a.pixels, a.pixels_rs, a.step = windows, j.pixels_pitch, j.channels
    a.rows, a.columns, a.again = j.again_rows, j.across, t.arrays[AGAIN]
    j.round(&a)
    if not found:
        return
    e.src, e.src_rs, e.step = windows, j.pixels_pitch, j.channels
    e.rows, e.columns, e.separable, e.taps = j.tap_rows, j.across, j.separable, t.arrays[EXACT]
    e.low, e.high, e.dst, e.dst_rs, e.size = j.low, j.high, dst, j.result_rs, j.result
    e.open, e.count, e.pitch, e.scratch = scratch + j.list_place, found, 1, scratch + j.exact_place
    j.exact(&e)


cdef inline void settle_block(const IntegerLines *j, const Tensors *t, const char **rows,
                              int64_t start, const int64_t *open, int64_t found, int64_t count,
                              char *dst, char *scratch) noexcept nogil:
    """Round listed results again; neighbours together, as their windows may repeat."""
    cdef int64_t k = 0, line, i, end
    while k < found:
        line, i = open[k] // count, open[k] % count
        end = i + TOGETHER
        k += 1
        while k < found and open[k] // count == line and open[k] % count <= end:
            end = open[k] % count + TOGETHER
            k += 1
        end = least(end, count)
        round_again(j, t, rows, line, start, i, end - i,
                    dst + line * j.result_rs + i * j.result, scratch)


cdef inline void fill_value(const IntegerLines *j, const Tensors *t, char *scratch) noexcept nogil:
    """Fill a row with the value beyond the border, before blocks are filtered."""
    if j.separable:
        pplconv_repeat(scratch + j.value_place, t.arrays[PIXEL],
                       (j.strip + j.across - 1) * j.channels, j.reader.pixel)


cdef inline void filter_block(const IntegerLines *j, const Tensors *t, int64_t first, int64_t lines,
                              int64_t start, int64_t end, char *scratch) noexcept nogil:
    """Make some rows of results, from the image's rows: their pixels from `start` up to `end`."""
    cdef int64_t place = 0, found = 0, pixels, k, at
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS] + first
    cdef (const char *)[MOST_ROWS_SEEN] image
    cdef pplconv_whole_sums_args a
    cdef char *dst
    a.src, a.src_rs, a.dst_rs = scratch + j.sums_place, j.sums_pitch, j.result_rs
    a.kind, a.open, a.open_count = j.result_kind, scratch + j.open_place, &found
    a.parameters, a.lines = t.arrays[NEAR], lines
    if j.separable:
        a.places, a.weights, a.taps = t.arrays[PLACES], t.arrays[WEIGHTS], j.across
    else:
        a.places, a.taps = &place, 1
        a.weights = t.arrays[NEAR] + ONE * j.reader.element
    # Kernels make whole blocks of columns: rows that nobody reads are the last one again.
    for k in range(j.lines + j.tap_rows - 1):
        at = rows[least(k, lines + j.tap_rows - 2)]
        image[k] = t.arrays[IMAGE] + at * j.image_rs if at >= 0 else NULL
    while start < end:
        pixels = least(j.strip, end - start)
        if j.separable:
            sum_strip(j, t, first, image, scratch, start, pixels + j.across - 1)
        else:
            sum_windows(j, t, image, lines, scratch, start, pixels)
        dst = t.arrays[RESULTS] + first * j.result_rs + start * j.channels * j.result
        a.dst, a.count = dst, pixels * j.channels
        j.whole(&a)
        if found:
            settle_block(j, t, image, start, <const int64_t *> (scratch + j.open_place),
                         found, a.count, dst, scratch)
        start += pixels


cdef inline void filter_rows(const IntegerLines *j, const Tensors *t, int64_t first, int64_t count,
                             int64_t start, int64_t end, char *scratch) noexcept nogil:
    """Make any number of rows of results, block by block."""
    cdef int64_t k = 0
    while k < count:
        filter_block(j, t, first + k, least(j.lines, count - k), start, end, scratch)
        k += j.lines


cdef inline void run_integer_lines(const void *job, const Tensors *t, int64_t task,
                                   char *scratch) noexcept nogil:
    """Filter a band, from the image's rows to the results."""
    cdef const IntegerLines *j = <const IntegerLines *> job
    cdef int64_t row = task * j.rows, end = least(row + j.rows, j.height), lines
    fill_value(j, t, scratch)
    while row < end:
        lines = least(j.lines, end - row)
        filter_block(j, t, row, lines, 0, j.width // j.channels, scratch)
        row += lines
