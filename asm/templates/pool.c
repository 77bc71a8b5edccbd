/* Pooling of channels that lie side by side: several vectors of channels go over all taps in
 * registers, and each tap is loaded once. */
#include "row_tools.h"

/* Vectors of channels that go together. */
enum { TOGETHER = 4 };

INLINE vector load_at(const char *p, int part, int64_t n) {
    return part ? load_storage_lanes((const storage *)p, n) : load_storage((const storage *)p);
}

/* Sums along a row of taps and then over rows: a chain is no longer than both together. */
INLINE void sum_taps(const struct pplconv_pool_args *a, const char *src, const int64_t at[TOGETHER],
                     int count, int part, vector out[TOGETHER]) {
    UNROLL for (int v = 0; v < count; v++)
        out[v] = (vector){0};
    for (int64_t i = 0; i < a->rows; i++) {
        const char *tap = src + i * a->src_rs;
        vector sum[TOGETHER];
        UNROLL for (int v = 0; v < count; v++)
            sum[v] = load_at(tap + at[v], part, a->channels);
        for (int64_t j = 1; j < a->columns; j++) {
            tap += a->src_cs;
            UNROLL for (int v = 0; v < count; v++)
                sum[v] += load_at(tap + at[v], part, a->channels);
        }
        UNROLL for (int v = 0; v < count; v++) {
            if (i) out[v] += sum[v];
            else out[v] = sum[v];
        }
    }
}

INLINE void largest_taps(const struct pplconv_pool_args *a, const char *src,
                         const int64_t at[TOGETHER], int count, int part, vector out[TOGETHER]) {
    struct extreme e[TOGETHER];
    UNROLL for (int v = 0; v < count; v++)
        e[v] = no_extreme(1);
    for (int64_t i = 0; i < a->rows; i++) {
        const char *tap = src + i * a->src_rs;
        int64_t j = 0;
        for (; j + 2 <= a->columns; j += 2, tap += 2 * a->src_cs) {
            UNROLL for (int v = 0; v < count; v++)
                take(&e[v], load_at(tap + at[v], part, a->channels),
                     load_at(tap + a->src_cs + at[v], part, a->channels), 1);
        }
        if (j < a->columns) {
            UNROLL for (int v = 0; v < count; v++) {
                const vector x = load_at(tap + at[v], part, a->channels);
                take(&e[v], x, x, 1);
            }
        }
    }
    UNROLL for (int v = 0; v < count; v++)
        out[v] = found(&e[v]);
}

/* `count` vectors of a pixel, from channel `first` on. The last vector of a pixel reaches back if
 * it would not be whole; a pixel of less than a vector is a part of one. */
INLINE void pool(const struct pplconv_pool_args *a, int64_t pixel, int64_t first, int count,
                 int part, int kind, vector scale) {
    const char *src = AT_CONST(char, a->src, pixel * a->src_ps);
    char *dst = AT(char, a->dst, pixel * a->dst_ps);
    int64_t at[TOGETHER];
    vector out[TOGETHER];
    UNROLL for (int v = 0; v < count; v++) {
        const int64_t channel = first + v * LANES, last = part ? 0 : a->channels - LANES;
        at[v] = (channel < last ? channel : last) * (int64_t)sizeof(storage);
    }
    if (kind == PPLCONV_POOL_MAX) largest_taps(a, src, at, count, part, out);
    else sum_taps(a, src, at, count, part, out);
    UNROLL for (int v = 0; v < count; v++) {
        if (kind == PPLCONV_POOL_SUM) out[v] *= scale;
        if (part) store_storage_lanes((storage *)(dst + at[v]), out[v], a->channels);
        else store_storage((storage *)(dst + at[v]), out[v]);
    }
}

INLINE void pool_pixels(const struct pplconv_pool_args *a, int kind, vector scale) {
    if (a->channels <= 0) return;
    if (a->channels < LANES) {
        for (int64_t p = 0; p < a->pixels; p++) pool(a, p, 0, 1, 1, kind, scale);
        return;
    }
    const int64_t vectors = (a->channels + LANES - 1) / LANES;
    for (int64_t p = 0; p < a->pixels; p++) {
        for (int64_t v = 0; v < vectors;) {
            /* Five to seven vectors go in two nearly equal parts: one chain alone would wait. */
            const int64_t left = vectors - v;
            const int64_t count = left >= 8 ? 4 : left > 4 ? (left + 1) / 2 : left;
            const int64_t first = v * LANES;
            if (count == 4) pool(a, p, first, 4, 0, kind, scale);
            else if (count == 3) pool(a, p, first, 3, 0, kind, scale);
            else if (count == 2) pool(a, p, first, 2, 0, kind, scale);
            else pool(a, p, first, 1, 0, kind, scale);
            v += count;
        }
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pool_args *a = argument;
    const vector zero = {0};
    if (a->kind == PPLCONV_POOL_MAX) pool_pixels(a, PPLCONV_POOL_MAX, zero);
    else if (a->pixels > 0)
        pool_pixels(a, PPLCONV_POOL_SUM, zero + (element) * (const double *)a->scale);
    clean_registers();
}
