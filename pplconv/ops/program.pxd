"""Steps that one team runs, compiled; see ``program.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_instruction, pplconv_quantization
from pplconv.memory.workspace cimport Buffer
from pplconv.ops.repeated_steps cimport Loop, Move, Place, Turned
from pplconv.schedules.team_loop cimport Phase
from pplconv.schedules.work cimport MOST_ARRAYS, MOST_PHASES, Follow, Run, Step, Tensors, Work


cdef struct Repeat:
    # Steps that take several turns: no more once the byte at `stop` is 0, if there is such a place.
    int64_t begin, end, turns
    Place stop


cdef struct Bound:
    # The arrays of one step. Places that `Tensors` does not need have a negative base.
    Place x, y, residual, weights, after, bias, multiplier, offsets, x_zero, window_sums
    Place[MOST_ARRAYS] arrays
    int64_t array_count
    const char *filters
    const char *weight_zeros
    const void *clip
    pplconv_instruction[3] code
    Follow follow
    const pplconv_quantization *quantization
    # Of the work.
    const void *job
    Step[MOST_PHASES] steps
    int phases
    int64_t rounds


# Phases that run one after the other, all of them in each round.
cdef struct Segment:
    const Phase *phases
    int count
    int64_t rounds


# The arguments of one run.
cdef struct Lists:
    char *scratch
    Tensors *tensors
    Run *runs
    Phase *phases
    char **arrays
    Turned *turned
    Loop *loops
    Move *moves
    Segment *segments


cdef class Program


cdef class Frame:
    cdef Program program
    cdef Buffer buffer
    cdef char *scratch
    cdef char *arena
    cdef char *lists
    cdef int64_t arena_bytes


cdef class Program:
    cdef readonly tuple steps
    cdef list works, kept, refusing
    cdef Bound *bounds
    cdef Repeat *repeats
    cdef readonly int threads, most
    # `bound` is the step that is bound, and `turns` are its turns.
    cdef int64_t count, phase_count, repeat_count, move_count, bound, turns, shared, thread, inputs
    cdef readonly int64_t arena_bytes, scratch_bytes
    cdef readonly list external_bytes

    cdef int take_repeats(self, list repeats) except -1
    cdef int bind(self, Bound *b, Work work, dict places) except -1
    cdef int place(self, Place *found, object place, int64_t size, int64_t unit,
                   bint written=*) except -1
    cdef int place_in(self, Place *found, object place, int64_t size, int64_t low, int64_t unit,
                      bint written) except -1
    cdef int64_t refusal_bytes(self) noexcept nogil
    cdef int64_t list_bytes(self) noexcept nogil
    cdef void lay_out(self, Frame frame, Lists *l) noexcept nogil
    cdef void point(self, const Lists *l, int64_t i, char *const *bases,
                    int64_t turn) noexcept nogil
    cdef Move *moving(self, const Lists *l, int64_t i, Move *moves) noexcept nogil
    cdef int64_t fill(self, const Lists *l, char *const *bases, int64_t begin, int64_t end,
                      int64_t turn, int64_t most) noexcept nogil
    cdef void run_segments(self, Frame frame, const Segment *segments, int64_t count,
                           int team) noexcept nogil
    cdef double timed(self, Frame frame, const Lists *l, char *const *bases, int64_t step,
                      int64_t turn, int team) noexcept
