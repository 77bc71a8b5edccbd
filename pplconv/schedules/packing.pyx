# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Packing as a `Work`: for a matrix that a program computes before it multiplies by it."""

from libc.stdint cimport int64_t

from pplconv.schedules.gemm_loops cimport GemmSchedule
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
    schedule : GemmSchedule
        The product that reads the packed matrix.

    Raises
    ------
    ValueError
        If the matrix would have to be converted first.
    """

    def __cinit__(self, GemmSchedule schedule not None):
        cdef PackJob *j = &self.own
        if schedule.shape.converts_weights:
            raise ValueError("a matrix is packed in its own type")
        self.schedule = schedule
        j.pack, j.job = schedule.pack, schedule.job
        j.pieces = min(max(schedule.packed_bytes() // PIECE_BYTES, 1), MOST_PIECES)
        self.extents[0] = schedule.packed_bytes()
        self.extents[1] = schedule.source_bytes()
        self.tasks = j.pieces
        self.threads = 1
        self.job = j
        self.one_phase(run_task)
