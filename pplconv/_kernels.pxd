"""C declarations of the kernel table, for the modules that call kernels."""

from libc.stdint cimport int64_t

# Modules that call kernels get their contracts from here too.
from pplconv._contracts cimport *


# The largest tile of the registry bounds these; `find_gemm_family` checks it.
cdef enum:
    MAX_MR = 32
    MAX_VECTORS = 4


cdef struct GemmFamily:
    # [vectors - 1][rows - 1]; NULL where the registry has no such tile
    pplconv_kernel tile[MAX_VECTORS][MAX_MR]
    # Accumulators in a vector, and the KR of all these kernels.
    int lanes, kr


cdef enum:
    MAX_PIXELS = 8  # vectors of pixels of a tile with sparse weights


cdef struct SparseFamily:
    # Kernels for panels of one number of channels. Index: the number of vectors of pixels less one,
    # or of pixels less one where vectors run over channels. NULL: the registry has no such
    # tile.
    pplconv_kernel tile[MAX_MR]
    # Accumulators in a vector.
    int lanes


cdef pplconv_kernel find(str op, str dtype, str isa, int mr=*, int nr=*,
                         int kr=*) except NULL
cdef pplconv_kernel find_if_any(str op, str dtype, str isa) except? NULL
cdef int find_gemm_family(str dtype, str isa, int kr, GemmFamily *family) except -1
cdef int find_sparse_family(str dtype, str isa, int panel, int kr, bint by_pixels,
                            SparseFamily *family) except -1
cdef int64_t make_pixel_runs(const pplconv_geometry *geometry, int64_t first, int64_t pixels,
                             int64_t lanes, int64_t width, int64_t panel_elements,
                             pplconv_run *runs) noexcept nogil
