/* A strip of output columns, as wide as a vector, from its first row down to its last: each line of
 * the image is loaded once, for all the output rows that it reaches. Strides are `down` and
 * `across`. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_STRIP_H
#define PPLCONV_DEPTHWISE_PIXELS_STRIP_H

#include "depthwise_pixels_lanes.h"

enum { LARGEST_SIZE = 5 };

/* NEON of AArch64 multiplies by a lane: where a register for each weight is too many, the weights
 * of strips that lie inside the image share a few. */
#if PPLCONV_NEON && defined(__aarch64__)
enum { MULTIPLIES_BY_LANE = 1 };
#else
enum { MULTIPLIES_BY_LANE = 0 };
#endif

/* Values that strips of all planes share, computed once. */
struct strip {
    /* Columns. */
    int64_t column, start, count; /* first output, the input of its tap 0, lanes that exist */
    int64_t beyond;               /* rows that a whole vector reaches into */
    int inside; /* one plane, all lanes exist, and whole vectors are loaded from the image only */
    lane_mask second;            /* of two planes, the lanes of the second */
    lane_mask tap[LARGEST_SIZE]; /* lanes whose tap is not beside the image */
    vector none[LARGEST_SIZE];   /* replaces the weight in the other lanes */
    reach exist, low[LARGEST_SIZE], high[LARGEST_SIZE], more;
    /* Rows. */
    int64_t row, end;        /* first, one after the last */
    int64_t line, bottom;    /* lines that these rows see; the first may be above the image */
    int64_t turn, whole_end; /* rows turn .. whole_end - 1 need no care: see `downward` */
    int64_t src, dst;        /* elements from a plane to the first that is read and written */
};

/* A plane, or two: the second lies `next` elements further. */
struct place {
    const element *src, *residual;
    element *dst;
    int64_t src_next, residual_next, dst_next;
};

/* A strip as its loops hold it: masks are to stay in registers. */
struct reaches {
    reach low[LARGEST_SIZE], high[LARGEST_SIZE], more;
};

/* Output rows with sums under way: a line begins the sum of one row and is added to the others. */
INLINE int rows_at_once(const int size, const int down) { return (size + down - 1) / down; }

INLINE void set_columns(struct strip *c, const struct pplconv_geometry *g, int64_t column,
                        const int size, const int across, const int planes) {
    const int64_t lanes = LANES / planes, start = column * across - g->pad_left;
    c->column = column;
    c->start = start;
    c->count = least(g->ow - column, lanes);
    c->beyond = c->count < lanes ? (lanes - c->count + g->ow - 1) / g->ow : 0;
    c->inside = planes == 1 && c->count == lanes && start >= 0 &&
                start + (lanes - 1) * across + size + across - 1 <= g->iw;
    c->more = reach_at(start + 2 * LANES, g->iw);
    c->exist = reach_at(0, c->count);
    if (planes == 2) c->second = lanes_of_sums(LANES / 2, LANES, across, 1);
    if (c->inside) return;
    for (int k = 0; k < size; k++) {
        const int64_t first = steps_to(start + k, across, 0);
        c->tap[k] = lanes_of_sums(first, steps_to(start + k, across, g->iw), across, planes);
        c->none[k] = minus_zero_beside(c->tap[k]);
        c->low[k] = reach_at(start + k, g->iw);
        c->high[k] = reach_at(start + k + LANES, g->iw);
    }
}

INLINE void set_rows(struct strip *c, const struct pplconv_geometry *g, int64_t row, int64_t end,
                     const int size, const int down) {
    const int64_t live = rows_at_once(size, down);
    c->row = row;
    c->end = end;
    c->line = row * down - g->pad_top;
    /* A caller may have only these lines in memory, so no others are read. */
    c->bottom = least(g->ih, (end - 1) * down - g->pad_top + size);
    c->src = c->line * g->iw + c->start;
    c->dst = row * g->ow + c->column;
    /* The sum of row r ends in the lines r * down + ahead .. r * down + ahead + down - 1. */
    const int64_t ahead = (live - 1) * down - g->pad_top;
    const int64_t last = c->bottom - ahead - down;
    /* Lanes that a vector stores beyond its row are stored again, as the beginning of the next
     * row. */
    c->whole_end = least(end - c->beyond, last < 0 ? 0 : last / down + 1);
    const int64_t first = most(row, steps_to(ahead, down, 0));
    const int64_t turns = most(c->whole_end - first, 0) / live;
    c->turn = turns ? c->whole_end - turns * live : end;
}

