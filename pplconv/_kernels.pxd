"""C declarations of the kernel table, for the modules that call kernels."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t, uint16_t


cdef extern from "pplconv_kernels.h" nogil:
    enum:
        PPLCONV_ACCUMULATE
        PPLCONV_BIAS_ROW
        PPLCONV_BIAS_COLUMN
        PPLCONV_RESIDUAL
        PPLCONV_CLIP
        PPLCONV_B_PADDED

    struct pplconv_segment:
        int64_t a, b
    enum:
        PPLCONV_ACTIVATE_LEAKY
        PPLCONV_ACTIVATE_PRELU_ROW
        PPLCONV_ACTIVATE_PRELU_COLUMN
        PPLCONV_ACTIVATE_HARDSWISH
        PPLCONV_ACTIVATE_SIGMOID
        PPLCONV_ACTIVATE_SILU
    enum:
        PPLCONV_HALF_CHAIN

    struct pplconv_run:
        int32_t src, dst
        uint16_t load_mask, store_mask
        uint8_t begin, end, lanes, unused

    struct pplconv_geometry:
        int64_t ih, iw, oh, ow, kh, kw
        int64_t stride_h, stride_w, dilation_h, dilation_w, pad_top, pad_left

    struct pplconv_gemm_args:
        const void *a
        const void *b
        void *c
        const void *segments
        int64_t segment_count, k, a_rs, a_ks, b_ks, b_ahead, c_rs, c_vs, n
        const void *bias
        const void *residual
        int64_t residual_rs, residual_vs
        const void *clip
        int64_t flags

    struct pplconv_pack_pixels_args:
        const void *src
        int64_t src_cs
        void *dst
        int64_t dst_cs, channels
        const void *runs
        int64_t run_count, stride

    struct pplconv_pack_rows_args:
        const void *src
        int64_t src_ns, src_ps
        void *dst
        int64_t dst_rs, dst_ts, first, pixels, channels, k_begin, k_end
        const void *geometry

    struct pplconv_pack_channels_args:
        const void *src
        int64_t src_cs, src_rs
        void *dst
        int64_t dst_rs, dst_ps, rows, columns, channels, fill

    struct pplconv_pack_weights_args:
        const void *src
        void *dst
        int64_t oc_begin, oc_end, ic, taps, panel_width, channel_block

    struct pplconv_store_transposed_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs, rows, columns
        const void *bias
        const void *residual
        int64_t residual_rs
        const void *clip
        int64_t flags

    struct pplconv_winograd_input_args:
        const void *src
        int64_t src_rs, src_ps, row_begin, row_end, column_begin, column_end, tiles, channels
        void *dst
        int64_t dst_ts, dst_ps

    struct pplconv_winograd_output_args:
        const void *src
        int64_t src_ts, src_ps
        void *dst
        int64_t dst_rs, dst_ps, rows, columns, tiles, channels
        const void *bias
        const void *residual
        int64_t residual_rs, residual_ps
        const void *clip
        int64_t flags
        void *spoiled

    struct pplconv_direct_sums_args:
        const void *sums
        int64_t sums_rs, sums_ps
        const void *src
        int64_t src_bs, src_rs, src_ps, block, row_begin, row_end, column_begin, column_end
        const void *weights
        int64_t ic, side, halves
        void *dst
        int64_t dst_rs, dst_ps, rows, columns, channels
        const void *bias
        const void *residual
        int64_t residual_rs, residual_ps
        const void *clip
        int64_t flags

    struct pplconv_winograd_weights_args:
        const void *src
        void *dst
        int64_t dst_ps, oc_begin, oc_end, ic, ic_padded, panel_width

    struct pplconv_activate_args:
        void *data
        int64_t row_stride, rows, columns
        const void *slope
        int64_t kind

    struct pplconv_zero_lanes_args:
        void *dst
        int64_t dst_ps, pixels, lanes

    struct pplconv_convert_in_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs, rows, columns, flags

    struct pplconv_convert_out_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs, rows, columns, fill
        const void *residual
        int64_t residual_rs
        const void *clip
        int64_t flags

    struct pplconv_depthwise_pixels_args:
        const void *src
        int64_t src_cs
        void *dst
        int64_t dst_cs
        const void *weights
        int64_t first_row, rows, channels, multiplier
        const void *bias
        const void *residual
        int64_t residual_cs
        const void *clip
        int64_t flags
        const void *geometry

    struct pplconv_depthwise_channels_args:
        const void *src
        int64_t src_rs, src_ps
        void *dst
        int64_t dst_rs, dst_ps
        const void *weights
        int64_t weights_ts, first_row, rows, channels, multiplier, phase
        const void *bias
        const void *residual
        int64_t residual_rs, residual_ps
        const void *clip
        int64_t flags
        const void *geometry

    struct pplconv_pack_depthwise_args:
        const void *src
        void *dst
        int64_t taps, oc_begin, oc_end, width

    struct pplconv_fma_peak_args:
        int64_t iterations

    ctypedef void (*pplconv_kernel)(const void *args) noexcept nogil

    struct pplconv_kernel_row:
        const char *symbol
        const char *op
        const char *dtype
        const char *isa
        const char *tuning
        int32_t mr, nr, kr, vector_bytes, lanes
        pplconv_kernel function

    struct pplconv_isa_row:
        const char *isa
        const char *below

    const pplconv_kernel_row pplconv_kernel_table[]
    const int32_t pplconv_kernel_count
    const pplconv_isa_row pplconv_isa_table[]
    const int32_t pplconv_isa_count


# The largest tile of the registry bounds these; `find_gemm_family` checks it.
cdef enum:
    MAX_MR = 32
    MAX_VECTORS = 4


cdef struct GemmFamily:
    # [vectors - 1][rows - 1]; NULL where the registry has no such tile
    pplconv_kernel tile[MAX_VECTORS][MAX_MR]
    int lanes


cdef pplconv_kernel find(str op, str dtype, str isa, int mr=*, int nr=*) except NULL
cdef int find_gemm_family(str dtype, str isa, GemmFamily *family) except -1
cdef int64_t make_pixel_runs(const pplconv_geometry *geometry, int64_t first, int64_t pixels,
                             int64_t lanes, int64_t width, int64_t panel_elements,
                             pplconv_run *runs) noexcept nogil
