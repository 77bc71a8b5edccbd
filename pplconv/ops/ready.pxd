"""Compiled plans of one `Layer`; see ``ready.pyx``."""

from libc.stdint cimport int64_t

from pplconv.ops.prepared cimport Activation, Operands, PackedWeights, Prepared
from pplconv.memory.arrays cimport View


cdef class Ready:
    cdef Prepared prepared
    cdef PackedWeights packed
    cdef object bias
    cdef Activation activation
    cdef object scope
    cdef bint border  # whether the border of each output is computed again
    # For padding made of pixels: the extension and its strips; else None.
    cdef object extension, strips
    cdef tuple shape  # of the input

    cdef object compute(self, Operands *o, object input, object x, object residual, object out,
                        bint batched)


cdef class ReadyPlans:
    cdef object weight, bias, described, problem_of
    cdef object mode  # of padding that is made of pixels, or None
    cdef dict settings
    cdef bint free_team, free_tolerance
    cdef object lock
    # Maps an input shape, with the scope if it has a say, to a Ready. `last` is the latest one;
    # only `latest` and `keep_latest` touch it.
    cdef dict plans
    cdef Ready last

    cdef void keep_arrays(self, object weight, object bias) noexcept
    cdef Ready latest(self, object scope)
    cdef void keep_latest(self, Ready ready) noexcept
    cdef object scope(self)
    cdef Ready of_shape(self, tuple shape, object scope)
    cdef Ready make(self, tuple shape)
    cdef Ready of_plan(self, tuple shape, object scope, Prepared prepared)
    cdef object extension(self, object problem)
    cdef Ready join(self, tuple shape, object extension, Prepared prepared, PackedWeights packed,
                    object scope)
    cdef tuple for_other_process(self, object threads)
    cdef int take_over(self, list plans, dict packed, double tolerance) except -1


cdef object extended(object extension, object x, View *view)
cdef int compute_strips(object strips, Prepared prepared, object x, object residual,
                        object out) except -1
cdef object scope_around(bint team, bint tolerance)
cdef object plain_bias(object bias, int64_t oc, object dtype)
cdef object read_only(object array)
cdef object computed_bias(object bias, object dtype)
