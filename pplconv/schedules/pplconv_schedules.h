/* Small things that the loops share and that Cython cannot express. */
#ifndef PPLCONV_SCHEDULES_H
#define PPLCONV_SCHEDULES_H

#include <stdint.h>
#include <string.h>
#include <time.h>

/* Integer helpers; Cython's cdivision has C's operators only. */
static inline int64_t pplconv_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t pplconv_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t pplconv_most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Copy a matrix whose elements are not neighbours. For types of 1 or 2 bytes, which the kernels
 * that copy do not take. */
static inline void pplconv_copy_small(char *dst, int64_t dst_rs, const char *src, int64_t src_rs,
                                      int64_t src_cs, int64_t rows, int64_t columns, int64_t size) {
    for (int64_t i = 0; i < rows; i++) {
        const char *from = src + i * src_rs;
        char *to = dst + i * dst_rs;
        if (size == 1) {
            for (int64_t k = 0; k < columns; k++) to[k] = from[k * src_cs];
        } else {
            for (int64_t k = 0; k < columns; k++) memcpy(to + 2 * k, from + k * src_cs, 2);
        }
    }
}

/* Store an element `count` times. */
static inline void pplconv_repeat(void *dst, const void *element, int64_t count, int64_t size) {
    char *to = (char *)dst;
    for (int64_t i = 0; i < count; i++) memcpy(to + i * size, element, (size_t)size);
}

/* Copy a row by the library: compilers for size make a string instruction of a call that they know,
 * which took up to a sixth of the time of a filter. Rows of a file that means harm may overlap. */
static void *(*const volatile pplconv_library_copy)(void *, const void *, size_t) = memmove;
static inline void pplconv_copy_row(void *dst, const void *src, int64_t bytes) {
    pplconv_library_copy(dst, src, (size_t)bytes);
}

/* Copy mostly few bytes: a number or a pixel, without a call. They may overlap, as rows may. */
static inline void pplconv_copy_few(void *dst, const void *src, int64_t bytes) {
    if (bytes == 1) memcpy(dst, src, 1);
    else if (bytes == 4) memcpy(dst, src, 4);
    else if (bytes == 8) memcpy(dst, src, 8);
    else memmove(dst, src, (size_t)bytes);
}

/* Store the value of padding `count` times: an integer of one byte or two, or zeros of any size. */
static inline void pplconv_fill(void *dst, int64_t count, int64_t size, int64_t value) {
    const int16_t word = (int16_t)value;
    if (size == 2 && word != 0) pplconv_repeat(dst, &word, count, sizeof word);
    else memset(dst, (int)value, (size_t)(count * size));
}

/* Nanoseconds since some moment. */
static inline int64_t pplconv_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Denormal operands cost more than a hundred cycles each on x86, so the loops compute with
 * them flushed to zero. The caller's control register is put back as it was, exception flags
 * included. */
#if defined(__x86_64__)
#include <xmmintrin.h>
static inline uint64_t pplconv_flush_denormals(void) {
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040u); /* FTZ, DAZ */
    return saved;
}
static inline void pplconv_restore_denormals(uint64_t saved) { _mm_setcsr((unsigned)saved); }
#elif defined(__aarch64__)
/* Control and exception flags are two registers; 32 bits of each have a meaning. */
static inline uint64_t pplconv_flush_denormals(void) {
    uint64_t control, status;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(status));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | UINT64_C(1) << 24)); /* FZ */
    return status << 32 | (uint32_t)control;
}
static inline void pplconv_restore_denormals(uint64_t saved) {
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)(uint32_t)saved));
    __asm__ volatile("msr fpsr, %0" : : "r"(saved >> 32));
}
#elif defined(__arm__) && defined(__ARM_FP)
/* One register for both. NEON flushes regardless of it; this is for arithmetic without NEON. */
static inline uint64_t pplconv_flush_denormals(void) {
    uint32_t saved;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(saved));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(saved | 1u << 24)); /* FZ */
    return saved;
}
static inline void pplconv_restore_denormals(uint64_t saved) {
    __asm__ volatile("vmsr fpscr, %0" : : "r"((uint32_t)saved));
}
#else
static inline uint64_t pplconv_flush_denormals(void) { return 0; }
static inline void pplconv_restore_denormals(uint64_t saved) { (void)saved; }
#endif

#endif
