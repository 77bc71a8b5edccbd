/* A block of LANES x LANES elements, transposed in registers or on the way from memory. */
#ifndef PPLCONV_TRANSPOSE_H
#define PPLCONV_TRANSPOSE_H

#include "lanes.h"

#define UNROLL _Pragma("GCC unroll 16")
/* A value whose computation is hidden from the compiler. */
#define OPAQUE(x)                                                                                  \
    ({                                                                                             \
        __typeof__(x) opaque = (x);                                                                \
        __asm__("" : "+r"(opaque));                                                                \
        opaque;                                                                                    \
    })
#define INLINE static inline __attribute__((always_inline))

/* Eklundh's transposition: log2(LANES) rounds, each swapping the off-diagonal quarters of
 * blocks of 2s x 2s. */
#if PPLCONV_NEON
INLINE void swap_pairs(vector *a, vector *b) {
#if defined(__aarch64__)
    const float64x2_t x = (float64x2_t)*a, y = (float64x2_t)*b;
    *a = (vector)vtrn1q_f64(x, y);
    *b = (vector)vtrn2q_f64(x, y);
#else
    const float32x4_t x = (float32x4_t)*a, y = (float32x4_t)*b;
    *a = (vector)vcombine_f32(vget_low_f32(x), vget_low_f32(y));
    *b = (vector)vcombine_f32(vget_high_f32(x), vget_high_f32(y));
#endif
}
#if PPLCONV_F16
INLINE void swap_quads(vector *a, vector *b) {
    const float32x4_t x = (float32x4_t)*a, y = (float32x4_t)*b;
    *a = (vector)vtrn1q_f32(x, y);
    *b = (vector)vtrn2q_f32(x, y);
}
#endif
INLINE void transpose(vector row[LANES]) {
#if PPLCONV_F64
    swap_pairs(&row[0], &row[1]);
#elif PPLCONV_F16
    UNROLL for (int i = 0; i < LANES; i += 2) {
        const neon_vector a = (neon_vector)row[i], b = (neon_vector)row[i + 1];
        row[i] = (vector)vtrn1q_f16(a, b);
        row[i + 1] = (vector)vtrn2q_f16(a, b);
    }
    UNROLL for (int i = 0; i < LANES; i++)
        if (!(i & 2)) swap_quads(&row[i], &row[i + 2]);
    UNROLL for (int i = 0; i < LANES / 2; i++)
        swap_pairs(&row[i], &row[i + LANES / 2]);
#else
    UNROLL for (int i = 0; i < LANES; i += 2) {
        const neon_vector a = (neon_vector)row[i], b = (neon_vector)row[i + 1];
        row[i] = (vector)vtrn1q_f32(a, b);
        row[i + 1] = (vector)vtrn2q_f32(a, b);
    }
    swap_pairs(&row[0], &row[2]);
    swap_pairs(&row[1], &row[3]);
#endif
}
#else
INLINE void transpose(vector row[LANES]) {
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++)
        lane[i] = i;
    UNROLL for (int s = 1; s < LANES; s *= 2) {
        const vector_bits upper = (lane & s) != 0;
        const vector_bits keep_low = lane + (upper & (LANES - s));
        const vector_bits keep_high = lane + (~upper & s) + (upper & LANES);
        UNROLL for (int i = 0; i < LANES; i++) {
            if (i & s) continue;
            const vector a = row[i], b = row[i + s];
            row[i] = shuffle(a, b, keep_low);
            row[i + s] = shuffle(a, b, keep_high);
        }
    }
}
#endif

#if PPLCONV_VECTOR_BYTES >= 32

/* Elements in a quarter: 16 bytes, the piece within which shuffles are cheap and which loads put
 * into any place of a vector. */
enum { QUARTER = 16 / (int)sizeof(element), QUARTERS = LANES / QUARTER };

/* The quarters at byte `at` of QUARTERS rows side by side. Only the blend of a masked load needs
 * an execution port, and any that shifts no lanes will do: shuffles have but one. */
INLINE vector gather_quarters(const char *const row[QUARTERS], int64_t at) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    __m512d x = _mm512_broadcast_f64x2(_mm_loadu_pd((const double *)(row[0] + at)));
    x = _mm512_mask_broadcast_f64x2(x, 0x0c, _mm_loadu_pd((const double *)(row[1] + at)));
    x = _mm512_mask_broadcast_f64x2(x, 0x30, _mm_loadu_pd((const double *)(row[2] + at)));
    x = _mm512_mask_broadcast_f64x2(x, 0xc0, _mm_loadu_pd((const double *)(row[3] + at)));
    return (vector)x;
#elif PPLCONV_VECTOR_BYTES == 64
    __m512 x = _mm512_broadcast_f32x4(_mm_loadu_ps((const float *)(row[0] + at)));
    x = _mm512_mask_broadcast_f32x4(x, 0x00f0, _mm_loadu_ps((const float *)(row[1] + at)));
    x = _mm512_mask_broadcast_f32x4(x, 0x0f00, _mm_loadu_ps((const float *)(row[2] + at)));
    x = _mm512_mask_broadcast_f32x4(x, 0xf000, _mm_loadu_ps((const float *)(row[3] + at)));
    return (vector)x;
#else
    const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps((const float *)(row[0] + at)));
    return (vector)_mm256_insertf128_ps(low, _mm_loadu_ps((const float *)(row[1] + at)), 1);
#endif
}

/* Within each quarter: pieces of `unit` elements of a and b in turn, from the quarter's lower or
 * upper half. */
