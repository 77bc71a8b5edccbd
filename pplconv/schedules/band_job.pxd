"""What loops over bands of an image work on: the job that `band_loops` compiles."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.band_passes cimport Pass
from pplconv.schedules.image_rows cimport Reader
from pplconv.schedules.pixel_loops cimport PixelJob


cdef enum:
    MOST_PASSES = 2
    # Bands of the usual height, and the last one.
    HEIGHTS = 2
    # Places of a column of sums of neighbours.
    MOST_PLACES = 64


cdef struct BandJob:
    Pass[HEIGHTS][MOST_PASSES] passes
    int pass_count
    # Rows of the result, rows of a band, and input rows that a band needs beyond its own.
    int64_t height, rows, halo
    # Channels of a pixel; bytes of an element of the image, and of a sum.
    int64_t channels, pixel, element
    # Pixels of a row of the band, and numbers of a row of results.
    int64_t columns, width
    # Kernels, and bytes of a result.
    int64_t count, result
    # If results are integers: rows and columns of the kernels, and whether these are separable.
    int64_t tap_rows, tap_columns
    bint separable
    # The same rows where results are computed again in float64, else 0.
    int64_t again_rows, again_numbers
    # Exact taps of one kernel; the least and the largest result.
    int64_t taps, low, high
    # How many open results a list has room for.
    int64_t room
    # Bytes from row to row of the image, and from row to row and plane to plane of the results.
    int64_t image_rs, result_rs, result_ps
    # The longest run is read first.
    int64_t run_count, longest_run
    Reader reader
    pplconv_kernel round, exact
    # Filters row by row, of bytes in `words` of 16 bits or in the type of sums: for each pass, a
    # column (the only one of a kernel that is no product) after a row, the first of its taps, how
    # many, and whether these are not ones; bytes of a tap.
    pplconv_kernel filter
    bint words
    int64_t tap
    int64_t[MOST_PASSES] first_tap, short_taps, weighed
    # How many neighbours of a row and of a column of equal taps are summed up first, or 0: the
    # place of these sums behind the pixels of a row, and how many rows of them are kept.
    int64_t[MOST_PASSES] first
    int64_t wide, wide_count, second
    int64_t mode, add, factor, shift
    # Places of taps from row to row of the kernel; rows of pixels that are kept, and bytes from
    # one to the next; bytes from row to row of what the last pass reads.
    int64_t place_step, lines, line_pitch, pitch
    # Whether sums of columns are moved from row to row, rows of the last pass that are kept, and
    # bytes of a row of its sums.
    bint running
    int64_t ring, sums_pitch
    # Small filters of bytes that are a row times a column.
    PixelJob squares
    # The last pass writes results.
    bint straight
    # Offsets in a thread's scratch: pixels and the results of the passes, the list of open
    # results, exact sums of rows, and the scratch of the passes.
    int64_t[MOST_PASSES + 1] places
    int64_t open_place, exact_place, own_place, shared_place
