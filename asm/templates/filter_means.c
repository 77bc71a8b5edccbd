/* Means of squares of 16-bit pixels, and larger ones of bytes. Sums of up to 32 x 32 pixels are
 * exact as integers of 32 bits, and as doubles; those of up to 16 x 16 are below 2^24, and exact as
 * floats.
 *
 * A mean is such a sum times a float, or a double, rounded to an integer once: the product is fused
 * with the addition of a number so large that its last bit is one. Callers choose the factor so
 * that no product is on the other side of half way than the quotient.
 *
 * Signed pixels are taken as unsigned ones that are larger by 2^15, as their means are then. */
#include <stdint.h>

#include "clean.h"
#include "pplconv_kernels.h"

#ifdef PPLCONV_TYPE_U8
#define BYTES 1
#else
#define BYTES 0
#endif
#define PPLCONV_HIDDEN __attribute__((visibility("hidden")))
#define INLINE static inline __attribute__((always_inline))
/* Sums that are kept are in registers. */
#define WHOLLY _Pragma("GCC unroll 8")

enum {
    LANES = PPLCONV_VECTOR_BYTES / 4,
    PIXEL = BYTES ? 1 : 2,
    /* Rows of small squares. */
    MOST = 5,
    /* Rows of squares whose sums are exact as floats. */
    MIDDLE = 16,
    /* Neighbours that are summed up first, of larger squares than MOST, and than MIDDLE. */
    GROUP = 3,
    LONG_GROUP = 5,
    /* Sums of columns that are moved from row to row before those beside them are. */
    COLUMNS = 2048,
    CACHE_LINE = 64,
    /* Bytes ahead of a column that CPUs would not foresee, as each row is on a page of its own. */
    AHEAD = 256,
};

typedef const struct pplconv_filter_means_args arguments;
typedef uint32_t sums __attribute__((vector_size(PPLCONV_VECTOR_BYTES)));
typedef uint32_t unaligned_sums
    __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(2), may_alias));

/* What makes means of sums: bits that are flipped in pixels, and two numbers of each type. */
struct means {
    sums flip;
    float factor, none;
    double wide_factor, wide_none;
};

INLINE sums load(const void *from) { return *(const unaligned_sums *)from; }

INLINE void store(void *to, sums s) { *(unaligned_sums *)to = s; }

/* Means are the lower halves of lanes; nothing is said of the upper ones. */
#if PPLCONV_VECTOR_BYTES == 64
INLINE sums means_of(sums s, const struct means *m) {
    const __m512 x = _mm512_cvtepi32_ps((__m512i)s);
    return (sums)_mm512_fmadd_ps(x, _mm512_set1_ps(m->factor), _mm512_set1_ps(m->none));
}
INLINE sums wide_means_of(sums s, const struct means *m) {
    const __m512d factor = _mm512_set1_pd(m->wide_factor), none = _mm512_set1_pd(m->wide_none);
    __m512d low = _mm512_cvtepi32_pd(_mm512_castsi512_si256((__m512i)s));
    __m512d high = _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64((__m512i)s, 1));
    low = _mm512_fmadd_pd(low, factor, none);
    high = _mm512_fmadd_pd(high, factor, none);
    sums places;
    for (int i = 0; i < LANES; i++) places[i] = (uint32_t)(2 * i);
    return (sums)_mm512_permutex2var_epi32((__m512i)low, (__m512i)places, (__m512i)high);
}
INLINE sums interleaved(sums even, sums odd) {
    return (sums)_mm512_mask_blend_epi16(0xaaaaaaaa, (__m512i)even, (__m512i)(odd << 16));
}
#if BYTES
INLINE void store_both(char *to, sums first, sums second) {
    _mm_storeu_si128((void *)to, _mm512_cvtepi32_epi8((__m512i)first));
    _mm_storeu_si128((void *)(to + LANES), _mm512_cvtepi32_epi8((__m512i)second));
}
INLINE sums widened(const char *from, sums flip) {
    return (sums)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)from)) ^ flip;
}
#else
INLINE void store_both(char *to, sums first, sums second) {
    sums places;
    for (int i = 0; i < LANES; i++) places[i] = (uint32_t)(4 * i | (4 * i + 2) << 16);
    store(to, (sums)_mm512_permutex2var_epi16((__m512i)first, (__m512i)places, (__m512i)second));
}
INLINE sums widened(const char *from, sums flip) {
    return (sums)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from)) ^ flip;
}
#endif
#else
INLINE sums means_of(sums s, const struct means *m) {
    const __m256 x = _mm256_cvtepi32_ps((__m256i)s);
    return (sums)_mm256_fmadd_ps(x, _mm256_set1_ps(m->factor), _mm256_set1_ps(m->none));
}
INLINE sums wide_means_of(sums s, const struct means *m) {
    const __m256d factor = _mm256_set1_pd(m->wide_factor), none = _mm256_set1_pd(m->wide_none);
    __m256d low = _mm256_cvtepi32_pd(_mm256_castsi256_si128((__m256i)s));
    __m256d high = _mm256_cvtepi32_pd(_mm256_extracti128_si256((__m256i)s, 1));
    low = _mm256_fmadd_pd(low, factor, none);
    high = _mm256_fmadd_pd(high, factor, none);
    const __m256 even = _mm256_shuffle_ps((__m256)low, (__m256)high, 0x88);
    return (sums)_mm256_permute4x64_epi64((__m256i)even, 0xd8);
}
INLINE sums interleaved(sums even, sums odd) {
    return (sums)_mm256_blend_epi16((__m256i)even, (__m256i)(odd << 16), 0xaa);
}
/* The lower halves of lanes, in order. */
INLINE __m256i halves_of(sums first, sums second, uint32_t mask) {
    const sums low = first & mask, high = second & mask;
    return _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)low, (__m256i)high), 0xd8);
}
#if BYTES
INLINE void store_both(char *to, sums first, sums second) {
    const __m256i halves = halves_of(first, second, 0xff);
    const __m128i low = _mm256_castsi256_si128(halves);
    _mm_storeu_si128((void *)to, _mm_packus_epi16(low, _mm256_extracti128_si256(halves, 1)));
}
INLINE sums widened(const char *from, sums flip) {
    return (sums)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from)) ^ flip;
}
#else
INLINE void store_both(char *to, sums first, sums second) {
    store(to, (sums)halves_of(first, second, 0xffff));
}
INLINE sums widened(const char *from, sums flip) {
    return (sums)_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)from)) ^ flip;
}
#endif
#endif

