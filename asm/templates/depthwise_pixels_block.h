/* Depthwise convolution of planes with a kernel of any size: register blocks of some rows and some
 * vectors of output columns, at stride 1 or of planes whose columns are sorted. Each line of the
 * image is added to all the rows of the block that see it, so a vector that was loaded for one tap
 * serves as many products as there are such rows, and a weight as many as there are vectors. */
#ifndef PPLCONV_DEPTHWISE_PIXELS_BLOCK_H
#define PPLCONV_DEPTHWISE_PIXELS_BLOCK_H

#include "depthwise_pixels_any.h"

/* Sums, the vectors of a tap and a weight are to fit the registers. */
#if PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_NEON && defined(__aarch64__))
enum { BLOCK_ROWS = 6, BLOCK_VECTORS = 4 };
#else
enum { BLOCK_ROWS = 4, BLOCK_VECTORS = 3 };
#endif

/* The columns of a block: whole vectors whose taps all lie within the rows of the image; lanes of
 * one vector, wherever their taps lie; or, where masks are free, some vectors with the lanes of
 * each tap in a table: the whole rows of a narrow image, or columns that are sorted. */
enum columns { WHOLE, EDGE, NARROW };

/* Taps of a table. Longer kernels, which hardly anybody has, go as at other strides: slowly. */
enum { TABLE_TAPS = 256 };

/* Columns by a table of their taps. */
struct narrow {
    const element *src;     /* what tap 0 of a row's first column reads in line 0 of the image */
    int64_t pitch;          /* elements from a line to the next one */
    int64_t up;             /* weights from a row's line to the next row's */
    int64_t low, high;      /* taps that some lane has: low .. high - 1 */
    int64_t at[TABLE_TAPS]; /* where a tap's elements begin */
    lane_mask in[TABLE_TAPS][BLOCK_VECTORS];
};

/* Other vectors have no blocks of whole rows. */
INLINE vector load_narrow(const element *p, lane_mask *in) {
#if PPLCONV_VECTOR_BYTES == 64
    *in = in_mask_register(*in);
    return load_masked(p, *in);
#else
    (void)in;
    return load(p);
#endif
}

/* Bytes of a block's lines that stay in L2 from one block of rows to the next. */
enum { BAND_BYTES = 8192 };

/* Rows low .. high of a block take a line: `weights` are those of row `low`, and those of the next
 * row lie kw elements before, or `up` elements of a table. */
INLINE void block_line(vector sum[BLOCK_ROWS][BLOCK_VECTORS], const struct pplconv_geometry *g,
                       const element *p, const element *weights, int64_t start, int64_t count,
                       const struct narrow *narrow, const int low, const int high,
                       const int vectors, const enum columns columns) {
    const int64_t taps = g->kw, step = columns == NARROW ? 0 : g->dilation_w;
    const int64_t up = columns == NARROW ? narrow->up : taps;
    const int64_t first = columns == NARROW ? narrow->low : 0;
    const int64_t end = columns == NARROW ? narrow->high : taps;
    p += first * step;
    for (int64_t j = first; j < end; j++, p += step, start += step) {
        vector x[BLOCK_VECTORS];
        lane_mask m[BLOCK_VECTORS];
        if (columns == NARROW) {
            UNROLL for (int v = 0; v < vectors; v++) {
                m[v] = narrow->in[j][v];
                x[v] = in_register(load_narrow(p + narrow->at[j] + v * LANES, &m[v]));
            }
        } else if (columns == EDGE) {
            const struct range lanes = inside(start, 1, count, g->iw);
            if (lanes.begin >= lanes.end) continue;
            m[0] = lanes_between(lanes.begin, lanes.end);
            x[0] = lanes.begin == 0 && lanes.end == LANES ? load(p)
                                                          : load_between(p, lanes.begin, lanes.end);
        } else {
            UNROLL for (int v = 0; v < vectors; v++)
                x[v] = load(p + v * LANES);
        }
        UNROLL for (int r = low; r <= high; r++) {
            const vector w = broadcast(weights[j - (r - low) * up]);
            UNROLL for (int v = 0; v < vectors; v++) {
                sum[r][v] = columns == WHOLE ? multiply_add(x[v], w, sum[r][v])
                                             : multiply_add_where(m[v], x[v], w, sum[r][v]);
            }
        }
    }
}

/* `rows` rows from `row` on, as far apart as the taps of a column, so that they share lines: of
 * `vectors` vectors from `column` on, which have `count` lanes unless they are whole. */
