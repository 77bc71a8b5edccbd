# cython: cdivision=True
"""Filters from the user's rows to the user's rows, some rows at a time.

Kernels read the image where it lies. Only pixels near the left and the right border are copied: the
copy of a row has the pixels that results at the border see, and the pixels beyond it. Rows beyond
the upper and the lower border are addresses of other rows.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_filter_squares_args, pplconv_kernel
from pplconv.schedules.base cimport ceil_div, least, most

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_repeat(void *dst, const void *number, int64_t count, int64_t size)

cdef extern from "pplconv_pixels.h" nogil:
    void pplconv_copy_pixels(char *dst, const char *src, int64_t bytes)

cdef enum:
    # Results that a kernel makes of a row, at least.
    VECTOR = 64
    # Rows of results near a border that are made together, and all rows that these see.
    MOST_TOGETHER = 64
    MOST_ROWS = 5
    MOST_SEEN = MOST_TOGETHER + MOST_ROWS - 1
    CACHE_LINE = 64
    # Bytes of a row.
    LONG = 1024
    # Numbers of a run of pixels: its place in a band, its place in the image or -1, its length.
    RUN = 3


cdef struct PixelJob:
    # Of `side` rows and columns, whose product it is; NULL: the filter is another one.
    pplconv_kernel kernel
    bint weighed
    int64_t side, mode, add, factor, shift
    # Rows of results that are made together where the image lies.
    int64_t together
    # Bytes of a pixel, and of a row of results.
    int64_t pixel, width
    # Results whose pixels all lie in one run: these start at the address of the row in the image
    # plus `shift_in`, if they are made where the image lies.
    int64_t inner, inner_end, shift_in
    # Results from copies: the first ones, and from `right` on.
    int64_t left, right
    # Bytes of a row of copies; of a row of the value beyond borders.
    int64_t pitch, line


cdef inline void copy_pixels(const PixelJob *p, const int64_t *runs, int64_t run_count,
                             const char *src, const char *value, char *dst, int64_t first,
                             int64_t pixels) noexcept nogil:
    """Copy pixels of a row of a band, with what lies beyond the border."""
    cdef const int64_t *run = runs
    cdef int64_t _i, start, end
    for _i in range(run_count):
        start, end = most(run[0], first), least(run[0] + run[2], first + pixels)
        if run[0] >= first + pixels:
            return
        if start >= end:
            pass
        elif run[1] < 0:
            pplconv_repeat(dst + (start - first) * p.pixel, value, (end - start) * p.pixel, 1)
        else:
            pplconv_copy_pixels(dst + (start - first) * p.pixel,
                                src + (run[1] + start - run[0]) * p.pixel,
                                (end - start) * p.pixel)
        run += RUN


cdef inline void filter_copies(const PixelJob *p, pplconv_filter_squares_args *a,
                               const int64_t *rows, const int64_t *runs, int64_t run_count,
                               const char *image, int64_t image_rs, const char *value,
                               char *dst, int64_t first, int64_t end, const char *outside,
                               char *copies) noexcept nogil:
    """Make results `first` to `end` of some rows, whose pixels are copied first."""
    cdef const char *seen[MOST_SEEN]
    cdef int64_t row, start = first // p.pixel, skipped = first % p.pixel
    cdef int64_t pixels = ceil_div(end, p.pixel) - start + p.side - 1
    for row in range(a.rows + p.side - 1):
        if rows[row] < 0:
            seen[row] = outside
        else:
            copy_pixels(p, runs, run_count, image + rows[row] * image_rs, value,
                        copies + row * p.pitch, start, pixels)
            seen[row] = copies + row * p.pitch + skipped
    a.src, a.dst, a.count = seen, dst + first, end - first
    p.kernel(a)


cdef inline void filter_pixels(const PixelJob *p, const int64_t *rows, int64_t count,
                               const int64_t *runs, int64_t run_count, const char *image,
                               int64_t image_rs, const char *value,
                               const char *weights, char *dst, int64_t dst_rs,
                               char *scratch) noexcept nogil:
    """Make `count` rows of results; `rows` are those of the image that they see, or -1."""
    cdef pplconv_filter_squares_args a
    cdef const char *seen[MOST_SEEN]
    cdef char *copies = scratch + p.line
    cdef int64_t row, done, rest
    cdef bint is_outside = False
    a.dst_rs, a.step, a.side = dst_rs, p.pixel, p.side
    a.mode, a.add, a.factor, a.shift = p.mode, p.add, p.factor, p.shift
    a.weights = NULL
    if p.weighed:
        a.weights = weights
    for row in range(count + p.side - 1):
        is_outside |= rows[row] < 0
    if is_outside:
        pplconv_repeat(scratch, value, p.line, 1)
    while count > 0:
        a.rows = rest = least(count, MOST_TOGETHER)
        if p.left:
            filter_copies(p, &a, rows, runs, run_count, image, image_rs, value, dst, 0, p.left,
                          scratch, copies)
        if p.right < p.width:
            filter_copies(p, &a, rows, runs, run_count, image, image_rs, value, dst, p.right,
                          p.width, scratch, copies)
        for row in range(rest + p.side - 1):
            if rows[row] < 0:
                seen[row] = scratch
            else:
                seen[row] = image + rows[row] * image_rs + p.shift_in
        a.count = p.inner_end - p.inner
        done = 0
        while done < rest and a.count > 0:
            a.src, a.dst = seen + done, dst + done * dst_rs + p.inner
            a.rows = least(rest - done, p.together)
            p.kernel(&a)
            done += a.rows
        dst += rest * dst_rs
        rows += rest
        count -= rest


cdef inline int64_t lay_pixels(PixelJob *p, int64_t start, int64_t source,
                               int64_t length) noexcept nogil:
    """Divide rows of results by the longest run of their pixels; gives the bytes of scratch.

    `start` and `length` are of this run, in a band; `source` is its place in the image, or -1.
    """
    cdef int64_t inner = start * p.pixel, end = least((start + length - p.side + 1) * p.pixel,
                                                      p.width)
    cdef int64_t left = most(inner, VECTOR) if inner else 0
    cdef int64_t right
    # More rows share more sums; long rows are read from as many places at once.
    p.together = 16 if p.width < LONG else 8
    right = least(p.width - VECTOR, end) if end < p.width else p.width
    if source < 0 or end - left < VECTOR or right < left:
        left = right = p.width
        p.inner = p.inner_end = 0
    else:
        p.inner, p.inner_end = left, most(left + VECTOR, right)
        p.shift_in = source * p.pixel + left - inner
    p.left, p.right = left, right
    p.pitch = ceil_div(most(left, p.width - right) + (p.side + 1) * p.pixel,
                       CACHE_LINE) * CACHE_LINE
    p.line = ceil_div(p.width + p.side * p.pixel, CACHE_LINE) * CACHE_LINE
    return p.line + MOST_SEEN * p.pitch
