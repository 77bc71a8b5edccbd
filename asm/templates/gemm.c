/* GEMM microkernel in portable C: the floor of the ladder, and the reference in the tests.
 * Besides the names of template.h it wants MR and NR. The compiler's baseline vectors serve
 * as registers; multiply and add stay two roundings (the build forbids contraction). */
#include "template.h"

enum { VECTORS = NR / LANES };

/* Bytes of vector j that the first n columns reach into. */
static inline size_t bytes_within(int64_t n, int j) {
    const int64_t lanes = n - j * LANES;
    return (size_t)(lanes < 0 ? 0 : lanes < LANES ? lanes : LANES) * sizeof(element);
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_gemm_args *g = argument;
    const int64_t n = g->n;
    vector acc[MR][VECTORS];

    for (int m = 0; m < MR; m++) {
        for (int j = 0; j < VECTORS; j++) {
            vector x = {0};
            if (g->flags & PPLCONV_ACCUMULATE) {
                memcpy(&x, AT_CONST(char, g->c, m * g->c_rs + j * g->c_vs), bytes_within(n, j));
            }
            acc[m][j] = x;
        }
    }

    const int whole = n == NR || (g->flags & PPLCONV_B_PADDED);
    const struct pplconv_segment nowhere = {0, 0};
    const struct pplconv_segment *segment = g->segment_count > 0 ? g->segments : &nowhere;
    const struct pplconv_segment *end = segment + (g->segment_count > 0 ? g->segment_count : 1);
    for (; segment < end; segment++) {
        const char *a_first = AT_CONST(char, g->a, segment->a);
        const char *b_first = AT_CONST(char, g->b, segment->b);
        for (int64_t k = 0; k < g->k; k++) {
            const char *a = a_first + k * g->a_ks;
            const char *b_row = b_first + k * g->b_ks;
            vector b[VECTORS];
            if (whole) {
                memcpy(b, b_row, sizeof b);
            } else {
                element row[NR] = {0};
                memcpy(row, b_row, (size_t)n * sizeof(element));
                memcpy(b, row, sizeof b);
            }
            for (int m = 0; m < MR; m++) {
                element x;
                memcpy(&x, a + m * g->a_rs, sizeof x);
                for (int j = 0; j < VECTORS; j++) acc[m][j] += x * b[j];
            }
        }
    }

    for (int m = 0; m < MR; m++) {
        element row[NR];
        memcpy(row, acc[m], sizeof row);
        for (int64_t i = 0; i < n; i++) {
            element x = row[i], other;
            if (g->flags & (PPLCONV_BIAS_ROW | PPLCONV_BIAS_COLUMN)) {
                const int64_t index = g->flags & PPLCONV_BIAS_ROW ? m : i;
                memcpy(&other, AT_CONST(char, g->bias, index *(int64_t)sizeof x), sizeof other);
                x += other;
            }
            if (g->flags & PPLCONV_RESIDUAL) {
                const int64_t vector_begin = m * g->residual_rs + i / LANES * g->residual_vs;
                const int64_t lane = i % LANES * (int64_t)sizeof x;
                memcpy(&other, AT_CONST(char, g->residual, vector_begin + lane), sizeof other);
                x += other;
            }
            if (g->flags & PPLCONV_CLIP) {
                element clip[2];
                memcpy(clip, g->clip, sizeof clip);
                x = x < clip[0] ? clip[0] : x;
                x = x > clip[1] ? clip[1] : x;
            }
            row[i] = x;
        }
        for (int j = 0; j < VECTORS; j++) {
            char *c = AT(char, g->c, m * g->c_rs + j * g->c_vs);
            memcpy(c, row + j * LANES, bytes_within(n, j));
        }
    }
}
