/* CPUID, which describes the CPU; XGETBV, which tells the register states that the system lets a
 * program use; and the request for the states that a program has to ask for. */
#include "pplconv_kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* Linux documentation, arch/x86/xstate, and its asm/prctl.h. Headers of older systems lack
 * these. */
#define REQUEST_PERMISSION 0x1023 /* ARCH_REQ_XCOMP_PERM */
#define TILE_DATA 18              /* number of the state component */
#endif

__attribute__((visibility("hidden"))) void pplconv_cpuid(uint32_t leaf, uint32_t subleaf,
                                                         uint32_t out[4]) {
    __cpuid_count(leaf, subleaf, out[0], out[1], out[2], out[3]);
}

__attribute__((visibility("hidden"))) uint64_t pplconv_xgetbv(uint32_t index) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(index));
    return (uint64_t)high << 32 | low;
}

__attribute__((visibility("hidden"))) int32_t pplconv_permit_tiles(void) {
#if defined(__linux__) && defined(SYS_arch_prctl)
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return 0;
#endif
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

__attribute__((visibility("hidden"))) int32_t pplconv_permit_tiles(void) { return 0; }
#endif
