/* Channels-last pixels with a kernel of many taps, of any stride and dilation, each channel by
 * itself: blocks of some output columns in two rows, so that their sums hide the latency of
 * products and share weights and inputs. Columns of a block are so far apart that the input of a
 * tap is that of a later tap of the column before: inputs move on by a register, and only one is
 * loaded for each tap. Of few taps, preparing a block takes longer than its products.
 *
 * Where the kernel is wider than the image, most taps of a block are on the padding of some column.
 * Then weights move on instead: for each input of a line, every column multiplies it by the tap
 * that sees it. */
#ifndef PPLCONV_DEPTHWISE_CHANNELS_LARGE_H
#define PPLCONV_DEPTHWISE_CHANNELS_LARGE_H

#include "depthwise_channels.h"

/* Least taps of a kernel. */
enum { MANY_TAPS = 26 };

/* Whether there are blocks of one row: double and portable C have none, for their size. */
#define SINGLE_ROWS (!PPLCONV_F64 && (PPLCONV_VECTOR_BYTES >= 32 || PPLCONV_NEON))

/* Columns of a block. The sums of two rows, a row of inputs, and two weights are to fit the
 * registers. Where weights move on, there is one row, of a few columns more. */
#if PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_NEON && defined(__aarch64__))
enum { LARGE_COLUMNS = 8, MOST_COLUMNS = 8 };
#elif SINGLE_ROWS
enum { LARGE_COLUMNS = 4, MOST_COLUMNS = 6 };
#else
enum { LARGE_COLUMNS = 4, MOST_COLUMNS = 4 };
#endif

/* Whether blocks of some kernels list their taps (depthwise_channels_listed.h): measured with AVX2
 * only. */
#define LISTS_TAPS (SINGLE_ROWS && PPLCONV_VECTOR_BYTES == 32)

/* At stride 2, two taps have inputs of their own, if there are registers for them. */
enum { MOST_SHARED = LARGE_COLUMNS == 8 ? 2 : 1 };

/* Output rows of a block, which share the inputs of their lines. */
enum { LARGE_ROWS = 2 };

/* Bytes of inputs that stay in L2, and rows of a band at least. */
enum { SEEN_BYTES = 224 << 10, LEAST_BAND = 16, LINE_BYTES = 64 };

/* Rows and channels that are computed before others, so that blocks find inputs in L2. */
struct part {
    int64_t rows, channels;
};

/* All rows of as many channels as let L2 hold all that these see. If that is no cache line, as many
 * channels as let it hold the inputs of a block of columns in a band of rows: long runs of memory
 * are read fast. */
static struct part part_of(const struct pplconv_geometry *g, int64_t rows) {
    const int64_t line = LINE_BYTES / sizeof(element);
    const int64_t stride_h = least(g->stride_h, g->ih), stride_w = least(g->stride_w, g->iw);
    const int64_t down = least((g->kh - 1) * g->dilation_h, g->ih);
    const int64_t across = least((g->kw - 1) * g->dilation_w, g->iw);
    const int64_t lines = least(rows * stride_h + down, g->ih);
    const int64_t whole = most(lines * g->iw * LINE_BYTES, 1);
    if (whole <= SEEN_BYTES) return (struct part){rows, SEEN_BYTES / whole * line};
    const int64_t band = most(2 * down / stride_h, LEAST_BAND);
    const int64_t columns = LARGE_COLUMNS * stride_w + across;
    const int64_t seen = (band * stride_h + down) * columns * LINE_BYTES;
    return (struct part){band, most(SEEN_BYTES / seen, 1) * line};
}

/* How a block computes its sums. */
enum way {
    TWO_ROWS,  /* inputs move on from tap to tap, if columns share them */
    LISTED,    /* two rows, whose taps lie in a list */
    BY_INPUTS, /* weights move on from input to input */
};

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
    /* Inputs that some output sees: from .. end - 1, counted as taps of the first one; and those
     * that all outputs see. */
    int64_t from, end, all_from, all_end;
    enum way way;
};

INLINE int64_t columns_of(enum way way) { return way == TWO_ROWS ? LARGE_COLUMNS : MOST_COLUMNS; }

