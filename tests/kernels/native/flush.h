/* The references treat subnormal numbers like the kernels that they model. */
#ifndef FLUSH_H
#define FLUSH_H

#include <stdint.h>

/* Fused kernels of 32-bit Arm are NEON, which flushes them; others do as the caller's mode says. */
#if defined(__arm__)
static inline uint32_t begin_flushing(int64_t fused) {
    uint32_t saved;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(saved) : : "memory");
    if (fused) __asm__ volatile("vmsr fpscr, %0" : : "r"(saved | 1u << 24) : "memory");
    return saved;
}
static inline void end_flushing(uint32_t saved) {
    __asm__ volatile("vmsr fpscr, %0" : : "r"(saved) : "memory");
}
#else
static inline uint32_t begin_flushing(int64_t fused) { return (void)fused, 0; }
static inline void end_flushing(uint32_t saved) { (void)saved; }
#endif

/* For functions between the two calls: not inlined, so that nothing is moved out from between. */
#define BETWEEN static __attribute__((noinline))

#endif
