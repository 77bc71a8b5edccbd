/* Products with sparse weights of narrow integers whose vectors run over pixels, in portable C: the
 * floor of the ladder, and the reference in the tests. KR terms are taken together, of which the
 * weights of one channel lie side by side. Besides the names of template.h it wants MR, NR, KR,
 * PPLCONV_A and PPLCONV_B, the types of pixels and weights as they are stored. Products are added
 * up in 32 bits, which wrap around. */
#define PPLCONV_TILE_ARGS struct pplconv_sparse_pixels_args
#include "gemm_tile.h"

/* Unsigned, since signed numbers may not overflow in C. */
typedef uint32_t number;
typedef number numbers __attribute__((vector_size(PPLCONV_VECTOR_BYTES), may_alias));

/* Pixels of one term as numbers of 32 bits. */
static inline void widen_pixels(numbers row[VECTORS], const PPLCONV_A pixels[NR]) {
    for (int j = 0; j < VECTORS; j++) {
        numbers wide = {0};
        for (int lane = 0; lane < LANES; lane++) {
            wide[lane] = (number)(int32_t)pixels[j * LANES + lane];
        }
        row[j] = wide;
    }
}

/* One panel, whose terms are `steps` and `values`. */
static void multiply_panel(const tile_args *g, int64_t count, const int32_t *steps,
                           const char *values) {
    const int64_t n = g->n;
    vector acc[MR][VECTORS];
    load_tile(g, acc);

    const int whole = n == NR || (g->flags & PPLCONV_B_PADDED);
    const char *x = g->x;
    for (int64_t i = 0; i < count; i += KR) {
        PPLCONV_B weights[MR][KR];
        memcpy(weights, values, sizeof weights);
        values += sizeof weights;
        for (int q = 0; q < KR; q++) {
            PPLCONV_A pixels[NR] = {0};
            numbers row[VECTORS];
            x += steps[i + q] * g->x_ks;
            memcpy(pixels, x, whole ? sizeof pixels : (size_t)n * sizeof pixels[0]);
            widen_pixels(row, pixels);
            for (int m = 0; m < MR; m++) {
                const number weight = (number)(int32_t)weights[m][q];
                for (int j = 0; j < VECTORS; j++) {
                    acc[m][j] = (vector)((numbers)acc[m][j] + weight * row[j]);
                }
            }
        }
    }

    /* `requantize` does the rest of the epilogue. */
    for (int m = 0; m < MR; m++) store_row(g, m, acc[m]);
}

enum { WIDTH = MR, WEIGHT_BYTES = sizeof(PPLCONV_B) };

#include "sparse_panels.h"