static struct columns columns_at(const struct pplconv_geometry *g, int64_t first, int64_t apart,
                                 enum way way) {
    const int64_t width = columns_of(way);
    const int64_t step = g->dilation_w, count = ceil_of(g->ow - first, apart);
    /* The last block reaches back, so that it is a whole one. */
    const int64_t back = least(most(width - count, 0), first / apart);
    const int64_t start = (first - back * apart) * g->stride_w - g->pad_left;
    struct columns k = {.first = first - back * apart, .apart = apart, .start = start};
    k.count = least(count + back, width);
    k.done = back;
    k.shared = apart * g->stride_w / step;
    k.way = way;
    const int64_t last = start + (k.count - 1) * apart * g->stride_w;
    k.low = steps_to(last, step, 0);
    k.high = least(steps_to(start, step, g->iw), g->kw);
    k.inner = k.outer = k.high;
    if (k.count < width) return k;
    k.inner = least(most(steps_to(start, step, 0), k.low), k.high);
    k.outer = most(least(steps_to(last, step, g->iw), k.high), k.inner);
    const int64_t in_image = steps_to(start, step, g->iw);
    k.from = steps_to(start, step, 0);
    k.end = least(in_image, g->kw + width - 1);
    k.all_from = most(k.from, width - 1);
    k.all_end = least(in_image, g->kw);
    return k;
}

/* What inputs or taps cost that not all outputs have, beside others. */
enum { SOME_COST = 3 };

/* Whether the outputs of a block share more inputs than taps. */
static int shares_inputs(const struct columns *k) {
    const int64_t taps = k->outer - k->inner, inputs = k->all_end - k->all_from;
    const int64_t some_inputs = k->end - k->from - inputs, some_taps = k->high - k->low - taps;
    return inputs > 0 && inputs + SOME_COST * some_inputs < taps + SOME_COST * some_taps;
}

/* The way of the block at `column`, and of the blocks between whose outputs its own lie. */
static enum way way_at(const struct pplconv_geometry *g, int64_t column, int64_t apart) {
    const int64_t shared = apart * g->stride_w / g->dilation_w;
    if (!SINGLE_ROWS || shared != 1) return TWO_ROWS;
    const int64_t end = least(column + apart, g->ow);
    for (int64_t i = column; i < end; i++) {
        const struct columns k = columns_at(g, i, apart, BY_INPUTS);
        if (!shares_inputs(&k)) return TWO_ROWS;
    }
    return BY_INPUTS;
}

/* Lines of the image for the sums of one or two rows: where tap 0 of the first column reads, and
 * the rows of the kernel. */
struct line {
    const struct call *s;
    const struct columns *k;
    const element *image, *weights[LARGE_ROWS];
    int64_t n;
};

/* Add the taps begin .. end - 1 that all columns have. An input that is loaded for the last column
 * moves on by a column, a register, for the tap that is `shared` taps later. */
INLINE void add_sliding(vector sum[LARGE_ROWS][LARGE_COLUMNS], const struct line *l, int64_t begin,
                        int64_t end, const int shared, const int rows, const int tail) {
    const int64_t tap = l->s->g.dilation_w * l->s->src_ps;
    vector x[MOST_SHARED][LARGE_COLUMNS];
    const element *p = AT_CONST(element, l->image, begin * tap);
    const element *w[LARGE_ROWS];
    UNROLL for (int r = 0; r < rows; r++)
        w[r] = l->weights[r] + begin * LANES;
    UNROLL for (int c = 0; c < LARGE_COLUMNS - 1; c++) {
        UNROLL for (int k = 0; k < shared; k++, p = AT_CONST(element, p, tap))
            x[k][c] = load_channels(p, l->n, tail);
    }
    for (int64_t j = begin; j < end; j += shared) {
        UNROLL for (int k = 0; k < shared; k++) {
            if (k && j + k >= end) break;
            x[k][LARGE_COLUMNS - 1] = in_register(load_channels(p, l->n, tail));
            p = AT_CONST(element, p, tap);
            UNROLL for (int r = 0; r < rows; r++) {
                const vector by = in_register(load(w[r]));
                w[r] += LANES;
                UNROLL for (int c = 0; c < LARGE_COLUMNS; c++)
                    sum[r][c] = multiply_add(x[k][c], by, sum[r][c]);
            }
            UNROLL for (int c = 1; c < LARGE_COLUMNS; c++)
                x[k][c - 1] = x[k][c];
        }
    }
}

