/* Depthwise convolution of a padded plane of bytes with a square kernel: a vector of output columns
 * in four rows at a time. Of each line the bytes of neighbouring outputs are put side by side once,
 * for all the rows that see them. */
#ifndef PPLCONV_DEPTHWISE_BYTES_PIXELS_SQUARE_H
#define PPLCONV_DEPTHWISE_BYTES_PIXELS_SQUARE_H

#include "depthwise_bytes_pixels.h"

#if PPLCONV_VECTOR_BYTES >= 32 || __ARM_FEATURE_DOTPROD
#include "depthwise_bytes_vectors.h"

enum { BLOCK_ROWS = 4, MOST_WEIGHTS = 2 * 2 * MOST_SIZE };

INLINE void block(const struct slab *s, int32_t *dst, int64_t ow, const words *w, words start,
                  const int size, const int stride, const int rows) {
    const int lines = (rows - 1) * stride + size, quads = quads_of(size);
    const int parts = FAST == PAIRS ? 2 : 1;
    words sum[BLOCK_ROWS];
    UNROLL for (int r = 0; r < rows; r++)
        sum[r] = start;
    UNROLL for (int i = 0; i < lines; i++) {
        UNROLL for (int k = 0; k < quads; k++) {
            words part[2];
            set_parts(part, window(s->data + i * s->rs + 4 * k, stride), FAST);
            UNROLL for (int r = 0; r < rows; r++) {
                const int kh = i - r * stride;
                if (kh < 0 || kh >= size) continue;
                UNROLL for (int h = 0; h < parts; h++) {
                    if (4 * k + h >= size) continue; /* only zeros */
                    sum[r] = add_part(sum[r], part[h], w[(kh * quads + k) * parts + h], FAST);
                }
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        store_words(dst + r * ow, sum[r]);
}

/* All columns of `rows` rows. Whole vectors are stored: the vector of a narrow row writes into the
 * next row, which is stored after it; the last vector of a wide row reaches back. */
INLINE void across(const struct slab *slab, int32_t *dst, int64_t ow, const words *w, words start,
                   const int size, const int stride, const int rows) {
    for (int64_t i = 0; i < ow; i += LANES) {
        const int64_t column = most(least(i, ow - LANES), 0);
        const struct slab s = {slab->data + column * stride, slab->rs};
        block(&s, dst + column, ow, w, start, size, stride, rows);
    }
}

INLINE void square(const struct slab *slab, int32_t *dst, int64_t rows, int64_t ow,
                   int64_t stride_h, const struct packed *p, const int size, const int stride) {
    const int32_t *weight = (const int32_t *)(p + 1);
    const int count = size * quads_of(size) * (FAST == PAIRS ? 2 : 1);
    const words start = all_words(p->start);
    words w[MOST_WEIGHTS];
    UNROLL for (int i = 0; i < count; i++)
        w[i] = all_words(weight[i]);
    for (int64_t i = 0; i < rows;) {
        /* The last block reaches back, if there are rows for it. */
        const int whole = rows >= BLOCK_ROWS && stride_h == stride;
        const int64_t row = whole ? least(i, rows - BLOCK_ROWS) : i;
        const struct slab s = {slab->data + row * stride_h * slab->rs, slab->rs};
        if (whole) across(&s, dst + row * ow, ow, w, start, size, stride, BLOCK_ROWS);
        else across(&s, dst + row * ow, ow, w, start, size, stride, 1);
        i = row + (whole ? BLOCK_ROWS : 1);
    }
}

/* Functions of their own, so that the compiler need not see them all at once. */
#define SQUARE(size, stride)                                                                       \
    static __attribute__((noinline)) void square_##size##_##stride(                                \
        const struct slab *s, const struct pplconv_geometry *g, int32_t *dst, int64_t rows,        \
        const struct packed *p) {                                                                  \
        square(s, dst, rows, g->ow, g->stride_h, p, size, stride);                                 \
    }
SQUARE(3, 1)
SQUARE(3, 2)
SQUARE(5, 1)
SQUARE(5, 2)

static void by_size(const struct slab *s, const struct pplconv_geometry *g, int32_t *dst,
                    int64_t rows, const struct packed *p) {
    if (g->kh == 3 && g->stride_w == 1) {
        square_3_1(s, g, dst, rows, p);
    } else if (g->kh == 3) {
        square_3_2(s, g, dst, rows, p);
    } else if (g->stride_w == 1) {
        square_5_1(s, g, dst, rows, p);
    } else {
        square_5_2(s, g, dst, rows, p);
    }
}

#else
/* Packed weights never ask for it. */
static void by_size(const struct slab *s, const struct pplconv_geometry *g, int32_t *dst,
                    int64_t rows, const struct packed *p) {
    (void)s, (void)g, (void)dst, (void)rows, (void)p;
}
#endif
#endif
