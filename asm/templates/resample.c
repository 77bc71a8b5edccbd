/* Resampling of pixels whose channels lie side by side: weighted sums of a few pixels of a few
 * rows, the largest weighted ones, or copies of pixels. */
#include "copied_pixels.h"
#include "row_tools.h"

/* Vectors of channels that go together. */
enum { TOGETHER = 4 };

/* `count` vectors of a pixel, at these byte offsets; a part of one vector if there is no whole
 * one. */
struct piece {
    int64_t at[TOGETHER], channels;
    int count, part;
};

INLINE vector load_piece(const struct piece *c, const char *pixel, int v) {
    const storage *p = (const storage *)(pixel + c->at[v]);
    return c->part ? load_storage_lanes(p, c->channels) : load_storage(p);
}

/* The compiler drops a subtraction of zero, which changes no number. It would keep an addition of
 * zero, which turns -0 into 0. */
INLINE vector in_all_lanes(element x) { return x - (vector){0}; }

INLINE void weighted_row(const struct piece *c, const char *row, const int64_t *offset,
                         const element *weight, int64_t taps, vector sum[TOGETHER]) {
    const vector first = in_all_lanes(weight[0]);
    UNROLL for (int v = 0; v < c->count; v++)
        sum[v] = first * load_piece(c, row + offset[0], v);
    for (int64_t x = 1; x < taps; x++) {
        const char *pixel = row + offset[x];
        const vector w = in_all_lanes(weight[x]);
        UNROLL for (int v = 0; v < c->count; v++)
            sum[v] = multiply_add(w, load_piece(c, pixel, v), sum[v]);
    }
}

INLINE void resample(const struct pplconv_resample_args *a, int64_t pixel, int64_t first, int count,
                     int part) {
    const char *const *rows = a->rows;
    const int64_t *offset = (const int64_t *)a->offset_x + pixel * a->taps_x;
    const element *weight_x = (const element *)a->weight_x + pixel * a->taps_x;
    const element *weight_y = a->weight_y;
    struct piece c = {.channels = a->channels, .count = count, .part = part};
    vector sum[TOGETHER], out[TOGETHER];
    UNROLL for (int v = 0; v < count; v++) {
        /* The last vector reaches back where it would not be whole. */
        const int64_t channel = first + v * LANES, last = part ? 0 : a->channels - LANES;
        c.at[v] = (channel < last ? channel : last) * (int64_t)sizeof(storage);
    }
    weighted_row(&c, rows[0], offset, weight_x, a->taps_x, out);
    UNROLL for (int v = 0; v < count; v++)
        out[v] *= in_all_lanes(weight_y[0]);
    for (int64_t y = 1; y < a->taps_y; y++) {
        const vector w = in_all_lanes(weight_y[y]);
        weighted_row(&c, rows[y], offset, weight_x, a->taps_x, sum);
        UNROLL for (int v = 0; v < count; v++)
            out[v] = multiply_add(w, sum[v], out[v]);
    }
    UNROLL for (int v = 0; v < count; v++) {
        storage *p = AT(storage, a->dst, pixel * a->dst_ps + c.at[v]);
        if (part) store_storage_lanes(p, out[v], a->channels);
        else store_storage(p, out[v]);
    }
}

/* A vector of channels of a pixel, the largest one of weighted taps. */
INLINE void largest(const struct pplconv_resample_args *a, int64_t pixel, int64_t at, int part) {
    const char *const *rows = a->rows;
    const int64_t *offset = (const int64_t *)a->offset_x + pixel * a->taps_x;
    const element *weight_x = (const element *)a->weight_x + pixel * a->taps_x;
    const element *weight_y = a->weight_y;
    const struct piece c = {.at = {at}, .channels = a->channels, .count = 1, .part = part};
    struct extreme e = no_extreme(1);
    for (int64_t y = 0; y < a->taps_y; y++) {
        for (int64_t x = 0; x < a->taps_x; x++) {
            const vector w = in_all_lanes(weight_y[y] * weight_x[x]);
            const vector weighted = w * load_piece(&c, rows[y] + offset[x], 0);
            take(&e, weighted, weighted, 1);
        }
    }
    storage *p = AT(storage, a->dst, pixel * a->dst_ps + at);
    if (part) store_storage_lanes(p, found(&e), a->channels);
    else store_storage(p, found(&e));
}

static void largest_pixels(const struct pplconv_resample_args *a) {
    const int64_t size = (int64_t)sizeof(storage), last = a->channels - LANES;
    for (int64_t p = 0; p < a->pixels; p++) {
        if (last < 0) largest(a, p, 0, 1);
        for (int64_t c = 0; last >= 0 && c < a->channels; c += LANES)
            largest(a, p, (c < last ? c : last) * size, 0);
    }
}

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_resample_args *a = argument;
    const int64_t vectors = (a->channels + LANES - 1) / LANES;
    const int64_t pixels = a->channels > 0 ? a->pixels : 0;
    const int copies = a->taps_y == 1 && a->taps_x == 1;
    const int sums = !copies && a->kind == PPLCONV_POOL_SUM;
    if (copies && pixels > 0) copy_pixels(a, sizeof(storage));
    else if (!sums && pixels > 0) largest_pixels(a);
    for (int64_t p = 0; p < pixels && sums; p++) {
        if (a->channels < LANES) {
            resample(a, p, 0, 1, 1);
            continue;
        }
        int64_t v = 0;
        for (; v + 4 <= vectors; v += 4) resample(a, p, v * LANES, 4, 0);
        if (v + 2 <= vectors) {
            resample(a, p, v * LANES, 2, 0);
            v += 2;
        }
        if (v < vectors) resample(a, p, v * LANES, 1, 0);
    }
    clean_registers();
}
