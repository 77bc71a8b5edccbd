# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops between NCHW and NCHWc: blocks of channels divided over a team. No GIL.

A task is (image, block of channels, segment of pixels) and owns what it writes. Rows of an
image lie one after the other in both layouts, so its pixels count as one long row.
"""

from cython.parallel cimport parallel, prange, threadid
from libc.stdint cimport int64_t

from pplconv._binding cimport Lead, current_lead, take_place
from pplconv._kernels cimport (
    find,
    pplconv_kernel,
    pplconv_pack_channels_args,
    pplconv_store_transposed_args,
)

# Pixels of one task: few enough to share a single image's single block among a team, so many
# that a task takes long beside its start.
cdef enum:
    SEGMENT = 2048


cdef struct Piece:
    # One task: bytes into planes and into blocks, and how much lies there.
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


cdef void pack_piece(pplconv_kernel pack_channels, const Planes *p, int64_t element,
                     const char *x, char *y, int64_t task) noexcept nogil:
    cdef Piece piece = piece_of(p, element, task)
    cdef pplconv_pack_channels_args a
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
    pack_channels(&a)


cdef void unpack_piece(pplconv_kernel store_transposed, const Planes *p, int64_t element,
                       const char *x, char *y, int64_t task) noexcept nogil:
    cdef Piece piece = piece_of(p, element, task)
    cdef pplconv_store_transposed_args a
    a.src = x + piece.in_blocks
    a.src_rs = p.block * element
    a.dst = y + piece.in_planes
    a.dst_rs = p.pixels * element
    a.rows = piece.pixels
    a.columns = piece.channels
    a.bias = a.residual = a.clip = NULL
    a.residual_rs = a.flags = 0
    store_transposed(&a)


cdef class Relayout:
    """The kernels that change the layout, for one dtype and instruction set."""

    def __cinit__(self, str dtype, str isa):
        self.pack_channels = find("pack_channels", dtype, isa)
        self.store_transposed = find("store_transposed", dtype, isa)
        self.element = 4 if dtype == "f32" else 8

    cdef void to_blocks(self, const Planes *planes, const char *x, char *y,
                        int team) noexcept nogil:
        """Planes `x` into blocks `y`, lanes beyond the last channel zero."""
        cdef int64_t task, tasks = count(planes), element = self.element
        cdef pplconv_kernel kernel = self.pack_channels
        cdef Lead lead
        if team == 1:
            for task in range(tasks):
                pack_piece(kernel, planes, element, x, y, task)
            return
        lead = current_lead()
        with parallel(num_threads=team):
            if lead.binding != NULL:
                take_place(lead, threadid())
            for task in prange(tasks, schedule="static"):
                pack_piece(kernel, planes, element, x, y, task)

    cdef void from_blocks(self, const Planes *planes, const char *x, char *y,
                          int team) noexcept nogil:
        """Blocks `x` into planes `y`; lanes beyond the last channel are left out."""
        cdef int64_t task, tasks = count(planes), element = self.element
        cdef pplconv_kernel kernel = self.store_transposed
        cdef Lead lead
        if team == 1:
            for task in range(tasks):
                unpack_piece(kernel, planes, element, x, y, task)
            return
        lead = current_lead()
        with parallel(num_threads=team):
            if lead.binding != NULL:
                take_place(lead, threadid())
            for task in prange(tasks, schedule="static"):
                unpack_piece(kernel, planes, element, x, y, task)
