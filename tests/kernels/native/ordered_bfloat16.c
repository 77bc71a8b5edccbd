/* Products of bfloat16 in the bits that CPUs give, by the rules in `narrow_gemm.py`. A has m rows
 * of `depth` values as floats, B n columns. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Bits of a float64 mantissa that a float32 one lacks. */
#define LOST ((uint64_t)(1 << 29) - 1)

static float flushed(float x) { return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x; }

/* The sum of two numbers, rounded to odd; the exact error is Knuth's TwoSum. */
static double odd_sum(double x, double y) {
    const double total = x + y, added = total - x;
    const double error = (x - (total - added)) + (y - added);
    uint64_t bits;
    if (!isfinite(error) || error == 0.0) return total;
    memcpy(&bits, &total, sizeof bits);
    if (bits & 1) return total;
    bits += (error > 0.0) == (total > 0.0) ? 1 : -1;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return odd;
}

/* a * b + c rounded to float32 once; results that would be below the smallest normal number with
 * unbounded exponents become zero. */
static float fused(float a, float b, float c) {
    const double odd = odd_sum((double)a * b, c);
    if (fabsf((float)(odd * 0x1p100)) < FLT_MIN * 0x1p100f) return copysignf(0.0f, (float)odd);
    return (float)odd;
}

/* A number that is exact or rounded to odd, rounded to normal float32 and to odd. */
static float odd_float(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint64_t lost = bits & LOST;
    bits -= lost;
    memcpy(&x, &bits, sizeof x);
    if (fabs(x) < FLT_MIN) x = copysign(0.0, x);
    float cut = (float)x;
    if (lost && isfinite(cut) && cut != 0.0f) {
        uint32_t word;
        memcpy(&word, &cut, sizeof word);
        word |= 1;
        memcpy(&cut, &word, sizeof cut);
    }
    return cut;
}

/* Of a pair: the second product first, each added by a fused multiply-add. */
static float pair_of_x86(const float *a, const float *b, int64_t n, float total) {
    total = fused(flushed(a[1]), flushed(b[n]), flushed(total));
    return fused(flushed(a[0]), flushed(b[0]), total);
}

/* The two products are added, and then their sum to the total; each step rounds to odd. */
static float pair_of_arm(const float *a, const float *b, int64_t n, float total) {
    const float first = odd_float((double)flushed(a[0]) * flushed(b[0]));
    const float second = odd_float((double)flushed(a[1]) * flushed(b[n]));
    const float pair = odd_float(odd_sum(first, second));
    return odd_float(odd_sum(flushed(total), pair));
}

#define DEFINE_PRODUCTS(name, pair)                                                                \
    void name(const float *a, const float *b, int64_t m, int64_t n, int64_t depth, float *total) { \
        for (int64_t i = 0; i < m; i++) {                                                          \
            for (int64_t j = 0; j < n; j++) {                                                      \
                float x = total[i * n + j];                                                        \
                for (int64_t k = 0; k < depth; k += 2) {                                           \
                    x = pair(a + i * depth + k, b + k * n + j, n, x);                              \
                }                                                                                  \
                total[i * n + j] = x;                                                              \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_PRODUCTS(bfloat16_products_x86, pair_of_x86)
DEFINE_PRODUCTS(bfloat16_products_arm, pair_of_arm)
