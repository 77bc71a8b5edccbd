"""Filters of images by loops; see ``banded.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.band_loops cimport Bands

cdef enum:
    AXES = 4
    ARRAYS = 13


cdef class Form:
    cdef object dtype
    cdef int flags, ndim
    cdef int64_t size
    cdef int64_t[AXES] shape, strides

    cdef char *place(self, array) except NULL


cdef class Banded:
    cdef Bands bands
    cdef list kept  # what the loops refer to
    cdef list constants  # arrays of a run behind results and image, or None
    cdef Form image_form, results_form
    cdef char *fixed[ARRAYS]
    cdef int share

    cdef int keep(self, list constants) except -1
    cdef int run(self, char *image, char *results) except -1
