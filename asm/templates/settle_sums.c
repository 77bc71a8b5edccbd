/* What the error of sums in float leaves open is decided by sums in double. */
#include "lanes.h"

enum { WIDE = 4 };

typedef double wide __attribute__((vector_size(8 * WIDE)));
typedef float narrow __attribute__((vector_size(4 * WIDE)));

/* Adding it leaves no place for fractions; the sums are small enough, as they were limited. */
static const double TO_INTEGER = 6755399441055744.0;

/* One vector of products is added to `to`. Of single numbers, conversions would wait for one
 * another. */
#define ADD(to, i)                                                                                 \
    do {                                                                                           \
        const float *p = pixel + (i) * step;                                                       \
        const double *t = taps + (i);                                                              \
        const narrow pixels = {p[0], p[step], p[2 * step], p[3 * step]};                           \
        const wide factors = {t[0], t[1], t[2], t[3]};                                             \
        (to) += factors * __builtin_convertvector(pixels, wide);                                   \
    } while (0)

static inline
    __attribute__((always_inline)) double sum_of(const struct pplconv_settle_sums_args *a,
                                                 const float *window, const int64_t step) {
    wide even = {0}, odd = {0};
    double rest[WIDE - 1] = {0};
    const double *taps = a->taps;
    for (int64_t r = 0; r < a->rows; r++, taps += a->columns) {
        const float *pixel = (const float *)((const char *)window + r * a->src_rs);
        int64_t c = 0;
        for (; c + 2 * WIDE <= a->columns; c += 2 * WIDE) {
            ADD(even, c);
            ADD(odd, c + WIDE);
        }
        if (c + WIDE <= a->columns) {
            ADD(even, c);
            c += WIDE;
        }
        for (int i = 0; i < WIDE - 1; i++) {
            if (c + i < a->columns) rest[i] += taps[c + i] * (double)pixel[(c + i) * step];
        }
    }
    even += odd;
    double sum = 0;
    for (int i = 0; i < WIDE; i++) sum += even[i];
    for (int i = 0; i < WIDE - 1; i++) sum += rest[i];
    return sum;
}

/* NaN stays NaN, which differs from itself. */
static inline double limited(double x, double low, double high) {
    x = x < low ? low : x;
    x = x > high ? high : x;
    return x + TO_INTEGER - TO_INTEGER;
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_settle_sums_args *a = argument;
    const double *parameters = a->parameters;
    const double error = parameters[0], low = parameters[1], high = parameters[2];
    const float *src = a->src;
    int64_t *open = a->open, *count = a->open_count, left = 0;
    for (int64_t k = 0; k < *count; k++) {
        const int64_t i = open[k];
        const double sum = a->step == 1 ? sum_of(a, src + i, 1) : sum_of(a, src + i, a->step);
        const double least = limited(sum - error, low, high);
        if (least != limited(sum + error, low, high)) {
            open[left++] = i;
            continue;
        }
        const int32_t whole = (int32_t)least;
        if (a->size == 1) {
            ((uint8_t *)a->dst)[i] = (uint8_t)whole;
        } else {
            ((uint16_t *)a->dst)[i] = (uint16_t)whole;
        }
    }
    *count = left;
    clean_registers();
}
