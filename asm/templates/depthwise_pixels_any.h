/* Depthwise convolution of planes with any kernel, stride and dilation: a vector or two of output
 * columns in some rows at a time. Vectors at a stride cost several loads and a shuffle, so the
 * columns of a line are sorted first: columns a stride apart become neighbours. Each vector
 * is then added to all the rows that see its line. Without strides, blocks are faster. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_ANY_H
#define PPLCONV_DEPTHWISE_PIXELS_ANY_H

#include "depthwise_pixels.h"

/* Sums, the vectors of a tap and a weight are to fit the registers. Long vectors come here only if
 * their lines or taps are too many for a band of sorted lines. */
#if PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_NEON && defined(__aarch64__))
enum { ANY_ROWS = 6, ANY_VECTORS = PPLCONV_VECTOR_BYTES == 64 ? 1 : 2 };
#else
enum { ANY_ROWS = 4, ANY_VECTORS = 2 };
#endif

/* Sorted elements of a line, and taps that read them. */
enum { MOST_SORTED = 512, MOST_TAPS = 64 };

/* Whether a product under a mask takes as long as one without. */
enum { MASKS_ARE_FREE = PPLCONV_VECTOR_BYTES == 64 };

/* The order of a line's columns. */
struct order {
    int64_t start;  /* the column that the first tap reads for the first output */
    int64_t phases; /* first columns, each followed by columns a stride apart */
    int64_t apart;  /* elements from a phase to the next one */
};

/* The order for taps that reach over `reach` columns, and `count` outputs. */
INLINE struct order order_of(int64_t start, int64_t count, int64_t reach, int64_t stride) {
    const struct order o = {start, least(stride, reach + 1),
                            ceil_of(count + reach / stride, LANES) * LANES};
    return o;
}

/* Taps of a line whose columns are sorted together. */
struct taps {
    int64_t begin, count; /* the first one, and how many */
    struct order order;
    int64_t low, high;    /* taps that some output has: low .. high - 1 */
    int64_t inner, outer; /* that all have */
    int64_t at[MOST_TAPS];
    lane_mask in[MOST_TAPS][ANY_VECTORS];
};

/* Taps from `begin` on of `count` outputs from `column` on: all of them, if there is room. */
static __attribute__((noinline)) void set_taps(struct taps *t, const struct pplconv_geometry *g,
                                               int64_t begin, int64_t column, int64_t count) {
    const int64_t stride = g->stride_w, step = g->dilation_w;
    t->begin = begin;
    const int64_t start = column * stride - g->pad_left + begin * step;
    for (t->count = g->kw - begin;; t->count = (t->count + 1) / 2) {
        t->order = order_of(start, count, (t->count - 1) * step, stride);
        if (t->count <= MOST_TAPS && t->order.phases * t->order.apart <= MOST_SORTED) break;
    }
    const int64_t last = start + (count - 1) * stride;
    t->low = steps_to(last, step, 0);
    t->high = least(steps_to(start, step, g->iw), t->count);
    t->inner = steps_to(start, step, 0);
    t->outer = steps_to(last, step, g->iw);
    for (int64_t j = t->low; j < t->high; j++) {
        const struct range lanes = inside(start + j * step, stride, count, g->iw);
        t->at[j] = j * step % stride * t->order.apart + j * step / stride;
        UNROLL for (int v = 0; v < ANY_VECTORS; v++)
            t->in[j][v] = lanes_between(lanes.begin - v * LANES, lanes.end - v * LANES);
    }
}

/* Columns of a line of the image, one by one; zeros for columns beside it. */
static __attribute__((noinline)) void sort_line(element *sorted, const struct order *o,
                                                const element *line, int64_t width,
                                                int64_t stride) {
    for (int64_t phase = 0; phase < o->phases; phase++, sorted += o->apart) {
        const int64_t start = o->start + phase;
        const struct range r = inside(start, stride, o->apart, width);
        for (int64_t i = 0; i < o->apart; i++)
            sorted[i] = i >= r.begin && i < r.end ? line[start + i * stride] : 0;
    }
}

