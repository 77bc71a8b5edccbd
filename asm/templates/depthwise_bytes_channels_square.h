/* Depthwise convolution of channels-last bytes with a square kernel: a row of outputs, or two, of
 * some vectors of channels, column by column. The bytes of four lines of each column of the image
 * are interleaved once, for all the outputs that see them; the sums of these outputs stay in
 * registers. Pixels of padding hold the array's zero point. */
#ifndef PPLCONV_DEPTHWISE_BYTES_CHANNELS_SQUARE_H
#define PPLCONV_DEPTHWISE_BYTES_CHANNELS_SQUARE_H

#include "depthwise_bytes_channels.h"

#if PPLCONV_VECTOR_BYTES >= 32 || __ARM_FEATURE_DOTPROD
#include "depthwise_bytes_vectors.h"

enum { MOST_QUADS = 2, MOST_VECTORS = 4 };

/* The lines that a block sees, each at the column to be taken next. Those beside the image stay
 * where they are. */
struct lines {
    const uint8_t *at[MOST_LINES];
    int64_t step[MOST_LINES];
};

/* Sums of up to `size` output columns, each of which begins where the one before is stored. */
typedef words sums[MOST_SIZE][MOST_ROWS][MOST_VECTORS];

/* Interleave the bytes of four lines. */
INLINE void quads_of_lines(words *quad, const words *line, const int vectors) {
    const words a = low_bytes(line[0], line[1]), b = low_bytes(line[2], line[3]);
    quad[0] = low_pairs(a, b);
    if (vectors >= 2) quad[1] = high_pairs(a, b);
    if (vectors >= 4) {
        const words c = high_bytes(line[0], line[1]), d = high_bytes(line[2], line[3]);
        quad[2] = low_pairs(c, d);
        quad[3] = high_pairs(c, d);
    }
}

/* Whether a row of the block reads any of the lines that make part `part` of a quad. */
INLINE int is_read(const int row, const int quad, const int part, const int size, const int stride,
                   const int format) {
    const int step = format == PAIRS ? 2 : 1;
    for (int line = 4 * quad + part; line < 4 * quad + 4; line += step) {
        if (line >= row * stride && line < row * stride + size) return 1;
    }
    return 0;
}

/* Column `d` of the window of output `base`; it belongs to some outputs behind that as well. */
INLINE void take_column(sums sum, struct lines *l, const uint8_t *weights, int inside, words pad,
                        int64_t n, const int d, const int base, const int size, const int stride,
                        const int format, const int vectors, const int tail) {
    const int rows = rows_of(size, stride), lines = lines_of(size, stride);
    const int quads = quads_of(lines), live = (size - 1) / stride + 1;
    const int parts = format == PAIRS ? 2 : 1;
    const int64_t record = record_of(size, stride, format);
    words quad[MOST_QUADS][MOST_VECTORS];
    if (inside) {
        UNROLL for (int k = 0; k < quads; k++) {
            words line[4];
            UNROLL for (int i = 0; i < 4; i++) {
                if (4 * k + i >= lines) {
                    line[i] = line[i - 1]; /* times a weight of zero */
                    continue;
                }
                const uint8_t *p = l->at[4 * k + i];
                line[i] = tail ? load_few(p, n) : load_quarters(p, vectors);
                if (FLIPS) line[i] = flipped(line[i]);
                line[i] = transposed(line[i]);
            }
            quads_of_lines(quad[k], line, vectors);
        }
    } else {
        UNROLL for (int k = 0; k < quads; k++) {
            UNROLL for (int v = 0; v < vectors; v++)
                quad[k][v] = pad;
        }
    }
    UNROLL for (int i = 0; i < lines; i++)
        l->at[i] += l->step[i];
    /* Keep the registers for sums: weights of the last column must not stay in them. */
    __asm__("" : "+r"(weights));
    UNROLL for (int v = 0; v < vectors; v++) {
        UNROLL for (int k = 0; k < quads; k++) {
            words part[2];
            set_parts(part, quad[k][v], format);
            UNROLL for (int m = 0; m < live; m++) {
                const int kw = d - m * stride;
                if (kw < 0 || kw >= size) continue;
                UNROLL for (int r = 0; r < rows; r++) {
                    words *to = &sum[(base + m) % live][r][v];
                    if (kw == 0 && k == 0) *to = load_words(weights + v * record);
                    UNROLL for (int h = 0; h < parts; h++) {
                        if (!is_read(r, k, h, size, stride, format)) continue;
                        const int64_t at = 1 + ((kw * rows + r) * quads + k) * parts + h;
                        const uint8_t *w = weights + v * record + at * PPLCONV_VECTOR_BYTES;
                        *to = add_part(*to, part[h], load_words(w), format);
                    }
                }
            }
        }
    }
}

/* Outputs of a block: the rows from `row` on of n channels from `channel` on, which fill `vectors`
 * vectors, or with `tail` a part of one. */
