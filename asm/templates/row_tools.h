/* Common part of kernels that go over rows of a matrix: parts of a vector, reductions of all lanes,
 * sums over a row, and extremes, where NaN wins as it does in NumPy. */
#ifndef PPLCONV_ROW_TOOLS_H
#define PPLCONV_ROW_TOOLS_H

#include <math.h>

#include "storage.h"

#ifndef INLINE
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Vectors whose sums are added before they are added to the total of a row or a column: rounding
 * errors grow with the length of a chain. */
enum { BLOCK = 64 };

INLINE vector_bits lane_numbers(void) {
    vector_bits lane;
    UNROLL for (int i = 0; i < LANES; i++)
        lane[i] = i;
    return lane;
}

/* x in the first n lanes, and `other` beyond. */
INLINE vector first_of(vector x, int64_t n, vector other) {
    return select_lanes(lane_numbers() < (element_bits)n, x, other);
}

/* n elements, all lanes or fewer, and `other` in the lanes beyond. */
INLINE vector load_part(const storage *p, int64_t n, vector other) {
    return n >= LANES ? load_storage(p) : first_of(load_storage_lanes(p, n), n, other);
}
INLINE void store_part(storage *p, vector v, int64_t n) {
    if (n >= LANES) store_storage(p, v);
    else store_storage_lanes(p, v, n);
}

/* All lanes added: halves of the vector, halves of these, and so on. */
INLINE element added_lanes(vector v) {
    UNROLL for (int s = LANES / 2; s; s /= 2)
        v += pick_lanes(v, lane_numbers() ^ s);
    return v[0];
}

/* The largest or smallest of all values so far, lane by lane. Maximum instructions of x86 lose NaN,
 * so a separate test looks for it, in two vectors at a time. Those of Arm keep it. */
struct extreme {
    vector value;
#if PPLCONV_VECTOR_BYTES == 64
    lane_mask ordered;
#elif !PPLCONV_NEON
    vector_bits ordered;
#endif
};

INLINE struct extreme no_extreme(int largest) {
    struct extreme e;
    e.value = (vector){0} + (largest ? -(element)INFINITY : (element)INFINITY);
#if PPLCONV_VECTOR_BYTES == 64
    e.ordered = first_lanes(LANES);
#elif !PPLCONV_NEON
    e.ordered = (vector_bits){0} == 0;
#endif
    return e;
}

INLINE vector further(vector a, vector b, int largest) {
#if PPLCONV_NEON
    const neon_vector x = (neon_vector)a, y = (neon_vector)b;
    return (vector)(largest ? OF_ELEMENT(vmaxq)(x, y) : OF_ELEMENT(vminq)(x, y));
#else
    return largest ? at_least(a, b) : at_most(a, b);
#endif
}

INLINE void take(struct extreme *e, vector a, vector b, int largest) {
#if PPLCONV_VECTOR_BYTES >= 32
    /* Without this, the compiler would load both vectors twice, once for each instruction. */
    __asm__("" : "+v"(a), "+v"(b));
#endif
    e->value = further(further(a, b, largest), e->value, largest);
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    e->ordered = _mm512_mask_cmp_pd_mask((__mmask8)e->ordered, (__m512d)a, (__m512d)b, _CMP_ORD_Q);
#elif PPLCONV_VECTOR_BYTES == 64
    e->ordered = _mm512_mask_cmp_ps_mask(e->ordered, (__m512)a, (__m512)b, _CMP_ORD_Q);
#elif PPLCONV_VECTOR_BYTES == 32 && PPLCONV_F64
    e->ordered &= (vector_bits)_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_ORD_Q);
#elif PPLCONV_VECTOR_BYTES == 32
    e->ordered &= (vector_bits)_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_ORD_Q);
#elif !PPLCONV_NEON
    e->ordered &= (a == a) & (b == b);
#endif
}

/* The extreme of each lane, NaN in lanes that have seen one. */
INLINE vector found(const struct extreme *e) {
#if PPLCONV_NEON
    return e->value;
#else
    const vector nan = (vector){0} + (element)NAN;
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    return (vector)_mm512_mask_blend_pd((__mmask8)e->ordered, (__m512d)nan, (__m512d)e->value);
#elif PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_mask_blend_ps(e->ordered, (__m512)nan, (__m512)e->value);
#else
    return select_lanes(e->ordered, e->value, nan);
#endif
#endif
}

