/* Channels-last pixels with any kernel, stride, dilation, channel multiplier and depth of groups:
 * some output columns at a time, so that their sums hide the latency of products and share each
 * weight. Where strides and dilation are equal, the input of a tap is that of the next tap of the
 * column before: inputs move on by a register, and only one is loaded for each tap. */
#ifndef PPLCONV_DEPTHWISE_CHANNELS_ANY_H
#define PPLCONV_DEPTHWISE_CHANNELS_ANY_H

#include "depthwise_channels.h"

/* Sums, as many inputs, and a weight are to fit the registers. */
#if PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_NEON && defined(__aarch64__))
enum { ANY_COLUMNS = 8 };
#else
enum { ANY_COLUMNS = 6 };
#endif

/* At stride 2, two taps have inputs of their own, if there are registers for them. */
enum { MOST_SHARED = ANY_COLUMNS == 8 ? 2 : 1 };

/* Output rows of a block, which share the inputs of their lines. */
enum { ANY_ROWS = ANY_COLUMNS == 8 ? 2 : 1 };

/* Rows that a block of columns goes down before its neighbour does: caches hold what they see. */
enum { ANY_BAND = 64 };

/* Which input channels a vector of output channels reads: lane i reads first + lane[i]. */
struct source {
    int64_t first, count;
    vector_bits lane;
    int picks; /* whether lanes are others than those that are loaded */
};

static struct source source_of(int64_t channel, int64_t n, int64_t multiplier) {
    struct source f = {channel / multiplier, 0, {0}, 1};
    int64_t rest = channel % multiplier;
    for (int64_t i = 0; i < n; i++) {
        f.lane[i] = (element_bits)f.count;
        if (++rest == multiplier) {
            rest = 0;
            f.count++;
        }
    }
    f.count = f.lane[n - 1] + 1;
    return f;
}

/* The same for the first input channel of groups. */
static struct source source_in_groups(int64_t channel, int64_t n, int64_t depth) {
    if (reading_of(depth) == SHARED) {
        const struct source one = {channel - channel % depth, 1, {0}, 1};
        return one;
    }
    const struct source f = {channel, n, first_of_groups(depth), 1};
    return f;
}

/* The columns of a block, and their taps in a row of the kernel. They are so far apart that a tap
 * of one reads what a later tap of the column before reads: `shared` taps later. */
struct columns {
    int64_t first, apart; /* the first output, and the distance to the next one */
    int64_t count;        /* outputs that exist */
    int64_t done;         /* the first ones, which the block before has stored */
    int64_t shared;
    int64_t start;        /* column of the image that tap 0 of the first one reads */
    int64_t low, high;    /* taps that some output has: low .. high - 1 */
    int64_t inner, outer; /* that all outputs of a whole block have */
};

static struct columns columns_from(const struct pplconv_geometry *g, int64_t first, int64_t apart) {
    const int64_t step = g->dilation_w, count = ceil_of(g->ow - first, apart);
    /* The last block reaches back, so that it is a whole one. */
    const int64_t back = least(most(ANY_COLUMNS - count, 0), first / apart);
    const int64_t start = (first - back * apart) * g->stride_w - g->pad_left;
    struct columns k = {.first = first - back * apart, .apart = apart, .start = start};
    k.count = least(count + back, ANY_COLUMNS);
    k.done = back;
    k.shared = apart * g->stride_w / step;
    const int64_t last = start + (k.count - 1) * apart * g->stride_w;
    k.low = steps_to(last, step, 0);
    k.high = least(steps_to(start, step, g->iw), g->kw);
    k.inner = k.outer = k.high;
    if (k.count < ANY_COLUMNS) return k;
    k.inner = least(most(steps_to(start, step, 0), k.low), k.high);
    k.outer = most(least(steps_to(last, step, g->iw), k.high), k.inner);
    return k;
}

/* The inputs of a vector of outputs; `whole`: one for each, and all lanes exist. */
INLINE vector load_input(const element *p, const struct source *f, const int whole) {
    if (whole) return load(p);
    const vector v = load_lanes(p, f->count);
    return f->picks ? pick_lanes(v, f->lane) : v;
}

INLINE vector load_weight(const element *p, int64_t n, const int whole) {
    return whole ? load(p) : load_lanes(p, n);
}

/* Lines of the image for the sums of one or two rows: where tap 0 of the first column reads, and
 * the rows of the kernel. */
struct line {
    const struct call *s;
    const struct columns *k;
    const struct source *f;
    const element *image, *weights[ANY_ROWS];
    int64_t n;
};

/* Add the taps begin .. end - 1 that all columns have. An input that is loaded for the last column
 * moves on by a column, a register, for the tap that is `shared` taps later. */
