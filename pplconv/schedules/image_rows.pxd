"""What loops of image filters have in common: arrays of a run, and pixels read as numbers."""

from libc.stdint cimport int64_t
from libc.stdlib cimport qsort

from pplconv._kernels cimport (
    pplconv_convert_in_args,
    pplconv_kernel,
    pplconv_read_pixels_args,
)

from pplconv.schedules.base cimport least, most

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_repeat(void *dst, const void *number, int64_t count, int64_t size)
    void pplconv_copy_few(void *dst, const void *src, int64_t bytes)
    void pplconv_copy_row(void *dst, const void *src, int64_t bytes)


cdef enum:
    # Arrays of a run: among them, of filters row by row, offsets and weights of taps.
    RESULTS = 0
    IMAGE = 1
    ROWS = 2
    RUNS = 3
    VALUE = 4
    PLACES = 8
    WEIGHTS = 9
    # Numbers of a run of pixels: its first column in a band, its first pixel in the image (-1:
    # none), its length.
    RUN = 3


cdef struct Part:
    # The part of a run that lies in some columns: its place behind the first of them, its first
    # pixel in the image (-1: none), and its length.
    int64_t to, at, count


cdef struct Reader:
    # Reads pixels of a kind, or of half precision if that is 0, or copies them if it is NULL; bytes
    # of a pixel's number in the image, and read.
    pplconv_kernel read
    int64_t kind, pixel, element


cdef inline int by_number(const void *a, const void *b) noexcept nogil:
    cdef int64_t first = (<const int64_t *> a)[0], second = (<const int64_t *> b)[0]
    return (first > second) - (first < second)


cdef inline void sort_numbers(int64_t *numbers, int64_t count) noexcept nogil:
    """Sort numbers of results."""
    qsort(numbers, count, sizeof(int64_t), by_number)


cdef inline void read_numbers(const Reader *r, const char *src, char *dst,
                              int64_t count) noexcept nogil:
    """Convert numbers of an image to the type of sums."""
    cdef pplconv_read_pixels_args a
    cdef pplconv_convert_in_args c
    if r.read == NULL:
        pplconv_copy_row(dst, src, count * r.element)
    elif r.kind:
        a.src, a.dst, a.count, a.kind = src, dst, count, r.kind
        r.read(&a)
    else:
        c.src, c.dst, c.src_rs, c.dst_rs, c.rows, c.columns = src, dst, 0, 0, 1, count
        c.flags = 0
        r.read(&c)


cdef inline bint part_of(const int64_t *run, int64_t first, int64_t end, Part *p) noexcept nogil:
    """Find the part of a run from column `first` up to `end`; false if there is none."""
    cdef int64_t start = most(run[0], first)
    p.to, p.count = start - first, least(run[0] + run[2], end) - start
    p.at = run[1] + start - run[0] if run[1] >= 0 else -1
    return p.count > 0


cdef inline void read_part(const Reader *r, const int64_t *runs, int64_t run_count,
                           int64_t longest_run, int64_t channels, const char *src,
                           const char *value, char *dst, int64_t first,
                           int64_t pixels) noexcept nogil:
    """Read some columns of a row with its border as numbers; `src` is NULL for one of values."""
    cdef int64_t numbers = channels * r.element, end = first + pixels, i
    cdef Part longest, part
    cdef bint has_longest
    if src == NULL:
        pplconv_repeat(dst, value, pixels * channels, r.element)
        return
    has_longest = part_of(runs + RUN * longest_run, first, end, &longest) and longest.at >= 0
    if has_longest:
        read_numbers(r, src + longest.at * channels * r.pixel, dst + longest.to * numbers,
                     longest.count * channels)
    for i in range(run_count):
        if has_longest and i == longest_run or not part_of(runs + RUN * i, first, end, &part):
            continue
        if part.at < 0:
            pplconv_repeat(dst + part.to * numbers, value, part.count * channels, r.element)
        elif has_longest and part.at >= longest.at and (
                part.at + part.count <= longest.at + longest.count):
            # Pixels of a border have been read.
            pplconv_copy_few(dst + part.to * numbers,
                             dst + (longest.to + part.at - longest.at) * numbers,
                             part.count * numbers)
        else:
            read_numbers(r, src + part.at * channels * r.pixel, dst + part.to * numbers,
                         part.count * channels)
