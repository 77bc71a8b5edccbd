"""Steps that one team runs, compiled; see ``program.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport pplconv_instruction, pplconv_quantization
from pplconv.memory.workspace cimport Buffer
from pplconv.schedules.work cimport MOST_ARRAYS, MOST_PHASES, Follow, Step, Work


cdef struct Place:
    # Bytes from where a base begins: an address of its own (0), the arena (1), or an array of the
    # caller (2 and on).
    int64_t base, offset


cdef struct Bound:
    # The arrays of one step. Places that `Tensors` does not need have a negative base.
    Place x, y, residual, weights, after, bias, multiplier, offsets, x_zero
    Place[MOST_ARRAYS] arrays
    int64_t array_count
    const char *filters
    const void *clip
    pplconv_instruction[3] code
    Follow follow
    const pplconv_quantization *quantization
    # Of the work.
    const void *job
    Step[MOST_PHASES] steps
    int phases
    int64_t rounds


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
    cdef list works, kept
    cdef Bound *bounds
    cdef int threads, most
    cdef int64_t count, phase_count, shared, thread
    cdef readonly int64_t arena_bytes, scratch_bytes
    cdef list external_bytes

    cdef int bind(self, Bound *b, Work work, dict places) except -1
    cdef int place(self, Place *found, object place, int64_t size) except -1
    cdef int64_t list_bytes(self) noexcept nogil
    cdef int64_t fill(self, Frame frame, char *const *bases, int64_t begin,
                      int64_t end) noexcept nogil
