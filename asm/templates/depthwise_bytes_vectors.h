/* Vectors of bytes, and of the sums of four products each, for depthwise convolution of bytes. */
#ifndef PPLCONV_DEPTHWISE_BYTES_VECTORS_H
#define PPLCONV_DEPTHWISE_BYTES_VECTORS_H

#include "depthwise_bytes.h"

/* Fewer than 8 bytes, the others zero. */
static inline uint64_t few_bytes(const uint8_t *p, int64_t n) {
    if (n >= 4) {
        uint32_t first, last;
        memcpy(&first, p, 4);
        memcpy(&last, p + n - 4, 4);
        return first | (uint64_t)last << (8 * (n - 4));
    }
    uint64_t x = 0;
    for (int64_t i = 0; i < n; i++) x |= (uint64_t)p[i] << (8 * i);
    return x;
}

/* `load_quarters`: some quarters of a vector of bytes. `load_few`: less than one quarter.
 * `transposed`: where the 16 bytes of each lane are to come from so that interleaving the bytes of
 * four vectors, which happens in each lane, leaves neighbours in order. `window`: for each sum the
 * four bytes from `stride` times its number on. */
#if PPLCONV_VECTOR_BYTES == 64
typedef __m512i words;

INLINE words load_words(const void *p) { return _mm512_loadu_si512(p); }
INLINE void store_words(void *p, words v) { _mm512_storeu_si512(p, v); }
INLINE words all_words(int32_t x) { return _mm512_set1_epi32(x); }
INLINE words flipped(words v) { return _mm512_xor_si512(v, all_words((int32_t)0x80808080)); }
INLINE words low_bytes(words a, words b) { return _mm512_unpacklo_epi8(a, b); }
INLINE words high_bytes(words a, words b) { return _mm512_unpackhi_epi8(a, b); }
INLINE words low_pairs(words a, words b) { return _mm512_unpacklo_epi16(a, b); }
INLINE words high_pairs(words a, words b) { return _mm512_unpackhi_epi16(a, b); }
INLINE words load_quarters(const uint8_t *p, const int quarters) {
    if (quarters == 4) return load_words(p);
    if (quarters == 2) return _mm512_zextsi256_si512(_mm256_loadu_si256((const void *)p));
    return _mm512_zextsi128_si512(_mm_loadu_si128((const void *)p));
}
INLINE words load_few(const uint8_t *p, int64_t n) {
    return _mm512_maskz_loadu_epi8(((__mmask64)1 << n) - 1, p);
}
INLINE words transposed(words v) {
    const words from = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(from, v);
}
INLINE words window(const uint8_t *p, const int stride) {
    const words one = _mm512_setr_epi32(0, 1, 0, 0, 1, 2, 0, 0, 2, 3, 0, 0, 3, 4, 0, 0);
    const words two = _mm512_setr_epi32(0, 1, 2, 0, 2, 3, 4, 0, 4, 5, 6, 0, 6, 7, 8, 0);
    const words near_one =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6));
    const words near_two =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9));
    const words v = load_quarters(p, stride == 1 ? 2 : 4);
    return stride == 1 ? _mm512_shuffle_epi8(_mm512_permutexvar_epi32(one, v), near_one)
                       : _mm512_shuffle_epi8(_mm512_permutexvar_epi32(two, v), near_two);
}
INLINE words even_bytes(words v) { return _mm512_and_si512(v, all_words(0x00ff00ff)); }
INLINE words odd_bytes(words v) { return _mm512_srli_epi16(v, 8); }
INLINE words add_pairs(words sum, words x, words w) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
}
#if __AVX512VNNI__
INLINE words add_quads(words sum, words x, words w) { return _mm512_dpbusd_epi32(sum, x, w); }
#endif

#elif PPLCONV_VECTOR_BYTES == 32
typedef __m256i words;

