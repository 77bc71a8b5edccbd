/* Copy pixels whose channels lie side by side, and put zeros behind their channels, for items of
 * one or two bytes. Where pixels of three items without gaps become pixels of four, a shuffle
 * spreads several at once; other pixels are copied by whole pieces and the rest of one. */
#include "bytes.h"

/* Bytes of one pixel: whole pieces, and the last one with the zeros behind it. */
INLINE void pad_pixel(char *dst, const char *src, int64_t bytes, int64_t fill) {
    int64_t i = 0;
    for (; i + 16 <= bytes; i += 16) store_piece(dst + i, load_piece(src + i));
    piece last = load_part(src + i, bytes - i);
    for (; i < fill; i += 16, last = zero_piece()) store_part(dst + i, last, least(fill - i, 16));
}

#if defined(__AVX2__) || defined(__aarch64__)

/* Pixels of 3 items to pixels of 4: 12 bytes become 16. A load reads 16 bytes, 4 more than it
 * needs. Returns the number of pixels for which that was possible. */
static int64_t spread(char *dst, const char *src, int64_t columns) {
    const int64_t step = 4 / SIZE; /* pixels of a piece */
    int8_t index[16];
    for (int i = 0; i < 16; i++) {
        index[i] =
            (int8_t)(i % (4 * SIZE) < 3 * SIZE ? i / (4 * SIZE) * 3 * SIZE + i % (4 * SIZE) : -1);
    }
    const piece order = load_piece(index);
    int64_t i = 0;
    for (; (columns - i) * 3 * SIZE >= 16; i += step, src += 12, dst += 16) {
#if defined(__AVX2__)
        store_piece(dst, _mm_shuffle_epi8(load_piece(src), order));
#else
        store_piece(dst, vqtbl1q_u8(load_piece(src), order));
#endif
    }
    return i;
}

#else

static int64_t spread(char *dst, const char *src, int64_t columns) {
    (void)dst, (void)src, (void)columns;
    return 0;
}

#endif

PPLCONV_HIDDEN void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_pad_channels_args *a = argument;
    const int64_t bytes = a->channels * SIZE, fill = a->fill * SIZE;
    const int three = a->channels == 3 && a->fill == 4 && a->src_ps == bytes && a->dst_ps == fill;
    for (int64_t row = 0; row < a->rows; row++) {
        const char *src = AT_CONST(char, a->src, row * a->src_rs);
        char *dst = AT(char, a->dst, row * a->dst_rs);
        for (int64_t i = three ? spread(dst, src, a->columns) : 0; i < a->columns; i++) {
            pad_pixel(dst + i * a->dst_ps, src + i * a->src_ps, bytes, fill);
        }
    }
    clean_registers();
}
