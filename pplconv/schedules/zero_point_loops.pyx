# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What a zero point that the network computes adds to sums of integers.

``sum((x - zero) * w)`` is ``sum(x * w) - zero * sum(w)``, and the sums of the weights are known. So
the loops of a product read the same numbers as for a known zero point: the value of padding, and
the offsets. This step computes them, once a run, before the product.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from pplconv.schedules.work cimport Tensors

from pplconv.schedules.work import check_numbers


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const ZeroPointJob *j = <const ZeroPointJob *> job
    cdef uint32_t *dst = <uint32_t *> t.arrays[0]
    cdef const uint32_t *base = <const uint32_t *> t.arrays[2]
    cdef const uint32_t *slope = <const uint32_t *> t.arrays[3]
    cdef int32_t zero = (<const uint8_t *> t.arrays[1])[0]
    cdef int64_t i
    if j.is_signed:
        zero = (<const int8_t *> t.arrays[1])[0]
    # Sums wrap around as int32: only the total has to fit.
    for i in range(j.count):
        dst[i] = base[i] + <uint32_t> zero * slope[i]


cdef class ZeroPoint(Work):
    """``base + zero * slope``, of int32: arrays 0 to 3 are result, zero, base and slope.

    Parameters
    ----------
    count : int
        Elements of all but the zero point, which is one byte.
    is_signed : bool
        Whether the zero point is int8; else it is uint8.

    Raises
    ------
    ValueError
        If there are none.
    """

    def __cinit__(self, int64_t count, bint is_signed):
        check_numbers({"count": count}, frozenset())
        if count < 1:
            raise ValueError("there is an offset for each channel")
        self.own.count, self.own.is_signed = count, is_signed
        self.extents[0] = self.extents[2] = self.extents[3] = count * sizeof(int32_t)
        self.extents[1] = 1
        self.units[0] = self.units[2] = self.units[3] = sizeof(int32_t)
        self.tasks = self.threads = 1
        self.job = &self.own
        self.one_phase(run_task)
