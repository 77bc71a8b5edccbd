"""What loops of image filters have in common: arrays of a run, and pixels read as numbers."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    pplconv_convert_in_args,
    pplconv_kernel,
    pplconv_read_pixels_args,
)

cdef extern from "pplconv_schedules.h" nogil:
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


cdef struct Reader:
    # Reads pixels of a kind, or of half precision if that is 0, or copies them if it is NULL; bytes
    # of a pixel's number in the image, and read.
    pplconv_kernel read
    int64_t kind, pixel, element


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
