/* The system calls of pinning, each of which tests can replace. A negative result is -errno. */
#ifndef PPLCONV_SYSTEM_H
#define PPLCONV_SYSTEM_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif

enum { PPLCONV_WORD_BITS = 8 * sizeof(unsigned long) };
/* The most CPUs and nodes that Linux can be built for. */
enum { PPLCONV_CPUS = 8192, PPLCONV_NODES = 1024 };

/* A set of CPUs as the kernel has it. */
typedef struct {
    unsigned long words[PPLCONV_CPUS / PPLCONV_WORD_BITS];
} pplconv_mask;

typedef long (*pplconv_set_affinity)(int tid, size_t bytes, const unsigned long *mask);
typedef long (*pplconv_get_affinity)(int tid, size_t bytes, unsigned long *mask);
typedef long (*pplconv_bind_memory)(void *start, size_t bytes, int mode, const unsigned long *nodes,
                                    unsigned long max_node);

#if defined(__linux__)
static inline long pplconv_result(long result) { return result < 0 ? -(long)errno : result; }

static long pplconv_real_set_affinity(int tid, size_t bytes, const unsigned long *mask) {
    return pplconv_result(syscall(SYS_sched_setaffinity, tid, bytes, mask));
}
static long pplconv_real_get_affinity(int tid, size_t bytes, unsigned long *mask) {
    return pplconv_result(syscall(SYS_sched_getaffinity, tid, bytes, mask));
}
static long pplconv_real_bind_memory(void *start, size_t bytes, int mode,
                                     const unsigned long *nodes, unsigned long max_node) {
    return pplconv_result(syscall(SYS_mbind, start, bytes, mode, nodes, max_node, 0));
}
static inline int pplconv_thread_id(void) { return (int)syscall(SYS_gettid); }
#else
static long pplconv_real_set_affinity(int tid, size_t bytes, const unsigned long *mask) {
    (void)tid, (void)bytes, (void)mask;
    return -ENOSYS;
}
static long pplconv_real_get_affinity(int tid, size_t bytes, unsigned long *mask) {
    (void)tid, (void)bytes, (void)mask;
    return -ENOSYS;
}
static long pplconv_real_bind_memory(void *start, size_t bytes, int mode,
                                     const unsigned long *nodes, unsigned long max_node) {
    (void)start, (void)bytes, (void)mode, (void)nodes, (void)max_node;
    return -ENOSYS;
}
static inline int pplconv_thread_id(void) { return 0; }
#endif

static struct {
    pplconv_set_affinity set_affinity;
    pplconv_get_affinity get_affinity;
    pplconv_bind_memory bind_memory;
} pplconv_system = {pplconv_real_set_affinity, pplconv_real_get_affinity, pplconv_real_bind_memory};

/* A null pointer stands for the system's own. */
static void pplconv_replace_system(pplconv_set_affinity set_affinity,
                                   pplconv_get_affinity get_affinity,
                                   pplconv_bind_memory bind_memory) {
    pplconv_system.set_affinity = set_affinity ? set_affinity : pplconv_real_set_affinity;
    pplconv_system.get_affinity = get_affinity ? get_affinity : pplconv_real_get_affinity;
    pplconv_system.bind_memory = bind_memory ? bind_memory : pplconv_real_bind_memory;
}

/* 0, or an errno. */
static int pplconv_get_mask(int tid, pplconv_mask *mask) {
    long result;
    memset(mask, 0, sizeof *mask);
    result = pplconv_system.get_affinity(tid, sizeof *mask, mask->words);
    return result < 0 ? (int)-result : 0;
}

static int pplconv_set_mask(int tid, const pplconv_mask *mask) {
    long result = pplconv_system.set_affinity(tid, sizeof *mask, mask->words);
    return result < 0 ? (int)-result : 0;
}

static inline int pplconv_same_mask(const pplconv_mask *a, const pplconv_mask *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* Take the untouched pages of a mapping from one node, as long as it has memory left. */
static int pplconv_prefer_node(void *start, size_t bytes, int node) {
    enum { PREFERRED = 1 }; /* MPOL_PREFERRED of <linux/mempolicy.h>, which may be missing */
    unsigned long nodes[PPLCONV_NODES / PPLCONV_WORD_BITS] = {0};
    long result;
    if (node < 0 || node >= PPLCONV_NODES) return EINVAL;
    nodes[node / PPLCONV_WORD_BITS] |= 1ul << (node % PPLCONV_WORD_BITS);
    /* The kernel reads one bit less than this number says. */
    result = pplconv_system.bind_memory(start, bytes, PREFERRED, nodes, PPLCONV_NODES + 1);
    return result < 0 ? (int)-result : 0;
}

#endif
