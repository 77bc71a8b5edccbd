/* Primitives for threads that wait: sleep, wake others, pause between looks. */
#ifndef PPLCONV_REST_H
#define PPLCONV_REST_H

#include <limits.h>
#include <pthread.h>
#include <stdint.h>

#if defined(__linux__)
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sleep as long as the word has this value. `who` has a bit for each thread that may be woken
 * alone. May return early. */
static inline void pplconv_sleep(uint32_t *word, uint32_t value, uint32_t who) {
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, NULL, NULL, who);
}

/* Likewise, but at most until `end` of the monotonic clock (ns); returns 0 if that time came. */
static inline int pplconv_sleep_until(uint32_t *word, uint32_t value, uint32_t who, int64_t end) {
    /* The kernel's timespec: on 32 bits, the C library's may have a longer time_t. */
    const long limit[] = {(long)(end / 1000000000), (long)(end % 1000000000)};
    return syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, limit, NULL, who) == 0 ||
           errno != ETIMEDOUT;
}

static inline void pplconv_wake(uint32_t *word, uint32_t who) {
    (void)syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL, NULL, who);
}

/* For a forked child, where no thread is asleep: nothing to reset here. */
static inline void pplconv_make_bed(void) {}

/* The CPU that the calling thread runs on, below 0 if unknown. */
static inline int pplconv_cpu(void) { return sched_getcpu(); }
#else
/* One condition variable for all: a thread that is woken looks at its word and may sleep on. */
static pthread_mutex_t pplconv_bed = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t pplconv_bell = PTHREAD_COND_INITIALIZER;

static inline void pplconv_sleep(uint32_t *word, uint32_t value, uint32_t who) {
    (void)who;
    pthread_mutex_lock(&pplconv_bed);
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == value)
        pthread_cond_wait(&pplconv_bell, &pplconv_bed);
    pthread_mutex_unlock(&pplconv_bed);
}

static inline int pplconv_sleep_until(uint32_t *word, uint32_t value, uint32_t who, int64_t end) {
    (void)end;
    pplconv_sleep(word, value, who);
    return 1;
}

static inline void pplconv_wake(uint32_t *word, uint32_t who) {
    (void)word, (void)who;
    pthread_mutex_lock(&pplconv_bed);
    pthread_cond_broadcast(&pplconv_bell);
    pthread_mutex_unlock(&pplconv_bed);
}

static inline void pplconv_make_bed(void) {
    const pthread_mutex_t bed = PTHREAD_MUTEX_INITIALIZER;
    const pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
    pplconv_bed = bed, pplconv_bell = bell;
}

static inline int pplconv_cpu(void) { return -1; }
#endif

/* Leave the core to its sibling hardware thread for some tens of cycles. */
static inline void pplconv_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__ARM_ARCH_7A__)
    __asm__ volatile("yield");
#endif
}

#endif
