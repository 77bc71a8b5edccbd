"""Rows of bfloat16 as float32 in scratch, for loops whose kernels compute float32.

Kernels of their own would be no faster: what they save in L1, they spend on conversions of each
element that they load more than once.
"""

from libc.stdint cimport int64_t

from pplconv._kernels cimport (
    find,
    pplconv_convert_in_args,
    pplconv_convert_out_args,
    pplconv_kernel,
)


cdef enum:
    BRAIN_BYTES = 2
    WIDE_BYTES = 4


cdef struct BrainRows:
    # Kernels that convert to float32 and back; NULL if arrays have the type of the kernel.
    pplconv_kernel widen, narrow


cdef inline int find_brain_rows(BrainRows *b, str isa) except -1:
    b.widen = find("convert_in", "bf16f32", isa)
    b.narrow = find("convert_out", "bf16f32", isa)
    return 0


cdef inline void widen_rows(const BrainRows *b, const char *src, int64_t src_rs, char *dst,
                            int64_t dst_rs, int64_t rows, int64_t columns) noexcept nogil:
    cdef pplconv_convert_in_args a
    a.src, a.src_rs, a.dst, a.dst_rs, a.flags = src, src_rs, dst, dst_rs, 0
    a.rows, a.columns = rows, columns
    if src_rs == columns * BRAIN_BYTES and dst_rs == columns * WIDE_BYTES:
        a.rows, a.columns = 1, rows * columns
    b.widen(&a)


cdef inline void narrow_rows(const BrainRows *b, const char *src, int64_t src_rs, char *dst,
                             int64_t dst_rs, int64_t rows, int64_t columns) noexcept nogil:
    cdef pplconv_convert_out_args a
    a.src, a.src_rs, a.dst, a.dst_rs, a.flags = src, src_rs, dst, dst_rs, 0
    a.rows, a.columns, a.fill = rows, columns, 0
    a.residual, a.residual_rs, a.clip = NULL, 0, NULL
    if dst_rs == columns * BRAIN_BYTES and src_rs == columns * WIDE_BYTES:
        a.rows, a.columns = 1, rows * columns
    b.narrow(&a)