/* Add the taps begin .. end - 1: all columns have them, or, with `some`, some of the columns. */
INLINE void add_apart(vector sum[LARGE_ROWS][LARGE_COLUMNS], const struct line *l, int64_t begin,
                      int64_t end, const int some, const int rows, const int tail) {
    const struct columns *k = l->k;
    const struct call *s = l->s;
    const int64_t stride = k->apart * s->g.stride_w, dilation = s->g.dilation_w;
    const int64_t step = stride * s->src_ps;
    const element *p = AT_CONST(element, l->image, begin * dilation * s->src_ps);
    int64_t x = k->start + begin * dilation;
    for (int64_t j = begin; j < end; j++, x += dilation) {
        vector by[LARGE_ROWS];
        UNROLL for (int r = 0; r < rows; r++)
            by[r] = in_register(load(l->weights[r] + j * LANES));
        UNROLL for (int c = 0; c < LARGE_COLUMNS; c++) {
            if (some && c >= k->count) break;
            if (some && (uint64_t)(x + c * stride) >= (uint64_t)s->g.iw) continue;
            const vector v = in_register(load_channels(AT_CONST(element, p, c * step), l->n, tail));
            UNROLL for (int r = 0; r < rows; r++)
                sum[r][c] = multiply_add(v, by[r], sum[r][c]);
        }
        p = AT_CONST(element, p, dilation * s->src_ps);
    }
}

/* Add lines to the sums of `rows` rows. */
INLINE void add_lines(vector sums[LARGE_ROWS][MOST_COLUMNS], struct line *l, int64_t count,
                      const int rows, const int tail) {
    const struct columns *k = l->k;
    const struct call *s = l->s;
    vector sum[LARGE_ROWS][LARGE_COLUMNS]; /* in registers */
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < LARGE_COLUMNS; c++)
            sum[r][c] = sums[r][c];
    }
    for (; count > 0; count--) {
        add_apart(sum, l, k->low, k->inner, 1, rows, tail);
        if (k->inner < k->outer) {
            if (k->shared == 1) add_sliding(sum, l, k->inner, k->outer, 1, rows, tail);
            else if (MOST_SHARED == 2 && k->shared == 2)
                add_sliding(sum, l, k->inner, k->outer, MOST_SHARED, rows, tail);
            else add_apart(sum, l, k->inner, k->outer, 0, rows, tail);
        }
        add_apart(sum, l, k->outer, k->high, 1, rows, tail);
        l->image = AT_CONST(element, l->image, s->g.dilation_h * s->src_rs);
        UNROLL for (int r = 0; r < rows; r++)
            l->weights[r] += s->g.kw * LANES;
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int c = 0; c < LARGE_COLUMNS; c++)
            sums[r][c] = sum[r][c];
    }
}

#if SINGLE_ROWS
/* Add inputs begin .. end - 1 of a line to the columns that see them. */
INLINE void add_seen(vector sum[MOST_COLUMNS], const struct line *l, int64_t begin, int64_t end,
                     const int tail) {
    const struct call *s = l->s;
    for (int64_t u = begin; u < end; u++) {
        const element *p = AT_CONST(element, l->image, u * s->g.dilation_w * s->src_ps);
        const vector x = load_channels(p, l->n, tail);
        UNROLL for (int c = 0; c < MOST_COLUMNS; c++) {
            if ((uint64_t)(u - c) >= (uint64_t)s->g.kw) continue;
            sum[c] = multiply_add(x, load(l->weights[0] + (u - c) * LANES), sum[c]);
        }
    }
}

/* Add lines to the sums of a row, input by input. A weight that is loaded for the first column
 * moves on by a column, a register, for the next input. */
