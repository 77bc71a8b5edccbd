/* The GEMM contract word by word, one element at a time: a chain over the segments in order, and
 * in each over ascending k, that starts from zero or from C; then bias, residual, clip. `lanes`
 * is how many columns a vector of C and of the residual holds. `fused` picks one rounding per
 * step (what an FMA does) or two (a multiply and an add). Kernels that keep the order give these
 * bits. */
#include <math.h>
#include <string.h>

#include "flush.h"
#include "pplconv_kernels.h"

#define DEFINE_ORDERED_GEMM(name, element, fma)                                                    \
    static element name##_at(const void *base, int64_t bytes) {                                    \
        element x;                                                                                 \
        memcpy(&x, (const char *)base + bytes, sizeof x);                                          \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    static element name##_chain(const struct pplconv_gemm_args *g, int64_t a, int64_t b,           \
                                int64_t fused, element x) {                                        \
        for (int64_t k = 0; k < g->k; k++) {                                                       \
            const element left = name##_at(g->a, a + k * g->a_ks);                                 \
            const element right = name##_at(g->b, b + k * g->b_ks);                                \
            if (fused) x = fma(left, right, x);                                                    \
            else x = x + left * right;                                                             \
        }                                                                                          \
        return x;                                                                                  \
    }                                                                                              \
                                                                                                   \
    BETWEEN void name##_all(const struct pplconv_gemm_args *g, int64_t mr, int64_t lanes,          \
                            int64_t fused, element *out) {                                         \
        const int64_t size = sizeof(element);                                                      \
        const struct pplconv_segment *segments = g->segments;                                      \
        for (int64_t m = 0; m < mr; m++) {                                                         \
            for (int64_t n = 0; n < g->n; n++) {                                                   \
                const int64_t a = m * g->a_rs, b = n * size;                                       \
                const int64_t vector = n / lanes, lane = n % lanes * size;                         \
                element x = 0;                                                                     \
                if (g->flags & PPLCONV_ACCUMULATE) {                                               \
                    x = name##_at(g->c, m * g->c_rs + vector * g->c_vs + lane);                    \
                }                                                                                  \
                if (!g->segment_count) x = name##_chain(g, a, b, fused, x);                        \
                for (int64_t s = 0; s < g->segment_count; s++) {                                   \
                    x = name##_chain(g, a + segments[s].a, b + segments[s].b, fused, x);           \
                }                                                                                  \
                if (g->flags & PPLCONV_BIAS_ROW) x += name##_at(g->bias, m * size);                \
                if (g->flags & PPLCONV_BIAS_COLUMN) x += name##_at(g->bias, n * size);             \
                if (g->flags & PPLCONV_RESIDUAL) {                                                 \
                    const int64_t row = m * g->residual_rs;                                        \
                    x += name##_at(g->residual, row + vector * g->residual_vs + lane);             \
                }                                                                                  \
                if (g->flags & PPLCONV_CLIP) {                                                     \
                    const element low = name##_at(g->clip, 0), high = name##_at(g->clip, size);    \
                    if (x < low) x = low;                                                          \
                    if (x > high) x = high;                                                        \
                }                                                                                  \
                out[m * g->n + n] = x;                                                             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    void name(const struct pplconv_gemm_args *g, int64_t mr, int64_t lanes, int64_t fused,         \
              element *out) {                                                                      \
        const uint32_t mode = begin_flushing(fused);                                               \
        name##_all(g, mr, lanes, fused, out);                                                      \
        end_flushing(mode);                                                                        \
    }

DEFINE_ORDERED_GEMM(ordered_gemm_f32, float, fmaf)
DEFINE_ORDERED_GEMM(ordered_gemm_f64, double, fma)