/* Columns of `lines` lines of the image, to lines that are `pitch` elements apart; zeros for
 * columns beside it. */
static __attribute__((noinline)) void sort_columns(element *sorted, int64_t pitch,
                                                   const struct order *o, const element *line,
                                                   int64_t lines, int64_t width, int64_t stride) {
    const int64_t phases = o->phases, apart = o->apart;
    if (stride == 2) {
        for (int64_t k = 0; k < apart; k += LANES, sorted += LANES) {
            const int64_t first = o->start + 2 * k, begin = -first, end = width - first;
            const int whole = begin <= 0 && end >= 2 * LANES;
            const element *p = line + first;
            element *to = sorted;
            for (int64_t i = 0; i < lines; i++, p += width, to += pitch) {
                const vector low = whole ? load(p) : load_between(p, begin, end);
                const vector high =
                    whole ? load(p + LANES) : load_between(p + LANES, begin - LANES, end - LANES);
                *(unaligned_vector *)to = every_second(low, high, 0);
                if (phases > 1) *(unaligned_vector *)(to + apart) = every_second(low, high, 1);
            }
        }
        return;
    }
    for (; lines; lines--, line += width, sorted += pitch)
        sort_line(sorted, o, line, width, stride);
}

/* The lines of the image that `rows` output rows read. Rows are as far apart as the taps of a
 * column, so that they share lines: row r reads lines r * stride .. r * stride + kh - 1. */
struct lines {
    int64_t first, end; /* the lines that exist */
    const element *p;   /* the first one */
};

INLINE struct lines lines_of(const struct pplconv_geometry *g, const struct plane *plane,
                             int64_t row, int64_t rows) {
    const int64_t top = row * g->stride_h - g->pad_top;
    struct lines l = {.first = steps_to(top, g->dilation_h, 0)};
    l.end = least((rows - 1) * g->stride_h + g->kh, steps_to(top, g->dilation_h, g->ih));
    l.p = plane->src + (top + l.first * g->dilation_h) * g->iw;
    return l;
}

/* Add tap j of a line to the rows of `seen`; `up`: weights from a row's to those of the next. */
INLINE void any_tap(vector sum[ANY_ROWS][ANY_VECTORS], const struct taps *t, const element *sorted,
                    const element *w, int64_t up, int64_t j, uint32_t seen, const int vectors,
                    const int masked) {
    vector x[ANY_VECTORS];
    lane_mask in[ANY_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) {
        x[v] = in_register(load(sorted + t->at[j] + v * LANES));
        if (masked) in[v] = t->in[j][v];
#if PPLCONV_VECTOR_BYTES == 64
        if (masked) in[v] = in_mask_register(in[v]);
#endif
    }
    UNROLL for (int r = 0; r < ANY_ROWS; r++) {
        if (!(seen >> r & 1)) continue;
        const vector by = in_register(broadcast(w[-r * up]));
        UNROLL for (int v = 0; v < vectors; v++) {
            sum[r][v] = masked ? multiply_add_where(in[v], x[v], by, sum[r][v])
                               : multiply_add(x[v], by, sum[r][v]);
        }
    }
}

/* `count` columns from `column` on, at most `vectors` vectors, of `rows` rows; `t` has the columns'
 * taps. */
