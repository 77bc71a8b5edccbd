/* Sums with an error to integers of 8 or 16 bits, and which of them the error leaves open. */
#include "lanes.h"

typedef int32_t words __attribute__((vector_size(4 * LANES)));
typedef int16_t halves __attribute__((vector_size(2 * LANES)));
typedef int8_t bytes __attribute__((vector_size(LANES)));

/* Vectors between two looks at whether any of their sums is open. */
enum { TOGETHER = 16 };

/* Adding it leaves no place for fractions; the sums are small enough, as they were limited. */
#if PPLCONV_F64
static const element TO_INTEGER = 6755399441055744.0;
#else
static const element TO_INTEGER = 12582912.0f;
#endif

struct limits {
    vector error, low, high;
};

/* NaN stays NaN, which differs from itself. */
static inline vector limited(vector x, const struct limits *l) {
    return at_most(at_least(x, l->low), l->high) + TO_INTEGER - TO_INTEGER;
}

/* n results of which each is `size` bytes long; gives the lanes of sums that are open. */
static inline vector_bits round_vector(vector sum, void *dst, int64_t n, int64_t size,
                                       const struct limits *l) {
    const vector low = limited(sum - l->error, l), high = limited(sum + l->error, l);
    const vector_bits open = low != high;
    const words whole = __builtin_convertvector(select_lanes(open, l->low, high), words);
    if (size == 1) {
        const bytes narrow = __builtin_convertvector(whole, bytes);
        memcpy(dst, &narrow, (size_t)n);
    } else {
        const halves narrow = __builtin_convertvector(whole, halves);
        memcpy(dst, &narrow, (size_t)n * 2);
    }
    return open;
}

static inline __attribute__((always_inline)) int64_t
round_sums(const struct pplconv_round_sums_args *a, const int64_t size) {
    const element *src = a->src, *parameters = a->parameters;
    const vector zero = {0};
    const struct limits l = {zero + parameters[0], zero + parameters[1], zero + parameters[2]};
    char *dst = a->dst;
    int64_t *list = a->open, found = 0;
    for (int64_t begin = 0; begin < a->count; begin += TOGETHER * LANES) {
        const int64_t left = a->count - begin;
        vector_bits open[TOGETHER], any = {0};
        int64_t vectors = 0;
        for (; vectors < TOGETHER && (vectors + 1) * LANES <= left; vectors++) {
            const int64_t i = begin + vectors * LANES;
            const vector sum = *(const unaligned_vector *)(src + i);
            open[vectors] = round_vector(sum, dst + i * size, LANES, size, &l);
            any |= open[vectors];
        }
        if (vectors < TOGETHER && vectors * LANES < left) {
            const int64_t i = begin + vectors * LANES, n = left - vectors * LANES;
            open[vectors] = round_vector(load_lanes(src + i, n), dst + i * size, n, size, &l);
            any |= open[vectors++];
        }
        element_bits some = 0;
        for (int lane = 0; lane < LANES; lane++) some |= any[lane];
        if (!some) continue;
        for (int64_t v = 0; v < vectors; v++) {
            for (int lane = 0; lane < LANES; lane++) {
                const int64_t i = v * LANES + lane;
                if (open[v][lane] && i < left) list[found++] = begin + i;
            }
        }
    }
    return found;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_round_sums_args *a = argument;
    int64_t *count = a->open_count;
    *count = a->size == 1 ? round_sums(a, 1) : round_sums(a, 2);
    clean_registers();
}
