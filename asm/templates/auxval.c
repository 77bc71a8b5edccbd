/* Description of an Arm system: a word of the auxiliary vector, and the core's identity. Files of
 * /proc hold the same, but under user-mode emulation they describe the host. */
#include "pplconv_kernels.h"

#if (defined(__aarch64__) || defined(__arm__)) && defined(__linux__)
#include <sys/auxv.h>

#if defined(__aarch64__)
#define MIDR_CAN_BE_READ (1u << 11) /* HWCAP_CPUID: the kernel answers for the register */
#endif

__attribute__((visibility("hidden"))) uint64_t pplconv_auxval(uint64_t type) {
    return getauxval((unsigned long)type);
}

__attribute__((visibility("hidden"))) uint64_t pplconv_midr(void) {
    uint64_t midr = 0;
#if defined(__aarch64__) /* programs of 32 bits cannot read it */
    if (getauxval(AT_HWCAP) & MIDR_CAN_BE_READ) {
        __asm__ volatile("mrs %0, MIDR_EL1" : "=r"(midr));
    }
#endif
    return midr;
}
#else
__attribute__((visibility("hidden"))) uint64_t pplconv_auxval(uint64_t type) {
    (void)type;
    return 0;
}

__attribute__((visibility("hidden"))) uint64_t pplconv_midr(void) { return 0; }
#endif