INLINE words load_words(const void *p) { return _mm256_loadu_si256(p); }
INLINE void store_words(void *p, words v) { _mm256_storeu_si256(p, v); }
INLINE words all_words(int32_t x) { return _mm256_set1_epi32(x); }
INLINE words flipped(words v) { return _mm256_xor_si256(v, all_words((int32_t)0x80808080)); }
INLINE words low_bytes(words a, words b) { return _mm256_unpacklo_epi8(a, b); }
INLINE words high_bytes(words a, words b) { return _mm256_unpackhi_epi8(a, b); }
INLINE words low_pairs(words a, words b) { return _mm256_unpacklo_epi16(a, b); }
INLINE words high_pairs(words a, words b) { return _mm256_unpackhi_epi16(a, b); }
INLINE words load_quarters(const uint8_t *p, const int quarters) {
    if (quarters == 4) return load_words(p);
    if (quarters == 2) return _mm256_zextsi128_si256(_mm_loadu_si128((const void *)p));
    return _mm256_zextsi128_si256(_mm_loadl_epi64((const void *)p));
}
INLINE words load_few(const uint8_t *p, int64_t n) {
    return _mm256_zextsi128_si256(_mm_cvtsi64_si128((int64_t)few_bytes(p, n)));
}
INLINE words transposed(words v) {
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}
INLINE words window(const uint8_t *p, const int stride) {
    const words near_one = _mm256_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, //
                                            4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9, 7, 8, 9, 10);
    const words near_two = _mm256_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9, //
                                            0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9);
    if (stride == 1) {
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p)),
                                   near_one);
    }
    const words v =
        _mm256_inserti128_si256(_mm256_zextsi128_si256(_mm_loadu_si128((const void *)p)),
                                _mm_loadu_si128((const void *)(p + 8)), 1);
    return _mm256_shuffle_epi8(v, near_two);
}
INLINE words even_bytes(words v) { return _mm256_and_si256(v, all_words(0x00ff00ff)); }
INLINE words odd_bytes(words v) { return _mm256_srli_epi16(v, 8); }
INLINE words add_pairs(words sum, words x, words w) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}
#if __AVXVNNI__
INLINE words add_quads(words sum, words x, words w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
#endif

#elif __ARM_FEATURE_DOTPROD
typedef uint8x16_t words;

INLINE words load_words(const void *p) { return vld1q_u8(p); }
INLINE void store_words(void *p, words v) { vst1q_u8(p, v); }
INLINE words all_words(int32_t x) { return vreinterpretq_u8_s32(vdupq_n_s32(x)); }
INLINE words flipped(words v) { return veorq_u8(v, vdupq_n_u8(0x80)); }
INLINE words low_bytes(words a, words b) { return vzip1q_u8(a, b); }
INLINE words high_bytes(words a, words b) { return vzip2q_u8(a, b); }
INLINE words low_pairs(words a, words b) {
    return vreinterpretq_u8_u16(vzip1q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
}
INLINE words high_pairs(words a, words b) {
    return vreinterpretq_u8_u16(vzip2q_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b)));
}
INLINE words load_few(const uint8_t *p, int64_t n) {
    return vreinterpretq_u8_u64(vsetq_lane_u64(few_bytes(p, n), vdupq_n_u64(0), 0));
}
INLINE words load_quarters(const uint8_t *p, const int quarters) {
    if (quarters == 4) return load_words(p);
    if (quarters == 2) return vcombine_u8(vld1_u8(p), vdup_n_u8(0));
    return load_few(p, 4);
}
INLINE words transposed(words v) { return v; }
INLINE words window(const uint8_t *p, const int stride) {
    static const uint8_t near[2][16] = {{0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6},
                                        {0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9}};
    return vqtbl1q_u8(vld1q_u8(p), vld1q_u8(near[stride - 1]));
}
INLINE words add_quads(words sum, words x, words w) {
    return vreinterpretq_u8_s32(
        vdotq_s32(vreinterpretq_s32_u8(sum), vreinterpretq_s8_u8(x), vreinterpretq_s8_u8(w)));
}
#endif

#if PPLCONV_VECTOR_BYTES == 16
/* Never called: where there are quads there are no pairs. */
INLINE words even_bytes(words v) { return v; }
INLINE words odd_bytes(words v) { return v; }
INLINE words add_pairs(words sum, words x, words w) {
    (void)x, (void)w;
    return sum;
}
#elif !__AVX512VNNI__ && !__AVXVNNI__
INLINE words add_quads(words sum, words x, words w) {
    (void)x, (void)w;
    return sum;
}
#endif

/* A quad of one sum in registers: as it is, or as its even and its odd bytes. */
INLINE void set_parts(words *part, words quad, const int format) {
    part[0] = format == QUADS ? quad : even_bytes(quad);
    if (format == PAIRS) part[1] = odd_bytes(quad);
}
INLINE words add_part(words sum, words x, words w, const int format) {
    return format == QUADS ? add_quads(sum, x, w) : add_pairs(sum, x, w);
}

#endif