INLINE void add_lines_by_inputs(vector sums[LARGE_ROWS][MOST_COLUMNS], struct line *l,
                                int64_t count, const int tail) {
    const struct columns *k = l->k;
    const struct call *s = l->s;
    const int64_t tap = s->g.dilation_w * s->src_ps;
    vector sum[MOST_COLUMNS], by[MOST_COLUMNS];
    UNROLL for (int c = 0; c < MOST_COLUMNS; c++)
        sum[c] = sums[0][c];
    for (; count > 0; count--) {
        add_seen(sum, l, k->from, k->all_from, tail);
        const element *p = AT_CONST(element, l->image, k->all_from * tap);
        const element *w = l->weights[0] + k->all_from * LANES;
        UNROLL for (int c = 1; c < MOST_COLUMNS; c++)
            by[c - 1] = load(w - c * LANES);
        for (int64_t left = k->all_end - k->all_from; left > 0; left--) {
            UNROLL for (int c = MOST_COLUMNS - 1; c > 0; c--)
                by[c] = by[c - 1];
            by[0] = in_register(load(w));
            const vector x = in_register(load_channels(p, l->n, tail));
            UNROLL for (int c = 0; c < MOST_COLUMNS; c++)
                sum[c] = multiply_add(x, by[c], sum[c]);
            p = AT_CONST(element, p, tap);
            w += LANES;
        }
        add_seen(sum, l, k->all_end, k->end, tail);
        l->image = AT_CONST(element, l->image, s->g.dilation_h * s->src_rs);
        l->weights[0] += s->g.kw * LANES;
    }
    UNROLL for (int c = 0; c < MOST_COLUMNS; c++)
        sums[0][c] = sum[c];
}
#endif

typedef void lines_function(vector sums[LARGE_ROWS][MOST_COLUMNS], struct line *l, int64_t count);

/* Functions of their own, so that the compiler need not see them all at once, and so that one of
 * them adds to either row. */
#define LINES(name, add, ...)                                                                      \
    static __attribute__((noinline)) void name(vector sums[LARGE_ROWS][MOST_COLUMNS],              \
                                               struct line *l, int64_t count) {                    \
        add(sums, l, count, __VA_ARGS__);                                                          \
    }
LINES(add_to_rows, add_lines, LARGE_ROWS, 0)
LINES(add_to_row, add_lines, 1, 0)
LINES(add_tail, add_lines, 1, 1)
#if SINGLE_ROWS
LINES(add_by_inputs, add_lines_by_inputs, 0)
LINES(add_tail_by_inputs, add_lines_by_inputs, 1)
#endif
#undef LINES

/* Epilogue and stores of the sums of a row. */
static void store_row(const struct call *s, const struct columns *k, vector sum[MOST_COLUMNS],
                      int64_t row, int64_t channel, int64_t n) {
    struct epilogue e = s->epilogue;
    if (s->bias) e.bias = load_lanes(s->bias + channel, n);
    const element *more =
        AT_CONST(element, s->residual + channel, row * s->residual_rs + k->first * s->residual_ps);
    element *to = AT(element, s->dst + channel, row * s->dst_rs + k->first * s->dst_ps);
    const int64_t dst_step = k->apart * s->dst_ps, step = k->apart * s->residual_ps;
    UNROLL for (int c = 0; c < MOST_COLUMNS; c++) {
        sum[c] += e.bias;
        if (e.residual && c >= k->done && c < k->count)
            sum[c] += load_lanes(AT_CONST(element, more, c * step), n);
    }
    clip_all(&e, sum, MOST_COLUMNS);
    const int whole = n == LANES && k->done == 0 && k->count == MOST_COLUMNS;
    UNROLL for (int c = 0; c < MOST_COLUMNS && whole; c++)
        *(unaligned_vector *)AT(element, to, c * dst_step) = sum[c];
    for (int64_t c = whole ? k->count : k->done; c < k->count; c++)
        store_lanes(AT(element, to, c * dst_step), sum[c], n);
}

/* The rows of a block: they are so far apart that they share lines. */
struct rows {
    int64_t apart;   /* from one row to the next */
    int64_t between; /* lines from the first one that a row sees to that of the next row */
};

