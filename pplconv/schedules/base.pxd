# cython: cdivision=True
"""The interface of compiled plans, and helpers that all loops share."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    GemmFamily,
    PPLCONV_ACCUMULATE,
    PPLCONV_BIAS_COLUMN,
    PPLCONV_BIAS_ROW,
    PPLCONV_CLIP,
    PPLCONV_DO_MULTIPLY_ADD,
    PPLCONV_RESIDUAL,
    PPLCONV_STORE_BF16,
    pplconv_geometry,
    pplconv_kernel,
    pplconv_convert_in_args,
    pplconv_convert_out_args,
    pplconv_elementwise_args,
    pplconv_instruction,
    pplconv_requantize_args,
    pplconv_stream,
    pplconv_zero_lanes_args,
)
from pplconv.schedules.work cimport (
    AFTER,
    ELEMENT,
    OFFSET,
    SCALE,
    SLOPE,
    Follow,
    Tensors,
    Work,
    task_function,
)


cdef struct Memory:
    # The memory layout of an array: bytes from one image, block of channels, row and pixel to the
    # next, and how many channels are neighbours (1 in NCHW, a block in NCHWc, all in NHWC).
    int64_t image, block, row, pixel, width


cdef struct Sizes:
    # Bytes of an element of each type of the `Numerics`; `filter` is of weights before packing.
    int64_t source, operand, filter, weight, sum, destination, bias


cdef struct Shape:
    # The problem as the loops see it; channels are those of one group. The input is converted
    # where kernels read another type; residual and output, where sums are of another type; weights
    # where they come as the input does. `exact` says that sums are integers, which are scaled on
    # their way to the output; `rounds`, that GEMM kernels can convert sums as they store them.
    pplconv_geometry geometry
    bint converts_in, converts_out, converts_weights, exact, rounds
    Sizes size
    int64_t batch, groups, ic, oc, taps
    Memory x, y
    # How the array that is added last is stored: 0, or a `PPLCONV_STORED_*`.
    int stored
    # Kernels that may follow the store, in all loops; `curve` runs an activation alone. For sums
    # of integers, `elementwise` computes in int32, and there is no `curve`.
    pplconv_kernel curve, elementwise, zero_lanes
    # `convert_in` converts source to operand, `convert_out` sum to destination, `convert_residual`
    # the reverse; NULL where nothing is converted. `requantize` takes the place of `convert_out`
    # for integer sums.
    pplconv_kernel convert_in, convert_out, convert_residual, requantize


# Packs piece `index` of `pieces` of the weights. `job` is the struct of the function's loops.
ctypedef void (*pack_function)(const void *job, const char *weights, char *packed, int64_t index,
                               int64_t pieces) noexcept nogil


cdef extern from "pplconv_schedules.h" nogil:
    int64_t ceil_div "pplconv_ceil_div"(int64_t a, int64_t b)
    int64_t least "pplconv_least"(int64_t a, int64_t b)
    int64_t most "pplconv_most"(int64_t a, int64_t b)


cdef inline int64_t channel_offset(const Memory *m, int64_t element,
                                   int64_t channel) noexcept nogil:
    # The channel is counted over all groups.
    if m.width == 1:
        return channel * m.block
    return channel // m.width * m.block + channel % m.width * element


cdef inline int64_t output_pixels(const Shape *s) noexcept nogil:
    # Pixels of all images of the output.
    return s.batch * s.geometry.oh * s.geometry.ow


cdef inline bint follows(const Tensors *t) noexcept nogil:
    # Whether anything is done with a block once it is stored.
    return t.follow.count != 0


cdef inline pplconv_stream of_channels(const Shape *s, const char *numbers, int64_t channel,
                                       bint channels_in_rows) noexcept nogil:
    # One number for each channel, along rows or columns of a block.
    cdef pplconv_stream stream
    stream.data = <char *> numbers + channel * s.size.bias
    stream.rs = s.size.bias if channels_in_rows else 0
    stream.step = not channels_in_rows
    stream.reg, stream.stored = 0, 0
    return stream


cdef inline void complete_block(const Shape *s, const Tensors *t, void *data, int64_t row_stride,
                                const char *after, int64_t after_rs, int64_t rows,
                                int64_t columns, int64_t channel,
                                bint channels_in_rows) noexcept nogil:
    # Do all that follows the store of a block, while it is in L1; `channel` is its first one.
    # `after` is its place in the array that is added last, whose rows are `after_rs` apart.
    cdef const Follow *f = &t.follow
    cdef pplconv_elementwise_args e
    cdef pplconv_stream[5] streams
    cdef pplconv_stream *last = streams
    if f.count == 0:
        return
    e.code, e.code_count = f.code, f.count
    e.rows, e.columns = rows, columns
    last.data, last.rs, last.step, last.reg, last.stored = data, row_stride, True, ELEMENT, 0
    e.inputs, e.outputs, e.output_count = streams, last, 1
    last += 1
    if f.slope != NULL:  # `curve` takes it as its second input
        last.data, last.rs, last.step, last.stored = <void *> f.slope, 0, False, 0
        if f.slope_of_channel:
            last[0] = of_channels(s, f.slope, channel, channels_in_rows)
        last.reg = SLOPE
        last += 1
    if f.is_curve:
        # One instruction a call costs less than a longer program, which is interpreted.
        e.code_count, e.input_count = 1, last - streams
        s.curve(&e)
        if f.count == 1:
            return
        e.code, e.code_count = f.code + 1, f.count - 1
        last = streams + 1
    if f.scale != NULL:
        last[0] = of_channels(s, f.scale, channel, channels_in_rows)
        last.reg = SCALE
        last += 1
    if f.offset != NULL:
        last[0] = of_channels(s, f.offset, channel, channels_in_rows)
        last.reg = OFFSET
        last += 1
    if t.after != NULL:
        last[0] = streams[0]
        last.data, last.rs = <void *> after, after_rs
        last.reg, last.stored = AFTER, s.stored
        last += 1
    e.input_count = last - streams
    s.elementwise(&e)


cdef inline void complete(const Shape *s, const Tensors *t, void *data, int64_t row_stride,
                          int64_t rows, int64_t columns, int64_t channel,
                          bint channels_in_rows) noexcept nogil:
    # Do the same for a block that lies in the output.
    complete_block(s, t, data, row_stride, t.after + (<char *> data - t.y), row_stride, rows,
                   columns, channel, channels_in_rows)


cdef inline int64_t epilogue_flags(const Shape *s, const Tensors *t, int64_t bias,
                                   bint rounds=False) noexcept nogil:
    # Flags of the epilogue for the kernels that finish a sum; `rounds` if they store bfloat16. A
    # residual of another type is otherwise added when the sum is converted, and the rest of the
    # epilogue follows there.
    cdef int64_t flags = PPLCONV_STORE_BF16 if rounds else 0
    if s.exact:
        return flags
    if t.bias != NULL:
        flags |= bias
    if t.residual != NULL:
        if s.converts_out and not rounds:
            return flags
        flags |= PPLCONV_RESIDUAL
    if t.clip != NULL:
        flags |= PPLCONV_CLIP
    return flags


cdef inline bint rounds_in_tiles(const Shape *s, const Tensors *t) noexcept nogil:
    # Whether kernels that finish a sum store it as bfloat16. What follows the store reads float32.
    return s.rounds and not follows(t)


cdef inline void convert_in(const Shape *s, const char *src, int64_t src_rs, char *dst,
                            int64_t dst_rs, int64_t rows, int64_t columns) noexcept nogil:
    # Convert rows of an array into scratch.
    cdef pplconv_convert_in_args w
    w.src = src
    w.src_rs = src_rs
    w.dst = dst
    w.dst_rs = dst_rs
    w.rows = rows
    w.columns = columns
    w.flags = 0
    s.convert_in(&w)


cdef inline void add_weight_zeros(const Shape *s, const Tensors *t, char *block, int64_t block_rs,
                                  int64_t offset, int64_t rs, int64_t rows, int64_t columns,
                                  int64_t channel, bint channels_in_rows) noexcept nogil:
    # Add products of the negative zero points of weights and the sums of windows, modulo 2**32, to
    # a block of sums. The place of a pixel in the output tells its number: `Rescaling.check` has
    # seen to it.
    cdef pplconv_elementwise_args e
    cdef pplconv_stream[3] streams
    cdef pplconv_instruction code
    streams[0].data, streams[0].rs, streams[0].step = block, block_rs, True
    streams[0].reg, streams[0].stored = ELEMENT, 0
    streams[1] = of_channels(s, t.weight_zeros, channel, channels_in_rows)
    streams[1].reg = SCALE
    streams[2].data = <char *> t.window_sums + offset // s.y.pixel * s.size.sum
    streams[2].rs = 0 if channels_in_rows else rs // s.y.pixel * s.size.sum
    streams[2].step, streams[2].reg, streams[2].stored = channels_in_rows, OFFSET, 0
    code.op, code.to = PPLCONV_DO_MULTIPLY_ADD, ELEMENT
    code.a, code.b, code.c = SCALE, OFFSET, ELEMENT
    e.inputs, e.input_count, e.code, e.code_count = streams, 3, &code, 1
    e.outputs, e.output_count, e.rows, e.columns = streams, 1, rows, columns
    s.elementwise(&e)


cdef inline void scale_block(const Shape *s, const Tensors *t, char *block, int64_t block_rs,
                             int64_t offset, int64_t rs, int64_t rows, int64_t columns,
                             int64_t channel, const char *offsets,
                             bint channels_in_rows) noexcept nogil:
    # Scale a block of integer sums on its way to `offset` in the output. `offsets` has an element
    # for each output channel of all groups.
    cdef pplconv_requantize_args r
    if t.weight_zeros != NULL:
        add_weight_zeros(s, t, block, block_rs, offset, rs, rows, columns, channel,
                         channels_in_rows)
    r.src = block
    r.src_rs = block_rs
    r.dst = t.y + offset
    r.dst_rs = rs
    r.rows = rows
    r.columns = columns
    r.offset = offsets + channel * s.size.sum
    r.scale = t.multiplier + channel * s.size.sum
    r.residual = t.residual + offset
    r.residual_rs = rs
    r.parameters = t.quantization
    r.flags = PPLCONV_BIAS_ROW if channels_in_rows else PPLCONV_BIAS_COLUMN
    if t.residual != NULL:
        r.flags |= PPLCONV_RESIDUAL
    s.requantize(&r)


cdef inline void finish_converted(const Shape *s, const Tensors *t, char *block, int64_t block_rs,
                                  int64_t offset, int64_t rs, int64_t rows, int64_t columns,
                                  int64_t channel, bint channels_in_rows) noexcept nogil:
    # Finish a block of sums in scratch, which have their bias: the rest of the epilogue, and one
    # rounding on the way to `offset` in the output, where rows are `rs` apart.
    cdef pplconv_convert_in_args w
    cdef pplconv_convert_out_args n
    if s.exact:
        scale_block(s, t, block, block_rs, offset, rs, rows, columns, channel, t.bias,
                    channels_in_rows)
        return
    n.src = block
    n.src_rs = block_rs
    n.dst = t.y + offset
    n.dst_rs = rs
    n.rows = rows
    n.columns = columns
    n.fill = 0
    n.residual = t.residual + offset
    n.residual_rs = rs
    n.clip = t.clip
    n.flags = 0
    if t.residual != NULL:
        n.flags = PPLCONV_RESIDUAL
        if t.clip != NULL:
            n.flags |= PPLCONV_CLIP
    if follows(t):
        if t.residual != NULL:
            w.src = n.residual
            w.src_rs = rs
            w.dst = block
            w.dst_rs = block_rs
            w.rows = rows
            w.columns = columns
            w.flags = PPLCONV_ACCUMULATE
            s.convert_residual(&w)
            n.flags = 0
        complete_block(s, t, block, block_rs, t.after + offset, rs, rows, columns, channel,
                       channels_in_rows)
    s.convert_out(&n)


cdef inline void zero_tail(const Shape *s, int64_t channel, char *y, int64_t rows,
                           int64_t columns) noexcept nogil:
    # Zero the lanes after the last output channel of a blocked array. `channel` is one past the
    # channels just stored, `y` the rectangle's first pixel in the first block.
    cdef pplconv_zero_lanes_args a
    cdef pplconv_convert_out_args n
    cdef int64_t row, channels = s.groups * s.oc, used = channels % s.y.width
    if channel != channels or used == 0:
        return
    a.dst_ps = s.y.pixel
    a.pixels = columns
    a.lanes = s.y.width - used
    for row in range(rows):
        a.dst = y + channel_offset(&s.y, s.size.destination, channels) + row * s.y.row
        if s.converts_out:
            n.src = n.residual = n.clip = NULL
            n.src_rs = n.residual_rs = n.columns = n.flags = 0
            n.dst = a.dst
            n.dst_rs = a.dst_ps
            n.rows = columns
            n.fill = a.lanes
            s.convert_out(&n)
        else:
            s.zero_lanes(&a)


cdef str mover_of(str type)
cdef pplconv_kernel find_release(str product, str isa)
cdef int check_tile(const GemmFamily *gemm, int64_t mr, int64_t nr) except -1
cdef int check_offsets(dict offsets, int64_t element) except -1


cdef int64_t array_bytes(const Memory *m, int64_t element, int64_t batch, int64_t channels,
                         int64_t height, int64_t width) noexcept nogil


cdef class Schedule(Work):
    cdef Shape shape
    cdef pack_function pack
    # Steps before `pack`, or NULL: all pieces count what they will pack, then each gets its place.
    cdef pack_function count, place
    cdef int64_t weight_bytes
    # Output channels of a panel, 0 where weights are packed otherwise.
    cdef int64_t panel_width
    # Whether the loops read `Tensors.filters`, the weights as they were before packing.
    cdef readonly bint reads_filters

    cdef int pack_weights(self, const char *weights, char *packed, int team) except -1
    cdef int pack_part(self, const char *weights, char *packed, int team, int part,
                       int parts) except -1
    cdef int64_t rows_before(self, int part, int parts) noexcept nogil
    cdef void pack_pieces(self, const char *weights, char *converted, char *packed, int team,
                          int part, int parts) noexcept nogil
    cdef int check_matrices(self, matrices) except -1
    cdef int check_weights(self, int64_t size) except -1
    cdef int check_packed(self, const char *packed) except -1
    cdef int64_t packed_bytes(self) noexcept nogil
    cdef int64_t source_bytes(self) noexcept nogil
    cdef int64_t filter_bytes(self) noexcept nogil
    cdef int64_t input_bytes(self) noexcept nogil
    cdef int64_t output_bytes(self) noexcept nogil
