/* Sums along rows, rounded to integers: the last pass of a filter of integers. A block of vectors
 * is summed up, rounded and packed in registers. Sums that are too far from their integers, which
 * may be those of their neighbours, are told by the greatest distance in a block: one comparison.
 */
#include "lanes.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Vectors of a block, and blocks whose sums are made together. */
enum { BLOCK = 4, RESULTS = BLOCK * LANES, BLOCKS = 2 };

/* Whether packing saturates; x86 has such instructions for each type of results. */
#define PACKS (PPLCONV_VECTOR_BYTES >= 32)

typedef const struct pplconv_whole_sums_args arguments;
typedef int32_t words __attribute__((vector_size(4 * LANES)));
typedef int16_t halves __attribute__((vector_size(2 * LANES)));
typedef int8_t bytes __attribute__((vector_size(LANES)));

struct limits {
    vector low, high;
};

#if PACKS
/* Integers of a vector of sums. */
#if PPLCONV_VECTOR_BYTES == 64 && !PPLCONV_F64
typedef __m512i packed;
#define OF_PACKED(name) _mm512_##name
#elif PPLCONV_VECTOR_BYTES == 64 || !PPLCONV_F64
typedef __m256i packed;
#define OF_PACKED(name) _mm256_##name
#else
typedef __m128i packed;
#define OF_PACKED(name) _mm_##name
#endif

/* Instructions pack each 16 bytes of their operands. Undo that: four parts were packed to bytes, or
 * two to 16 bits. */
INLINE packed in_order(packed x, const int size) {
#if PPLCONV_VECTOR_BYTES == 64 && !PPLCONV_F64
    const __m512i of_bytes =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i of_halves = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return size == 1 ? _mm512_permutexvar_epi32(of_bytes, x)
                     : _mm512_permutexvar_epi64(of_halves, x);
#elif PPLCONV_VECTOR_BYTES == 64 || !PPLCONV_F64
    return size == 1 ? _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
                     : _mm256_permute4x64_epi64(x, 0xd8);
#else
    (void)size;
    return x;
#endif
}

/* The nearest integer, ties to even. */
INLINE packed nearest(vector x) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    return _mm512_cvtpd_epi32((__m512d)x);
#elif PPLCONV_VECTOR_BYTES == 64
    return _mm512_cvtps_epi32((__m512)x);
#elif PPLCONV_F64
    return _mm256_cvtpd_epi32((__m256d)x);
#else
    return _mm256_cvtps_epi32((__m256)x);
#endif
}

INLINE vector floats_of(packed x) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    return (vector)_mm512_cvtepi32_pd(x);
#elif PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_cvtepi32_ps(x);
#elif PPLCONV_F64
    return (vector)_mm256_cvtepi32_pd(x);
#else
    return (vector)_mm256_cvtepi32_ps(x);
#endif
}

/* Store a block of integers, saturated. */
INLINE void store_block(const packed *x, char *dst, int64_t kind) {
    enum { BYTES = sizeof(packed) };
    packed first, second;
    if (kind == PPLCONV_PIXELS_U16) {
        first = OF_PACKED(packus_epi32)(x[0], x[1]);
        second = OF_PACKED(packus_epi32)(x[2], x[3]);
    } else {
        first = OF_PACKED(packs_epi32)(x[0], x[1]);
        second = OF_PACKED(packs_epi32)(x[2], x[3]);
    }
    if (kind == PPLCONV_PIXELS_U8 || kind == PPLCONV_PIXELS_S8) {
        first = kind == PPLCONV_PIXELS_U8 ? OF_PACKED(packus_epi16)(first, second)
                                          : OF_PACKED(packs_epi16)(first, second);
        first = in_order(first, 1);
        memcpy(dst, &first, BYTES);
    } else {
        first = in_order(first, 2);
        second = in_order(second, 2);
        memcpy(dst, &first, BYTES);
        memcpy(dst + BYTES, &second, BYTES);
    }
}
#else
typedef words packed;

#if PPLCONV_F64
static const element TO_INTEGER = 6755399441055744.0;
#else
static const element TO_INTEGER = 12582912.0f;
#endif

INLINE void store_block(const packed *x, char *dst, int64_t kind) {
    UNROLL for (int v = 0; v < BLOCK; v++) {
        if (kind == PPLCONV_PIXELS_U8 || kind == PPLCONV_PIXELS_S8) {
            const bytes few = __builtin_convertvector(x[v], bytes);
            memcpy(dst + v * LANES, &few, LANES);
        } else {
            const halves few = __builtin_convertvector(x[v], halves);
            memcpy(dst + v * LANES * 2, &few, LANES * 2);
        }
    }
}
#endif