/* The row `row` and, of two, the next one, in a block of columns and a vector of channels. */
static void large_block(const struct call *s, const struct columns *k, const struct rows *apart,
                        int64_t row, int64_t rows, int64_t channel, int64_t n) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t top = row * g->stride_h - g->pad_top, between = apart->between;
    const int64_t first = steps_to(top, g->dilation_h, 0);
    int64_t last = (rows - 1) * between + g->kh;
    if (top + (last - 1) * g->dilation_h >= g->ih) last = steps_to(top, g->dilation_h, g->ih);
    const int64_t at = (top + first * g->dilation_h) * s->src_rs + k->start * s->src_ps;
    struct line l = {.s = s, .k = k, .n = n};
    l.image = AT_CONST(element, s->src + channel, at);
    vector sum[LARGE_ROWS][MOST_COLUMNS];
    const vector zero = {0};
    UNROLL for (int r = 0; r < LARGE_ROWS; r++) {
        UNROLL for (int c = 0; c < MOST_COLUMNS; c++)
            sum[r][c] = zero;
    }
    /* Lines of the first row alone, lines of both rows (or of none, if the second one begins
     * later), and lines of the second row alone. */
    const int64_t one = rows > 1 ? least(between, g->kh) : g->kh;
    const int64_t both = rows > 1 ? most(between, g->kh) : g->kh;
    for (int64_t i = first; i < last;) {
        const int64_t count = least(i < one ? one : i < both ? both : last, last) - i;
        UNROLL for (int r = 0; r < LARGE_ROWS; r++) {
            const int64_t taps = (i - r * between) * g->kw;
            l.weights[r] = s->weights + channel * s->taps + taps * LANES;
        }
        if (i < one || i >= both) {
            const int r = i >= both;
            l.weights[0] = l.weights[r];
#if SINGLE_ROWS
            if (k->way == BY_INPUTS)
                (n < LANES ? add_tail_by_inputs : add_by_inputs)(sum, &l, count);
            else
#endif
                (n < LANES ? add_tail : add_to_row)(sum + r, &l, count);
        } else if (between < g->kh) {
            add_to_rows(sum, &l, count);
        } else {
            l.image = AT_CONST(element, l.image, count * g->dilation_h * s->src_rs);
        }
        i += count;
    }
    for (int64_t r = 0; r < rows; r++) store_row(s, k, sum[r], row + r * apart->apart, channel, n);
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

#if LISTS_TAPS
#include "depthwise_channels_listed.h"
#endif

/* `count` output rows from `first` on, of the channels begin .. end - 1, which share cache lines.
 */
static void large_columns(const struct call *s, int64_t across, int64_t down, int64_t first,
                          int64_t count, int64_t begin, int64_t end) {
#if LISTS_TAPS
    if (is_listed(s, across)) {
        listed_columns(s, down, first, count, begin, end);
        return;
    }
#endif
    const struct rows apart = {down, down * s->g.stride_h / s->g.dilation_h};
    enum way way = TWO_ROWS;
    for (int64_t column = 0; column < s->g.ow;
         column = next_block(column, across, columns_of(way))) {
        if (column % across == 0) way = way_at(&s->g, column, across);
        const struct columns k = columns_at(&s->g, column, across, way);
        for (int64_t channel = begin; channel < end; channel += LANES) {
            const int64_t n = least(end - channel, LANES);
            const int64_t most = n == LANES && way == TWO_ROWS ? LARGE_ROWS : 1;
            for (int64_t row = 0; row < count; row = next_block(row, down, most)) {
                const int64_t rows = least(ceil_of(count - row, down), most);
                large_block(s, &k, &apart, first + row, rows, channel, n);
            }
        }
    }
}

/* Output rows first .. end - 1. */
static void large(const struct call *call, int64_t first, int64_t end, int64_t channels) {
    const struct call s = *call;
    const int64_t across = sharing(s.g.stride_w, s.g.dilation_w);
    const int64_t down = sharing(s.g.stride_h, s.g.dilation_h);
    const struct part part = part_of(&s.g, end - first);
    for (int64_t row = first; row < end; row += part.rows) {
        const int64_t rows = least(end - row, part.rows);
        for (int64_t channel = 0; channel < channels; channel += part.channels) {
            const int64_t channel_end = least(channel + part.channels, channels);
            large_columns(&s, across, down, row, rows, channel, channel_end);
        }
    }
}

#endif
