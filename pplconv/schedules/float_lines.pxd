# cython: cdivision=True
"""Filters of floating point in blocks of four rows of results, which share the pixels they load.

Most of a wide row is read where it lies in the image. What sees the border, and narrow rows, are
read from copies of a few rows, with the pixels beyond the border.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport pplconv_filter_floats_args, pplconv_kernel
from pplconv.schedules.base cimport ceil_div, least, most
from pplconv.schedules.image_rows cimport (
    IMAGE,
    PLACES,
    RESULTS,
    ROWS,
    RUNS,
    VALUE,
    WEIGHTS,
    Reader,
    read_numbers,
)
from pplconv.schedules.strip_lines cimport (
    StripLines, place_strips, run_strip_lines, strip_bytes)
from pplconv.schedules.work cimport Tensors

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_repeat(void *dst, const void *number, int64_t count, int64_t size)

cdef extern from "pplconv_words.h" nogil:
    void pplconv_copy_words(void *dst, const void *src, int64_t bytes)


cdef enum:
    # Rows of results that a kernel makes together, and those of a call where little is copied: a
    # border is filtered long after its copies were stored, and in fewer calls. Large images are
    # read from fewer places at once. Rows of taps.
    BLOCK = 4
    SOME_LINES = 8
    FEW_TAP_ROWS = 5
    MANY_LINES = 32
    MOST_TAP_ROWS = 128
    MOST_RING = MOST_TAP_ROWS + 2 * MANY_LINES
    LINE_BYTES = 64
    # Numbers from which on a part of a row is read in place; and the least results at borders,
    # which are computed together: a whole vector is faster than a part of one.
    IN_PLACE = 128
    SUMS_IN_PLACE = 512
    LEAST_EDGE = 16
    # Bytes of results that make an image large, and so many that they pass by the caches: a cache
    # would read their lines before it stores them.
    LARGE_BYTES = 1 << 22
    STREAM_BYTES = 1 << 24
    MOST_PIECES = 8
    # Bytes of copied rows that a block may see.
    NEAR_BYTES = 1 << 14
    FEW = 16


cdef struct Piece:
    # Pixels at a border: where their copies lie, where they lie in the image, and bytes.
    int64_t to, at, bytes


cdef struct FloatLines:
    Reader reader
    pplconv_kernel filter
    # Takes the filter, if `in_strips`.
    StripLines strips
    bint in_strips
    # Rows of results, and of a band; rows and columns of taps; whether the columns come first.
    int64_t height, rows, tap_rows, across
    # Whether the kernel is a row times a column: of two passes, or of one.
    bint separable, product
    # Channels; pixels of a row with its border, and numbers of a row of results.
    int64_t channels, columns, width
    int64_t image_rs, result_rs
    # Results of a row are numbers before `begin`, numbers that are read in place, and numbers from
    # `end` on. What the first and the last ones see is copied side by side, and filtered at once:
    # numbers of such results, and bytes to the last ones.
    int64_t begin, end, edge, right_place
    # Bytes from number 0 of a row with its border to that of the image.
    int64_t shift
    # What is copied for rows that are read in place; all runs of a row are copied for others.
    Piece[MOST_PIECES] pieces
    int64_t piece_count, run_count
    bint has_value, stream
    # The last rows, in a ring: copies of their borders, or of all, and sums along them.
    int64_t block, ring, copy_pitch, sums_pitch
    # Offsets in a thread's scratch.
    int64_t value_place, edges_place, sums_place


cdef inline int64_t pitch_of(int64_t bytes) noexcept nogil:
    """Give whole cache lines, so that rows lie in different sets of a cache."""
    cdef int64_t lines = ceil_div(bytes, LINE_BYTES)
    return LINE_BYTES * (lines + (lines % 16 == 0))


cdef inline bint add_pieces(FloatLines *j, const int64_t *runs, int64_t begin, int64_t end,
                            int64_t to) noexcept nogil:
    """Note the pixels of a border's copy; false if they are too many pieces."""
    cdef int64_t numbers = j.channels * j.reader.element, first, count, _i
    cdef const int64_t *run = runs
    for _i in range(j.run_count):
        first = most(run[0], begin)
        count = least(run[0] + run[2], end) - first
        if count > 0:
            if j.piece_count == MOST_PIECES:
                return False
            j.pieces[j.piece_count].to = to + (first - begin) * numbers
            j.pieces[j.piece_count].at = (
                (run[1] + first - run[0]) * numbers if run[1] >= 0 else -1)
            j.pieces[j.piece_count].bytes = count * numbers
            j.piece_count += 1
        run += 3
    return True


