/* Products with sparse weights whose vectors run over output channels, in portable C: the floor of
 * the ladder, and the reference in the tests. Multiply and add stay two roundings. */
#define PPLCONV_TILE_ARGS struct pplconv_sparse_channels_args
#include "gemm_tile.h"

/* One panel, whose terms are `steps` and `values`. */
static void multiply_panel(const tile_args *g, int64_t count, const int32_t *steps,
                           const char *values) {
    vector acc[MR][VECTORS];
    load_tile(g, acc);

    const char *x = g->x;
    for (int64_t i = 0; i < count; i++) {
        vector weights[VECTORS];
        x += steps[i] * g->x_ks;
        memcpy(weights, values + i * (int64_t)sizeof weights, sizeof weights);
        for (int m = 0; m < MR; m++) {
            element pixel;
            memcpy(&pixel, x + m * g->x_rs, sizeof pixel);
            for (int j = 0; j < VECTORS; j++) acc[m][j] += pixel * weights[j];
        }
    }

    finish_tile(g, acc);
}

enum { WIDTH = NR, WEIGHT_BYTES = sizeof(element) };

#include "sparse_panels.h"
