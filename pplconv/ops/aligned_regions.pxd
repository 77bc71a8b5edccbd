"""Regions of images compiled: see ``aligned_regions.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_kernel
from pplconv.schedules.window_loops cimport Images
from pplconv.schedules.work cimport Work


cdef struct RegionsJob:
    pplconv_kernel kernel
    Images x
    # Of results, an image is a region.
    Images y
    int64_t images, channels, ih, iw, oh, ow, kind, ratio, element
    # Whether coordinates are doubles, and whether they begin half a pixel before the first one.
    bint wide, half
    # Taps of an output pixel along a row and a column, at most; where the lists lie in scratch.
    int64_t most_x, most_y, offsets_at, weights_at, counts_at, rows_at, places_at, row_weights_at
    double scale


cdef class Regions(Work):
    cdef RegionsJob own