/* The elements that tap k of each lane reads in one line of the image; at stride 2 across, taps k
 * and k + 1. */
INLINE void load_taps(vector *x, const element *p, int64_t next, const struct strip *c,
                      const struct reaches *r, const int k, const int across, const int edge,
                      const int planes) {
    const element *q = p + k;
    const int64_t start = c->start + k;
    if (across == 1) {
        x[k] = planes == 2 ? load_halves(q, q + next, r->low[k])
               : edge      ? load_reach(q, start, &r->low[k])
                           : load(q);
        return;
    }
#if PPLCONV_VECTOR_BYTES == 64
    /* Loads that cross a cache line are dear: later taps are made of the first two. */
    if (planes == 1 && k > 0) {
        const vector more = load_four(p + 2 * LANES, r->more);
        x[k] = moved(x[0], more, k);
        x[k + 1] = moved(x[1], more, k + 1);
        return;
    }
#endif
    /* One plane's two vectors, or a vector of each of two planes. */
    vector a = edge ? load_reach(q, start, &r->low[k]) : load(q);
    vector b = planes == 2 ? load_reach(q + next, start, &r->low[k])
               : edge      ? load_reach(q + LANES, start + LANES, &r->high[k])
                           : load(q + LANES);
    a = in_register(a);
    b = in_register(b);
    x[k] = every_second_of(a, b, 0);
    x[k + 1] = every_second_of(a, b, 1);
}

/* Add a line of the image. It is the i-th line of the row sum[newest]; the first line begins the
 * sum. It is also added to the sums of the rows before, which follow in `sum`. */
INLINE void add_line(vector *sum, const vector *w, const element *p, int64_t next,
                     const struct strip *c, const struct reaches *r, const int newest, const int i,
                     const int size, const int down, const int across, const int edge,
                     const int planes) {
    const int live = rows_at_once(size, down);
    const int packed = MULTIPLIES_BY_LANE && !edge && size > 3;
    vector x[LARGEST_SIZE + 1];
    UNROLL for (int k = 0; k < size; k++) {
        if (k % across == 0) load_taps(x, p, next, c, r, k, across, edge, planes);
        x[k] = in_register(x[k]);
        UNROLL for (int j = live - 1; j >= 0; j--) {
            const int kh = j * down + i, n = kh * size + k, to = (newest + j) % live;
            if (kh >= size) continue;
            const vector by = packed ? broadcast(w[n / LANES][n % LANES]) : w[n];
            sum[to] = multiply_add(x[k], by, sum[to]);
        }
    }
}

/* A row whose sums are complete. */
INLINE void finish(vector y, vector bias, const struct strip *c, const struct place *at,
                   const struct epilogue *e, int64_t offset, int plain, int whole, const int across,
                   const int planes) {
    element *dst = at->dst + offset;
    if (across == 2) y = in_order(y);
    y += bias;
    if (__builtin_expect(!plain, 0)) {
        const element *residual = at->residual + offset;
        if (e->residual) {
            y += planes == 2 ? load_halves(residual, residual + at->residual_next, c->exist)
                             : load_reach(residual, 0, &c->exist);
        }
        clip_all(e, &y, 1);
    }
    if (planes == 2) {
        store_halves(dst, dst + at->dst_next, y, c->count, whole);
    } else if (whole) {
        *(unaligned_vector *)dst = y;
    } else {
        store_lanes(dst, y, c->count);
    }
}

/* From the top of a strip of one or two planes down. Rows of which all lines exist, and which may
 * be stored as whole vectors, come in turns: as many as have sums under way, so that each sum stays
 * in one register. The others, few of them, one by one: their sums move on by a register. */
