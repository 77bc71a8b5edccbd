/* Convert rows of an array into scratch, between types of one and two bytes and from float to
 * bfloat16. All arithmetic is on integers, so that flush-to-zero changes no bit, in loops that
 * compilers turn into vectors. Only the level whose instruction rounds to bfloat16 uses it: it
 * flushes subnormal numbers to zero, as the products there do; flushed.h says how Arm's is used. */
#include <stdint.h>

#include "flushed.h"
#if defined(__AVX512BF16__)
#include <immintrin.h>
#elif HAS_BFCVTN
#include <arm_neon.h>
#endif

#include "pplconv_kernels.h"

#define AT(type, pointer, bytes) ((type *)((char *)(pointer) + (bytes)))
#define AT_CONST(type, pointer, bytes) ((const type *)((const char *)(pointer) + (bytes)))

#if PPLCONV_TYPE_U8S16
typedef uint8_t from;
typedef int16_t to;
static inline to converted(from x) { return (to)x; }
#elif PPLCONV_TYPE_S8S16
typedef int8_t from;
typedef int16_t to;
static inline to converted(from x) { return (to)x; }
#elif PPLCONV_TYPE_U8S8 || PPLCONV_TYPE_S8U8
/* Adding or subtracting 128 flips the highest bit. */
typedef uint8_t from;
typedef uint8_t to;
static inline to converted(from x) { return x ^ 0x80; }
#elif PPLCONV_TYPE_F32BF16
typedef uint32_t from;
typedef uint16_t to;
#if !defined(__AVX512BF16__)
/* The upper half, rounded to the nearest, ties to even: a carry out of the digits goes into the
 * exponent, as it should. NaN becomes quiet and keeps its sign and the upper bits of its payload.
 */
static inline to converted(from x) {
    const uint32_t rounded = (x + 0x7fffu + (x >> 16 & 1u)) >> 16;
    const uint32_t quiet = x >> 16 | 0x40u;
    return (to)((x & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
#endif
#endif

#if defined(__AVX512BF16__)

static inline __mmask32 first_of_32(int64_t n) {
    return (__mmask32)(n < 32 ? (1u << n) - 1u : 0xffffffffu);
}

static inline void convert_row(const from *src, to *dst, int64_t columns) {
    for (; columns > 0; columns -= 32, src += 32, dst += 32) {
        const __mmask32 left = first_of_32(columns);
        const __m512 low = _mm512_maskz_loadu_ps((__mmask16)left, src);
        const __m512 high = _mm512_maskz_loadu_ps((__mmask16)(left >> 16), src + 16);
        _mm512_mask_storeu_epi16(dst, left, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
}

#else

/* Elements of one size may be converted in their place. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

static inline void convert_row(const from *src, to *dst, int64_t columns) {
    INDEPENDENT for (int64_t i = 0; i < columns; i++) dst[i] = converted(src[i]);
}

#endif

#if HAS_BFCVTN

/* Where flush-to-zero is off. */
static inline void convert_row_by_instruction(const from *src, to *dst, int64_t columns) {
    for (; columns >= 8; columns -= 8, src += 8, dst += 8) {
        const bfloat16x8_t low = vcvtq_low_bf16_f32(vld1q_f32((const float *)src));
        const bfloat16x8_t all = vcvtq_high_bf16_f32(low, vld1q_f32((const float *)src + 4));
        vst1q_u16(dst, vreinterpretq_u16_bf16(all));
    }
    for (; columns > 0; columns--) *dst++ = converted(*src++);
}

#endif

__attribute__((visibility("hidden"))) void PPLCONV_SYMBOL(const void *argument) {
    const struct pplconv_convert_in_args *a = argument;
    int64_t rows = a->rows, columns = a->columns;
    if (a->src_rs == columns * (int64_t)sizeof(from) &&
        a->dst_rs == columns * (int64_t)sizeof(to)) {
        columns *= rows;
        rows = 1;
    }
#if HAS_BFCVTN
    const uint64_t control = control_register();
    const int flushes = (control & FLUSH_TO_ZERO) != 0;
    if (!flushes || rows * columns >= WORTH_A_SWITCH) {
        if (flushes) set_control_register(control & ~(uint64_t)FLUSH_TO_ZERO);
        for (int64_t r = 0; r < rows; r++) {
            convert_row_by_instruction(AT_CONST(from, a->src, r * a->src_rs),
                                       AT(to, a->dst, r * a->dst_rs), columns);
        }
        if (flushes) set_control_register(control);
        return;
    }
#endif
    for (int64_t r = 0; r < rows; r++) {
        convert_row(AT_CONST(from, a->src, r * a->src_rs), AT(to, a->dst, r * a->dst_rs), columns);
    }
#if defined(__AVX__)
    __builtin_ia32_vzeroupper();
#endif
}