INLINE vector interleave(vector a, vector b, int unit, int upper) {
    vector_bits index;
    UNROLL for (int i = 0; i < LANES; i++) {
        const int inside = i % QUARTER, piece = inside / unit;
        index[i] = i - inside + upper * (QUARTER / 2) + piece / 2 * unit + inside % unit +
                   piece % 2 * LANES;
    }
    return shuffle(a, b, index);
}

/* The second half: block[g * QUARTER + r] holds quarter g of row r and of each QUARTER-th row
 * after it. */
INLINE void transpose_quarters(vector block[LANES]) {
    UNROLL for (int g = 0; g < LANES; g += QUARTER) {
#if PPLCONV_F64
        const vector a = block[g], b = block[g + 1];
        block[g] = interleave(a, b, 1, 0);
        block[g + 1] = interleave(a, b, 1, 1);
#else
        const vector a = block[g], b = block[g + 1], c = block[g + 2], d = block[g + 3];
        const vector ab_low = interleave(a, b, 1, 0), ab_high = interleave(a, b, 1, 1);
        const vector cd_low = interleave(c, d, 1, 0), cd_high = interleave(c, d, 1, 1);
        block[g] = interleave(ab_low, cd_low, 2, 0);
        block[g + 1] = interleave(ab_low, cd_low, 2, 1);
        block[g + 2] = interleave(ab_high, cd_high, 2, 0);
        block[g + 3] = interleave(ab_high, cd_high, 2, 1);
#endif
    }
}

/* block[j][i] = element j of row i; rows are `step` bytes apart. Four rows are read to their ends
 * before the next four: rows whose distance is a large power of two share few lines of L1. */
INLINE void load_transposed(vector block[LANES], const void *src, int64_t step) {
    const char *row[QUARTERS];
    int64_t at[QUARTER];
    /* A few pointers and a few offsets: LANES pointers would not fit the registers. */
    UNROLL for (int i = 0; i < QUARTERS; i++)
        row[i] = OPAQUE(AT_CONST(char, src, i * QUARTER * step));
    UNROLL for (int r = 0; r < QUARTER; r++)
        at[r] = r ? OPAQUE(r * step) : 0;
    UNROLL for (int r = 0; r < QUARTER; r++) {
        UNROLL for (int g = 0; g < QUARTERS; g++) {
            block[g * QUARTER + r] = gather_quarters(row, at[r] + g * 16);
        }
    }
    transpose_quarters(block);
}

/* The same of what lies `at` bytes into rows that are anywhere. */
INLINE void load_rows_transposed(vector block[LANES], const char *const rows[LANES], int64_t at) {
    UNROLL for (int r = 0; r < QUARTER; r++) {
        const char *row[QUARTERS];
        UNROLL for (int i = 0; i < QUARTERS; i++)
            row[i] = rows[i * QUARTER + r] + at;
        UNROLL for (int g = 0; g < QUARTERS; g++) {
            vector x = gather_quarters(row, g * 16);
            /* Blends stay beside their loads, wherever the block is used. */
            __asm__("" : "+v"(x));
            block[g * QUARTER + r] = x;
        }
    }
    transpose_quarters(block);
}

#else

/* block[j][i] = element j of row i; rows are `step` bytes apart. */
INLINE void load_transposed(vector block[LANES], const void *src, int64_t step) {
    UNROLL for (int i = 0; i < LANES; i++) {
        block[i] = *AT_CONST(unaligned_vector, src, i * step);
    }
    transpose(block);
}

/* The same of what lies `at` bytes into rows that are anywhere. */
INLINE void load_rows_transposed(vector block[LANES], const char *const rows[LANES], int64_t at) {
    UNROLL for (int i = 0; i < LANES; i++)
        block[i] = *(const unaligned_vector *)(rows[i] + at);
    transpose(block);
}

#endif

/* `count` rows, `step` bytes apart, for load_rows_transposed; the others repeat the last, so that
 * it can be read. */
INLINE void find_rows(const char *rows[LANES], const char *src, int64_t step, int64_t count) {
    UNROLL for (int i = 0; i < LANES; i++) {
        rows[i] = src;
        src += OPAQUE(i + 1 < count ? step : 0);
    }
}

/* Zeros in the lanes from `count` on. */
INLINE void clear_lanes(vector block[LANES], int64_t count) {
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++)
        lane[i] = i;
    const vector_bits keep = lane < (element_bits)count;
    UNROLL for (int i = 0; i < LANES; i++)
        block[i] = (vector)((vector_bits)block[i] & keep);
}

/* A block that has only `rows` rows of `columns` elements, both at most LANES, and zeros
 * elsewhere. */
#if PPLCONV_NEON
INLINE void load_transposed_part(vector block[LANES], const void *src, int64_t step, int64_t rows,
                                 int64_t columns) {
    const vector zero = {0};
    UNROLL for (int i = 0; i < LANES; i++) {
        block[i] = i < rows ? load_lanes(AT_CONST(element, src, i * step), columns) : zero;
    }
    transpose(block);
}
#else
/* Go through memory, since loads are what make this transposition cheap. */
INLINE void load_transposed_part(vector block[LANES], const void *src, int64_t step, int64_t rows,
                                 int64_t columns) {
    const vector zero = {0};
    vector stage[LANES];
    int64_t i = 0;
    for (; i < rows; i++) stage[i] = load_lanes(AT_CONST(element, src, i * step), columns);
    for (; i < LANES; i++) stage[i] = zero;
    /* Force reads from memory: the compiler must not assemble the vectors in registers. */
    __asm__("" : "+m"(stage));
    load_transposed(block, stage, sizeof(vector));
}
#endif

#endif
