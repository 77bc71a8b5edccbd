/* Depthwise convolution of planes with a square kernel: a vector of output columns in a few rows
 * at a time. The shifted loads of an input row serve all those output rows at once. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_SQUARE_H
#define PPLCONV_DEPTHWISE_PIXELS_SQUARE_H

#include "depthwise_pixels.h"

enum { ROWS = 7 };

/* Where products can be merged by a mask, lanes whose tap lies outside the image keep their sum.
 * Elsewhere such a tap reads 0 with a weight of -0: the product -0 changes no sum. */
enum { MERGES = PPLCONV_VECTOR_BYTES == 64 };

/* NEON of AArch64 multiplies by a lane. Where a register for each weight is too many, the weights
 * of vectors that lie inside the image share a few: packed_in of them. */
#if defined(__aarch64__)
enum { MULTIPLIES_BY_LANE = PPLCONV_NEON };
#else
enum { MULTIPLIES_BY_LANE = 0 };
#endif
INLINE int packed_in(const int size) {
    return MULTIPLIES_BY_LANE && size > 3 ? (size * size + LANES - 1) / LANES : 0;
}

/* A vector of output columns. Folded: of one output row and of the next. */
struct columns {
    int64_t column, count;          /* first, and how many exist */
    int64_t start;                  /* input column of tap 0 of lane 0 */
    int64_t safe_first, safe_count; /* input rows in which whole vectors may be loaded */
    int inside;                     /* all lanes exist and read the image only */
    lane_mask tap[LARGEST_SIZE];    /* lanes whose tap lies inside */
#if PPLCONV_NEON
    struct window low[LARGEST_SIZE], high[LARGEST_SIZE]; /* stride 2: the second of two loads */
#else
    lane_mask low[LARGEST_SIZE], high[LARGEST_SIZE]; /* stride 2: the same of the two loads */
#endif
    lane_mask upper, lower; /* folded: lanes of either row */
};

/* Elements from `start` on that the loads of a whole vector touch: with two vectors and four
 * elements, see load_taps, a few more than the taps want. */
INLINE int64_t span_of(const int size, const int stride) {
    if (stride == 2 && PPLCONV_VECTOR_BYTES == 64) return 2 * LANES + 4;
    return stride * LANES + size - 1;
}

static inline struct columns columns_at(const struct pplconv_geometry *g, int64_t column,
                                        const int size, const int stride, const int folded) {
    struct columns c = {0};
    const int64_t span = span_of(size, stride);
    c.column = column;
    c.count = folded ? 2 * g->ow : least(g->ow - column, LANES);
    c.start = column * stride - g->pad_left;
    c.inside = !folded && c.count == LANES && c.start >= 0 && c.start + span <= g->iw;
    c.safe_count = g->ih - folded;
    if (!c.inside) {
        /* What lies beside a row is memory of the plane, but for the plane's ends. */
        c.safe_first = steps_to(c.start, g->iw, 0);
        const int64_t room = g->ih * g->iw - c.start - span;
        const int64_t end = room < 0 ? 0 : least(room / g->iw + 1, g->ih - folded);
        c.safe_count = MERGES ? most(end - c.safe_first, 0) : 0;
    }
    c.upper = lanes_between(0, g->ow);
    c.lower = lanes_between(g->ow, 2 * g->ow);
    for (int k = 0; k < size; k++) {
        const int64_t begin = steps_to(c.start + k, stride, 0);
        const int64_t end = steps_to(c.start + k, stride, g->iw);
        c.tap[k] = lanes_between(begin, end);
        if (folded) {
            c.tap[k] = (c.tap[k] & c.upper) | (lanes_between(g->ow + begin, g->ow + end) & c.lower);
        }
#if PPLCONV_NEON
        c.low[k] = window_at(c.start + k, g->iw);
        c.high[k] = window_at(c.start + k + LANES, g->iw);
#else
        c.low[k] = lanes_between(-c.start - k, g->iw - c.start - k);
        c.high[k] = lanes_between(-c.start - k - LANES, g->iw - c.start - k - LANES);
#endif
    }
    return c;
}

/* x[k]: what tap k of each lane reads in one image row, of which `p` is the element `start`. */
INLINE void load_taps(vector *x, const element *p, const int size, const int stride) {
    if (stride == 1) {
        UNROLL for (int k = 0; k < size; k++)
            x[k] = in_register(load(p + k));
        return;
    }
#if PPLCONV_VECTOR_BYTES == 64
    /* Loads that cross a cache line are dear, so the later taps are made by shifting the first two
     * and up to four more elements. */
    const vector low = in_register(load(p)), high = in_register(load(p + LANES));
    const vector more = in_register(load_four(p + 2 * LANES));
    x[0] = in_register(every_second(low, high, 0));
    x[1] = in_register(every_second(low, high, 1));
    UNROLL for (int k = 2; k < size; k++)
        x[k] = in_register(moved(x[k & 1], more, k));
#else
    UNROLL for (int k = 0; k < size; k += 2) {
        const vector low = load(p + k), high = load(p + k + LANES);
        x[k] = every_second(low, high, 0);
        if (k + 1 < size) x[k + 1] = every_second(low, high, 1);
    }
#endif
}

