/* The GEMM contract word by word, one element at a time: a chain in ascending k that starts
 * from zero or from C, then bias, residual, clip. `fused` picks one rounding per step (what
 * an FMA does) or two (a multiply and an add). Kernels that keep the order give these bits. */
#include <math.h>
#include <string.h>

#include "pplconv_kernels.h"

#define DEFINE_ORDERED_GEMM(name, element, fma)                                                    \
    static element name##_at(const void *base, int64_t bytes) {                                    \
        element x;                                                                                 \
        memcpy(&x, (const char *)base + bytes, sizeof x);                                          \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    void name(const struct pplconv_gemm_args *g, int64_t mr, int64_t fused, element *out) {        \
        const int64_t size = sizeof(element);                                                      \
        for (int64_t m = 0; m < mr; m++) {                                                         \
            for (int64_t n = 0; n < g->n; n++) {                                                   \
                element x = 0;                                                                     \
                if (g->flags & PPLCONV_ACCUMULATE) x = name##_at(g->c, m * g->c_rs + n * size);    \
                for (int64_t k = 0; k < g->k; k++) {                                               \
                    const element a = name##_at(g->a, m * g->a_rs + k * g->a_ks);                  \
                    const element b = name##_at(g->b, k * g->b_ks + n * size);                     \
                    if (fused) x = fma(a, b, x);                                                   \
                    else x = x + a * b;                                                            \
                }                                                                                  \
                if (g->flags & PPLCONV_BIAS_ROW) x += name##_at(g->bias, m * size);                \
                if (g->flags & PPLCONV_BIAS_COLUMN) x += name##_at(g->bias, n * size);             \
                if (g->flags & PPLCONV_RESIDUAL) {                                                 \
                    x += name##_at(g->residual, m * g->residual_rs + n * size);                    \
                }                                                                                  \
                if (g->flags & PPLCONV_CLIP) {                                                     \
                    const element low = name##_at(g->clip, 0), high = name##_at(g->clip, size);    \
                    if (x < low) x = low;                                                          \
                    if (x > high) x = high;                                                        \
                }                                                                                  \
                out[m * g->n + n] = x;                                                             \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_ORDERED_GEMM(ordered_gemm_f32, float, fmaf)
DEFINE_ORDERED_GEMM(ordered_gemm_f64, double, fma)
