"""The loops of image filters compiled: see ``band_loops.pyx``."""

from libc.stdint cimport int64_t

from pplconv.schedules.band_job cimport BandJob
from pplconv.schedules.box_lines cimport BoxLines
from pplconv.schedules.mirror_lines cimport MirrorLines
from pplconv.schedules.pair_lines cimport PairLines
from pplconv.schedules.work cimport Work


cdef class Bands(Work):
    cdef BandJob own
    # Whether rows of floating point are filtered as they are, and not in strips.
    cdef bint is_floats
    # Whether strips of columns take a column and a row of any taps.
    cdef bint columns_first
    cdef BoxLines floats
    cdef MirrorLines integers
    cdef PairLines pairs
    cdef object kept
    cdef int64_t image_rows, image_columns

    cdef int take(self, passes, dict fields) except -1
    cdef int take_rows(self, dict fields, words, by_rows, str isa) except -1
    cdef bint take_floats(self, fields, words, str isa) except -1
    cdef bint take_boxes(self, fields, str isa) except -1
    cdef bint take_integers(self, fields, words, str isa) except -1
    cdef bint take_pairs_of(self, paired, bint factored) except -1
    cdef list lay_out(self, list sizes)
    cdef int check_input(self, const int64_t *rows, const int64_t *runs) except -1
