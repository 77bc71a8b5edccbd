"""The loops of pooling and resampling compiled: see ``window_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.brain_rows cimport BrainRows
from pplconv.schedules.work cimport Work


cdef struct Sight:
    # Outputs begin <= i < end of one dimension, which see taps low <= tap < high, and count as
    # `count` taps in an average.
    int64_t begin, end, low, high, count


cdef struct Images:
    # Bytes from one image, row and pixel to the next.
    int64_t image, row, pixel


cdef struct PoolJob:
    pplconv_kernel kernel
    Images x, y
    int64_t channels, oh, stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left
    int64_t row_segment, row_segments, kind
    Sight *rows
    Sight *columns
    int64_t column_count
    # Of images of bfloat16: input rows that are held as float32, and channels of a block.
    BrainRows brain
    int64_t iw, ow, held, block


cdef class Pool(Work):
    cdef PoolJob own


cdef struct PlacesAxis:
    # One spatial axis of a pool; strides in bytes, and the distance of places.
    int64_t inputs, outputs, kernel, stride, dilation, pad, x, y, places, place


cdef struct PlacesJob:
    pplconv_kernel kernel
    PlacesAxis axes[3]
    int64_t channels, x_image, y_image, places_image, place_image, place_channel, segment, segments


cdef class PoolPlaces(Work):
    cdef PlacesJob own


cdef struct ResampleJob:
    pplconv_kernel kernel
    Images x, y
    int64_t channels, oh, ow, row_segment, row_segments, taps_y, taps_x, element
    # For each output row, its input rows and their weights; for each output column, its input
    # columns as offsets in bytes, and their weights.
    const int64_t *rows
    const char *weights_y
    const int64_t *offsets
    const char *weights_x
    # Of images of bfloat16: input rows that are held as float32, and channels of a block.
    BrainRows brain
    int64_t iw, held, block


cdef class Resample(Work):
    cdef ResampleJob own
    cdef list kept
