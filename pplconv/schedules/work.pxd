"""The unit that calls and programs run: tasks in phases; see ``work.pyx``."""

from libc.stdint cimport int32_t, int64_t

from pplconv._kernels cimport pplconv_instruction, pplconv_quantization


cdef enum:
    # Registers of the program that follows a store.
    ELEMENT = 0
    SCALE = 1
    OFFSET = 2
    AFTER = 3
    SLOPE = 4


cdef struct Follow:
    # The steps that follow the store of a block: an element-wise program of `count` instructions,
    # which begins with the activation if there is one. Registers have the element; `scale` and
    # `offset` of its channel; the element of `Tensors.after` at its place; and `slope`, of its
    # channel or one for all. If arrays are converted, there is no more than an activation.
    # `is_curve` says that `curve` computes the first instruction.
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
    # For integer sums: a factor for each output channel, and the quantization of output and
    # residual. `bias` is added to sums before; loops that leave out taps on padding add a row of
    # `offsets` instead, one row for each rectangle of outputs that see the same taps.
    const char *multiplier
    const pplconv_quantization *quantization
    const char *offsets
    # For weights that keep zero points, else NULL: the sum of the inputs of each window, in the
    # order of the output's pixels, and the negative zero point of each output channel. Their
    # products are added to the sums.
    const char *window_sums
    const char *weight_zeros
    # The value of padding for loops that read it: the zero point, in the type that kernels read. It
    # may be computed by an earlier step of the same run; NULL where padding is 0.
    const int32_t *x_zero
    # Scratch that the team shares, if the plan has any.
    char *shared
    # Arrays of other works than convolutions, by number.
    char *const *arrays


# Runs one task from start to finish. `job` is the struct of the function's loops.
ctypedef void (*task_function)(const void *job, const Tensors *t, int64_t task,
                               char *scratch) noexcept nogil


cdef inline int64_t padding_of(const Tensors *t) noexcept nogil:
    # Of a run that has come to this step.
    return t.x_zero[0] if t.x_zero != NULL else 0


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
    # The next run, if both have one task: the same thread goes on with it without a wait.
    const Run *after


cdef void run_one(const void *job, int64_t task, char *scratch) noexcept nogil


cdef class Work:
    cdef const void *job
    # A run does all tasks of a phase, then those of the next one, and all phases `rounds` times.
    cdef Step[MOST_PHASES] steps
    cdef int phases
    cdef int64_t rounds
    cdef int64_t tasks, shared_scratch, thread_scratch
    cdef int threads
    # Bytes of each of `Tensors.arrays` that are read or written.
    cdef int64_t[MOST_ARRAYS] extents
    # Bytes at whose multiples each of them lies; 0 says as much as 1.
    cdef int64_t[MOST_ARRAYS] units
    # A bit for each array that is written: the first one, if a subclass does not say more.
    cdef int64_t written
    # The constructor's arguments: whoever keeps a program in a file makes the work of them again.
    cdef readonly tuple arguments
    cdef readonly dict named

    cdef void run(self, const Tensors *tensors, char *scratch, int team) noexcept nogil
    cdef void one_phase(self, task_function task) noexcept
    cdef int64_t scratch_bytes(self) noexcept nogil
