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
    int64_t shared;
    int64_t start;        /* column of the image that tap 0 of the first one reads */
    int64_t low, high;    /* taps that some output has: low .. high - 1 */
    int64_t inner, outer; /* that all outputs of a whole block have */
};

static struct columns columns_from(const struct pplconv_geometry *g, int64_t first, int64_t apart) {
    const int64_t step = g->dilation_w, start = first * g->stride_w - g->pad_left;
    struct columns k = {.first = first, .apart = apart, .start = start};
    k.count = least(ceil_of(g->ow - first, apart), ANY_COLUMNS);
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

/* Add the taps begin .. end - 1 that all columns have. An input that is loaded for the last column
 * moves on by a column, a register, for the tap that is `shared` taps later. */
INLINE void add_sliding(vector sum[ANY_COLUMNS], const struct source *f, const element *line,
                        const element *weights, int64_t begin, int64_t end, int64_t tap, int64_t ts,
                        int64_t n, const int shared, const int whole) {
    vector x[MOST_SHARED][ANY_COLUMNS];
    const element *p = AT_CONST(element, line, begin * tap);
    const element *w = AT_CONST(element, weights, begin * ts);
    UNROLL for (int c = 0; c < ANY_COLUMNS - 1; c++) {
        UNROLL for (int k = 0; k < shared; k++, p = AT_CONST(element, p, tap))
            x[k][c] = load_input(p, f, whole);
    }
    for (int64_t j = begin; j < end; j += shared) {
        UNROLL for (int k = 0; k < shared; k++) {
            if (k && j + k >= end) break;
            const vector by = in_register(load_weight(w, n, whole));
            x[k][ANY_COLUMNS - 1] = in_register(load_input(p, f, whole));
            UNROLL for (int c = 0; c < ANY_COLUMNS; c++)
                sum[c] = multiply_add(x[k][c], by, sum[c]);
            UNROLL for (int c = 1; c < ANY_COLUMNS; c++)
                x[k][c - 1] = x[k][c];
            p = AT_CONST(element, p, tap);
            w = AT_CONST(element, w, ts);
        }
    }
}

/* Add the taps begin .. end - 1: all columns have them, or, with `some`, some of the columns. */
INLINE void add_apart(const struct columns *k, vector sum[ANY_COLUMNS], const struct source *f,
                      const element *line, const element *weights, int64_t begin, int64_t end,
                      const struct call *s, int64_t n, const int some, const int whole) {
    const int64_t stride = k->apart * s->g.stride_w, dilation = s->g.dilation_w;
    const int64_t step = stride * s->src_ps;
    const element *p = AT_CONST(element, line, begin * dilation * s->src_ps);
    const element *w = AT_CONST(element, weights, begin * s->weights_ts);
    int64_t x = k->start + begin * dilation;
    for (int64_t j = begin; j < end; j++, x += dilation) {
        const vector by = in_register(load_weight(w, n, whole));
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++) {
            if (some && c >= k->count) break;
            if (some && (uint64_t)(x + c * stride) >= (uint64_t)s->g.iw) continue;
            const vector v = load_input(AT_CONST(element, p, c * step), f, whole);
            sum[c] = multiply_add(v, by, sum[c]);
        }
        p = AT_CONST(element, p, dilation * s->src_ps);
        w = AT_CONST(element, w, s->weights_ts);
    }
}

/* Add a row of the kernel, whose `weights` are, to the sums: `line` is the row of the image that it
 * reads, from the column on that its tap 0 reads for the first output. */
INLINE void add_taps(const struct call *s, const struct columns *k, vector sum[ANY_COLUMNS],
                     const struct source *f, const element *line, const element *weights, int64_t n,
                     const int whole) {
    const int64_t tap = s->g.dilation_w * s->src_ps, ts = s->weights_ts;
    add_apart(k, sum, f, line, weights, k->low, k->inner, s, n, 1, whole);
    if (k->inner < k->outer) {
        if (k->shared == 1)
            add_sliding(sum, f, line, weights, k->inner, k->outer, tap, ts, n, 1, whole);
        else if (k->shared <= MOST_SHARED)
            add_sliding(sum, f, line, weights, k->inner, k->outer, tap, ts, n, MOST_SHARED, whole);
        else add_apart(k, sum, f, line, weights, k->inner, k->outer, s, n, 0, whole);
    }
    add_apart(k, sum, f, line, weights, k->outer, k->high, s, n, 1, whole);
}