#if PPLCONV_NEON
/* The same where a row ends within the vectors; `row` is its element 0. */
INLINE void load_edge_taps(vector *x, const element *row, const struct columns *c, const int size,
                           const int stride) {
    UNROLL for (int k = 0; k < size; k += stride) {
        const vector low = load_window(row, &c->low[k]);
        if (stride == 1) {
            x[k] = in_register(low);
        } else {
            const vector high = load_window(row, &c->high[k]);
            x[k] = in_register(every_second(low, high, 0));
            if (k + 1 < size) x[k + 1] = in_register(every_second(low, high, 1));
        }
    }
}
#else
/* The same where some of it is no memory of the plane; `rows` are the lanes that exist. */
INLINE void load_some_taps(vector *x, const element *p, const struct columns *c, lane_mask rows,
                           const int size, const int stride) {
    UNROLL for (int k = 0; k < size; k += stride) {
        if (stride == 1) {
            x[k] = in_register(load_masked(p + k, c->tap[k] & rows));
        } else {
            const vector low = load_masked(p + k, c->low[k]);
            const vector high = load_masked(p + k + LANES, c->high[k]);
            x[k] = in_register(every_second(low, high, 0));
            if (k + 1 < size) x[k + 1] = in_register(every_second(low, high, 1));
        }
    }
}
#endif

/* The products of one image row: `i` rows below the first that the block reads. */
INLINE void add_line(vector *sum, const vector *x, const vector *w, const lane_mask *tap,
                     const int i, const int size, const int step, const int count, const int edge) {
    UNROLL for (int k = 0; k < size; k++) {
        UNROLL for (int r = 0; r < count; r++) {
            const int kh = i - r * step;
            if (kh < 0 || kh >= size) continue;
            const int at = kh * size + k;
            if (edge && MERGES) {
                sum[r] = multiply_add_where(tap[k], x[k], w[at], sum[r]);
            } else if (!edge && packed_in(size)) {
                sum[r] = multiply_add(x[k], broadcast(w[at / LANES][at % LANES]), sum[r]);
            } else {
                sum[r] = multiply_add(x[k], w[at], sum[r]);
            }
        }
    }
}

/* `count` vectors of outputs below each other, `valid` of them in existence, the first in output
 * row `row`. From one to the next, input rows advance by `step` and output rows by `fold`. */
INLINE void square_block(const struct planes *s, const struct plane *plane,
                         const struct epilogue *e, const struct columns *c, const vector *weights,
                         int64_t row, int64_t valid, const int size, const int stride,
                         const int fold, const int count, const int edge) {
    const int step = stride * fold, lines = (count - 1) * step + size;
    const int64_t width = s->g.iw, height = s->g.ih, ow = s->g.ow;
    const int64_t ih = row * stride - s->g.pad_top;
    const int64_t safe = ih - c->safe_first, safe_count = c->safe_count;
    const element *p = plane->src + ih * width + c->start;
    vector sum[ROWS] = {0};
#if PPLCONV_VECTOR_BYTES == 64
    const vector *w = weights;
    lane_mask tap[LARGEST_SIZE];
    UNROLL for (int k = 0; k < size; k++)
        tap[k] = in_mask_register(c->tap[k]);
#else
    const lane_mask *tap = c->tap;
    vector w[LARGEST_SIZE * LARGEST_SIZE];
    const int vectors = !edge && packed_in(size) ? packed_in(size) : size * size;
    UNROLL for (int k = 0; k < vectors; k++) {
        const vector zero = {0};
        w[k] = edge ? where(tap[k % size], weights[k], -zero) : weights[k];
    }
#endif
#if !PPLCONV_NEON
    const lane_mask all = lanes_between(0, LANES);
#endif

    UNROLL for (int i = 0; i < lines; i++) {
        vector x[LARGEST_SIZE];
        const int here = ih + i >= 0 && ih + i < height;
        if ((MERGES || !edge) && (uint64_t)(safe + i) < (uint64_t)safe_count) {
            load_taps(x, p, size, stride);
            add_line(sum, x, w, tap, i, size, step, count, edge);
        } else if (edge && fold == 1 && here) {
#if PPLCONV_NEON
            load_edge_taps(x, p - c->start, c, size, stride);
#else
            load_some_taps(x, p, c, all, size, stride);
#endif
            add_line(sum, x, w, tap, i, size, step, count, edge);
#if !PPLCONV_NEON
        } else if (fold == 2) {
            const int next = ih + i + 1 >= 0 && ih + i + 1 < height;
            lane_mask rows = c->upper & c->lower, some[LARGEST_SIZE];
            if (here) rows |= c->upper;
            if (next) rows |= c->lower;
            if (here || next) {
                load_some_taps(x, p, c, rows, size, stride);
                UNROLL for (int k = 0; k < size; k++)
                    some[k] = c->tap[k] & rows;
                add_line(sum, x, w, some, i, size, step, count, edge);
            }
#endif
        }
        p += width;
    }

    const int64_t at = row * ow + c->column;
    element *dst = plane->dst + at;
    const element *residual = plane->residual + at;
    int64_t n[ROWS];
    UNROLL for (int r = 0; r < count; r++) {
        n[r] = edge ? c->count : LANES;
        /* An odd number of rows leaves one for the last vector. */
        if (fold == 2 && row + 2 * r + 1 == s->end) n[r] = ow;
        sum[r] += e->bias;
        if (e->residual && r < valid) sum[r] += load_part(residual + r * fold * ow, n[r], edge);
    }
    clip_all(e, sum, count);
    UNROLL for (int r = 0; r < count; r++) {
        if (r >= valid) break;
        store_part(dst, sum[r], n[r], edge);
        dst += fold * ow;
    }
}

