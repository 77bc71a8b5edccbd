/* Take memory out of the caches, for trials that should start as cold as a network's layers. */
#ifndef PPLCONV_CACHES_H
#define PPLCONV_CACHES_H

#include <stdint.h>

/* No cache line is shorter on the architectures below. Where lines are longer, a line is evicted
 * more than once, which costs little. */
#define PPLCONV_LINE 64

/* Write `size` bytes back to memory and take their lines out of every cache of every core. They are
 * in no cache when it returns. Returns 0, and does nothing, on architectures where programs have no
 * instruction for it.
 *
 * The plain instruction, not `clflushopt`: it needs no CPUID, and a search spends its time on runs.
 */
static inline int pplconv_evict(const char *data, int64_t size) {
#if defined(__x86_64__) || defined(__aarch64__)
    const char *end = data + size;
    for (const char *line = data - ((uintptr_t)data & (PPLCONV_LINE - 1)); line < end;
         line += PPLCONV_LINE) {
#if defined(__x86_64__)
        __asm__ volatile("clflush %0" : "+m"(*(volatile char *)line));
#else
        __asm__ volatile("dc civac, %0" : : "r"(line) : "memory");
#endif
    }
#if defined(__x86_64__)
    __asm__ volatile("mfence" : : : "memory");
#else
    __asm__ volatile("dsb ish" : : : "memory");
#endif
    return 1;
#else
    (void)data;
    (void)size;
    return 0;
#endif
}

/* Read a byte of each line, so that these lines replace others in the caches. */
static inline void pplconv_displace(const char *data, int64_t size) {
    for (int64_t at = 0; at < size; at += PPLCONV_LINE) (void)((const volatile char *)data)[at];
}

#endif
