/* Bytes from one place to another. */
#ifndef PPLCONV_COPIES_H
#define PPLCONV_COPIES_H

#include "template.h"

typedef char vector_chars __attribute__((vector_size(PPLCONV_VECTOR_BYTES), aligned(1), may_alias));

/* n bytes in two pieces of `size` which overlap, size <= n <= 2 * size. */
#define COPY_TWO(dst, src, n, size)                                                                \
    do {                                                                                           \
        char first[size], last[size];                                                              \
        memcpy(first, src, size);                                                                  \
        memcpy(last, (src) + (n) - (size), size);                                                  \
        memcpy(dst, first, size);                                                                  \
        memcpy((dst) + (n) - (size), last, size);                                                  \
    } while (0)

static inline
    __attribute__((always_inline)) void copy_bytes(char *dst, const char *src, int64_t n) {
    enum { STEP = PPLCONV_VECTOR_BYTES };
    if (n >= STEP) {
        int64_t i = 0;
        for (; i + 4 * STEP <= n; i += 4 * STEP) {
            const vector_chars a = *(const vector_chars *)(src + i);
            const vector_chars b = *(const vector_chars *)(src + i + STEP);
            const vector_chars c = *(const vector_chars *)(src + i + 2 * STEP);
            const vector_chars d = *(const vector_chars *)(src + i + 3 * STEP);
            /* Without this, the compiler would make a call of memcpy. */
            __asm__("" : "+r"(i));
            *(vector_chars *)(dst + i) = a;
            *(vector_chars *)(dst + i + STEP) = b;
            *(vector_chars *)(dst + i + 2 * STEP) = c;
            *(vector_chars *)(dst + i + 3 * STEP) = d;
        }
        for (; i + STEP <= n; i += STEP) {
            const vector_chars a = *(const vector_chars *)(src + i);
            __asm__("" : "+r"(i));
            *(vector_chars *)(dst + i) = a;
        }
        /* The last vector reaches back over bytes that are copied already. */
        if (i < n) *(vector_chars *)(dst + n - STEP) = *(const vector_chars *)(src + n - STEP);
        return;
    }
#if PPLCONV_VECTOR_BYTES == 64
    if (n >= 32) {
        COPY_TWO(dst, src, n, 32);
        return;
    }
#endif
#if PPLCONV_VECTOR_BYTES >= 32
    if (n >= 16) {
        COPY_TWO(dst, src, n, 16);
        return;
    }
#endif
    if (n >= 8) COPY_TWO(dst, src, n, 8);
    else if (n >= 4) COPY_TWO(dst, src, n, 4);
    else if (n >= 2) COPY_TWO(dst, src, n, 2);
    else if (n == 1) *dst = *src;
}

#endif
