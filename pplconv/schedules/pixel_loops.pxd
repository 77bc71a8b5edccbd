# cython: cdivision=True
"""Filters from the user's rows to the user's rows, some rows at a time.

Kernels read the image where it lies. Only pixels near the left and the right border are copied: the
copy of a row has the pixels that results at the border see, and the pixels beyond it. Rows beyond
the upper and the lower border are addresses of other rows. Rows shorter than a vector are copied as
wholes, and so are their results.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_filter_mirrored_args, pplconv_kernel
from pplconv.schedules.base cimport ceil_div, least, most

cdef extern from "pplconv_pixels.h" nogil:
    void pplconv_copy_pixels(char *dst, const char *src, int64_t bytes)
    void pplconv_fill_pixels(char *dst, const char *value, int64_t bytes, int64_t size)

cdef enum:
    # Bytes of results that a kernel makes of a row, at least.
    VECTOR = 64
    # Rows of results near a border that are made together, and all rows that these see.
    MOST_TOGETHER = 64
    MOST_ROWS = 32
    MOST_SEEN = MOST_TOGETHER + MOST_ROWS - 1
    CACHE_LINE = 64
    # Numbers of a run of pixels: its place in a band, its place in the image or -1, its length.
    RUN = 3


cdef struct PixelJob:
    # Of `side` rows and columns, whose product it is; NULL: the filter is another one.
    pplconv_kernel kernel
    bint weighed
    int64_t side, mode, add, factor, shift
    # Rows of results that are made together where the image lies; bytes of rows from which on
    # they are.
    int64_t together, short_row
    # Bytes of a number, of a pixel, and of a row of results.
    int64_t size, pixel, width
    # Bytes of results whose pixels all lie in one run: these start at the address of the row in the
    # image plus `shift_in`, if they are made where the image lies.
    int64_t inner, inner_end, shift_in
    # Bytes of results from copies: the first ones, and from `right` on.
    int64_t left, right
    # Bytes of a row of copies; of a row of the value beyond borders; of a row of results that is
    # made in the scratch, as it is shorter, or 0.
    int64_t pitch, line, room


cdef inline void copy_pixels(const PixelJob *p, const int64_t *rows, int64_t count,
                             const int64_t *run, const char *image, int64_t image_rs,
                             const char *value, char *dst, int64_t first,
                             int64_t end) noexcept nogil:
    """Copy what lies of a run in some columns of rows of a band, or the value beyond the border.

    `value` is NULL where it is there already.
    """
    cdef int64_t start = most(run[0], first), row
    cdef int64_t bytes = (least(run[0] + run[2], end) - start) * p.pixel
    if bytes <= 0 or (run[1] < 0 and value == NULL):
        return
    dst += (start - first) * p.pixel
    image += (run[1] + start - run[0]) * p.pixel
    for row in range(count):
        if run[1] < 0:
            pplconv_fill_pixels(dst, value, bytes, p.size)
        elif rows[row] >= 0:
            pplconv_copy_pixels(dst, image + rows[row] * image_rs, bytes)
        dst += p.pitch


cdef inline void make_results(const PixelJob *p, pplconv_filter_mirrored_args *a, int64_t above,
                              int64_t before) noexcept nogil:
    """Make some results; number the listed ones in whole rows, and list the next behind them."""
    cdef int64_t found = 0, k
    cdef int64_t *open = <int64_t *> a.open
    a.open_count = &found
    p.kernel(a)
    for k in range(found):
        open[k] = (above + open[k] // a.count) * p.width + before + open[k] % a.count
    a.open = open + found


cdef inline void filter_copies(const PixelJob *p, pplconv_filter_mirrored_args *a,
                               const int64_t *rows, const int64_t *runs, int64_t run_count,
                               const char *image, int64_t image_rs, const char *value,
                               char *dst, int64_t above, int64_t first, int64_t end,
                               const char *outside, char *copies) noexcept nogil:
    """Make bytes `first` to `end` of some rows of results, whose pixels are copied first."""
    cdef const char *seen[MOST_SEEN]
    cdef int64_t start = first // p.pixel, seen_rows = a.rows + p.side - 1, k
    cdef int64_t past = ceil_div(end, p.pixel) + p.side - 1
    for k in range(run_count):
        copy_pixels(p, rows, seen_rows, runs + RUN * k, image, image_rs, value, copies, start, past)
    copies += first % p.pixel
    for k in range(seen_rows):
        seen[k] = outside
        if rows[k] >= 0:
            seen[k] = copies + k * p.pitch
    a.src, a.dst, a.count = seen, dst + first, end - first
    make_results(p, a, above, first)


cdef inline void filter_short_rows(const PixelJob *p, pplconv_filter_mirrored_args *a,
                                   const int64_t *rows, const int64_t *runs, int64_t run_count,
                                   const char *image, int64_t image_rs, const char *value,
                                   char *dst, int64_t dst_rs, const char *outside, char *copies,
                                   char *made) noexcept nogil:
    """Make some rows of results that are shorter than a vector."""
    cdef int64_t row
    a.dst_rs = p.room
    filter_copies(p, a, rows, runs, run_count, image, image_rs, value, made, 0, 0, p.room, outside,
                  copies)
    for row in range(a.rows):
        pplconv_copy_pixels(dst + row * dst_rs, made + row * p.room, p.width)


cdef inline int64_t filter_pixels(const PixelJob *p, const int64_t *rows, int64_t count,
                                  const int64_t *runs, int64_t run_count, const char *image,
                                  int64_t image_rs, const char *value,
                                  const char *weights, char *dst, int64_t dst_rs,
                                  int64_t *open, char *scratch) noexcept nogil:
    """Make `count` rows of results; `rows` are those of the image that they see, or -1.

    Gives how many blocks are listed, by the numbers of their first results.
    """
    cdef pplconv_filter_mirrored_args a
    cdef const char *seen[MOST_SEEN]
    # Later rows overwrite the copies of the first ones, but not the values beyond the border.
    cdef char *copies = scratch + p.line
    cdef char *others = copies + (MOST_TOGETHER + p.side - 1) * p.pitch
    cdef int64_t row, done, rest, above = 0
    cdef bint is_outside = False
    a.dst_rs, a.step, a.side = dst_rs, p.pixel, p.side
    a.mode, a.add, a.factor, a.shift = p.mode, p.add, p.factor, p.shift
    a.open = open
    a.weights = NULL
    if p.weighed:
        a.weights = weights
    for row in range(count + p.side - 1):
        is_outside |= rows[row] < 0
    if is_outside:
        pplconv_fill_pixels(scratch, value, p.line, p.size)
    while count > 0:
        a.rows = rest = least(count, MOST_TOGETHER)
        if p.room:
            filter_short_rows(p, &a, rows, runs, run_count, image, image_rs, value, dst, dst_rs,
                              scratch, copies, others)
        elif p.left:
            filter_copies(p, &a, rows, runs, run_count, image, image_rs, value, dst, above, 0,
                          p.left, scratch, copies)
        if p.right < p.width:
            filter_copies(p, &a, rows, runs, run_count, image, image_rs, value, dst, above,
                          p.right, p.width, scratch, others)
        value = NULL
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
            make_results(p, &a, above + done, p.inner)
            done += a.rows
        dst += rest * dst_rs
        rows += rest
        count -= rest
        above += rest
    return <int64_t *> a.open - open


cdef inline int64_t lay_pixels(PixelJob *p, int64_t start, int64_t source,
                               int64_t length) noexcept nogil:
    """Divide rows of results by the longest run of their pixels; gives the bytes of scratch.

    `start` and `length` are of this run, in a band; `source` is its place in the image, or -1.
    """
    cdef int64_t inner = start * p.pixel, end = least((start + length - p.side + 1) * p.pixel,
                                                      p.width)
    cdef int64_t left = most(inner, VECTOR) if inner else 0
    cdef int64_t right
    right = least(p.width - VECTOR, end) if end < p.width else p.width
    if source < 0 or end - left < VECTOR or right < left or p.width < p.short_row:
        left = right = p.width
        p.inner = p.inner_end = 0
    else:
        p.inner, p.inner_end = left, most(left + VECTOR, right)
        p.shift_in = source * p.pixel + left - inner
    p.left, p.right = left, right
    p.room = VECTOR if p.width < VECTOR else 0
    p.pitch = ceil_div(most(most(left, p.width - right), p.room) + (p.side + 1) * p.pixel,
                       CACHE_LINE) * CACHE_LINE
    p.line = ceil_div(most(p.width, p.room) + p.side * p.pixel, CACHE_LINE) * CACHE_LINE
    return p.line + 2 * (MOST_TOGETHER + p.side - 1) * p.pitch