INLINE void block(const struct planes *s, const struct plane *plane, const struct epilogue *e,
                  const element *weights, int64_t row, int64_t rows, int64_t column, int64_t count,
                  const struct narrow *narrow, const int vectors, const enum columns columns) {
    const struct pplconv_geometry *g = &s->g;
    const int64_t kh = g->kh, apart = g->dilation_h, start = column - g->pad_left;
    const int64_t down = columns == NARROW ? g->stride_h : 1;
    const int64_t pitch = columns == NARROW ? narrow->pitch : g->iw;
    /* The line that tap 0 of the first row reads, and which of the block's lines exist. */
    const int64_t top = row * down - g->pad_top;
    const int64_t first = steps_to(top, apart, 0);
    const int64_t end = least((rows - 1) * down + kh, steps_to(top, apart, g->ih));
    const element *p = columns == NARROW ? narrow->src : plane->src + start;
    p += (top + first * apart) * pitch;
    /* Rows that see a line, and the lines from which on they are others. */
    int64_t low = 0, high = 0, leaves = 0, comes = 0;
    if (columns == NARROW) {
        low = steps_to(kh - 1 - first, down, 0);
        high = least(first / down, rows - 1);
        leaves = low * down + kh;
        comes = high < rows - 1 ? (high + 1) * down : end;
    }
    vector sum[BLOCK_ROWS][BLOCK_VECTORS] = {{{0}}};
    for (int64_t line = first; line < end; line++, p += apart * pitch) {
        if (columns == NARROW) {
            if (line == leaves) low++, leaves += down;
            if (line == comes) high++, comes = high < rows - 1 ? comes + down : end;
        } else {
            low = most(line - kh + 1, 0);
            high = least(line, rows - 1);
        }
        const element *w = weights + (line - low * down) * g->kw;
        switch (low * BLOCK_ROWS + high) {
#define ROWS(low, high)                                                                            \
    case low *BLOCK_ROWS + high:                                                                   \
        if (high < BLOCK_ROWS)                                                                     \
            block_line(sum, g, p, w, start, count, narrow, low, high, vectors, columns);           \
        break;
            ROWS(0, 0)
            ROWS(0, 1)
            ROWS(0, 2)
            ROWS(0, 3)
            ROWS(1, 1)
            ROWS(1, 2)
            ROWS(1, 3)
            ROWS(2, 2)
            ROWS(2, 3)
            ROWS(3, 3)
#if PPLCONV_VECTOR_BYTES == 64 || (PPLCONV_NEON && defined(__aarch64__))
            ROWS(0, 4)
            ROWS(0, 5)
            ROWS(1, 4)
            ROWS(1, 5)
            ROWS(2, 4)
            ROWS(2, 5)
            ROWS(3, 4)
            ROWS(3, 5)
            ROWS(4, 4)
            ROWS(4, 5)
            ROWS(5, 5)
#endif
#undef ROWS
        default:
            break;
        }
    }
    const int64_t at = row * g->ow + column;
    UNROLL for (int r = 0; r < BLOCK_ROWS; r++) {
        if (r >= rows) break;
        element *dst = plane->dst + at + r * apart * g->ow;
        const element *residual = plane->residual + at + r * apart * g->ow;
        UNROLL for (int v = 0; v < vectors; v++) {
            sum[r][v] += e->bias;
            const int64_t n = columns == WHOLE ? LANES : least(count - v * LANES, LANES);
            if (e->residual && n > 0) {
                const element *more = residual + v * LANES;
                sum[r][v] += columns == WHOLE ? load(more) : load_lanes(more, n);
            }
        }
        clip_all(e, sum[r], vectors);
        UNROLL for (int v = 0; v < vectors; v++) {
            const int64_t n = least(count - v * LANES, LANES);
            if (columns == WHOLE) *(unaligned_vector *)(dst + v * LANES) = sum[r][v];
            else if (n > 0) store_lanes(dst + v * LANES, sum[r][v], n);
        }
    }
}

#if PPLCONV_VECTOR_BYTES == 64
/* `count` columns from `column` on, of lines whose phases are `phase` elements apart. */
static __attribute__((noinline)) void set_narrow(struct narrow *narrow,
                                                 const struct pplconv_geometry *g, int64_t column,
                                                 int64_t count, int64_t phase) {
    const int64_t step = g->dilation_w, stride = g->stride_w;
    const int64_t start = column * stride - g->pad_left;
    narrow->up = g->stride_h * g->kw;
    narrow->low = steps_to(start + (count - 1) * stride, step, 0);
    narrow->high = least(steps_to(start, step, g->iw), g->kw);
    for (int64_t j = narrow->low; j < narrow->high; j++) {
        const struct range lanes = inside(start + j * step, stride, count, g->iw);
        narrow->at[j] = j * step % stride * phase + j * step / stride;
        UNROLL for (int v = 0; v < BLOCK_VECTORS; v++)
            narrow->in[j][v] = lanes_between(lanes.begin - v * LANES, lanes.end - v * LANES);
    }
}
#endif