INLINE void any_block(const struct planes *s, const struct plane *plane, const struct epilogue *e,
                      const element *weights, struct taps *t, int64_t row, int64_t rows,
                      int64_t column, int64_t count, const int vectors) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t apart = g->dilation_h, down = g->stride_h;
    const int64_t up = down * g->kw; /* weights from a row's line to the next row's */
    const struct lines l = lines_of(g, plane, row, rows);
    element buffers[2][MOST_SORTED + ANY_VECTORS * LANES];
    vector sum[ANY_ROWS][ANY_VECTORS] = {{{0}}};
    const element *p = l.p;
    /* A vector that was just stored in two parts is not there to load: the next line is sorted
     * while this one is added. */
    const int ahead = t->count == g->kw;
    if (ahead && l.first < l.end)
        sort_columns(buffers[l.first & 1], 0, &t->order, p, 1, g->iw, g->stride_w);
    for (int64_t line = l.first; line < l.end; line++) {
        const int64_t low = steps_to(g->kh - 1 - line, down, 0),
                      high = least(line / down, rows - 1);
        const uint32_t seen = (2u << high) - (1u << low); /* rows that see the line, a bit each */
        const element *sorted = buffers[line & 1], *next = p + apart * g->iw;
        for (int64_t begin = 0; begin < g->kw; begin += t->count) {
            if (begin != t->begin) set_taps(t, g, begin, column, count);
            if (!ahead) sort_columns(buffers[line & 1], 0, &t->order, p, 1, g->iw, g->stride_w);
            else if (line + 1 < l.end)
                sort_columns(buffers[~line & 1], 0, &t->order, next, 1, g->iw, g->stride_w);
            const element *w = weights + line * g->kw + begin + t->low;
            for (int64_t j = t->low; j < t->high; j++, w++) {
                if (MASKS_ARE_FREE || j < t->inner || j >= t->outer)
                    any_tap(sum, t, sorted, w, up, j, seen, vectors, 1);
                else any_tap(sum, t, sorted, w, up, j, seen, vectors, 0);
            }
        }
        p = next;
    }
    const int64_t at = row * g->ow + column;
    UNROLL for (int r = 0; r < ANY_ROWS; r++) {
        if (r >= rows) break;
        UNROLL for (int v = 0; v < vectors; v++) {
            const int64_t n = least(count - v * LANES, LANES);
            if (n <= 0) break;
            const int64_t to = at + r * apart * g->ow + v * LANES;
            sum[r][v] += e->bias;
            if (e->residual) sum[r][v] += load_lanes(plane->residual + to, n);
            clip_all(e, &sum[r][v], 1);
            store_lanes(plane->dst + to, sum[r][v], n);
        }
    }
}

/* Functions of their own, so that the compiler need not see them all at once. */
#define ANY(name, vectors)                                                                         \
    static __attribute__((noinline)) void name(const struct planes *s, const struct plane *plane,  \
                                               const struct epilogue *e, const element *weights,   \
                                               int64_t column, int64_t count) {                    \
        const int64_t apart = s->g.dilation_h;                                                     \
        struct taps t;                                                                             \
        set_taps(&t, &s->g, 0, column, count);                                                     \
        for (int64_t begin = s->first; begin < least(s->first + apart, s->end); begin++) {         \
            for (int64_t row = begin; row < s->end; row += ANY_ROWS * apart) {                     \
                const int64_t rows = least(ceil_of(s->end - row, apart), ANY_ROWS);                \
                any_block(s, plane, e, weights, &t, row, rows, column, count, vectors);            \
            }                                                                                      \
        }                                                                                          \
    }
ANY(any_vector, 1)
#if PPLCONV_VECTOR_BYTES != 64
ANY(any_vectors, ANY_VECTORS)
#endif
#undef ANY

static void any(const struct planes *call) {
    const struct planes s = *call;
    struct epilogue e = s.epilogue;
    for (int64_t channel = 0; channel < s.channels; channel++) {
        const struct plane plane = plane_of(&s, channel);
        const element *weights = s.weights + channel * s.g.kh * s.g.kw;
        e.bias = broadcast(s.bias[channel * s.bias_step]);
        for (int64_t column = 0; column < s.g.ow; column += ANY_VECTORS * LANES) {
            const int64_t count = least(s.g.ow - column, ANY_VECTORS * LANES);
#if PPLCONV_VECTOR_BYTES != 64
            if (count > LANES) {
                any_vectors(&s, &plane, &e, weights, column, count);
                continue;
            }
#endif
            any_vector(&s, &plane, &e, weights, column, count);
        }
    }
}

#endif