/* All vectors of a few output rows. */
INLINE void square_rows(const struct planes *s, const struct plane *plane, const struct epilogue *e,
                        const struct columns *first, const struct columns *last, const vector *w,
                        int64_t row, int64_t valid, const int size, const int stride,
                        const int fold, const int count) {
    for (int64_t column = 0; column < s->g.ow; column += LANES) {
        struct columns other;
        const struct columns *c = column == 0 ? first : last;
        if (column != 0 && column != last->column) {
            other.column = column;
            other.start = column * stride - s->g.pad_left;
            other.safe_first = 0;
            other.safe_count = s->g.ih;
            other.inside = other.start >= 0 && other.start + span_of(size, stride) <= s->g.iw;
            if (!other.inside) other = columns_at(&s->g, column, size, stride, 0);
            c = &other;
        }
        if (fold == 1 && c->inside) {
            const vector *inside = w + (packed_in(size) ? size * size : 0);
            square_block(s, plane, e, c, inside, row, valid, size, stride, fold, count, 0);
        } else {
            square_block(s, plane, e, c, w, row, valid, size, stride, fold, count, 1);
        }
    }
}

INLINE void square(const struct planes *call, const int size, const int stride, const int fold) {
    const struct planes s = *call;
    const struct columns first = columns_at(&s.g, 0, size, stride, fold == 2);
    const int64_t last_column = (s.g.ow - 1) / LANES * LANES;
    const struct columns last = columns_at(&s.g, last_column, size, stride, fold == 2);
    struct epilogue e = s.epilogue;

    for (int64_t channel = 0; channel < s.channels; channel++) {
        const struct plane plane = plane_of(&s, channel);
        const element *weights = s.weights + channel * size * size;
        vector w[LARGEST_SIZE * LARGEST_SIZE * (1 + MULTIPLIES_BY_LANE)]; /* packed ones last */
        UNROLL for (int k = 0; k < size * size; k++)
            w[k] = broadcast(weights[k]);
        UNROLL for (int i = 0; i < packed_in(size); i++) {
            const int at = i * LANES;
            w[size * size + i] = load_lanes(weights + at, size * size - at);
        }
        if (s.bias) e.bias = broadcast(s.bias[channel]);
        for (int64_t row = s.first; row < s.end;) {
            const int64_t todo = (s.end - row + fold - 1) / fold;
            /* Three and three, or three and two, are less work than four and what is left. */
            if (todo >= 7) {
                square_rows(&s, &plane, &e, &first, &last, w, row, 7, size, stride, fold, 7);
                row += 7 * fold;
            } else if (todo == 4) {
                square_rows(&s, &plane, &e, &first, &last, w, row, 4, size, stride, fold, 4);
                row += 4 * fold;
            } else if (todo >= 3) {
                square_rows(&s, &plane, &e, &first, &last, w, row, 3, size, stride, fold, 3);
                row += 3 * fold;
            } else {
                square_rows(&s, &plane, &e, &first, &last, w, row, todo, size, stride, fold, 2);
                row += 2 * fold;
            }
        }
    }
}

/* A function each, so that the compiler need not see them all at once. */
#define SQUARE(size, stride, fold)                                                                 \
    static __attribute__((noinline)) void square_##size##_##stride##_##fold(                       \
        const struct planes *s) {                                                                  \
        square(s, size, stride, fold);                                                             \
    }
SQUARE(3, 1, 1)
SQUARE(3, 2, 1)
SQUARE(5, 1, 1)
SQUARE(5, 2, 1)
#if PPLCONV_VECTOR_BYTES == 64
SQUARE(3, 1, 2)
SQUARE(5, 1, 2)
#endif

#endif