INLINE void add_sliding(vector sum[ANY_ROWS][ANY_COLUMNS], const struct line *l, int64_t begin,
                        int64_t end, const int shared, const int rows, const int whole) {
    const int64_t tap = l->s->g.dilation_w * l->s->src_ps, ts = l->s->weights_ts;
    vector x[MOST_SHARED][ANY_COLUMNS];
    const element *p = AT_CONST(element, l->image, begin * tap);
    const element *w[ANY_ROWS];
    UNROLL for (int r = 0; r < rows; r++)
        w[r] = AT_CONST(element, l->weights[r], begin * ts);
    UNROLL for (int c = 0; c < ANY_COLUMNS - 1; c++) {
        UNROLL for (int k = 0; k < shared; k++, p = AT_CONST(element, p, tap))
            x[k][c] = load_input(p, l->f, whole);
    }
    for (int64_t j = begin; j < end; j += shared) {
        UNROLL for (int k = 0; k < shared; k++) {
            if (k && j + k >= end) break;
            x[k][ANY_COLUMNS - 1] = in_register(load_input(p, l->f, whole));
            p = AT_CONST(element, p, tap);
            UNROLL for (int r = 0; r < rows; r++) {
                const vector by = in_register(load_weight(w[r], l->n, whole));
                w[r] = AT_CONST(element, w[r], ts);
                UNROLL for (int c = 0; c < ANY_COLUMNS; c++)
                    sum[r][c] = multiply_add(x[k][c], by, sum[r][c]);
            }
            UNROLL for (int c = 1; c < ANY_COLUMNS; c++)
                x[k][c - 1] = x[k][c];
        }
    }
}

/* Add the taps begin .. end - 1: all columns have them, or, with `some`, some of the columns. */
INLINE void add_apart(vector sum[ANY_ROWS][ANY_COLUMNS], const struct line *l, int64_t begin,
                      int64_t end, const int some, const int rows, const int whole) {
    const struct columns *k = l->k;
    const struct call *s = l->s;
    const int64_t stride = k->apart * s->g.stride_w, dilation = s->g.dilation_w;
    const int64_t step = stride * s->src_ps;
    const element *p = AT_CONST(element, l->image, begin * dilation * s->src_ps);
    int64_t x = k->start + begin * dilation, w = begin * s->weights_ts;
    for (int64_t j = begin; j < end; j++, x += dilation, w += s->weights_ts) {
        vector by[ANY_ROWS];
        UNROLL for (int r = 0; r < rows; r++)
            by[r] = in_register(load_weight(AT_CONST(element, l->weights[r], w), l->n, whole));
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++) {
            if (some && c >= k->count) break;
            if (some && (uint64_t)(x + c * stride) >= (uint64_t)s->g.iw) continue;
            const vector v = load_input(AT_CONST(element, p, c * step), l->f, whole);
            UNROLL for (int r = 0; r < rows; r++)
                sum[r][c] = multiply_add(v, by[r], sum[r][c]);
        }
        p = AT_CONST(element, p, dilation * s->src_ps);
    }
}

/* Add lines to the sums of `rows` rows. */
INLINE void add_lines(vector sums[ANY_ROWS][ANY_COLUMNS], struct line *l, int64_t count,
                      const int rows, const int whole) {
    const struct columns *k = l->k;
    const struct call *s = l->s;
    vector sum[ANY_ROWS][ANY_COLUMNS]; /* in registers */
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++)
            sum[r][c] = sums[r][c];
    }
    for (; count > 0; count--) {
        add_apart(sum, l, k->low, k->inner, 1, rows, whole);
        if (k->inner < k->outer) {
            if (k->shared == 1) add_sliding(sum, l, k->inner, k->outer, 1, rows, whole);
            else if (MOST_SHARED == 2 && k->shared == 2)
                add_sliding(sum, l, k->inner, k->outer, MOST_SHARED, rows, whole);
            else add_apart(sum, l, k->inner, k->outer, 0, rows, whole);
        }
        add_apart(sum, l, k->outer, k->high, 1, rows, whole);
        l->image = AT_CONST(element, l->image, s->g.dilation_h * s->src_rs);
        UNROLL for (int r = 0; r < rows; r++)
            l->weights[r] = AT_CONST(element, l->weights[r], s->g.kw * s->weights_ts);
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++)
            sums[r][c] = sum[r][c];
    }
}

/* Functions of their own, so that the compiler need not see them all at once, and so that one of
 * them adds to either row. */
#define LINES(name, rows, whole)                                                                   \
    static __attribute__((noinline)) void name(vector sums[ANY_ROWS][ANY_COLUMNS], struct line *l, \
                                               int64_t count) {                                    \
        add_lines(sums, l, count, rows, whole);                                                    \
    }
LINES(add_to_row, 1, 1)
LINES(add_part, 1, 0)
#if PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_NEON && defined(__aarch64__))
LINES(add_to_rows, ANY_ROWS, 1)
#else
#define add_to_rows add_to_row /* of one */
#endif
#undef LINES

/* The rows of a block: they are so far apart that they share lines. */
struct rows {
    int64_t apart;   /* from one row to the next */
    int64_t between; /* lines from the first one that a row sees to that of the next row */
};

