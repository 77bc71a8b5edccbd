# Made by `python -m asm.build --pxd FILE` from the tables of asm/contract/: edit those.

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t


cdef extern from "pplconv_kernels.h" nogil:
    enum:
        PPLCONV_ACCUMULATE
        PPLCONV_BIAS_ROW
        PPLCONV_BIAS_COLUMN
        PPLCONV_RESIDUAL
        PPLCONV_CLIP
        PPLCONV_B_PADDED

    enum:
        PPLCONV_DO_COPY
        PPLCONV_DO_ADD
        PPLCONV_DO_SUBTRACT
        PPLCONV_DO_MULTIPLY
        PPLCONV_DO_DIVIDE
        PPLCONV_DO_MULTIPLY_ADD
        PPLCONV_DO_MINIMUM
        PPLCONV_DO_MAXIMUM
        PPLCONV_DO_CLIP
        PPLCONV_DO_NEGATE
        PPLCONV_DO_ABSOLUTE
        PPLCONV_DO_SQUARE_ROOT
        PPLCONV_DO_FLOOR
        PPLCONV_DO_CEIL
        PPLCONV_DO_ROUND
        PPLCONV_DO_POWER
        PPLCONV_DO_EXPONENTIAL
        PPLCONV_DO_LOGARITHM
        PPLCONV_DO_HYPERBOLIC_TANGENT
        PPLCONV_DO_ERROR_FUNCTION
        PPLCONV_DO_SIGMOID
        PPLCONV_DO_SILU
        PPLCONV_DO_HARDSWISH
        PPLCONV_DO_SLOPE
        PPLCONV_DO_LESS
        PPLCONV_DO_LESS_OR_EQUAL
        PPLCONV_DO_EQUAL
        PPLCONV_DO_NOT
        PPLCONV_DO_AND
        PPLCONV_DO_OR
        PPLCONV_DO_WHERE
        PPLCONV_DO_SOFTPLUS
        PPLCONV_DO_MISH

    enum:
        PPLCONV_CURVE_SIGMOID
        PPLCONV_CURVE_SILU
        PPLCONV_CURVE_HARDSWISH
        PPLCONV_CURVE_SLOPE

    enum:
        PPLCONV_POOL_MAX
        PPLCONV_POOL_SUM

    enum:
        PPLCONV_REDUCE_SUM
        PPLCONV_REDUCE_MAX
        PPLCONV_REDUCE_MIN
        PPLCONV_REDUCE_SQUARES

    enum:
        PPLCONV_PIXELS_U8
        PPLCONV_PIXELS_S8
        PPLCONV_PIXELS_U16
        PPLCONV_PIXELS_S16
        PPLCONV_PIXELS_F32
        PPLCONV_PIXELS_F64

    enum:
        PPLCONV_HALF_CHAIN
        PPLCONV_MOST_REGISTERS
        PPLCONV_EXACT_LIMBS

    struct pplconv_segment:
        int64_t a
        int64_t b

    struct pplconv_run:
        int32_t src
        int32_t dst
        uint16_t load_mask
        uint16_t store_mask
        uint16_t vectors
        uint8_t lanes
        uint8_t room

    struct pplconv_stream:
        void *data
        int64_t rs
        int32_t step
        int32_t reg

    struct pplconv_instruction:
        uint8_t op
        uint8_t to
        uint8_t a
        uint8_t b
        uint8_t c

    struct pplconv_geometry:
        int64_t ih
        int64_t iw
        int64_t oh
        int64_t ow
        int64_t kh
        int64_t kw
        int64_t stride_h
        int64_t stride_w
        int64_t dilation_h
        int64_t dilation_w
        int64_t pad_top
        int64_t pad_left

    struct pplconv_quantization:
        const void *table
        int64_t gate
        float low
        float high
        float residual_scale
        float slope
        float middle
        float shift
        int32_t residual_zero
        int32_t zero

    struct pplconv_panel:
        int64_t term
        int64_t value

    struct pplconv_gemm_args:
        const void *a
        const void *b
        void *c
        const void *segments
        int64_t segment_count
        int64_t k
        int64_t a_rs
        int64_t a_ks
        int64_t b_ks
        int64_t b_ahead
        int64_t b_ahead_ks
        int64_t c_rs
        int64_t c_vs
        int64_t n
        const void *bias
        const void *residual
        int64_t residual_rs
        int64_t residual_vs
        const void *clip
        int64_t flags
        void *tiles

    struct pplconv_sparse_pixels_args:
        int64_t panels
        const void *places
        const void *steps
        const void *values
        const void *x
        int64_t x_ks
        int64_t x_ahead
        void *c
        int64_t c_rs
        int64_t c_vs
        int64_t c_ps
        int64_t n
        const void *bias
        const void *residual
        int64_t residual_rs
        int64_t residual_vs
        int64_t residual_ps
        const void *clip
        int64_t flags

    struct pplconv_sparse_channels_args:
        int64_t panels
        const void *places
        const void *steps
        const void *values
        const void *x
        int64_t x_ks
        int64_t x_rs
        void *c
        int64_t c_rs
        int64_t c_vs
        int64_t c_ps
        int64_t n
        const void *bias
        const void *residual
        int64_t residual_rs
        int64_t residual_vs
        int64_t residual_ps
        const void *clip
        int64_t flags

    struct pplconv_pack_sparse_args:
        const void *src
        int64_t src_os
        int64_t src_ks
        int64_t ic
        int64_t taps
        int64_t channel_block
        int64_t kw
        int64_t channel_step
        int64_t row_dilation
        int64_t row_stride
        int64_t row_step
        int64_t row_phase
        int64_t column_dilation
        int64_t column_stride
        int64_t column_step
        int64_t column_phase
        int64_t rows
        int64_t width
        int64_t kr
        int64_t k_begin
        int64_t k_end
        int64_t room
        void *steps
        void *values
        void *count

    struct pplconv_pack_pixels_args:
        const void *src
        int64_t src_cs
        void *dst
        int64_t dst_cs
        int64_t channels
        const void *runs
        int64_t run_count
        int64_t stride

    struct pplconv_pack_rows_args:
        const void *src
        int64_t src_ns
        int64_t src_ps
        void *dst
        int64_t dst_rs
        int64_t dst_ts
        int64_t first
        int64_t pixels
        int64_t channels
        int64_t k_begin
        int64_t k_end
        const void *geometry
        int64_t fill

    struct pplconv_pack_channels_args:
        const void *src
        int64_t src_cs
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t dst_ps
        int64_t rows
        int64_t columns
        int64_t channels
        int64_t fill

    struct pplconv_pack_weights_args:
        const void *src
        int64_t src_os
        int64_t src_ks
        void *dst
        int64_t oc_begin
        int64_t oc_end
        int64_t ic
        int64_t taps
        int64_t panel_width
        int64_t kr
        int64_t channel_block

    struct pplconv_pad_channels_args:
        const void *src
        int64_t src_rs
        int64_t src_ps
        void *dst
        int64_t dst_rs
        int64_t dst_ps
        int64_t rows
        int64_t columns
        int64_t channels
        int64_t fill

    struct pplconv_store_transposed_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        const void *bias
        const void *residual
        int64_t residual_rs
        const void *clip
        int64_t flags

    struct pplconv_curve_args:
        const void *inputs
        int64_t input_count
        const void *code
        int64_t code_count
        const void *outputs
        int64_t output_count
        int64_t rows
        int64_t columns

    struct pplconv_elementwise_args:
        const void *inputs
        int64_t input_count
        const void *code
        int64_t code_count
        const void *outputs
        int64_t output_count
        int64_t rows
        int64_t columns

    struct pplconv_winograd_input_args:
        const void *src
        int64_t src_rs
        int64_t src_ps
        int64_t row_begin
        int64_t row_end
        int64_t column_begin
        int64_t column_end
        int64_t tiles
        int64_t channels
        void *dst
        int64_t dst_ts
        int64_t dst_ps
        int64_t outside

    struct pplconv_winograd_output_args:
        const void *src
        int64_t src_ts
        int64_t src_ps
        void *dst
        int64_t dst_rs
        int64_t dst_ps
        int64_t rows
        int64_t columns
        int64_t tiles
        int64_t channels
        const void *bias
        const void *residual
        int64_t residual_rs
        int64_t residual_ps
        const void *clip
        int64_t flags
        void *spoiled

    struct pplconv_direct_sums_args:
        const void *sums
        int64_t sums_rs
        int64_t sums_ps
        const void *src
        int64_t src_bs
        int64_t src_rs
        int64_t src_ps
        int64_t block
        int64_t row_begin
        int64_t row_end
        int64_t column_begin
        int64_t column_end
        const void *weights
        int64_t ic
        int64_t side
        int64_t halves
        void *dst
        int64_t dst_rs
        int64_t dst_ps
        int64_t rows
        int64_t columns
        int64_t channels
        const void *bias
        const void *residual
        int64_t residual_rs
        int64_t residual_ps
        const void *clip
        int64_t flags

    struct pplconv_winograd_weights_args:
        const void *src
        void *dst
        int64_t dst_ps
        int64_t oc_begin
        int64_t oc_end
        int64_t ic
        int64_t ic_padded
        int64_t panel_width

    struct pplconv_zero_lanes_args:
        void *dst
        int64_t dst_ps
        int64_t pixels
        int64_t lanes

    struct pplconv_round_sums_args:
        const void *src
        void *dst
        int64_t count
        int64_t size
        const void *parameters
        void *open
        void *open_count
        const void *pixels
        int64_t pixels_rs
        int64_t step
        int64_t rows
        int64_t columns
        const void *again

    struct pplconv_exact_sums_args:
        const void *src
        int64_t src_rs
        int64_t step
        int64_t rows
        int64_t columns
        const void *taps
        int64_t separable
        int64_t low
        int64_t high
        void *dst
        int64_t dst_rs
        int64_t size
        const void *open
        int64_t count
        int64_t pitch
        void *scratch

    struct pplconv_read_pixels_args:
        const void *src
        void *dst
        int64_t count
        int64_t kind

    struct pplconv_convert_in_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        int64_t flags

    struct pplconv_convert_out_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        int64_t fill
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
        int64_t first_row
        int64_t rows
        int64_t channels
        int64_t multiplier
        const void *bias
        const void *residual
        int64_t residual_cs
        const void *clip
        int64_t flags
        const void *geometry

    struct pplconv_depthwise_channels_args:
        const void *src
        int64_t src_rs
        int64_t src_ps
        void *dst
        int64_t dst_rs
        int64_t dst_ps
        const void *weights
        int64_t weights_ts
        int64_t first_row
        int64_t rows
        int64_t channels
        int64_t multiplier
        int64_t phase
        const void *bias
        const void *residual
        int64_t residual_rs
        int64_t residual_ps
        const void *clip
        int64_t flags
        const void *geometry

    struct pplconv_pack_depthwise_args:
        const void *src
        void *dst
        int64_t taps
        int64_t oc_begin
        int64_t oc_end
        int64_t width

    struct pplconv_depthwise_bytes_pixels_args:
        const void *src
        int64_t src_cs
        void *dst
        int64_t dst_cs
        const void *weights
        int64_t weights_us
        void *slab
        int64_t slab_rs
        int64_t first_row
        int64_t rows
        int64_t channels
        int64_t multiplier
        int64_t x_zero
        const void *geometry

    struct pplconv_depthwise_bytes_channels_args:
        const void *src
        int64_t src_rs
        int64_t src_ps
        void *dst
        int64_t dst_rs
        int64_t dst_ps
        const void *weights
        int64_t weights_us
        int64_t first_row
        int64_t rows
        int64_t first_column
        int64_t columns
        int64_t channels
        int64_t multiplier
        int64_t phase
        int64_t x_zero
        const void *geometry

    struct pplconv_pack_depthwise_bytes_args:
        const void *src
        void *dst
        int64_t dst_us
        int64_t begin
        int64_t end
        int64_t pixels
        int64_t multiplier
        const void *geometry

    struct pplconv_pool_args:
        const void *src
        int64_t src_ps
        int64_t src_rs
        int64_t src_cs
        void *dst
        int64_t dst_ps
        int64_t pixels
        int64_t channels
        int64_t rows
        int64_t columns
        int64_t kind
        const void *scale

    struct pplconv_resample_args:
        void *dst
        int64_t dst_ps
        int64_t pixels
        int64_t channels
        const void *rows
        const void *weight_y
        int64_t taps_y
        const void *offset_x
        const void *weight_x
        int64_t taps_x

    struct pplconv_reduce_rows_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t rows
        int64_t columns
        int64_t kind
        int64_t flags

    struct pplconv_reduce_columns_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        int64_t kind

    struct pplconv_softmax_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        int64_t log

    struct pplconv_layer_norm_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        const void *epsilon
        const void *scale
        const void *offset

    struct pplconv_copy_strided_args:
        const void *src
        int64_t src_rs
        int64_t src_cs
        void *dst
        int64_t dst_rs
        int64_t dst_cs
        int64_t rows
        int64_t columns

    struct pplconv_requantize_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        const void *offset
        const void *scale
        const void *residual
        int64_t residual_rs
        const void *parameters
        int64_t flags

    struct pplconv_quantize_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        const void *scale
        const void *zero
        int64_t flags

    struct pplconv_dequantize_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        const void *scale
        const void *zero
        int64_t flags

    struct pplconv_lookup_args:
        const void *src
        int64_t src_rs
        void *dst
        int64_t dst_rs
        int64_t rows
        int64_t columns
        const void *table

    struct pplconv_release_tiles_args:
        void *tiles

    struct pplconv_fma_peak_args:
        int64_t iterations
        void *operations

    ctypedef void (*pplconv_kernel)(const void *args) noexcept nogil

    struct pplconv_kernel_row:
        char symbol[64]
        char op[28]
        char dtype[12]
        char isa[16]
        char tuning[12]
        int32_t mr
        int32_t nr
        int32_t kr
        int32_t vector_bytes
        int32_t lanes
        pplconv_kernel function

    struct pplconv_isa_row:
        const char *isa
        const char *below

    struct pplconv_number_row:
        char kind[8]
        char name[24]
        int32_t value

    const pplconv_kernel_row pplconv_kernel_table[]
    const int32_t pplconv_kernel_count
    const pplconv_isa_row pplconv_isa_table[]
    const int32_t pplconv_isa_count
    const pplconv_number_row pplconv_number_table[]
    const int32_t pplconv_number_count
