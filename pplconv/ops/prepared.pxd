"""A compiled plan, and the arrays of one run; see ``prepared.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_instruction
from pplconv.memory.arrays cimport View, release
from pplconv.schedules.base cimport Schedule
from pplconv.schedules.work cimport Follow
from pplconv.memory.workspace cimport Buffer


cdef class Prepared:
    cdef readonly object problem, plan
    cdef readonly dict fields
    cdef Schedule schedule
    cdef tuple output_shape
    # `dtype` is that of the input, `out_dtype` of residual and output, `bias_type` that of bias,
    # slopes and bounds.
    cdef object dtype, out_dtype
    cdef str bias_type
    # Dimensions of the batched arrays: four, or five with channels in blocks.
    cdef int ndim
    cdef int64_t input_dims[5]
    cdef int64_t output_dims[5]
    # Channels of the output.
    cdef int64_t channels
    # Bytes of the input, and of the weights before packing.
    cdef int64_t input_bytes, filter_bytes
    # Threads of the plan's team; and the most that may compute at once when this runs.
    cdef int threads, most
    cdef str packing
    # Whether taps on padding are multiplied, not left out; weights should then be finite.
    cdef bint multiplies_padding
    # Whether float32 weights are rounded to a narrower type, where huge ones may become infinite;
    # and whether that is half precision.
    cdef bint narrows_weights, half_weights


cdef class Activation:
    cdef double storage[2]
    cdef const void *clip
    cdef pplconv_instruction code
    cdef readonly object description
    cdef readonly str dtype
    cdef object slopes
    cdef Follow follow

    cdef int check(self, Schedule schedule) except -1


cdef class PackedWeights:
    # The plan that they were packed for; others of this packing may use them.
    cdef readonly Prepared prepared
    cdef readonly str packing
    cdef const char *data
    cdef int64_t size
    # Owner of `data`: a Buffer, or another object whose memory is held.
    cdef object owner
    # The weights before packing, None and NULL where they are not kept; `weight` owns them.
    cdef readonly object weight
    cdef const char *filters
    # Bytes of these.
    cdef int64_t filter_bytes
    cdef View memory

    cdef const char *data_for(self, Prepared prepared) except NULL


cdef struct Operands:
    # All arrays of one run.
    View x, bias, residual, y, weight


cdef inline void release_all(Operands *o) noexcept:
    release(&o.x)
    release(&o.bias)
    release(&o.residual)
    release(&o.y)
    release(&o.weight)


cdef inline void hold_nothing(Operands *o) noexcept:
    o.x.held = o.bias.held = o.residual.held = o.y.held = o.weight.held = False


cdef Prepared prepare(object problem, dict settings)
cdef object hold_results(Operands *o, object residual, object out, tuple shape,
                         const int64_t *dims, int ndim, object dtype, object first,
                         const View *first_view, str first_name, object second,
                         const View *second_view, str second_name, object bias)
cdef object run(Prepared prepared, Operands *o, object input, object x, const char *weights,
                const char *filters, object weight, object bias, object residual,
                Activation activation, object out, bint batched)
