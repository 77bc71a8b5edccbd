/* Turn flush-to-zero of subnormal numbers on or off on this thread; return the previous mode. */
#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

enum { BITS = 0x8040 }; /* flush-to-zero and denormals-are-zero */

static uint32_t get(void) { return _mm_getcsr(); }
static void set(uint32_t mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
enum { BITS = 1 << 24 };

static uint32_t get(void) {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (uint32_t)mode;
}
static void set(uint32_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)mode)); }
#elif defined(__arm__)
enum { BITS = 1 << 24 };

static uint32_t get(void) {
    uint32_t mode;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(mode));
    return mode;
}
static void set(uint32_t mode) { __asm__ volatile("vmsr fpscr, %0" : : "r"(mode)); }
#else
enum { BITS = 0 };

static uint32_t get(void) { return 0; }
static void set(uint32_t mode) { (void)mode; }
#endif

int64_t flush_subnormals(int64_t on) {
    const uint32_t before = get();
    set(on ? before | BITS : before & ~(uint32_t)BITS);
    return (before & BITS) != 0;
}