#if !BYTES
/* Sums of even and of odd pixels. */
struct pair {
    sums even, odd;
};

INLINE struct pair added(struct pair a, struct pair b) {
    return (struct pair){a.even + b.even, a.odd + b.odd};
}

/* Sums along a row. A vector of pixels is one of integers of 32 bits, each an even pixel plus 2^16
 * times an odd one: sums of these modulo 2^32, less those of the odd pixels, are those of the even
 * ones. */
INLINE struct pair along(const char *from, int64_t step, const int side, const struct means *m) {
    struct pair s = {{0}, {0}};
    WHOLLY for (int k = 0; k < side; k++) {
        const sums x = load(from + k * step) ^ m->flip;
        s.even += x;
        s.odd += x >> 16;
    }
    s.even -= s.odd << 16;
    return s;
}

INLINE void store_means(char *to, struct pair total, const struct means *m) {
    store(to, interleaved(means_of(total.even, m), means_of(total.odd, m)));
}

/* A column of vectors of results, two rows at a time: sums along rows, and of two such sums, stay
 * in registers until no result needs them. */
INLINE void filter_column(arguments *a, const struct means *m, int64_t i, const int side) {
    const char *const *rows = a->src;
    const int64_t count = a->rows, step = a->step, dst_rs = a->dst_rs;
    struct pair kept[MOST + 1], both[MOST / 2];
    WHOLLY for (int k = 0; k < side - 1; k++) {
        kept[k] = along(rows[k] + i, step, side, m);
        if (k && k % 2 == 0) both[k / 2 - 1] = added(kept[k - 1], kept[k]);
    }
    const int64_t ahead = i + AHEAD < a->count ? i + AHEAD : i;
    char *to = (char *)a->dst + i;
    for (int64_t y = 0; y < count; y += 2, to += 2 * dst_rs) {
        /* A last row alone is summed up twice. */
        const int64_t more = y + 1 < count;
        const char *const *next = rows + y + side - 1;
        kept[side - 1] = along(next[0] + i, step, side, m);
        kept[side] = along(next[more] + i, step, side, m);
        __builtin_prefetch(next[0] + ahead);
        __builtin_prefetch(next[more] + ahead);
        both[side / 2 - 1] = added(kept[side - 2], kept[side - 1]);
        struct pair inner = both[0];
        WHOLLY for (int k = 1; k < side / 2; k++) { inner = added(inner, both[k]); }
        store_means(to, added(kept[0], inner), m);
        if (more) store_means(to + dst_rs, added(inner, kept[side]), m);
        WHOLLY for (int k = 0; k < side - 1; k++) { kept[k] = kept[k + 2]; }
        WHOLLY for (int k = 1; k < side / 2; k++) { both[k - 1] = both[k]; }
    }
}

INLINE void filter_small(arguments *a, const struct means *m, const int side) {
    for (int64_t i = 0; i < a->count; i += PPLCONV_VECTOR_BYTES) {
        /* The last vector reaches back. */
        if (i + PPLCONV_VECTOR_BYTES > a->count) i = a->count - PPLCONV_VECTOR_BYTES;
        filter_column(a, m, i, side);
    }
}

#endif

/* Sums of columns, and of groups of them. */
struct strip {
    _Alignas(CACHE_LINE) uint32_t columns[COLUMNS];
    uint32_t groups[COLUMNS];
};

/* Sums of the first columns. */
INLINE sums first_sums(const char *const *rows, int64_t at, int64_t side, sums flip) {
    sums s = {0};
    for (int64_t k = 0; k < side; k++) s += widened(rows[k] + at, flip);
    return s;
}

