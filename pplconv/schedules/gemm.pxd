"""The GEMM nest compiled: see ``gemm.pyx``."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_kernel
from pplconv.schedules.base cimport Schedule, Shape


cdef struct GemmJob:
    Shape shape
    # Pixels are counted over one image (NCHW, NCHWc) or over all (NHWC).
    int64_t images, pixels, k
    # Whether neighbouring channels are packed as they lie: all of them (NHWC), or a block (NCHWc).
    bint channels_last, in_blocks
    # Which operand runs in vectors, whether pixels are packed, and which loop is the inner one.
    bint channels_in_vectors, packed, pixels_inner
    int64_t mr, vectors, lanes, nr, panel_width
    int64_t k_block, oc_segment, hw_segment, group_segment
    int64_t b_ahead
    # Layout of the scratch: pixels in a panel, bytes of a packed row and of a tile's row.
    int64_t pixel_panel, packed_row, tile_row
    # For arrays that are converted. Pixels that are not packed are converted into the place of
    # packed ones, a block of K at a time (rows of `packed_row` bytes). Pixels to be packed are
    # first converted into a slab: the rows of the image that the segment sees, some channels at a
    # time. Panels that are stored transposed pass through planes.
    int64_t slab_rows, slab_channels, slab_offset, plane_offset, plane_row
    # How the work is divided: task = (group segment, image, hw segment, oc segment).
    int64_t oc_segments, hw_segments
    # Scratch of one thread: packed pixels, runs, and the tile to be stored transposed.
    int64_t runs_offset, tile_offset
    GemmFamily gemm
    pplconv_kernel pack_pixels, pack_rows, store_transposed, pack_weights


cdef class GemmSchedule(Schedule):
    cdef GemmJob own

    cdef int check_scratch(self) except -1
    cdef int check_converted(self, int64_t tile) except -1
    cdef int check(self) except -1