/* The larger one of a number and of the magnitude of another. */
INLINE vector farther(vector most, vector x) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    return (vector)_mm512_range_pd((__m512d)most, (__m512d)x, 0xb);
#elif PPLCONV_VECTOR_BYTES == 64
    return (vector)_mm512_range_ps((__m512)most, (__m512)x, 0xb);
#else
    const vector zero = {0};
    return at_least((vector)((vector_bits)x & ~(vector_bits)-zero), most);
#endif
}

INLINE int is_beyond(vector most, vector near) {
#if PPLCONV_VECTOR_BYTES == 64 && PPLCONV_F64
    return _mm512_cmp_pd_mask((__m512d)most, (__m512d)near, _CMP_NLE_UQ) != 0;
#elif PPLCONV_VECTOR_BYTES == 64
    return _mm512_cmp_ps_mask((__m512)most, (__m512)near, _CMP_NLE_UQ) != 0;
#elif PPLCONV_VECTOR_BYTES == 32
    return _mm256_movemask_epi8((__m256i)(most <= near)) != -1;
#else
    const vector_bits beyond = ~(most <= near);
    uint64_t word[PPLCONV_VECTOR_BYTES / 8], some = 0;
    memcpy(word, &beyond, sizeof word);
    for (int i = 0; i < PPLCONV_VECTOR_BYTES / 8; i++) some |= word[i];
    return some != 0;
#endif
}

/* Sums along a row: some vectors of them. */
INLINE void sum_taps(arguments *a, const element *src, vector *sums, const int many) {
    const vector zero = {0};
    const int64_t *places = a->places;
    const element *weights = a->weights;
    UNROLL for (int v = 0; v < many; v++)
        sums[v] = zero;
    for (int64_t t = 0; t < a->taps; t++) {
        const unaligned_vector *from = AT_CONST(unaligned_vector, src, places[t]);
        const vector weight = weights[t] - zero;
        UNROLL for (int v = 0; v < many; v++)
            sums[v] = multiply_add(weight, from[v], sums[v]);
    }
}

/* A block of results; whether one of them is open. */
INLINE int round_block(arguments *a, const vector *sums, char *dst, const struct limits *l,
                       vector near) {
    vector most = {0};
    packed whole[BLOCK];
    UNROLL for (int v = 0; v < BLOCK; v++) {
#if PACKS
        whole[v] = nearest(sums[v]);
        most = farther(most, sums[v] - floats_of(whole[v]));
#else
        const vector x = at_most(at_least(sums[v], l->low), l->high);
        const vector rounded = x + TO_INTEGER - TO_INTEGER;
        whole[v] = __builtin_convertvector(rounded, words);
        most = farther(most, x - rounded);
#endif
    }
    store_block(whole, dst, a->kind);
    (void)l;
    return is_beyond(most, near);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    const int64_t size = a->kind == PPLCONV_PIXELS_U8 || a->kind == PPLCONV_PIXELS_S8 ? 1 : 2;
    const element *parameters = a->parameters;
    const vector zero = {0}, near = parameters[0] - zero;
    const struct limits l = {parameters[1] - zero, parameters[2] - zero};
    int64_t *open = a->open, found = 0;
    for (int64_t line = 0; line < a->lines; line++) {
        const element *src = AT_CONST(element, a->src, line * a->src_rs);
        char *dst = (char *)a->dst + line * a->dst_rs;
        vector sums[BLOCKS * BLOCK];
        int64_t i = 0;
        if (a->count < RESULTS) {
            char few[RESULTS * 2];
            sum_taps(a, src, sums, BLOCK);
            open[found] = line * a->count;
            found += round_block(a, sums, few, &l, near);
            memcpy(dst, few, (size_t)(a->count * size));
            continue;
        }
        /* Branches, which are foreseen: a count would make each block wait for the last one. */
        for (; i + BLOCKS * RESULTS <= a->count; i += BLOCKS * RESULTS) {
            sum_taps(a, src + i, sums, BLOCKS * BLOCK);
            UNROLL for (int k = 0; k < BLOCKS; k++) {
                const int64_t at = i + k * RESULTS;
                if (__builtin_expect(round_block(a, sums + k * BLOCK, dst + at * size, &l, near),
                                     0))
                    open[found++] = line * a->count + at;
            }
        }
        for (; i < a->count; i += RESULTS) {
            /* The last block reaches back. */
            if (i + RESULTS > a->count) i = a->count - RESULTS;
            sum_taps(a, src + i, sums, BLOCK);
            if (__builtin_expect(round_block(a, sums, dst + i * size, &l, near), 0))
                open[found++] = line * a->count + i;
        }
    }
    int64_t *count = a->open_count;
    *count = found;
    clean_registers();
}