INLINE void downward(const struct planes *s, const struct strip *c, const struct place *at,
                     const struct reaches *r, const vector *w, vector bias, const int size,
                     const int down, const int across, const int edge, const int planes) {
    const int live = rows_at_once(size, down);
    const int64_t width = s->g.iw, bottom = c->bottom, ow = s->g.ow, end = c->end;
    const struct epilogue *e = &s->epilogue;
    const int plain = s->plain;
    const element *p = at->src + c->src;
    int64_t row = c->row - (live - 1), line = c->line, until = c->turn, to = c->dst;
    const vector zero = {0};
    vector sum[LARGEST_SIZE] = {0};
    for (;;) {
        for (; row < until; row++) {
            UNROLL for (int j = live - 1; j > 0; j--)
                sum[j] = sum[j - 1];
            sum[0] = zero;
            UNROLL for (int i = 0; i < down; i++) {
                if (line >= 0 && line < bottom) {
                    add_line(sum, w, p, at->src_next, c, r, 0, i, size, down, across, edge, planes);
                }
                line++;
                p += width;
            }
            if (row < c->row) continue;
            finish(sum[live - 1], bias, c, at, e, to, plain, row < c->whole_end, across, planes);
            to += ow;
        }
        if (until == end) return;
        for (; row < c->whole_end; row += live) {
#define TURN(newest)                                                                               \
    if (newest < live) {                                                                           \
        sum[newest] = zero;                                                                        \
        UNROLL for (int i = 0; i < down; i++) {                                                    \
            add_line(sum, w, p, at->src_next, c, r, newest, i, size, down, across, edge, planes);  \
            p += width;                                                                            \
        }                                                                                          \
        finish(sum[(newest + live - 1) % live], bias, c, at, e, to, plain, 1, across, planes);     \
        to += ow;                                                                                  \
    }
            TURN(4)
            TURN(3)
            TURN(2)
            TURN(1)
            TURN(0)
#undef TURN
            line += live * down;
        }
        until = end;
    }
}

/* The strip of the planes begin .. end - 1. */
INLINE void strip_of(const struct planes *s, const struct strip *c, int64_t begin, int64_t end,
                     const int size, const int down, const int across, const int edge,
                     const int planes) {
    const int packed = MULTIPLIES_BY_LANE && !edge && size > 3;
    const int taps = size * size, vectors = packed ? (taps + LANES - 1) / LANES : taps;
    const element *weights = s->weights + begin * taps;
    const lane_mask upper = lanes_between(LANES / 2, LANES);
    struct reaches r = {.more = c->more};
    UNROLL for (int k = 0; k < size && edge; k += across) {
        r.low[k] = c->low[k];
        r.high[k] = c->high[k];
#if PPLCONV_VECTOR_BYTES == 64
        r.low[k] = in_mask_register(r.low[k]);
        if (across == 2 && planes == 1) r.high[k] = in_mask_register(r.high[k]);
#endif
    }
    struct place at;
    const struct plane first = plane_of(s, begin);
    at.src = first.src;
    at.residual = first.residual;
    at.dst = first.dst;
    int64_t used = begin % s->multiplier;
    for (int64_t channel = begin; channel < end; channel += planes) {
        /* The last of an odd number of planes is its own partner. */
        const int partner = channel + 1 < end;
        vector w[LARGEST_SIZE * LARGEST_SIZE];
        at.src_next = partner ? s->src_cs / (int64_t)sizeof(element) : 0;
        at.residual_next = partner ? s->residual_cs / (int64_t)sizeof(element) : 0;
        at.dst_next = partner ? s->dst_cs / (int64_t)sizeof(element) : 0;
        UNROLL for (int k = 0; k < vectors; k++) {
            const element *one = weights + k;
            if (packed) {
                w[k] = load_lanes(weights + k * LANES, taps - k * LANES);
                continue;
            }
            w[k] =
                planes == 2 ? broadcast_two(*one, one[partner * taps], c->second) : broadcast(*one);
            if (edge) w[k] = weight_where(c->tap[k % size], c->none[k % size], w[k]);
            if (size == 3) w[k] = in_register(w[k]);
        }
        const element *bias = s->bias + channel * s->bias_step;
        const vector added = planes == 2 ? broadcast_two(*bias, bias[partner * s->bias_step], upper)
                                         : broadcast(*bias);
        downward(s, c, &at, &r, w, added, size, down, across, edge, planes);
        weights += planes * taps;
        at.residual = AT_CONST(element, at.residual, planes * s->residual_cs);
        at.dst = AT(element, at.dst, planes * s->dst_cs);
        if (planes == 2 || ++used == s->multiplier) {
            used = 0;
            at.src = AT_CONST(element, at.src, planes * s->src_cs);
        }
    }
}

#endif
