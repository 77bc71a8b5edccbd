# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops between NCHW and NCHWc: blocks of channels divided over a team. No GIL.

A task is (image, block of channels, segment of pixels) and owns what it writes. Rows of an
image lie one after the other in both layouts, so its pixels count as one long row.
"""

from libc.stdint cimport int32_t, int64_t

from pplconv._kernels cimport (
    find,
    pplconv_convert_in_args,
    pplconv_convert_out_args,
    pplconv_pack_channels_args,
    pplconv_store_transposed_args,
)
from pplconv.schedules.team_loop cimport Phase, run_team

# Pixels of one task: few enough that a team can share a single block of a single image, enough that
# a task takes much longer than its start.
cdef enum:
    SEGMENT = 2048
    # Most pixels of float16 that are moved together as float32, and most channels of a block.
    STAGE = 64
    MOST_CHANNELS = 64


cdef struct Move:
    # All tasks of one change of layout.
    const Kernels *kernels
    const Planes *planes
    const char *x
    char *y
    void (*task)(const Move *move, int64_t task) noexcept nogil


cdef struct Piece:
    # One task: byte offsets in planes and in blocks, pixels and channels.
    int64_t in_planes, in_blocks, pixels, channels


cdef inline int64_t blocks_of(const Planes *p) noexcept nogil:
    return (p.channels + p.block - 1) // p.block


cdef inline int64_t segments_of(const Planes *p) noexcept nogil:
    return (p.pixels + SEGMENT - 1) // SEGMENT


cdef inline int64_t count(const Planes *p) noexcept nogil:
    return p.images * blocks_of(p) * segments_of(p)


cdef inline Piece piece_of(const Planes *p, int64_t element, int64_t task) noexcept nogil:
    cdef Piece piece
    cdef int64_t segments = segments_of(p), blocks = blocks_of(p)
    cdef int64_t pixel = task % segments * SEGMENT, block = task // segments
    cdef int64_t image = block // blocks, channel = block % blocks * p.block
    piece.pixels = min(p.pixels - pixel, <int64_t> SEGMENT)
    piece.channels = min(p.channels - channel, p.block)
    piece.in_planes = ((image * p.channels + channel) * p.pixels + pixel) * element
    piece.in_blocks = (block * p.pixels + pixel) * p.block * element
    return piece


cdef void pack_piece(const Move *move, int64_t task) noexcept nogil:
    cdef const Kernels *k = move.kernels
    cdef const Planes *p = move.planes
    cdef const char *x = move.x
    cdef char *y = move.y
    cdef int64_t element = k.element
    cdef Piece piece = piece_of(p, element, task)
    cdef pplconv_pack_channels_args a
    if k.convert_in != NULL:
        pack_halves(k, p, &piece, x + piece.in_planes, y + piece.in_blocks)
        return
    a.src = x + piece.in_planes
    a.src_cs = p.pixels * element
    a.src_rs = piece.pixels * element
    a.dst = y + piece.in_blocks
    a.dst_rs = piece.pixels * p.block * element
    a.dst_ps = p.block * element
    a.rows = 1
    a.columns = piece.pixels
    a.channels = piece.channels
    a.fill = p.block
    k.pack_channels(&a)


cdef inline void convert_in(const Kernels *k, const char *src, int64_t src_rs, void *dst,
                            int64_t rows, int64_t columns) noexcept nogil:
    cdef pplconv_convert_in_args w
    w.src = src
    w.src_rs = src_rs
    w.dst = dst
    w.dst_rs = STAGE * sizeof(int32_t)
    w.rows = rows
    w.columns = columns
    w.flags = 0
    k.convert_in(&w)


cdef inline void convert_out(const Kernels *k, const void *src, char *dst, int64_t dst_rs,
                             int64_t rows, int64_t columns) noexcept nogil:
    cdef pplconv_convert_out_args n
    n.src = src
    n.src_rs = STAGE * sizeof(int32_t)
    n.dst = dst
    n.dst_rs = dst_rs
    n.rows = rows
    n.columns = columns
    n.fill = 0
    n.residual = n.clip = NULL
    n.residual_rs = n.flags = 0
    k.convert_out(&n)


cdef void pack_halves(const Kernels *k, const Planes *p, const Piece *piece, const char *x,
                      char *y) noexcept nogil:
    """Move float16 planes into a block, a few pixels at a time."""
    cdef pplconv_pack_channels_args a
    cdef int32_t planes[MOST_CHANNELS * STAGE]
    cdef int32_t blocks[MOST_CHANNELS * STAGE]
    cdef int64_t pixel = 0
    a.src = planes
    a.src_cs = a.src_rs = STAGE * sizeof(int32_t)
    a.dst = blocks
    a.dst_ps = p.block * sizeof(int32_t)
    a.dst_rs = STAGE * a.dst_ps
    a.rows = 1
    a.channels = piece.channels
    a.fill = p.block
    while pixel < piece.pixels:
        a.columns = min(piece.pixels - pixel, <int64_t> STAGE)
        convert_in(k, x + pixel * k.element, p.pixels * k.element, planes, piece.channels,
                   a.columns)
        k.pack_channels(&a)
        convert_out(k, blocks, y + pixel * p.block * k.element, 0, 1, a.columns * p.block)
        pixel += STAGE


cdef void unpack_halves(const Kernels *k, const Planes *p, const Piece *piece, const char *x,
                        char *y) noexcept nogil:
    """Move a float16 block into planes, a few pixels at a time."""
    cdef pplconv_store_transposed_args a
    cdef int32_t planes[MOST_CHANNELS * STAGE]
    cdef int32_t blocks[MOST_CHANNELS * STAGE]
    cdef int64_t pixel = 0
    a.src = blocks
    a.src_rs = p.block * sizeof(int32_t)
    a.dst = planes
    a.dst_rs = STAGE * sizeof(int32_t)
    a.columns = piece.channels
    a.bias = a.residual = a.clip = NULL
    a.residual_rs = a.flags = 0
    while pixel < piece.pixels:
        a.rows = min(piece.pixels - pixel, <int64_t> STAGE)
        convert_in(k, x + pixel * p.block * k.element, 0, blocks, 1, a.rows * p.block)
        k.store_transposed(&a)
        convert_out(k, planes, y + pixel * k.element, p.pixels * k.element, piece.channels, a.rows)
        pixel += STAGE


cdef void unpack_piece(const Move *move, int64_t task) noexcept nogil:
    cdef const Kernels *k = move.kernels
    cdef const Planes *p = move.planes
    cdef const char *x = move.x
    cdef char *y = move.y
    cdef int64_t element = k.element
    cdef Piece piece = piece_of(p, element, task)
    cdef pplconv_store_transposed_args a
    if k.convert_in != NULL:
        unpack_halves(k, p, &piece, x + piece.in_blocks, y + piece.in_planes)
        return
    a.src = x + piece.in_blocks
    a.src_rs = p.block * element
    a.dst = y + piece.in_planes
    a.dst_rs = p.pixels * element
    a.rows = piece.pixels
    a.columns = piece.channels
    a.bias = a.residual = a.clip = NULL
    a.residual_rs = a.flags = 0
    k.store_transposed(&a)


cdef void move_one(const void *job, int64_t task, char *scratch) noexcept nogil:
    cdef const Move *move = <const Move *> job
    move.task(move, task)


cdef void move_all(Move *move, int team) noexcept nogil:
    cdef Phase phase
    phase.run, phase.job, phase.tasks = move_one, move, count(move.planes)
    phase.first = 0
    # No hooks: nothing is computed, and subnormal numbers stay as they are.
    run_team(&phase, 1, 1, NULL, NULL, 0, team)


cdef class Relayout:
    """The kernels that change the layout, for one dtype and instruction set."""

    def __cinit__(self, str dtype, str isa):
        cdef Kernels *k = &self.kernels
        cdef str moved = "f32" if dtype == "f16" else dtype
        k.pack_channels = find("pack_channels", moved, isa)
        k.store_transposed = find("store_transposed", moved, isa)
        k.element = 8 if dtype == "f64" else 4
        k.convert_in = k.convert_out = NULL
        if dtype == "f16":
            k.element = 2
            k.convert_in = find("convert_in", moved, isa)
            k.convert_out = find("convert_out", moved, isa)

    cdef void to_blocks(self, const Planes *planes, const char *x, char *y,
                        int team) noexcept nogil:
        """Planes `x` into blocks `y`, lanes beyond the last channel zero."""
        cdef Move move
        move.kernels, move.planes, move.x, move.y = &self.kernels, planes, x, y
        move.task = pack_piece
        move_all(&move, team)

    cdef void from_blocks(self, const Planes *planes, const char *x, char *y,
                          int team) noexcept nogil:
        """Blocks `x` into planes `y`; lanes beyond the last channel are left out."""
        cdef Move move
        move.kernels, move.planes, move.x, move.y = &self.kernels, planes, x, y
        move.task = unpack_piece
        move_all(&move, team)
