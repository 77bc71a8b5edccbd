"""Convolutions that filters of images run on a band."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv.schedules.work cimport MOST_PHASES, Step, Tensors


cdef struct Pass:
    # One convolution of a band, with the addresses of its weights.
    const void *job
    Step[MOST_PHASES] steps
    int phases
    int64_t rounds
    const char *weights
    const char *filters


cdef inline void run_pass(const Pass *p, const char *src, char *dst, char *shared,
                          char *scratch) noexcept nogil:
    """Convolve a band, by this thread alone."""
    cdef Tensors t
    cdef int64_t again, task
    cdef int k
    memset(&t, 0, sizeof(Tensors))
    t.x, t.y, t.weights, t.filters, t.shared = src, dst, p.weights, p.filters, shared
    for again in range(p.rounds):
        for k in range(p.phases):
            for task in range(p.steps[k].tasks):
                p.steps[k].task(p.job, &t, again * p.steps[k].tasks + task, scratch)
