/* Depthwise convolution of planes with a square kernel, strip by strip. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_SQUARE_H
#define PPLCONV_DEPTHWISE_PIXELS_SQUARE_H

#include "depthwise_pixels_strip.h"

/* The lines that the strips of a plane, or of several planes, share are to stay in L1 meanwhile.
 * Stored outputs count only where several planes go together. */
enum { NEAR_BYTES = 32768, LEAST_ROWS = 8 };

typedef void strip_function(const struct planes *s, const struct strip *c, int64_t begin,
                            int64_t end);

/* Output rows first .. end - 1 of some planes; `edge` and `inside` compute a strip of them. */
INLINE void square_rows(const struct planes *s, int64_t channel, int64_t channel_end, int64_t first,
                        int64_t end, struct strip *left, struct strip *right, strip_function *edge,
                        strip_function *inside, const int size, const int down, const int across,
                        const int planes) {
    const int64_t lanes = LANES / planes;
    struct strip middle;
    set_rows(left, &s->g, first, end, size, down);
    (left->inside ? inside : edge)(s, left, channel, channel_end);
    for (int64_t column = lanes; column < right->column; column += lanes) {
        set_columns(&middle, &s->g, column, size, across, planes);
        set_rows(&middle, &s->g, first, end, size, down);
        (middle.inside ? inside : edge)(s, &middle, channel, channel_end);
    }
    if (right->column > 0) {
        set_rows(right, &s->g, first, end, size, down);
        (right->inside ? inside : edge)(s, right, channel, channel_end);
    }
}

INLINE void square(const struct planes *s, strip_function *edge, strip_function *inside,
                   const int size, const int down, const int across, const int planes) {
    const int64_t lanes = LANES / planes, all = s->end - s->first;
    /* An image without columns has outputs, if it is padded. */
    const int64_t line = most(s->g.iw, 1) * (int64_t)sizeof(element) * down;
    int64_t rows = all, channels = s->channels;
    struct strip left, right;
    if (all <= 0 || s->g.ow <= 0) return;
    set_columns(&left, &s->g, 0, size, across, planes);
    /* The last strip reaches back over what the one before has computed. */
    set_columns(&right, &s->g, most(s->g.ow - lanes, 0), size, across, planes);
    if (s->g.ow > lanes) {
        const int64_t bands = ceil_of(all, most(NEAR_BYTES / line, LEAST_ROWS));
        rows = ceil_of(all, bands);
        channels = most(NEAR_BYTES / ((line + s->g.ow * (int64_t)sizeof(element)) * all), 1);
    }
    for (int64_t channel = 0; channel < s->channels; channel += channels) {
        const int64_t channel_end = least(channel + channels, s->channels);
        for (int64_t row = s->first; row < s->end; row += rows) {
            square_rows(s, channel, channel_end, row, least(row + rows, s->end), &left, &right,
                        edge, inside, size, down, across, planes);
        }
    }
}

/* Functions of their own, so that the compiler need not see them all at once. */
#define STRIP(name, size, down, across, edge, n)                                                   \
    static __attribute__((noinline)) void name(const struct planes *s, const struct strip *c,      \
                                               int64_t begin, int64_t end) {                       \
        strip_of(s, c, begin, end, size, down, across, edge, n);                                   \
    }
#define SQUARE(name, size, down, across)                                                           \
    STRIP(edge_##name, size, down, across, 1, 1)                                                   \
    STRIP(inside_##name, size, down, across, 0, 1)                                                 \
    static __attribute__((noinline)) void square_##name(const struct planes *s) {                  \
        square(s, edge_##name, inside_##name, size, down, across, 1);                              \
    }
SQUARE(3_1, 3, 1, 1)
SQUARE(3_2, 3, 2, 2)
SQUARE(5_1, 5, 1, 1)
SQUARE(5_2, 5, 2, 2)
#if SELDOM_SQUARES
SQUARE(3_down, 3, 2, 1)
#endif

typedef void square_function(const struct planes *s);

#if PPLCONV_VECTOR_BYTES == 64
#define SQUARE_PAIRS(size, stride)                                                                 \
    STRIP(pair_##size##_##stride, size, stride, stride, 1, 2)                                      \
    static __attribute__((noinline)) void square_##size##_##stride##_pairs(                        \
        const struct planes *s) {                                                                  \
        square(s, pair_##size##_##stride, pair_##size##_##stride, size, stride, stride, 2);        \
    }
SQUARE_PAIRS(3, 1)
SQUARE_PAIRS(3, 2)
SQUARE_PAIRS(5, 1)
SQUARE_PAIRS(5, 2)

/* The function for pairs of planes, whose rows fill less than half a vector; null if there is none.
 */
static square_function *pairs_of(const struct pplconv_geometry *g) {
    if (2 * g->ow > LANES || g->stride_h != g->stride_w) return 0;
    if (g->kh == 3) return g->stride_h == 1 ? square_3_1_pairs : square_3_2_pairs;
    return g->stride_h == 1 ? square_5_1_pairs : square_5_2_pairs;
}
#endif

/* The function for a geometry; null if there is none. */
static square_function *square_of(const struct planes *s) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t size = g->kh, down = g->stride_h, across = g->stride_w;
    if (size != g->kw || g->dilation_h != 1 || g->dilation_w != 1) return 0;
    if ((size != 3 && size != 5) || down > 2 || across > 2) return 0;
#if PPLCONV_VECTOR_BYTES == 64
    square_function *const pairs = s->multiplier == 1 ? pairs_of(g) : 0;
    if (pairs) return pairs;
#endif
    if (size == 3 && down == across) return down == 1 ? square_3_1 : square_3_2;
    if (down == across) return down == 1 ? square_5_1 : square_5_2;
#if SELDOM_SQUARES
    if (size == 3 && down == 2) return square_3_down;
#endif
    return 0;
}

#endif
