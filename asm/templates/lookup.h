/* Look up all bytes of a `quads` in a table of 256 bytes, on levels whose shuffles can do it in
 * registers. */
#ifndef PPLCONV_LOOKUP_H
#define PPLCONV_LOOKUP_H

#include "words.h"

#if !PPLCONV_NO_PACKING

#if PPLCONV_VECTOR_BYTES == 64

/* A shuffle of words chooses from 64 words, half a table. Even and odd bytes take a shuffle each:
 * six bits of a byte choose a word, the highest bit chooses the half of the table, and the lowest
 * bit the byte of the word. */
INLINE __m512i looked_up_words(const uint8_t *table, __m512i index, __mmask32 upper) {
    const __m512i *t = (const __m512i *)(const void *)table;
    const __m512i low =
        _mm512_permutex2var_epi16(_mm512_loadu_si512(t), index, _mm512_loadu_si512(t + 1));
    const __m512i high =
        _mm512_permutex2var_epi16(_mm512_loadu_si512(t + 2), index, _mm512_loadu_si512(t + 3));
    return _mm512_mask_blend_epi16(upper, low, high);
}
INLINE quads looked_up(const uint8_t *table, quads b) {
    __m512i even = looked_up_words(table, _mm512_srli_epi16(b, 1),
                                   _mm512_test_epi16_mask(b, _mm512_set1_epi16(0x80)));
    __m512i odd = looked_up_words(table, _mm512_srli_epi16(b, 9), _mm512_movepi16_mask(b));
    even = _mm512_mask_srli_epi16(even, _mm512_test_epi16_mask(b, _mm512_set1_epi16(1)), even, 8);
    odd = _mm512_mask_slli_epi16(odd, _mm512_testn_epi16_mask(b, _mm512_set1_epi16(0x100)), odd, 8);
    return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaau, even, odd);
}

#elif PPLCONV_VECTOR_BYTES == 32

/* The lower half of a byte chooses from each row of 16. Each bit of the upper half halves the
 * remaining candidates: it is shifted to the sign bit, by which a blend chooses. Bits shifted in
 * from the next byte stay below the sign. */
INLINE quads looked_up(const uint8_t *table, quads b) {
    const __m256i low = _mm256_and_si256(b, _mm256_set1_epi8(15));
    const __m256i choice[4] = {_mm256_slli_epi16(b, 3), _mm256_slli_epi16(b, 2),
                               _mm256_slli_epi16(b, 1), b};
    __m256i found[16];
    _Pragma("GCC unroll 16") for (int r = 0; r < 16; r++) {
        const __m128i row = _mm_loadu_si128((const __m128i *)(const void *)(table + 16 * r));
        found[r] = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(row), low);
    }
    UNROLL for (int bit = 0; bit < 4; bit++) {
        _Pragma("GCC unroll 8") for (int r = 0; r < 8 >> bit; r++) found[r] =
            _mm256_blendv_epi8(found[2 * r], found[2 * r + 1], choice[bit]);
    }
    return found[0];
}

#else

/* Indices outside a quarter of the table leave the bytes that other quarters have found. */
INLINE quads looked_up(const uint8_t *table, quads b) {
    uint8x16_t found = vdupq_n_u8(0);
    UNROLL for (int part = 0; part < 4; part++) {
        const uint8_t *t = table + 64 * part;
        const uint8x16x4_t rows = {
            {vld1q_u8(t), vld1q_u8(t + 16), vld1q_u8(t + 32), vld1q_u8(t + 48)}};
        found = vqtbx4q_u8(found, rows, b);
        b = vsubq_u8(b, vdupq_n_u8(64));
    }
    return found;
}

#endif
#endif

/* A row of bytes, in its place too. */
INLINE void look_up_row(const uint8_t *table, const uint8_t *src, uint8_t *dst, int64_t columns) {
    int64_t i = 0;
#if !PPLCONV_NO_PACKING
    for (; i + (int64_t)sizeof(quads) <= columns; i += sizeof(quads)) {
        quads bytes;
        memcpy(&bytes, src + i, sizeof bytes);
        store_quads((stored *)(dst + i), looked_up(table, bytes));
    }
#endif
    for (; i < columns; i++) dst[i] = table[src[i]];
}

#endif