INLINE vector extreme_of(vector a, vector b, int largest) {
    struct extreme e = no_extreme(largest);
    take(&e, a, b, largest);
    return found(&e);
}

/* The extreme of all lanes. */
INLINE element extreme_lane(const struct extreme *e, int largest) {
    vector v = e->value;
    UNROLL for (int s = LANES / 2; s; s /= 2)
        v = further(v, pick_lanes(v, lane_numbers() ^ s), largest);
#if PPLCONV_VECTOR_BYTES == 64
    return e->ordered == first_lanes(LANES) ? v[0] : (element)NAN;
#elif PPLCONV_VECTOR_BYTES == 32
    return _mm256_movemask_epi8((__m256i)e->ordered) == -1 ? v[0] : (element)NAN;
#elif PPLCONV_NEON
    return v[0];
#else
    for (int i = 0; i < LANES; i++)
        if (!e->ordered[i]) return (element)NAN;
    return v[0];
#endif
}

INLINE struct extreme further_extreme(struct extreme a, struct extreme b, int largest) {
    struct extreme e = a;
    e.value = further(a.value, b.value, largest);
#if !PPLCONV_NEON
    e.ordered &= b.ordered;
#endif
    return e;
}

/* The largest or smallest element of a row; -inf or inf for an empty row. */
INLINE element row_extreme(const storage *row, int64_t columns, int largest) {
    const vector none = no_extreme(largest).value;
    struct extreme e[4];
    int64_t j = 0;
    UNROLL for (int k = 0; k < 4; k++)
        e[k] = no_extreme(largest);
    for (; j + 8 * LANES <= columns; j += 8 * LANES) {
        UNROLL for (int k = 0; k < 4; k++) {
            const storage *at = row + j + 2 * k * LANES;
            take(&e[k], load_storage(at), load_storage(at + LANES), largest);
        }
    }
    UNROLL for (int k = 0; k < 4; k++) {
        if (j + 2 * LANES > columns) break;
        take(&e[k], load_storage(row + j), load_storage(row + j + LANES), largest);
        j += 2 * LANES;
    }
    for (; j < columns; j += LANES)
        take(&e[0], load_part(row + j, columns - j, none), none, largest);
    e[0] = further_extreme(further_extreme(e[0], e[1], largest),
                           further_extreme(e[2], e[3], largest), largest);
    return extreme_lane(&e[0], largest);
}

/* Term that is summed over a row: x, x * x, or (x - mean)^2. */
enum term { PLAIN, SQUARE, DEVIATION };

INLINE vector add_term(vector sum, vector x, enum term term, vector mean) {
    if (term == PLAIN) return sum + x;
    if (term == DEVIATION) x -= mean;
    return multiply_add(x, x, sum);
}

/* The sum over a row: blocks of BLOCK vectors in eight chains, and the blocks in double. */
INLINE double row_sum(const storage *row, int64_t columns, enum term term, vector mean) {
    const vector zero = {0}, nothing = term == DEVIATION ? mean : zero;
    double total = 0;
    for (int64_t j = 0; j < columns;) {
        const int64_t end = columns - j > BLOCK * LANES ? j + BLOCK * LANES : columns;
        vector sum[8];
        UNROLL for (int k = 0; k < 8; k++)
            sum[k] = zero;
        for (; j + 8 * LANES <= end; j += 8 * LANES) {
            UNROLL for (int k = 0; k < 8; k++)
                sum[k] = add_term(sum[k], load_storage(row + j + k * LANES), term, mean);
        }
        UNROLL for (int k = 0; k < 7; k++) {
            if (j + LANES > end) break;
            sum[k] = add_term(sum[k], load_storage(row + j), term, mean);
            j += LANES;
        }
        if (j < end) {
            sum[7] = add_term(sum[7], load_part(row + j, end - j, nothing), term, mean);
            j = end;
        }
        UNROLL for (int s = 4; s; s /= 2) {
            UNROLL for (int k = 0; k < s; k++)
                sum[k] += sum[k + s];
        }
        total += (double)added_lanes(sum[0]);
    }
    return total;
}

#endif
