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
                        strip_function *inside, const int size, const int stride,
                        const int planes) {
    const int64_t lanes = LANES / planes;
    struct strip middle;
    set_rows(left, &s->g, first, end, size, stride);
    (left->inside ? inside : edge)(s, left, channel, channel_end);
    for (int64_t column = lanes; column < right->column; column += lanes) {
        set_columns(&middle, &s->g, column, size, stride, planes);
        set_rows(&middle, &s->g, first, end, size, stride);
        (middle.inside ? inside : edge)(s, &middle, channel, channel_end);
    }
    if (right->column > 0) {
        set_rows(right, &s->g, first, end, size, stride);
        (right->inside ? inside : edge)(s, right, channel, channel_end);
    }
}

INLINE void square(const struct planes *s, strip_function *edge, strip_function *inside,
                   const int size, const int stride, const int planes) {
    const int64_t lanes = LANES / planes, all = s->end - s->first;
    /* An image without columns has outputs, if it is padded. */
    const int64_t line = most(s->g.iw, 1) * (int64_t)sizeof(element) * stride;
    int64_t rows = all, channels = s->channels;
    struct strip left, right;
    if (all <= 0 || s->g.ow <= 0) return;
    set_columns(&left, &s->g, 0, size, stride, planes);
    /* The last strip reaches back over what the one before has computed. */
    set_columns(&right, &s->g, most(s->g.ow - lanes, 0), size, stride, planes);
    if (s->g.ow > lanes) {
        const int64_t bands = ceil_of(all, most(NEAR_BYTES / line, LEAST_ROWS));
        rows = ceil_of(all, bands);
        channels = most(NEAR_BYTES / ((line + s->g.ow * (int64_t)sizeof(element)) * all), 1);
    }
    for (int64_t channel = 0; channel < s->channels; channel += channels) {
        const int64_t channel_end = least(channel + channels, s->channels);
        for (int64_t row = s->first; row < s->end; row += rows) {
            square_rows(s, channel, channel_end, row, least(row + rows, s->end), &left, &right,
                        edge, inside, size, stride, planes);
        }
    }
}

/* Functions of their own, so that the compiler need not see them all at once. */
#define STRIP(name, size, stride, edge, n)                                                         \
    static __attribute__((noinline)) void name(const struct planes *s, const struct strip *c,      \
                                               int64_t begin, int64_t end) {                       \
        strip_of(s, c, begin, end, size, stride, edge, n);                                         \
    }
#define SQUARE(size, stride)                                                                       \
    STRIP(edge_##size##_##stride, size, stride, 1, 1)                                              \
    STRIP(inside_##size##_##stride, size, stride, 0, 1)                                            \
    static __attribute__((noinline)) void square_##size##_##stride(const struct planes *s) {       \
        square(s, edge_##size##_##stride, inside_##size##_##stride, size, stride, 1);              \
    }
SQUARE(3, 1)
SQUARE(3, 2)
SQUARE(5, 1)
SQUARE(5, 2)

#if PPLCONV_VECTOR_BYTES == 64
#define SQUARE_PAIRS(size, stride)                                                                 \
    STRIP(pair_##size##_##stride, size, stride, 1, 2)                                              \
    static __attribute__((noinline)) void square_##size##_##stride##_pairs(                        \
        const struct planes *s) {                                                                  \
        square(s, pair_##size##_##stride, pair_##size##_##stride, size, stride, 2);                \
    }
SQUARE_PAIRS(3, 1)
SQUARE_PAIRS(3, 2)
SQUARE_PAIRS(5, 1)
SQUARE_PAIRS(5, 2)
#endif

#endif