/* Functions of their own, so that the compiler need not see them all at once. */
#define BLOCK(name, vectors, columns)                                                              \
    static __attribute__((noinline)) void name(const struct planes *s, const struct plane *plane,  \
                                               const struct epilogue *e, const element *weights,   \
                                               int64_t row, int64_t rows, int64_t column,          \
                                               int64_t count, const struct narrow *narrow) {       \
        block(s, plane, e, weights, row, rows, column, count, narrow, vectors, columns);           \
    }
BLOCK(block_whole, BLOCK_VECTORS, WHOLE)
BLOCK(block_vector, 1, WHOLE)
#if PPLCONV_VECTOR_BYTES == 64
BLOCK(block_narrowest, 1, NARROW)
BLOCK(block_narrow, 2, NARROW)
BLOCK(block_less_narrow, BLOCK_VECTORS, NARROW)
#else
BLOCK(block_edge, 1, EDGE)
#endif
#undef BLOCK

#if PPLCONV_VECTOR_BYTES == 64
/* Columns by their table, in as few vectors as hold them. */
static void block_by_table(const struct planes *s, const struct plane *plane,
                           const struct epilogue *e, const element *weights, int64_t row,
                           int64_t rows, int64_t column, int64_t count,
                           const struct narrow *narrow) {
    (count <= LANES ? block_narrowest
     : count <= 2 * LANES
         ? block_narrow
         : block_less_narrow)(s, plane, e, weights, row, rows, column, count, narrow);
}

static void block_edge(const struct planes *s, const struct plane *plane, const struct epilogue *e,
                       const element *weights, int64_t row, int64_t rows, int64_t column,
                       int64_t count, const struct narrow *none) {
    struct narrow narrow;
    (void)none;
    set_narrow(&narrow, &s->g, column, count, 0);
    narrow.src = plane->src + column - s->g.pad_left;
    narrow.pitch = s->g.iw;
    block_narrowest(s, plane, e, weights, row, rows, column, count, &narrow);
}
#endif

/* Columns begin .. end - 1 of some rows. */
static void block_columns(const struct planes *s, const struct plane *plane,
                          const struct epilogue *e, const element *weights, int64_t row,
                          int64_t rows, int64_t column, int64_t end) {
    const struct pplconv_geometry *g = &s->g;
    /* Outputs whose taps all lie within the row. */
    const int64_t inner = g->pad_left;
    const int64_t outer = g->iw + g->pad_left - (g->kw - 1) * g->dilation_w;
    while (column < end) {
        const int64_t left = column < inner ? 0 : least(end, outer) - column;
        if (left >= BLOCK_VECTORS * LANES) {
            block_whole(s, plane, e, weights, row, rows, column, LANES, 0);
            column += BLOCK_VECTORS * LANES;
        } else if (left >= LANES) {
            block_vector(s, plane, e, weights, row, rows, column, LANES, 0);
            column += LANES;
        } else {
            const int64_t count = least(end - column, LANES);
            block_edge(s, plane, e, weights, row, rows, column, count, 0);
            column += count;
        }
    }
}

#if PPLCONV_VECTOR_BYTES == 64
/* Whether a block takes whole rows of the image. */
INLINE int is_narrow(const struct pplconv_geometry *g) { return g->ow <= BLOCK_VECTORS * LANES; }
#endif

static void blocks(const struct planes *call) {
    const struct planes s = *call;
    struct epilogue e = s.epilogue;
    const int64_t band = BAND_BYTES / (int64_t)sizeof(element), apart = s.g.dilation_h;
#if PPLCONV_VECTOR_BYTES == 64
    struct narrow narrow;
    if (is_narrow(&s.g)) set_narrow(&narrow, &s.g, 0, s.g.ow, 0);
#endif
    for (int64_t channel = 0; channel < s.channels; channel++) {
        const struct plane plane = plane_of(&s, channel);
        const element *weights = s.weights + channel * s.g.kh * s.g.kw;
        e.bias = broadcast(s.bias[channel * s.bias_step]);
#if PPLCONV_VECTOR_BYTES == 64
        narrow.src = plane.src - s.g.pad_left;
        narrow.pitch = s.g.iw;
#endif
        for (int64_t column = 0; column < s.g.ow; column += band) {
            for (int64_t begin = s.first; begin < least(s.first + apart, s.end); begin++) {
                for (int64_t row = begin; row < s.end; row += BLOCK_ROWS * apart) {
                    const int64_t rows = least(ceil_of(s.end - row, apart), BLOCK_ROWS);
#if PPLCONV_VECTOR_BYTES == 64
                    if (is_narrow(&s.g)) {
                        block_by_table(&s, &plane, &e, weights, row, rows, 0, s.g.ow, &narrow);
                        continue;
                    }
#endif
                    block_columns(&s, &plane, &e, weights, row, rows, column,
                                  least(s.g.ow, column + band));
                }
            }
        }
    }
}

#endif
