/* GEMM microkernel of narrow types in portable C: the floor of the ladder, and the reference in
 * the tests. KR neighbouring k of a row of A, and of a column of B, lie side by side. Besides the
 * names of template.h it wants MR, NR, KR, PPLCONV_A and PPLCONV_B, the types of elements as they
 * are stored, and PPLCONV_INTEGERS. Integers are multiplied and added up in 32 bits, which wrap
 * around; other elements are bfloat16, widened to float, each product and each sum rounded. */
#include "gemm_tile.h"

#if PPLCONV_INTEGERS
/* Unsigned, since signed numbers may not overflow in C. */
typedef uint32_t number;
#else
typedef float number;
#endif

typedef number numbers __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

#if PPLCONV_INTEGERS
#define WIDENED(x) ((number)(int32_t)(x))
#else
static inline number widened(uint16_t x) {
    const uint32_t bits = (uint32_t)x << 16;
    number value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
#define WIDENED(x) widened(x)
#endif

/* One row of B: element q of each group. */
static inline void widen_row(numbers row[VECTORS], const PPLCONV_B groups[NR][KR], int q) {
    for (int j = 0; j < VECTORS; j++) {
        numbers wide = {0};
        for (int lane = 0; lane < LANES; lane++) wide[lane] = WIDENED(groups[j * LANES + lane][q]);
        row[j] = wide;
    }
}

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
        for (int64_t group = 0; group < (g->k + KR - 1) / KR; group++) {
            const char *a = a_first + group * g->a_ks;
            PPLCONV_B b[NR][KR] = {{0}};
            memcpy(b, b_first + group * g->b_ks, whole ? sizeof b : (size_t)n * sizeof b[0]);
            PPLCONV_A rows[MR][KR];
            for (int m = 0; m < MR; m++) memcpy(rows[m], a + m * g->a_rs, sizeof rows[m]);
            for (int q = 0; q < KR; q++) {
                numbers row[VECTORS];
                widen_row(row, (const PPLCONV_B(*)[KR])b, q);
                for (int m = 0; m < MR; m++) {
                    const number x = WIDENED(rows[m][q]);
                    for (int j = 0; j < VECTORS; j++) {
                        acc[m][j] = (vector)((numbers)acc[m][j] + x * row[j]);
                    }
                }
            }
        }
    }

#if PPLCONV_INTEGERS
    /* `requantize` does the rest of the epilogue. */
    for (int m = 0; m < MR; m++) store_row(g, m, acc[m]);
#else
    finish_tile(g, acc);
#endif
}
