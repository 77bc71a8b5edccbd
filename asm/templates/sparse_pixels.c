/* Products with sparse weights whose vectors run over pixels, in portable C: the floor of the
 * ladder, and the reference in the tests. Multiply and add stay two roundings. */
#define PPLCONV_TILE_ARGS struct pplconv_sparse_pixels_args
#include "gemm_tile.h"

/* One panel, whose terms are `steps` and `values`. */
static void multiply_panel(const tile_args *g, int64_t count, const int32_t *steps,
                           const char *values) {
    const int64_t n = g->n;
    vector acc[MR][VECTORS];
    load_tile(g, acc);

    const int whole = n == NR || (g->flags & PPLCONV_B_PADDED);
    const char *x = g->x;
    for (int64_t i = 0; i < count; i++) {
        element weights[MR], row[NR] = {0};
        vector pixels[VECTORS];
        x += steps[i] * g->x_ks;
        memcpy(weights, values + i * (int64_t)sizeof weights, sizeof weights);
        memcpy(row, x, whole ? sizeof row : (size_t)n * sizeof(element));
        memcpy(pixels, row, sizeof pixels);
        for (int m = 0; m < MR; m++) {
            for (int j = 0; j < VECTORS; j++) acc[m][j] += weights[m] * pixels[j];
        }
    }

    finish_tile(g, acc);
}

enum { WIDTH = MR, WEIGHT_BYTES = sizeof(element) };

#include "sparse_panels.h"
