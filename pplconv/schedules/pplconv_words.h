/* Copies of a few numbers, for modules that are compiled for size. */
#ifndef PPLCONV_WORDS_H
#define PPLCONV_WORDS_H

#include <stdint.h>

/* Copy some words of four bytes, without a call or a string instruction, which compilers for size
 * make of a plain loop. */
static inline __attribute__((always_inline)) void pplconv_copy_words(void *dst, const void *src,
                                                                     int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 4) {
        uint32_t word;
        __builtin_memcpy(&word, (const char *)src + i, sizeof word);
#if defined(__GNUC__)
        __asm__("" : "+r"(word));
#endif
        __builtin_memcpy((char *)dst + i, &word, sizeof word);
    }
}

/* Eight bytes from any address. */
static inline __attribute__((always_inline)) uint64_t pplconv_word_at(const void *src) {
    uint64_t word;
    __builtin_memcpy(&word, src, sizeof word);
    return word;
}

#endif