cdef inline int64_t lay_out_lines(FloatLines *j, const int64_t *rows,
                                  const int64_t *runs, int64_t longest) noexcept nogil:
    """Choose what is read in place, and lay out a thread's scratch; gives its bytes."""
    cdef const int64_t *run = runs + 3 * longest
    cdef int64_t beside = j.across - 1, halo = j.tap_rows - 1, i
    cdef int64_t begin = run[0], end = run[0] + run[2] - beside, wide = j.columns - beside
    cdef int64_t numbers = j.channels * j.reader.element, value_bytes = 0
    j.stream = begin < end and (
        wide * numbers * j.height >= STREAM_BYTES)
    j.in_strips = j.reader.read == NULL and place_strips(
        &j.strips, runs, j.run_count, longest, j.columns)
    if j.in_strips:
        j.strips.stream = j.stream
        return strip_bytes(&j.strips) + LINE_BYTES
    j.piece_count = 0
    if run[1] < 0 or j.reader.read != NULL or (end - begin) * j.channels < (
            SUMS_IN_PLACE if j.separable else IN_PLACE):
        begin = end = wide
    elif (begin or end < wide) and not (
            add_pieces(j, runs, 0, begin + beside, 0)
            and add_pieces(j, runs, end, j.columns, (begin + beside) * numbers)):
        begin = end = wide
    if begin == wide:
        # Whole rows are copied.
        j.piece_count = 0
    j.shift = (run[1] - run[0]) * numbers
    j.begin, j.end = begin * j.channels, end * j.channels
    j.right_place = (begin + beside) * numbers
    j.edge = most((begin + beside + wide - end) * j.channels, LEAST_EDGE)
    j.copy_pitch = pitch_of(
        j.columns * numbers if begin == wide else j.edge * j.reader.element + beside * numbers)
    j.block = BLOCK if j.separable else MANY_LINES
    if j.tap_rows <= FEW_TAP_ROWS and wide * numbers * j.height > LARGE_BYTES:
        j.block = least(j.block, SOME_LINES)
    if begin == wide:
        # Copies that are as few as a block needs, or that are near.
        j.block = least(j.block, most(NEAR_BYTES // j.copy_pitch // BLOCK * BLOCK, BLOCK))
    j.ring = j.block + ceil_div(halo, j.block) * j.block
    j.sums_pitch = pitch_of(j.width * j.reader.element) if j.separable else 0
    j.has_value = False
    for i in range(j.height + halo):
        if rows[i] < 0 and begin < end:
            j.has_value = True
            value_bytes = pitch_of(j.columns * numbers)
    j.value_place = j.ring * j.copy_pitch
    j.edges_place = j.value_place + value_bytes
    j.sums_place = j.edges_place + (0 if begin == wide else j.block * j.copy_pitch)
    return j.sums_place + j.ring * j.sums_pitch + LINE_BYTES


cdef inline void fill_pieces(const FloatLines *j, const char *value, bint everywhere,
                             char *dst) noexcept nogil:
    """Fill the pieces of a row's copy that are outside, or all, with the value of a border."""
    cdef int64_t k, i
    for k in range(j.piece_count):
        if everywhere or j.pieces[k].at < 0:
            for i in range(j.pieces[k].bytes // j.reader.element):
                pplconv_copy_words(dst + j.pieces[k].to + i * j.reader.element, value,
                                   j.reader.element)


cdef inline void copy_pieces(const FloatLines *j, const char *row, char *dst) noexcept nogil:
    """Copy the pixels that a row's borders repeat; values of a border are there already."""
    cdef int64_t k
    for k in range(j.piece_count):
        if j.pieces[k].at >= 0:
            pplconv_copy_words(dst + j.pieces[k].to, row + j.pieces[k].at, j.pieces[k].bytes)


cdef inline void copy_row(const FloatLines *j, const char *row, const Tensors *t,
                          char *dst) noexcept nogil:
    """Read a whole row with its border; `row` is NULL for one of values."""
    cdef const int64_t *run = <const int64_t *> t.arrays[RUNS]
    cdef int64_t _i, count
    for _i in range(j.run_count):
        count = run[2] * j.channels
        if row == NULL or run[1] < 0:
            pplconv_repeat(dst, t.arrays[VALUE], count, j.reader.element)
        elif j.reader.read == NULL and count <= FEW:
            pplconv_copy_words(dst, row + run[1] * j.channels * j.reader.pixel,
                               count * j.reader.element)
        else:
            read_numbers(&j.reader, row + run[1] * j.channels * j.reader.pixel, dst, count)
        dst += count * j.reader.element
        run += 3


cdef inline void take_lines(const FloatLines *j, const Tensors *t, int64_t first, int64_t count,
                            int64_t slot, const char **places, char *scratch) noexcept nogil:
    """Note where some rows are; rows that are not read in place are copied."""
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS] + first
    cdef int64_t k
    cdef const char *row
    for k in range(slot, slot + count):
        row = t.arrays[IMAGE] + rows[0] * j.image_rs if rows[0] >= 0 else NULL
        rows += 1
        if j.begin == j.width:
            places[k] = scratch + k * j.copy_pitch
            copy_row(j, row, t, scratch + k * j.copy_pitch)
            continue
        places[k] = row + j.shift if row != NULL else scratch + j.value_place


cdef inline void copy_borders(const FloatLines *j, const Tensors *t, int64_t first, int64_t count,
                              int64_t slot, char *scratch) noexcept nogil:
    """Copy what lies at the borders of some rows, from a slot of the ring on."""
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS] + first
    cdef int64_t k
    for k in range(count):
        if rows[k] < 0:
            fill_pieces(j, t.arrays[VALUE], True, scratch + slot * j.copy_pitch)
        else:
            copy_pieces(j, t.arrays[IMAGE] + rows[k] * j.image_rs, scratch + slot * j.copy_pitch)
        slot = slot + 1 if slot + 1 < j.ring else 0


cdef inline void filter_edges(const FloatLines *j, const pplconv_filter_floats_args *lines,
                              int64_t slot, char *scratch, char *dst) noexcept nogil:
    """Filter the copies of what lies at the borders, from a slot of the ring on."""
    cdef (const char *)[MOST_RING] rows
    cdef pplconv_filter_floats_args a = lines[0]
    cdef char *made = scratch + j.edges_place
    cdef int64_t k, _k, element = j.reader.element
    for k in range(a.lines + a.tap_rows - 1):
        rows[k] = scratch + slot * j.copy_pitch
        slot = slot + 1 if slot + 1 < j.ring else 0
    a.rows, a.dst, a.dst_rs, a.count, a.stream = rows, made, j.copy_pitch, j.edge, 0
    j.filter(&a)
    for _k in range(a.lines):
        pplconv_copy_words(dst, made, j.begin * element)
        pplconv_copy_words(dst + j.end * element, made + j.right_place, (j.width - j.end) * element)
        made += j.copy_pitch
        dst += lines.dst_rs


cdef inline void filter_lines(const FloatLines *j, pplconv_filter_floats_args *a, int64_t slot,
                              const char **places, char *scratch, char *dst) noexcept nogil:
    """Filter rows of pixels from a slot of the ring on."""
    cdef (const char *)[MOST_RING] rows
    cdef int64_t k, at = slot, first = j.begin * j.reader.element
    if j.begin == j.width:
        first = 0
    for k in range(a.lines + a.tap_rows - 1):
        rows[k] = places[at] + first
        at = at + 1 if at + 1 < j.ring else 0
    a.rows, a.dst, a.count = rows, dst + first, j.width if j.begin == j.width else j.end - j.begin
    j.filter(a)


cdef inline void sum_columns(const FloatLines *j, pplconv_filter_floats_args *a, int64_t slot,
                             const char *sums) noexcept nogil:
    """Filter columns of sums of rows from a slot of the ring on."""
    cdef (const char *)[MOST_RING] rows
    cdef int64_t k
    for k in range(a.lines + a.tap_rows - 1):
        rows[k] = sums + slot * j.sums_pitch
        slot = slot + 1 if slot + 1 < j.ring else 0
    a.rows = rows
    j.filter(a)


cdef inline void run_ring_lines(const FloatLines *j, const Tensors *t, int64_t task,
                                char *scratch) noexcept nogil:
    """Filter a band with copies of what sees the border."""
    cdef int64_t first = task * j.rows, count = least(j.rows, j.height - first)
    # The first rows lie so that later blocks do not run around the ring's end.
    cdef int64_t halo = j.tap_rows - 1, ahead = j.ring - halo, row = 0, taken = 0, slot, more
    cdef int64_t copied = 0
    cdef int64_t place = 0
    cdef (const char *)[MOST_RING] places
    cdef pplconv_filter_floats_args a, column
    cdef char *sums = scratch + j.sums_place
    a.dst_rs, a.places, a.weights = j.result_rs, t.arrays[PLACES], t.arrays[WEIGHTS]
    a.tap_rows, a.across, a.stream = j.tap_rows, j.across, j.stream
    a.down = t.arrays[WEIGHTS] + j.across * j.reader.element if j.product else NULL
    column = a
    if j.separable:
        a.dst_rs, a.tap_rows, a.stream = j.sums_pitch, 1, 0
        column.weights = t.arrays[WEIGHTS] + j.across * j.reader.element
        column.places, column.across, column.count = &place, 1, j.width
    if j.piece_count:
        # Numbers between the two borders do not matter; values at borders stay.
        memset(scratch, 0, j.ring * j.copy_pitch)
        for slot in range(j.ring):
            fill_pieces(j, t.arrays[VALUE], False, scratch + slot * j.copy_pitch)
    if j.has_value:
        pplconv_repeat(scratch + j.value_place, t.arrays[VALUE], j.columns * j.channels,
                       j.reader.element)
    while row < count:
        column.lines = least(j.block, count - row)
        while taken < row + column.lines + halo:
            slot = (taken + ahead) % j.ring
            more = least(j.block - slot % j.block, row + column.lines + halo - taken)
            take_lines(j, t, first + taken, more, slot, places, scratch)
            if j.separable:
                a.lines = more
                filter_lines(j, &a, slot, places, scratch, sums + slot * j.sums_pitch)
                if j.piece_count:
                    copy_borders(j, t, first + taken, more, slot, scratch)
                    filter_edges(j, &a, slot, scratch, sums + slot * j.sums_pitch)
            taken += more
        slot = (row + ahead) % j.ring
        column.dst = t.arrays[RESULTS] + (first + row) * j.result_rs
        if j.separable:
            sum_columns(j, &column, slot, sums)
        else:
            a.lines = column.lines
            filter_lines(j, &a, slot, places, scratch, <char *> column.dst)
            if j.piece_count:
                # Borders come last: they lie in caches then.
                copy_borders(j, t, first + copied, taken - copied, (copied + ahead) % j.ring,
                             scratch)
                copied = taken
                filter_edges(j, &a, slot, scratch, <char *> column.dst)
        row += column.lines


cdef inline void run_float_lines(const void *job, const Tensors *t, int64_t task,
                                 char *scratch) noexcept nogil:
    """Filter a band, from the image's rows to the results."""
    cdef const FloatLines *j = <const FloatLines *> job
    if j.in_strips:
        run_strip_lines(&j.strips, t, task, scratch)
    else:
        run_ring_lines(j, t, task, scratch)
