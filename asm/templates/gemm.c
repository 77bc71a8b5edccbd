/* GEMM microkernel in portable C: the floor of the ladder, and the reference in the tests.
 * Besides the names of template.h it wants MR and NR. The compiler's baseline vectors serve
 * as registers; multiply and add stay two roundings (the build forbids contraction). */
#include "gemm_tile.h"

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_gemm_args *g = argument;
    const int64_t n = g->n;
    vector acc[MR][VECTORS];
    load_tile(g, acc);

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

    finish_tile(g, acc);
}
