# cython: cdivision=True
"""Filters of 3x3 and 5x5 in floating point of rows that lie in the image: nothing is copied.

A kernel makes whole rows of results, those that see pixels beyond the border too: it is told where
in its row the pixel lies that stands for such a pixel.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    PPLCONV_STRIP_BESIDE,
    find_if_any,
    pplconv_filter_strips_args,
    pplconv_kernel,
)
from pplconv.schedules.base cimport least
from pplconv.schedules.image_rows cimport IMAGE, RESULTS, ROWS, RUN, VALUE, WEIGHTS
from pplconv.schedules.work cimport Tensors

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_repeat(void *dst, const void *number, int64_t count, int64_t size)


cdef enum:
    # Rows of results of a call, of a kernel that goes along rows, or down strips. Of a large image
    # strips have fewer: it is read from fewer places at once.
    MANY_LINES = 48
    LINES = 32
    FEW_LINES = 16
    LARGE = 1 << 22
    # Bytes of results of an image that does not lie in L2 with them.
    FAR = 1 << 20
    MOST_SIDE = 5
    FLOAT_BYTES = 4
    # Channels of kernels that go along rows, at most.
    NARROW = 4


cdef struct StripLines:
    # NULL if these loops do not take a filter.
    pplconv_kernel kernel
    # Rows of results, and of a band; rows and columns of taps; numbers of a pixel; whether the
    # weights are a row and a column; whether lanes are moved rather than loaded again; whether the
    # kernel goes along rows.
    int64_t height, rows, side, step
    bint product, stream, far, moves, along_rows
    # Numbers of a row of results; of a row of the image, from `shift` bytes on; and before these.
    int64_t count, numbers, shift, left, image_rs, result_rs
    # For each pixel outside, the number of its row that stands for it, or none.
    int64_t[2 * MOST_SIDE] border
    int64_t border_count
    int64_t lines


cdef inline void take_strips(StripLines *s, int64_t tap_rows, int64_t tap_columns, int64_t step,
                             int64_t element, str isa):
    """Find the kernel, if there is one for such a filter."""
    s.along_rows = not isa.startswith("avx512")
    s.kernel = NULL
    if element == FLOAT_BYTES and tap_rows == tap_columns and tap_rows in (3, 5) and (
            (tap_rows - 1) * step <= PPLCONV_STRIP_BESIDE) and not (
                s.along_rows and step > NARROW):
        s.kernel = find_if_any("filter_strips", "f32", isa)
    s.side, s.step = tap_rows, step


cdef inline int64_t pixel_at(const int64_t *run, int64_t count, int64_t column) noexcept nogil:
    """Give the pixel of the image at a column of a row with its border, or -1."""
    cdef int64_t _i
    for _i in range(count):
        if run[0] <= column < run[0] + run[2]:
            return run[1] + column - run[0] if run[1] >= 0 else -1
        run += RUN
    return -1


cdef inline bint place_strips(StripLines *s, const int64_t *runs, int64_t count, int64_t longest,
                              int64_t columns) noexcept nogil:
    """Note what lies beside the longest run of pixels; false if it is too much for a kernel."""
    cdef const int64_t *run = runs + RUN * longest
    cdef int64_t before = run[0], behind = run[0] + run[2], k, pixel, outside = 0
    if s.kernel == NULL or run[1] < 0 or before >= s.side or columns - behind >= s.side:
        return False
    s.border_count = 0
    for k in range(columns):
        if before <= k < behind:
            continue
        pixel = pixel_at(runs, count, k)
        outside += pixel < 0
        s.border[s.border_count] = (pixel - run[1]) * s.step
        s.border_count += 1
    if outside == s.border_count:
        s.border_count = 0
    elif outside:
        return False
    s.left, s.numbers, s.shift = before * s.step, run[2] * s.step, run[1] * s.step * FLOAT_BYTES
    s.lines = FEW_LINES if s.count * s.height * FLOAT_BYTES > LARGE else LINES
    if s.along_rows:
        s.lines = MANY_LINES
    s.far = s.count * s.height * FLOAT_BYTES >= FAR
    return True


cdef inline int64_t strip_bytes(const StripLines *s) noexcept nogil:
    """Bytes of a thread's scratch: a row of the border's value."""
    return s.numbers * FLOAT_BYTES


cdef inline void run_strip_lines(const StripLines *s, const Tensors *t, int64_t task,
                                 char *scratch) noexcept nogil:
    """Filter a band, from the image's rows to the results."""
    cdef const int64_t *rows = <const int64_t *> t.arrays[ROWS]
    cdef int64_t first = task * s.rows, end = least(first + s.rows, s.height), k
    cdef (const char *)[MANY_LINES + MOST_SIDE - 1] seen
    cdef pplconv_filter_strips_args a
    cdef bint filled = False
    a.rows, a.dst_rs, a.weights = seen, s.result_rs, t.arrays[WEIGHTS]
    a.down = t.arrays[WEIGHTS] + s.side * FLOAT_BYTES if s.product else NULL
    a.border, a.value = NULL, t.arrays[VALUE]
    if s.border_count:
        a.border = &s.border[0]
    a.side, a.step, a.left, a.numbers = s.side, s.step, s.left, s.numbers
    a.count, a.stream, a.far, a.moves = s.count, s.stream, s.far, s.moves
    while first < end:
        a.lines = least(s.lines, end - first)
        for k in range(a.lines + s.side - 1):
            if rows[first + k] >= 0:
                seen[k] = t.arrays[IMAGE] + rows[first + k] * s.image_rs + s.shift
                continue
            if not filled:
                pplconv_repeat(scratch, t.arrays[VALUE], s.numbers, FLOAT_BYTES)
                filled = True
            seen[k] = scratch
        a.dst = t.arrays[RESULTS] + first * s.result_rs
        s.kernel(&a)
        first += a.lines