/* Two vectors of sums of squares: groups, and the columns that are left. */
INLINE void store_rows(char *to, const struct strip *s, int64_t i, int64_t side, int64_t step,
                       const struct means *m, const int64_t group, const int wide) {
    sums first = {0}, second = {0};
    const uint32_t *from = s->groups + i;
    for (; side >= group; side -= group, from += group * step) {
        first += load(from);
        second += load(from + LANES);
    }
    from += s->columns - s->groups;
    for (; side > 0; side--, from += step) {
        first += load(from);
        second += load(from + LANES);
    }
    if (wide) store_both(to, wide_means_of(first, m), wide_means_of(second, m));
    else store_both(to, means_of(first, m), means_of(second, m));
}

/* Results of a strip, row by row: the sums of its columns are moved. */
INLINE void filter_strip(arguments *a, const struct means *m, int64_t i, int64_t count,
                         const int64_t group, const int wide) {
    const char *const *rows = a->src;
    const int64_t side = a->side, step = a->step / PIXEL;
    const int64_t columns = count + (side - 1) * step;
    const int64_t last = columns - LANES, groups = columns - (group - 1) * step;
    const sums flip = m->flip & 0xffff;
    struct strip s;
    for (int64_t k = 0; k < last; k += LANES) {
        store(s.columns + k, first_sums(rows, i + k * PIXEL, side, flip));
    }
    /* The last vector reaches back, so it is kept apart: others are moved where they lie. */
    sums end = first_sums(rows, i + last * PIXEL, side, flip);
    char *to = (char *)a->dst + i;
    const int64_t many = a->rows;
    for (int64_t y = 0; y < many; y++, to += a->dst_rs) {
        if (y) {
            const char *before = rows[y - 1] + i, *next = rows[y + side - 1] + i;
            for (int64_t k = 0; k < last; k += LANES) {
                const sums sum = load(s.columns + k) - widened(before + k * PIXEL, flip);
                store(s.columns + k, sum + widened(next + k * PIXEL, flip));
            }
            end -= widened(before + last * PIXEL, flip);
            end += widened(next + last * PIXEL, flip);
        }
        store(s.columns + last, end);
        if (y + 1 < many) {
            /* A strip is too short for the CPU to foresee its next row. */
            const char *next = rows[y + side] + i;
            for (int64_t k = 0; k < count * PIXEL; k += CACHE_LINE) {
                __builtin_prefetch(next + k);
                __builtin_prefetch(to + a->dst_rs + k, 1);
            }
        }
        for (int64_t k = 0; k < groups; k += LANES) {
            const int64_t at = k + LANES > groups ? groups - LANES : k;
            const uint32_t *from = s.columns + at;
            sums sum = load(from);
            WHOLLY for (int n = 1; n < group; n++) { sum += load(from + n * step); }
            store(s.groups + at, sum);
        }
        for (int64_t k = 0; k < count; k += 2 * LANES) {
            const int64_t at = k + 2 * LANES > count ? count - 2 * LANES : k;
            store_rows(to + at * PIXEL, &s, at, side, step, m, group, wide);
        }
    }
}

#if !BYTES
static __attribute__((noinline)) void filter_middle(arguments *a, const struct means *m, int64_t i,
                                                    int64_t count) {
    filter_strip(a, m, i, count, GROUP, 0);
}
#endif

static __attribute__((noinline)) void filter_long(arguments *a, const struct means *m, int64_t i,
                                                  int64_t count) {
    filter_strip(a, m, i, count, LONG_GROUP, !BYTES);
}

INLINE void filter_large(arguments *a, const struct means *m) {
    const int64_t count = a->count / PIXEL;
    const int64_t most = (COLUMNS - (a->side - 1) * (a->step / PIXEL)) / LANES * LANES;
    for (int64_t i = 0; i < count; i += most) {
        /* So does the last strip where it is shorter than two vectors. */
        if (i && i + 2 * LANES > count) i = count - 2 * LANES;
        const int64_t some = count - i < most ? count - i : most;
#if !BYTES
        if (a->side <= MIDDLE) {
            filter_middle(a, m, i * PIXEL, some);
            continue;
        }
#endif
        filter_long(a, m, i * PIXEL, some);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    arguments *a = argument;
    const int is_signed = a->mode == PPLCONV_SUMS_SIGNED;
    const sums zero = {0};
    const struct means m = {
        .flip = zero + (is_signed ? 0x80008000u : 0),
        .factor = (float)*(const double *)a->weights,
        .none = 0x1.8p23f - (is_signed ? 0x1p15f : 0),
        .wide_factor = *(const double *)a->weights,
        .wide_none = 0x1.8p52 - (is_signed ? 0x1p15 : 0),
    };
#if !BYTES
    if (a->side == 3) filter_small(a, &m, 3);
    else if (a->side == 5) filter_small(a, &m, 5);
    else
#endif
        filter_large(a, &m);
    clean_registers();
}
