# cython: cdivision=True
"""Filters of bytes with mirrored kernels, from the image's rows to the results.

A kernel makes the results, and lists vectors of results whose rounding is open. Such vectors are
rare. They are made again as other filters of integers are.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport find_if_any
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.image_rows cimport IMAGE, RESULTS, ROWS, RUNS
from pplconv.schedules.integer_lines cimport (
    INDEX, LINE, PIXEL, IntegerLines, fill_value, filter_block, filter_rows,
    lay_out_integers)
from pplconv.schedules.pixel_loops cimport (
    MOST_TOGETHER, VECTOR, PixelJob, filter_pixels, lay_pixels)
from pplconv.schedules.work cimport Tensors


cdef enum:
    DIGITS = 12
    # Results of a listed block, at most and at least.
    MOST_LISTED = 64
    LEAST_LISTED = 16
    # More blocks in the list of a row: its last vectors reach back, over others.
    TWICE = 4
    # Bytes of a row from which on fewer rows are made together.
    WIDE = 4096
    FEW_TOGETHER = 16
    # If one of so many results is in a block that is listed, all are made again.
    SHARE = 128


cdef struct MirrorLines:
    IntegerLines lines
    # Its kernel is NULL if the filter is another one.
    PixelJob pixels
    # Offsets in a thread's scratch.
    int64_t list_place, pixels_place


cdef inline bint take_mirrors(MirrorLines *j, mirrored, str isa) except -1:
    """Take weights with digits, by a kernel of one of two instruction sets; none if `mirrored` is.
    """
    cdef const IntegerLines *lines = &j.lines
    if mirrored is None or lines.width < VECTOR:
        return False
    if lines.tap_rows != lines.across or lines.tap_rows not in (3, 5) or (
            lines.result != 1 or lines.low or lines.reader.pixel != 1):
        raise ValueError("mirrored kernels are squares, of bytes")
    j.pixels.kernel = find_if_any("filter_mirrored", "u8", mirrored)
    if j.pixels.kernel == NULL:
        j.pixels.kernel = find_if_any("filter_mirrored", "u8", isa)
    j.pixels.weighed, j.pixels.side = True, lines.tap_rows
    j.pixels.size, j.pixels.pixel, j.pixels.width = 1, lines.channels, lines.width
    return j.pixels.kernel != NULL


cdef inline int64_t lay_out_mirrors(MirrorLines *j, int64_t start, int64_t source,
                                    int64_t length) noexcept nogil:
    """Lay out a thread's scratch; gives its bytes. The longest run is as `lay_pixels` has it."""
    cdef int64_t end = lay_out_integers(&j.lines)
    if j.pixels.kernel == NULL:
        return end
    j.list_place = ceil_div(end, LINE) * LINE
    end = j.list_place + MOST_TOGETHER * (j.pixels.width // LEAST_LISTED + TWICE) * INDEX
    j.pixels_place = ceil_div(end, LINE) * LINE
    end = j.pixels_place + lay_pixels(&j.pixels, start, source, length) + LINE
    # More rows share what is read of the first ones, until they are far apart.
    j.pixels.together = MOST_TOGETHER if j.pixels.width < WIDE else FEW_TOGETHER
    return end


cdef inline void run_mirror_lines(const void *job, const Tensors *t, int64_t task,
                                  char *scratch) noexcept nogil:
    """Filter a band, some rows at a time."""
    cdef const MirrorLines *j = <const MirrorLines *> job
    cdef const IntegerLines *lines = &j.lines
    cdef int64_t row = task * lines.rows, end = least(row + lines.rows, lines.height), count, k
    cdef int64_t found, first, width = lines.width, channels = lines.channels
    cdef int64_t *open = <int64_t *> (scratch + j.list_place)
    while row < end:
        count = least(MOST_TOGETHER, end - row)
        found = filter_pixels(
            &j.pixels, <const int64_t *> t.arrays[ROWS] + row, count,
            <const int64_t *> t.arrays[RUNS], lines.run_count, t.arrays[IMAGE], lines.image_rs,
            t.arrays[PIXEL], t.arrays[DIGITS], t.arrays[RESULTS] + row * lines.result_rs,
            lines.result_rs, open, scratch + j.pixels_place)
        if found:
            fill_value(lines, t, scratch)
        if found * SHARE > count * width:
            found = 0
            filter_rows(lines, t, row, count, 0, width // channels, scratch)
        for k in range(found):
            first = open[k] % width
            filter_block(lines, t, row + open[k] // width, 1, first // channels,
                         ceil_div(least(first + MOST_LISTED, width), channels), scratch)
        row += count
