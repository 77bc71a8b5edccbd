/* Kernels whose taps are listed for each block of columns: to begin a line of inputs costs as much
 * as seven taps of it, and here one loop goes through all lines. Each tap loads one input for each
 * column; two rows share them. Included by depthwise_channels_large.h. */
#ifndef PPLCONV_DEPTHWISE_CHANNELS_LISTED_H
#define PPLCONV_DEPTHWISE_CHANNELS_LISTED_H

/* Most taps of a list, which stays in L1; and most of its taps in a line, if columns share inputs:
 * in longer lines, inputs that move on are faster. */
enum { MOST_LISTED = 1024, LONGEST_LISTED = 13 };

/* Whether taps are listed. Columns that share inputs are `across` columns apart. */
static int is_listed(const struct call *s, int64_t across) {
    const int share = across * s->g.stride_w == s->g.dilation_w;
    return s->taps <= MOST_LISTED && (!share || s->g.kw <= LONGEST_LISTED) &&
           way_at(&s->g, 0, across) == TWO_ROWS;
}

/* An item of a list: bytes from column 0 of a block's first line to the input of its first output,
 * times so many, and a bit for each output that has the tap. One load is for both: loads are short.
 */
enum { BITS = 1 << MOST_COLUMNS };

/* List the taps of the block whose first output reads column `start` at tap 0. */
static void list_taps(const struct call *s, int64_t start, int64_t count, int64_t *taps) {
    const struct pplconv_geometry *g = &s->g;
    for (int64_t j = 0; j < g->kw; j++) {
        const int64_t x = start + j * g->dilation_w;
        int64_t item = x * s->src_ps * BITS;
        for (int64_t c = 0; c < count; c++)
            item |= (int64_t)((uint64_t)(x + c * g->stride_w) < (uint64_t)g->iw) << c;
        for (int64_t i = 0; i < g->kh; i++)
            taps[i * g->kw + j] = item + i * g->dilation_h * s->src_rs * BITS;
    }
}

/* The lines of one row, or of two: those of the first row alone, of both, and of the second row
 * alone end before these. Lines are counted from the first one of the first row, `top` of the image
 * on. */
struct lines {
    int64_t top, first, one, both, last;
    int64_t between; /* from the first line of a row to that of the other one */
};

static struct lines lines_of(const struct pplconv_geometry *g, int64_t row, int64_t rows,
                             int64_t between) {
    struct lines l = {.top = row * g->stride_h - g->pad_top, .between = between};
    const int64_t whole = g->kh + (rows - 1) * between;
    l.last = least(steps_to(l.top, g->dilation_h, g->ih), whole);
    l.first = least(steps_to(l.top, g->dilation_h, 0), l.last);
    l.one = most(least(rows > 1 ? between : g->kh, l.last), l.first);
    l.both = most(least(g->kh, l.last), l.one);
    return l;
}

/* What a block reads: a list, a vector of channels of the image at `top`, and their weights. */
struct block_of_taps {
    const int64_t *taps;
    const element *image, *weights;
    int64_t n;
};

/* Add a tap to the sums of a column. */
INLINE void add_to_column(vector sum[][MOST_COLUMNS], const element *p, const vector *by,
                          const int c, int64_t step, int64_t n, const int rows, const int tail) {
    const vector x = in_register(load_channels(AT_CONST(element, p, c * step), n, tail));
    UNROLL for (int r = 0; r < rows; r++)
        sum[r][c] = multiply_add(x, by[r], sum[r][c]);
}
#define TO(c) add_to_column(sum, p, by, c, step, n, rows, tail)

/* Add a tap to the columns that have it: beside an edge of the image the last ones or the first
 * ones, which one jump finds. */
_Static_assert(MOST_COLUMNS == 6, "the cases name six columns");
INLINE void add_tap(vector sum[][MOST_COLUMNS], const element *p, const vector *by, int64_t columns,
                    int64_t step, int64_t n, const int rows, const int tail) {
    switch (columns) {
    case 62:
        TO(1); /* fall through */
    case 60:
        TO(2); /* fall through */
    case 56:
        TO(3); /* fall through */
    case 48:
        TO(4); /* fall through */
    case 32:
        TO(5);
        return;
    case 31:
        TO(4); /* fall through */
    case 15:
        TO(3); /* fall through */
    case 7:
        TO(2); /* fall through */
    case 3:
        TO(1); /* fall through */
    case 1:
        TO(0);
        return;
    default:
        UNROLL for (int c = 0; c < MOST_COLUMNS; c++) {
            if (columns >> c & 1) TO(c);
        }
    }
}

/* Add the lines begin .. end - 1 to the sums of a row or of two, whose first lines are `between`
 * lines apart. */
