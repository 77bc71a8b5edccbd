/* im2col from channel planes, as the tiled im2col of the OpenPPL Arm Server slides: a panel
 * of output pixels at a time, k = (channel, tap) down, pixels across. Where a pixel comes
 * from is the same for every channel, so the caller makes a table of runs once per segment
 * (pplconv_pixel_runs) and this loop only follows it: no bounds are checked per element. */
#include "lanes.h"

#if PPLCONV_VECTOR_BYTES == 64

static inline vector combine(vector a, vector b) {
    return (vector)((vector_bits)a | (vector_bits)b);
}

static inline vector load_run(const element *src, const struct pplconv_run *run, int64_t stride) {
    if (stride == 1) return load_masked(src + run->offset, run->mask);
    /* stride 2: every second element of two neighbouring vectors */
    const element *p = src + run->offset;
#if PPLCONV_F64
    const uint32_t m = _pdep_u32(run->mask, 0x5555u);
    const vector_bits even = {0, 2, 4, 6, 8, 10, 12, 14};
#else
    const uint32_t m = _pdep_u32(run->mask, 0x55555555u);
    const vector_bits even = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
#endif
    const vector lo = load_masked(p, (lane_mask)(m & ((1u << LANES) - 1u)));
    const vector hi = load_masked(p + LANES, (lane_mask)(m >> LANES));
    return __builtin_shuffle(lo, hi, even);
}
enum { LARGEST_VECTOR_STRIDE = 2 };

#elif PPLCONV_VECTOR_BYTES == 32

static inline vector combine(vector a, vector b) {
    return (vector)((vector_bits)a | (vector_bits)b);
}

static inline vector load_run(const element *src, const struct pplconv_run *run, int64_t stride) {
    (void)stride;
    const element *p = src + run->offset;
    if (run->length == LANES) return *(const unaligned_vector *)p;
    return load_masked(p, lanes_between(run->start, run->start + run->length));
}
enum { LARGEST_VECTOR_STRIDE = 1 };

#else
enum { LARGEST_VECTOR_STRIDE = 0 };
#endif

static inline void copy_runs(element *dst, const element *src, const struct pplconv_run *run,
                             int64_t runs, int64_t stride) {
    memset(dst, 0, PPLCONV_VECTOR_BYTES);
    for (int64_t r = 0; r < runs; r++, run++) {
        const element *p = src + run->offset + run->start * stride;
        for (int i = 0; i < run->length; i++) dst[run->start + i] = p[i * stride];
    }
}

static inline __attribute__((always_inline)) void pack(const struct pplconv_pack_pixels_args *a,
                                                       int64_t runs, int64_t stride,
                                                       int vectorized) {
    const int64_t width = a->panel_vectors * LANES;
    const int64_t vectors = a->panels * a->panel_vectors;
    for (int64_t c = 0; c < a->channels; c++) {
        const element *src = AT_CONST(element, a->src, c * a->src_cs);
        for (int64_t p = 0; p < a->panels; p++) {
            element *dst = AT(element, a->dst, p * a->dst_ps) + c * a->taps * width;
            for (int64_t t = 0; t < a->taps; t++) {
                const struct pplconv_run *run =
                    (const struct pplconv_run *)a->runs + (t * vectors + p * a->panel_vectors) * runs;
                for (int64_t v = 0; v < a->panel_vectors; v++, dst += LANES, run += runs) {
#if PPLCONV_VECTOR_BYTES >= 32
                    if (vectorized) {
                        vector x = load_run(src, run, stride);
                        for (int64_t r = 1; r < runs; r++) {
                            x = combine(x, load_run(src, run + r, stride));
                        }
                        *(vector *)dst = x;
                        continue;
                    }
#endif
                    (void)vectorized;
                    copy_runs(dst, src, run, runs, stride);
                }
            }
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pack_pixels_args *a = argument;
    const int64_t runs = a->runs_per_vector, stride = a->stride;
    if (stride > LARGEST_VECTOR_STRIDE) {
        pack(a, runs, stride, 0);
    } else if (stride == 1 && runs == 1) {
        pack(a, 1, 1, 1);
    } else if (stride == 1 && runs == 2) {
        pack(a, 2, 1, 1);
    } else if (stride == 2 && runs == 1) {
        pack(a, 1, 2, 1);
    } else if (stride == 2 && runs == 2) {
        pack(a, 2, 2, 1);
    } else {
        pack(a, runs, stride, 1);
    }
}
