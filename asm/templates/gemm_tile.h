/* The edges of a GEMM tile in portable C: C into vectors, the epilogue, and the one store.
 * Besides the names of template.h it wants MR and NR. A tile of another operation than GEMM defines
 * PPLCONV_TILE_ARGS: a struct whose members have the names of GEMM's members. */
#ifndef PPLCONV_GEMM_TILE_H
#define PPLCONV_GEMM_TILE_H

#include "template.h"

#ifndef PPLCONV_TILE_ARGS
#define PPLCONV_TILE_ARGS struct pplconv_gemm_args
#endif

typedef PPLCONV_TILE_ARGS tile_args;

enum { VECTORS = NR / LANES };

/* Bytes of vector j that the first n columns reach into. */
static inline size_t bytes_within(int64_t n, int j) {
    const int64_t lanes = n - j * LANES;
    return (size_t)(lanes < 0 ? 0 : lanes < LANES ? lanes : LANES) * sizeof(element);
}

/* Start the sums from zero or from C. */
static inline void load_tile(const tile_args *g, vector acc[MR][VECTORS]) {
    for (int m = 0; m < MR; m++) {
        for (int j = 0; j < VECTORS; j++) {
            vector x = {0};
            if (g->flags & PPLCONV_ACCUMULATE) {
                memcpy(&x, AT_CONST(char, g->c, m * g->c_rs + j * g->c_vs), bytes_within(g->n, j));
            }
            acc[m][j] = x;
        }
    }
}

/* Store row m of C. */
static inline void store_row(const tile_args *g, int m, const void *row) {
    for (int j = 0; j < VECTORS; j++) {
        char *c = AT(char, g->c, m * g->c_rs + j * g->c_vs);
        memcpy(c, (const char *)row + j * PPLCONV_VECTOR_BYTES, bytes_within(g->n, j));
    }
}

/* Bias, residual, clip, and the store. */
static inline void finish_tile(const tile_args *g, vector acc[MR][VECTORS]) {
    for (int m = 0; m < MR; m++) {
        element row[NR];
        memcpy(row, acc[m], sizeof row);
        for (int64_t i = 0; i < g->n; i++) {
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
        store_row(g, m, row);
    }
}

#endif