/* The row `row` and, of two, the next one, in a block of columns and a vector of channels. */
static void any_block(const struct call *s, const struct columns *k, const struct rows *apart,
                      int64_t row, int64_t rows, int64_t channel, int64_t n,
                      const struct source *source) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t top = row * g->stride_h - g->pad_top, kernel_row = g->kw * s->weights_ts;
    const int64_t between = apart->between, first = steps_to(top, g->dilation_h, 0);
    int64_t last = (rows - 1) * between + g->kh;
    if (top + (last - 1) * g->dilation_h >= g->ih) last = steps_to(top, g->dilation_h, g->ih);
    const int whole = n == LANES && !source->picks;
    struct source f = *source;
    /* Of groups, each vector of channels has its weights by itself. */
    const element *weights = s->weights + channel * (s->depth > 1 ? s->depth * s->taps : 1);
    vector sum[ANY_ROWS][ANY_COLUMNS];
    const vector zero = {0};
    UNROLL for (int r = 0; r < ANY_ROWS; r++) {
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++)
            sum[r][c] = zero;
    }
    for (int64_t d = 0; d < s->depth; d++) {
        struct line l = {.s = s, .k = k, .f = &f, .n = n};
        const int64_t at = (top + first * g->dilation_h) * s->src_rs + k->start * s->src_ps;
        l.image = AT_CONST(element, s->src + f.first, at);
        /* Lines that only the first row sees, that both see, that neither does, that the second
         * does. */
        for (int64_t i = first; i < last;) {
            const int64_t low = i < g->kh ? 0 : 1, high = rows > 1 && i >= between ? 1 : 0;
            const int64_t next = i < least(between, g->kh) && rows > 1 ? least(between, g->kh)
                                 : i < g->kh                           ? g->kh
                                 : high                                ? last
                                                                       : between;
            const int64_t count = least(next, last) - i;
            UNROLL for (int r = 0; r < ANY_ROWS; r++)
                l.weights[r] = AT_CONST(element, weights, (i - r * between) * kernel_row);
            if (low < high) {
                add_to_rows(sum, &l, count);
            } else if (low == high) {
                l.weights[0] = l.weights[low];
                if (whole) add_to_row(sum + low, &l, count);
                else add_part(sum + low, &l, count);
            } else {
                l.image = AT_CONST(element, l.image, count * g->dilation_h * s->src_rs);
            }
            i += count;
        }
        /* The next input channel: the next lane, or the next element. */
        if (f.count > 1) f.lane += 1;
        else f.first++;
        weights = AT_CONST(element, weights, s->taps * s->weights_ts);
    }
    struct epilogue e = s->epilogue;
    if (s->bias) e.bias = load_lanes(s->bias + channel, n);
    for (int64_t r = 0; r < rows; r++, row += apart->apart) {
        const element *more = AT_CONST(element, s->residual + channel,
                                       row * s->residual_rs + k->first * s->residual_ps);
        element *to = AT(element, s->dst + channel, row * s->dst_rs + k->first * s->dst_ps);
        const int64_t dst_step = k->apart * s->dst_ps, step = k->apart * s->residual_ps;
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++) {
            sum[r][c] += e.bias;
            if (e.residual && c >= k->done && c < k->count)
                sum[r][c] += load_lanes(AT_CONST(element, more, c * step), n);
        }
        clip_all(&e, sum[r], ANY_COLUMNS);
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++) {
            if (c >= k->done && c < k->count)
                store_lanes(AT(element, to, c * dst_step), sum[r][c], n);
        }
    }
}

/* The least number of strides that are whole dilations. So far apart, outputs share inputs. */
INLINE int64_t sharing(int64_t stride, int64_t dilation) {
    int64_t apart = 1;
    while (apart * stride % dilation) apart++;
    return apart;
}

/* The first output of the next block of `count`: between the outputs of this one, or after them. */
INLINE int64_t next_block(int64_t i, int64_t apart, int64_t count) {
    return (i + 1) % apart ? i + 1 : i + 1 - apart + count * apart;
}

/* Output rows first .. end - 1. */
static void any(const struct call *call, int64_t first, int64_t end, int64_t channels,
                int64_t multiplier, int64_t phase) {
    const struct call s = *call;
    const int64_t across = sharing(s.g.stride_w, s.g.dilation_w);
    const int64_t down = sharing(s.g.stride_h, s.g.dilation_h);
    const struct rows apart = {down, down * s.g.stride_h / s.g.dilation_h};
    for (int64_t begin = first; begin < end; begin += ANY_BAND) {
        const int64_t band = least(end - begin, ANY_BAND);
        for (int64_t column = 0; column < s.g.ow;
             column = next_block(column, across, ANY_COLUMNS)) {
            const struct columns k = columns_from(&s.g, column, across);
            for (int64_t channel = 0; channel < channels; channel += LANES) {
                const int64_t n = least(channels - channel, LANES);
                struct source f = {channel, n, {0}, 0};
                if (multiplier > 1) f = source_of(phase + channel, n, multiplier);
                if (s.depth > 1) f = source_in_groups(channel, n, s.depth);
                const int64_t most = n == LANES && !f.picks ? ANY_ROWS : 1;
                for (int64_t row = 0; row < band; row = next_block(row, down, most)) {
                    const int64_t rows = least(ceil_of(band - row, down), most);
                    any_block(&s, &k, &apart, begin + row, rows, channel, n, &f);
                }
            }
        }
    }
}

#endif
