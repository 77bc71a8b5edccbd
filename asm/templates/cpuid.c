/* The two instructions that tell what the CPU is and what the system lets a program use. */
#include "pplconv_kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>

__attribute__((visibility("hidden"))) void pplconv_cpuid(uint32_t leaf, uint32_t subleaf,
                                                         uint32_t out[4]) {
    __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]);
}

__attribute__((visibility("hidden"))) uint64_t pplconv_xgetbv(uint32_t index) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(index));
    return (uint64_t)high << 32 | low;
}
#else
__attribute__((visibility("hidden"))) void pplconv_cpuid(uint32_t leaf, uint32_t subleaf,
                                                         uint32_t out[4]) {
    (void)leaf, (void)subleaf;
    out[0] = out[1] = out[2] = out[3] = 0;
}

__attribute__((visibility("hidden"))) uint64_t pplconv_xgetbv(uint32_t index) {
    (void)index;
    return 0;
}
#endif
