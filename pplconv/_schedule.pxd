"""What a compiled plan is to the modules that run one."""

from libc.stdint cimport int64_t

from pplconv._kernels cimport GemmFamily, pplconv_geometry, pplconv_kernel


cdef struct Job:
    # What is computed. Pixels are counted over one image (NCHW) or over all (NHWC).
    pplconv_geometry geometry
    int64_t element, images, groups, ic, oc, taps, k, pixels
    bint channels_last
    # How: which operand runs in vectors, and whether pixels are packed.
    bint channels_in_vectors, packed, pixels_inner
    int64_t mr, vectors, lanes, nr, panel_width
    int64_t k_block, oc_segment, hw_segment, group_segment
    int64_t b_ahead
    # Layout of the scratch: pixels in a panel, bytes of a packed row and of a tile's row.
    int64_t pixel_panel, packed_row, tile_row
    # How the work is divided: task = (group segment, image, hw segment, oc segment).
    int64_t oc_segments, hw_segments, group_segments, tasks
    int threads
    # Scratch of one thread: packed pixels, runs, and the tile to be stored transposed.
    int64_t runs_offset, tile_offset, scratch_bytes
    GemmFamily gemm
    pplconv_kernel pack_pixels, pack_rows, store_transposed, pack_weights


cdef struct Tensors:
    const char *x
    const char *weights
    char *y
    const char *bias
    const char *residual
    const void *clip


cdef class Schedule:
    cdef Job job

    cdef int check(self) except -1
    cdef void run(self, const Tensors *tensors, char *scratch, int team) noexcept nogil
    cdef void pack_weights(self, const char *weights, char *packed, int team) noexcept nogil
    cdef int64_t packed_bytes(self) noexcept nogil
    cdef int64_t scratch_bytes(self) noexcept nogil
