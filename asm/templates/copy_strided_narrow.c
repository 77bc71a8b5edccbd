/* Copies of matrices with any strides, for items of one or two bytes: blocks of 16 bytes a row. */
#include "bytes.h"

/* A block of WIDE columns is two blocks side by side: each lies in one half of the vectors. */
#if defined(__AVX2__)
enum { BLOCK = ITEMS, WIDE = 2 * ITEMS };
#else
enum { BLOCK = ITEMS, WIDE = BLOCK };
#endif

#include "strided.h"

static void fill_rows(const struct matrix *m) {
    for (int64_t i = 0; i < m->rows; i++) {
        char *dst = m->dst + i * m->dst_rs;
        char all[16];
        for (int k = 0; k < ITEMS; k++) memcpy(all + k * SIZE, m->src + i * m->src_rs, SIZE);
        const piece repeated = load_piece(all);
        const int64_t bytes = m->columns * SIZE;
        int64_t j = 0;
        for (; j + 16 <= bytes; j += 16) store_piece(dst + j, repeated);
        if (j < bytes) store_part(dst + j, repeated, bytes - j);
    }
}

#if defined(__AVX2__)
INLINE __m256i zip_lows(__m256i a, __m256i b) {
    return SIZE == 1 ? _mm256_unpacklo_epi8(a, b) : _mm256_unpacklo_epi16(a, b);
}
INLINE __m256i zip_highs(__m256i a, __m256i b) {
    return SIZE == 1 ? _mm256_unpackhi_epi8(a, b) : _mm256_unpackhi_epi16(a, b);
}
INLINE void transpose_wide(const char *src, int64_t src_cs, char *dst, int64_t dst_rs) {
    __m256i block[ITEMS];
    UNROLL for (int c = 0; c < ITEMS; c++) {
        const piece left = load_piece(src + c * src_cs);
        const piece right = load_piece(src + (ITEMS + c) * src_cs);
        block[c] = _mm256_inserti128_si256(_mm256_castsi128_si256(left), right, 1);
    }
    UNROLL for (int round = 1; round < ITEMS; round *= 2)
        ZIP_ROUND(__m256i, zip_lows, zip_highs, block, ITEMS);
    UNROLL for (int r = 0; r < ITEMS; r++)
        _mm256_storeu_si256((__m256i *)(dst + r * dst_rs), block[r]);
}
#endif

INLINE void transpose_block(const struct matrix *m, int64_t i, int64_t j, const int columns) {
    const char *src = m->src + i * SIZE + j * m->src_cs;
    char *dst = m->dst + i * m->dst_rs + j * SIZE;
#if defined(__AVX2__)
    if (columns == WIDE) {
        transpose_wide(src, m->src_cs, dst, m->dst_rs);
        return;
    }
#endif
    (void)columns;
    piece block[ITEMS];
    UNROLL for (int c = 0; c < ITEMS; c++)
        block[c] = load_piece(src + c * m->src_cs);
    zip_pieces(block, ITEMS);
    UNROLL for (int r = 0; r < ITEMS; r++)
        store_piece(dst + r * m->dst_rs, block[r]);
}

INLINE void transpose_part(const struct matrix *m, int64_t i, int64_t j, int64_t rows,
                           int64_t columns) {
    const char *src = m->src + i * SIZE + j * m->src_cs;
    char *dst = m->dst + i * m->dst_rs + j * SIZE;
    piece block[ITEMS];
    for (int c = 0; c < ITEMS; c++)
        block[c] = c < columns ? load_part(src + c * m->src_cs, rows * SIZE) : zero_piece();
    zip_pieces(block, ITEMS);
    for (int r = 0; r < rows; r++) store_part(dst + r * m->dst_rs, block[r], columns * SIZE);
}

INLINE void take_turns(const struct matrix *m, int lines) {
    const int step = lines == 2 ? 2 : 4;
    int64_t i = 0;
    /* A pixel of three is stored as four items, of which the next pixel overwrites the last one. */
    for (; i + ITEMS + (step - lines) <= m->rows; i += ITEMS) {
        piece mixed[4];
        char pixels[4 * 16], *dst = m->dst + i * lines * SIZE;
        for (int k = 0; k < step; k++) {
            mixed[k] = k < lines ? load_piece(m->src + i * SIZE + k * m->src_cs) : zero_piece();
        }
        if (lines == 2) {
            zip_pieces(mixed, 2);
            store_piece(dst, mixed[0]);
            store_piece(dst + 16, mixed[1]);
            continue;
        }
        zip_pieces(mixed, 4);
        for (int k = 0; k < 4; k++) store_piece(pixels + 16 * k, mixed[k]);
        for (int k = 0; k < ITEMS; k++) memcpy(dst + 3 * k * SIZE, pixels + 4 * k * SIZE, 4 * SIZE);
    }
    copy_rest(m, i);
}

/* The upper half of a, then the lower half of b. */
INLINE piece join_halves(piece a, piece b) {
#if defined(__SSE2__)
    return _mm_castpd_si128(_mm_shuffle_pd(_mm_castsi128_pd(a), _mm_castsi128_pd(b), 1));
#elif defined(__aarch64__)
    return vextq_u8(a, b, 8);
#else
    return piece_of(word_of(a, 1), word_of(b, 0));
#endif
}

INLINE void part_turns(const struct matrix *m, int lines) {
    int64_t j = 0;
    for (; j + ITEMS <= m->columns; j += ITEMS) {
        const char *src = m->src + j * m->src_cs;
        piece mixed[3];
        UNROLL for (int k = 0; k < lines; k++)
            mixed[k] = load_piece(src + 16 * k);
        /* Perfect shuffles of all items: as many rounds as double 1 to ITEMS. */
        UNROLL for (int round = 1; round < ITEMS; round *= 2) {
            const piece a = mixed[0], b = mixed[1], c = mixed[lines - 1];
            const piece middle = lines == 2 ? b : join_halves(b, c);
            mixed[0] = zip_low(a, middle);
            mixed[1] = zip_high(a, middle);
            if (lines == 3) mixed[2] = zip_low(b, join_halves(c, c));
        }
        UNROLL for (int k = 0; k < lines; k++)
            store_piece(m->dst + k * m->dst_rs + j * SIZE, mixed[k]);
    }
    copy_last(m, j);
}
