# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Packing as a `Work`: for weights that a program computes before it multiplies by them."""

from libc.stdint cimport int64_t

from pplconv.schedules.base cimport Schedule
from pplconv.schedules.work cimport Tensors, Work

cdef enum:
    # Least bytes of weights in a piece, unless there are fewer in all.
    PIECE_BYTES = 1 << 16
    MOST_PIECES = 64


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const PackJob *j = <const PackJob *> job
    j.pack(j.job, t.arrays[1], t.arrays[0], task, j.pieces)


cdef class Pack(Work):
    """Array 1, in the layout of a schedule's problem, packed into array 0.

    Parameters
    ----------
    schedule : Schedule
        The convolution or product that reads the packed weights. Where it converts weights, array 1
        is the converted ones.

    Raises
    ------
    ValueError
        If the loops read the weights before packing as well, or their zeros have to be counted.
    """

    def __cinit__(self, Schedule schedule not None):
        cdef PackJob *j = &self.own
        if schedule.pack == NULL or schedule.count != NULL or schedule.reads_filters:
            raise ValueError("computed weights are packed at once, and read packed alone")
        self.schedule = schedule
        j.pack, j.job = schedule.pack, schedule.job
        j.pieces = min(max(schedule.packed_bytes() // PIECE_BYTES, 1), MOST_PIECES)
        self.extents[0] = schedule.packed_bytes()
        self.extents[1] = schedule.source_bytes()
        self.units[0] = self.units[1] = schedule.shape.size.weight
        self.tasks = j.pieces
        self.threads = 1
        self.job = j
        self.one_phase(run_task)
