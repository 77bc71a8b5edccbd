"""What a compiled plan is to the modules that run one, and what all loops share."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    GemmFamily,
    PPLCONV_ACTIVATE_PRELU_COLUMN,
    PPLCONV_ACTIVATE_PRELU_ROW,
    pplconv_activate_args,
    pplconv_geometry,
    pplconv_kernel,
    pplconv_zero_lanes_args,
)


cdef struct Memory:
    # How an array lies: bytes from one image, block of channels, row and pixel to the next,
    # and how many channels are neighbours (1 in NCHW, a block in NCHWc, all in NHWC).
    int64_t image, block, row, pixel, width


cdef struct Shape:
    # What is computed. Channels are those of one group.
    pplconv_geometry geometry
    int64_t element, batch, groups, ic, oc, taps
    Memory x, y
    # What may follow the store, whatever the loops are.
    pplconv_kernel activate, zero_lanes


cdef struct Tensors:
    const char *x
    const char *weights
    char *y
    const char *bias
    const char *residual
    const void *clip
    # What follows the store: 0 for nothing, else a PPLCONV_ACTIVATE_* with the slopes that it
    # reads; PRELU_ROW stands for a slope for each channel, wherever channels lie.
    const char *slope
    int activation


# One task from start to finish, and piece `index` of `pieces` of the weights' packing. `job` is
# the struct of the loops that the function belongs to.
ctypedef void (*task_function)(const void *job, const Tensors *t, int64_t task,
                               char *scratch) noexcept nogil
ctypedef void (*pack_function)(const void *job, const char *weights, char *packed, int64_t index,
                               int64_t pieces) noexcept nogil


cdef extern from "pplconv_schedules.h" nogil:
    int64_t ceil_div "pplconv_ceil_div"(int64_t a, int64_t b)
    int64_t least "pplconv_least"(int64_t a, int64_t b)
    int64_t most "pplconv_most"(int64_t a, int64_t b)


cdef inline int64_t channel_offset(const Memory *m, int64_t element,
                                   int64_t channel) noexcept nogil:
    # Of a channel counted over all groups.
    if m.width == 1:
        return channel * m.block
    return channel // m.width * m.block + channel % m.width * element


cdef inline void activate(const Shape *s, const Tensors *t, void *data, int64_t row_stride,
                          int64_t rows, int64_t columns, int64_t channel,
                          bint channels_in_rows) noexcept nogil:
    # Finish a block that was just stored and lies in L1; `channel` is its first.
    cdef pplconv_activate_args a
    a.data = data
    a.row_stride = row_stride
    a.rows = rows
    a.columns = columns
    a.slope = t.slope
    a.kind = t.activation
    if t.activation == PPLCONV_ACTIVATE_PRELU_ROW:
        a.slope = t.slope + channel * s.element
        if not channels_in_rows:
            a.kind = PPLCONV_ACTIVATE_PRELU_COLUMN
    s.activate(&a)


cdef inline void zero_tail(const Shape *s, int64_t channel, char *y, int64_t rows,
                           int64_t columns) noexcept nogil:
    # The lanes behind the last output channel of a blocked array become zero: `channel` is
    # one past the channels just stored, `y` the rectangle's first pixel in the first block.
    cdef pplconv_zero_lanes_args a
    cdef int64_t row, channels = s.groups * s.oc, used = channels % s.y.width
    if channel != channels or used == 0:
        return
    a.dst_ps = s.y.pixel
    a.pixels = columns
    a.lanes = s.y.width - used
    for row in range(rows):
        a.dst = y + channel_offset(&s.y, s.element, channels) + row * s.y.row
        s.zero_lanes(&a)


cdef int check_tile(const GemmFamily *gemm, int64_t mr, int64_t nr) except -1


cdef class Schedule:
    cdef Shape shape
    cdef const void *job
    cdef task_function task
    cdef pack_function pack
    cdef int64_t tasks, thread_scratch, weight_bytes
    cdef int threads

    cdef void run(self, const Tensors *tensors, char *scratch, int team) noexcept nogil
    cdef void pack_weights(self, const char *weights, char *packed, int team) noexcept nogil
    cdef int64_t packed_bytes(self) noexcept nogil
    cdef int64_t scratch_bytes(self) noexcept nogil