/* Output rows begin .. end - 1 of some columns, of a vector of channels. */
INLINE void any_rows(const struct call *s, const struct columns *k, int64_t begin, int64_t end,
                     int64_t channel, int64_t n, const struct source *source, const int whole) {
    const struct pplconv_geometry *g = &s->g;
    struct epilogue e = s->epilogue;
    if (s->bias) e.bias = load_lanes(s->bias + channel, n);
    for (int64_t row = begin; row < end; row++) {
        const int64_t top = row * g->stride_h - g->pad_top;
        const struct range kh = inside(top, g->dilation_h, g->kh, g->ih);
        struct source f = *source;
        /* Of groups, each vector of channels has its weights by itself. */
        const element *weights = s->weights + channel * (s->depth > 1 ? s->depth * s->taps : 1);
        vector sum[ANY_COLUMNS] = {0};
        for (int64_t d = 0; d < s->depth; d++) {
            for (int64_t i = kh.begin; i < kh.end; i++) {
                const int64_t at = (top + i * g->dilation_h) * s->src_rs + k->start * s->src_ps;
                add_taps(s, k, sum, &f, AT_CONST(element, s->src + f.first, at),
                         AT_CONST(element, weights, i * g->kw * s->weights_ts), n, whole);
            }
            /* The next input channel: the next lane, or the next element. */
            if (f.count > 1) f.lane += 1;
            else f.first++;
            weights = AT_CONST(element, weights, s->taps * s->weights_ts);
        }
        const element *more = AT_CONST(element, s->residual + channel,
                                       row * s->residual_rs + k->first * s->residual_ps);
        element *to = AT(element, s->dst + channel, row * s->dst_rs + k->first * s->dst_ps);
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++) {
            sum[c] += e.bias;
            if (e.residual && c < k->count)
                sum[c] += load_lanes(AT_CONST(element, more, c * k->apart * s->residual_ps), n);
        }
        clip_all(&e, sum, ANY_COLUMNS);
        UNROLL for (int c = 0; c < ANY_COLUMNS; c++) {
            if (c < k->count) store_lanes(AT(element, to, c * k->apart * s->dst_ps), sum[c], n);
        }
    }
}

/* Functions of their own, so that the compiler need not see them all at once. */
#define ANY(name, whole)                                                                           \
    static __attribute__((noinline)) void name(const struct call *s, const struct columns *k,      \
                                               int64_t begin, int64_t end, int64_t channel,        \
                                               int64_t n, const struct source *source) {           \
        any_rows(s, k, begin, end, channel, n, source, whole);                                     \
    }
ANY(any_whole, 1)
ANY(any_part, 0)
#undef ANY

/* The first column of the next block: between the columns of this one, or after all of them. */
INLINE int64_t next_block(int64_t column, int64_t apart) {
    return (column + 1) % apart ? column + 1 : column + 1 - apart + ANY_COLUMNS * apart;
}

/* Output rows first .. end - 1. */
static void any(const struct call *call, int64_t first, int64_t end, int64_t channels,
                int64_t multiplier, int64_t phase) {
    const struct call s = *call;
    /* So far apart, columns share inputs: the least number of strides that are whole dilations. */
    int64_t apart = 1;
    while (apart * s.g.stride_w % s.g.dilation_w) apart++;
    for (int64_t begin = first; begin < end; begin += ANY_BAND) {
        const int64_t stop = least(begin + ANY_BAND, end);
        for (int64_t column = 0; column < s.g.ow; column = next_block(column, apart)) {
            const struct columns k = columns_from(&s.g, column, apart);
            for (int64_t channel = 0; channel < channels; channel += LANES) {
                const int64_t n = least(channels - channel, LANES);
                struct source f = {channel, n, {0}, 0};
                if (multiplier > 1) f = source_of(phase + channel, n, multiplier);
                if (s.depth > 1) f = source_in_groups(channel, n, s.depth);
                if (n == LANES && !f.picks) any_whole(&s, &k, begin, stop, channel, n, &f);
                else any_part(&s, &k, begin, stop, channel, n, &f);
            }
        }
    }
}

#endif
