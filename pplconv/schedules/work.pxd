"""What a call and a program run: tasks in phases; see ``work.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_instruction, pplconv_quantization


cdef enum:
    # Registers of the program that follows a store.
    ELEMENT = 0
    SCALE = 1
    OFFSET = 2
    AFTER = 3
    SLOPE = 4


cdef struct Follow:
    # What follows the store of a block: a program for each element, `count` instructions long, an
    # activation first, if there is one. Registers have the element, for its channel a number of
    # `scale` and one of `offset`, the element of `Tensors.after` in its place, and a number of
    # `slope`, for its channel or one for all. More than an activation is only where nothing is
    # converted. `is_curve` says that `curve` computes the first instruction.
    const pplconv_instruction *code
    int count
    bint is_curve, slope_of_channel
    const char *slope
    const char *scale
    const char *offset


cdef struct Tensors:
    const char *x
    const char *weights
    # The weights before packing: contiguous, and of the type of x.
    const char *filters
    char *y
    const char *bias
    const char *residual
    const void *clip
    Follow follow
    const char *after
    # Integer sums are finished with these: a factor for each output channel, and what is known of
    # output and residual. What is added to sums before is `bias`; or where loops leave taps on
    # padding out, a row of `offsets` for each rectangle of outputs that see the same taps.
    const char *multiplier
    const pplconv_quantization *quantization
    const char *offsets
    # What padding counts as where loops read it: the zero point, in the type that kernels read.
    int64_t x_zero
    # Scratch that the team shares, for plans that have some.
    char *shared
    # Arrays of works that are no convolutions, by number.
    char *const *arrays


# Runs one task from start to finish. `job` is the struct of the function's loops.
ctypedef void (*task_function)(const void *job, const Tensors *t, int64_t task,
                               char *scratch) noexcept nogil


cdef struct Step:
    # A phase of a plan.
    task_function task
    int64_t tasks


cdef enum:
    MOST_PHASES = 3
    MOST_ARRAYS = 24


cdef struct Run:
    # All tasks of a phase of one run.
    task_function task
    const void *job
    const Tensors *tensors
    # What the thread of the only task goes on with, without a wait: another run of one task.
    const Run *after


cdef void run_one(const void *job, int64_t task, char *scratch) noexcept nogil


cdef class Work:
    cdef const void *job
    # A run: all tasks of a phase, then those of the next one; and all of this `rounds` times.
    cdef Step[MOST_PHASES] steps
    cdef int phases
    cdef int64_t rounds
    cdef int64_t tasks, shared_scratch, thread_scratch
    cdef int threads
    # Bytes that are read or written of each of `Tensors.arrays`.
    cdef int64_t[MOST_ARRAYS] extents

    cdef void run(self, const Tensors *tensors, char *scratch, int team) noexcept nogil
    cdef void one_phase(self, task_function task) noexcept
    cdef int64_t scratch_bytes(self) noexcept nogil