INLINE void add_taps(vector sum[][MOST_COLUMNS], const struct call *s,
                     const struct block_of_taps *b, int64_t begin, int64_t end, int64_t between,
                     const int rows, const int tail) {
    const int64_t kw = s->g.kw, step = s->g.stride_w * s->src_ps, n = b->n;
    const int64_t *t = b->taps + begin * kw, *const last = b->taps + end * kw;
    const element *w[LARGE_ROWS] = {b->weights + begin * kw * LANES};
    w[1] = w[0] - between * kw * LANES;
    for (; t < last; t++) {
        const element *p = AT_CONST(element, b->image, *t >> MOST_COLUMNS);
        vector by[LARGE_ROWS];
        UNROLL for (int r = 0; r < rows; r++) {
            by[r] = in_register(load(w[r]));
            w[r] += LANES;
        }
        const int64_t columns = *t & (BITS - 1);
        if (__builtin_expect(columns == BITS - 1, 1)) {
            UNROLL for (int c = 0; c < MOST_COLUMNS; c++)
                TO(c);
        } else {
            add_tap(sum, p, by, columns, step, n, rows, tail);
        }
    }
}

#undef TO

#define STORE_ROWS(rows)                                                                           \
    UNROLL for (int r = 0; r < rows; r++) {                                                        \
        UNROLL for (int c = 0; c < MOST_COLUMNS; c++)                                              \
            sums[r][c] = sum[r][c];                                                                \
    }

/* The sums of two rows of a whole vector. */
static __attribute__((noinline)) void sum_rows(vector sums[LARGE_ROWS][MOST_COLUMNS],
                                               const struct call *s, const struct lines *l,
                                               const struct block_of_taps *b) {
    vector sum[LARGE_ROWS][MOST_COLUMNS] = {0}; /* in registers */
    struct block_of_taps second = *b;
    const int64_t down = l->between * s->g.dilation_h * s->src_rs;
    second.image = AT_CONST(element, b->image, down);
    add_taps(sum, s, b, l->first, l->one, 0, 1, 0);
    add_taps(sum, s, b, l->one, l->both, l->between, LARGE_ROWS, 0);
    if (l->both < l->last)
        add_taps(sum + 1, s, &second, l->both - l->between, l->last - l->between, 0, 1, 0);
    STORE_ROWS(LARGE_ROWS)
}

/* The sums of one row, of a vector of `b->n` channels. */
static __attribute__((noinline)) void sum_row(vector sums[LARGE_ROWS][MOST_COLUMNS],
                                              const struct call *s, const struct lines *l,
                                              const struct block_of_taps *b) {
    vector sum[1][MOST_COLUMNS] = {0};
    add_taps(sum, s, b, l->first, l->one, 0, 1, 1);
    STORE_ROWS(1)
}
#undef STORE_ROWS

/* The row `row` and, of two, the one `down` rows after it, in a block of columns and a vector of
 * channels. */
static void listed_block(const struct call *s, const struct columns *k, const int64_t *taps,
                         const struct lines *l, int64_t row, int64_t rows, int64_t down,
                         int64_t channel, int64_t n) {
    struct block_of_taps b = {.taps = taps, .n = n};
    b.image = AT_CONST(element, s->src + channel, l->top * s->src_rs);
    b.weights = s->weights + channel * s->taps;
    vector sums[LARGE_ROWS][MOST_COLUMNS];
    (rows > 1 ? sum_rows : sum_row)(sums, s, l, &b);
    for (int64_t r = 0; r < rows; r++) store_row(s, k, sums[r], row + r * down, channel, n);
}

/* `count` output rows from `first` on, of the channels begin .. end - 1. */
static void listed_columns(const struct call *s, int64_t down, int64_t first, int64_t count,
                           int64_t begin, int64_t end) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t between = down * g->stride_h / g->dilation_h;
    const int64_t most = between < g->kh ? LARGE_ROWS : 1, line = LINE_BYTES / sizeof(element);
    int64_t taps[MOST_LISTED];
    for (int64_t column = 0; column < g->ow; column += MOST_COLUMNS) {
        const struct columns k = columns_at(g, column, 1, LISTED);
        list_taps(s, k.start, k.count, taps);
        for (int64_t channel = begin; channel < end; channel += line) {
            const int64_t whole = least(end - channel, line) / LANES * LANES;
            for (int64_t i = 0; i < count; i = next_block(i, down, most)) {
                const int64_t row = first + i, rows = least(ceil_of(count - i, down), most);
                const struct lines l = lines_of(g, row, rows, between);
                for (int64_t c = 0; c < whole; c += LANES)
                    listed_block(s, &k, taps, &l, row, rows, down, channel + c, LANES);
            }
            if (channel + line <= end || whole == end - channel) continue;
            for (int64_t row = first; row < first + count; row++) {
                const struct lines l = lines_of(g, row, 1, between);
                listed_block(s, &k, taps, &l, row, 1, down, channel + whole, end - channel - whole);
            }
        }
    }
}

#endif