INLINE void strip(const struct call *s, const uint8_t *weights, int64_t channel, int64_t n,
                  int64_t row, const int size, const int stride, const int format,
                  const int vectors, const int tail) {
    const int rows = rows_of(size, stride), lines = lines_of(size, stride);
    const int live = (size - 1) / stride + 1;
    const int64_t exist = least(s->row_end - row, s->g.stride_h == stride ? rows : 1), iw = s->g.iw,
                  columns = s->columns;
    const int64_t dst_ps = s->dst_ps, top = row * s->g.stride_h - s->g.pad_top;
    const words zero = all_words((int32_t)(0x01010101u * s->pad[0])),
                pad = FLIPS ? flipped(zero) : zero;
    int64_t x = s->column * stride - s->g.pad_left;
    struct lines l;
    UNROLL for (int i = 0; i < lines; i++) {
        const int64_t y = top + i;
        const int here = y >= 0 && y < s->g.ih && i < (exist - 1) * stride + size;
        l.at[i] = here ? s->src + y * s->src_rs + x * s->src_ps + channel : s->pad;
        l.step[i] = here ? s->src_ps : 0;
    }
    /* If there is no second row, its sums are stored in the first row's place, which the first
     * row's outputs then overwrite. */
    char *to = s->dst + row * s->dst_rs + s->column * dst_ps + channel * 4;
    const int64_t second = exist > 1 ? s->dst_rs : 0;
    sums sum;
    UNROLL for (int d = 0; d < size - stride; d++, x++) {
        take_column(sum, &l, weights, x >= 0 && x < iw, pad, n, d, 0, size, stride, format, vectors,
                    tail);
    }
    for (int64_t c = 0;;) {
#define TURN(t)                                                                                    \
    if (t < live) {                                                                                \
        if (c++ == columns) return;                                                                \
        UNROLL for (int d = size - stride; d < size; d++, x++) {                                   \
            take_column(sum, &l, weights, x >= 0 && x < iw, pad, n, d, t, size, stride, format,    \
                        vectors, tail);                                                            \
        }                                                                                          \
        UNROLL for (int r = rows - 1; r >= 0; r--) {                                               \
            UNROLL for (int v = 0; v < vectors; v++)                                               \
                store_words(to + r * second + v * PPLCONV_VECTOR_BYTES, sum[t][r][v]);             \
        }                                                                                          \
        to += dst_ps;                                                                              \
    }
        TURN(0)
        TURN(1)
        TURN(2)
        TURN(3)
        TURN(4)
#undef TURN
    }
}

typedef void strip_function(const struct call *s, const uint8_t *weights, int64_t channel,
                            int64_t n, int64_t row);

/* Functions of their own, so that the compiler need not see them all at once. */
#define STRIP(size, stride, vectors, tail)                                                         \
    static __attribute__((noinline)) void strip_##size##_##stride##_##vectors##_##tail(            \
        const struct call *s, const uint8_t *weights, int64_t channel, int64_t n, int64_t row) {   \
        strip(s, weights, channel, n, row, size, stride, FAST, vectors, tail);                     \
    }
#define STRIPS(size, stride)                                                                       \
    STRIP(size, stride, 1, 1)                                                                      \
    STRIP(size, stride, 1, 0)                                                                      \
    STRIP(size, stride, 2, 0)                                                                      \
    STRIP(size, stride, 4, 0)

/* Channels 0 .. n - 1 of a unit: as many vectors at once as registers can hold sums for, at most
 * `most`. */
INLINE void square(const struct call *call, const void *unit, int64_t channel, int64_t n,
                   int64_t row, strip_function *few, strip_function *one, strip_function *two,
                   strip_function *four, const int size, const int stride, const int largest) {
    const struct call s = *call;
    const int64_t record = record_of(size, stride, FAST);
    const int64_t rows = s.g.stride_h == stride ? rows_of(size, stride) : 1;
    for (; row < s.row_end; row += rows) {
        const uint8_t *weights = AT_CONST(uint8_t, unit, UNIT_HEADER);
        for (int64_t done = 0; done < n;) {
            const int64_t left = (n - done) / LANES, at = channel + done;
            const int vectors = largest >= 4 && left >= 4 ? 4 : largest >= 2 && left >= 2 ? 2 : 1;
            strip_function *f = !left ? few : vectors == 4 ? four : vectors == 2 ? two : one;
            f(&s, weights, at, n - done, row);
            done += vectors * LANES;
            weights += vectors * record;
        }
    }
}

#define SQUARE(size, stride, largest)                                                              \
    STRIPS(size, stride)                                                                           \
    static void square_##size##_##stride(const struct call *s, const void *unit, int64_t channel,  \
                                         int64_t n, int64_t row) {                                 \
        square(s, unit, channel, n, row, strip_##size##_##stride##_1_1,                            \
               strip_##size##_##stride##_1_0, strip_##size##_##stride##_2_0,                       \
               strip_##size##_##stride##_4_0, size, stride, largest);                              \
    }
#if PPLCONV_VECTOR_BYTES == 32
SQUARE(3, 1, 2)
SQUARE(3, 2, 4)
SQUARE(5, 1, 1)
SQUARE(5, 2, 2)
#else
SQUARE(3, 1, 4)
SQUARE(3, 2, 4)
SQUARE(5, 1, 2)
SQUARE(5, 2, 4)
#endif

static void by_size(const struct call *s, const void *unit, int64_t channel, int64_t n,
                    int64_t row) {
    const int64_t size = s->g.kh, stride = s->g.stride_w;
    if (size == 3 && stride == 1) {
        square_3_1(s, unit, channel, n, row);
    } else if (size == 3) {
        square_3_2(s, unit, channel, n, row);
    } else if (stride == 1) {
        square_5_1(s, unit, channel, n, row);
    } else {
        square_5_2(s, unit, channel, n, row);
    }
}

#else
/* Packed weights never ask for it. */
static void by_size(const struct call *s, const void *unit, int64_t channel, int64_t n,
                    int64_t row) {
    (void)s, (void)unit, (void)channel, (void)n, (void)row;
}
#endif
#endif
