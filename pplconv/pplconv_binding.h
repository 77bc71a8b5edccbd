/* Threads bound to CPUs, and the mask that each of them had before.
 *
 * A binding is a list of places, each a set of CPUs. A leader is a thread that starts teams; it
 * enters a binding once, and each thread of its teams joins it before the next call begins.
 * A bound thread is remembered as a member until it ends: the destructor of its thread-specific
 * data takes it off the list under the lock. So a thread id on the list never belongs to another
 * thread, and masks can be put back from any thread. */
#ifndef PPLCONV_BINDING_H
#define PPLCONV_BINDING_H

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "pplconv_system.h"

typedef struct {
    pplconv_mask *place;
    uint64_t serial;
    int places;
    int node;  /* whose memory is preferred; -1 for none */
    int ended; /* read without the lock */
    int failures, error;
} pplconv_binding;

/* What the threads of a team need to join. `binding` is NULL where nothing was asked for. */
typedef struct {
    pplconv_binding *binding;
    uint64_t leader;
    int first; /* the place of the leader; thread i has the i-th after it */
} pplconv_lead;

typedef struct pplconv_member {
    struct pplconv_member *next, *previous;
    pplconv_binding *bound; /* NULL: as it was before */
    uint64_t leader;
    int tid, place;
    pplconv_mask before;
} pplconv_member;

static pthread_mutex_t pplconv_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t pplconv_once = PTHREAD_ONCE_INIT;
static pthread_key_t pplconv_key;
static int pplconv_set_up_error;
static pplconv_member *pplconv_members;
static int pplconv_pins; /* how many there are; read without the lock */
/* Threads that were there before the first of the present pins, ascending. */
static int *pplconv_older, pplconv_older_count;

static __thread pplconv_member *pplconv_self;
static __thread pplconv_lead pplconv_led;

static void pplconv_unlink(pplconv_member *m) {
    if (m->previous) m->previous->next = m->next;
    else pplconv_members = m->next;
    if (m->next) m->next->previous = m->previous;
}

static void pplconv_thread_ends(void *member) {
    pthread_mutex_lock(&pplconv_lock);
    pplconv_unlink((pplconv_member *)member);
    pthread_mutex_unlock(&pplconv_lock);
    pplconv_self = NULL;
    free(member);
}

/* A child of fork has one thread and no pin. It begins with the mask that the thread had before any
 * pin: children of a server that kept their parent's mask would all share its core. */
static void pplconv_before_fork(void) { pthread_mutex_lock(&pplconv_lock); }

static void pplconv_after_fork_in_parent(void) { pthread_mutex_unlock(&pplconv_lock); }

static void pplconv_after_fork_in_child(void) {
    const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    pplconv_member *m, *next, *self = pplconv_self;
    pplconv_lock = fresh;
    for (m = pplconv_members; m; m = next) {
        next = m->next;
        if (m != self) free(m);
    }
    pplconv_members = self;
    if (self) {
        self->next = self->previous = NULL;
        self->tid = pplconv_thread_id();
        if (self->bound) (void)pplconv_set_mask(self->tid, &self->before);
        self->bound = NULL;
    }
    memset(&pplconv_led, 0, sizeof pplconv_led);
    pplconv_pins = 0;
}

static void pplconv_set_up(void) {
    pplconv_set_up_error = pthread_key_create(&pplconv_key, pplconv_thread_ends);
    if (pplconv_set_up_error) return;
    pplconv_set_up_error = pthread_atfork(pplconv_before_fork, pplconv_after_fork_in_parent,
                                          pplconv_after_fork_in_child);
}

/* Add `change` to the number of pins, and return the sum. */
static inline int pplconv_count_pins(int change) {
    if (change) return __atomic_add_fetch(&pplconv_pins, change, __ATOMIC_RELAXED);
    return __atomic_load_n(&pplconv_pins, __ATOMIC_RELAXED);
}

static inline uint64_t pplconv_next_serial(void) {
    static uint64_t last;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static int pplconv_is_older(int tid) {
    int low = 0, high = pplconv_older_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (pplconv_older[middle] < tid) low = middle + 1;
        else high = middle;
    }
    return low < pplconv_older_count && pplconv_older[low] == tid;
}

/* A thread inherits the mask of the one that starts it. A thread that is younger than the pins and
 * has a bound thread's mask has inherited it: without pins it would have the mask that the bound
 * thread had before. */
static const pplconv_member *pplconv_parent(uint64_t leader, const pplconv_mask *mask) {
    const pplconv_member *m, *found = NULL;
    for (m = pplconv_members; m; m = m->next) {
        if (m->bound == NULL || !pplconv_same_mask(mask, &m->bound->place[m->place])) continue;
        if (m->leader == leader) return m;
        found = m;
    }
    return found;
}

/* Note the calling thread's mask; under the lock. */
static int pplconv_note_before(pplconv_member *m, uint64_t leader, int is_new) {
    const pplconv_member *parent;
    int error = pplconv_get_mask(m->tid, &m->before);
    if (error == 0 && is_new && !pplconv_is_older(m->tid)) {
        parent = pplconv_parent(leader, &m->before);
        if (parent) m->before = parent->before;
    }
    return error;
}

/* Bind a member and read its mask back; under the lock. */
static int pplconv_bind(pplconv_member *m, pplconv_binding *to, uint64_t leader, int place) {
    pplconv_mask now;
    int error = pplconv_set_mask(m->tid, &to->place[place]);
    if (error == 0) error = pplconv_get_mask(m->tid, &now);
    if (error == 0 && !pplconv_same_mask(&now, &to->place[place])) error = EINVAL;
    __atomic_store_n(&m->place, place, __ATOMIC_RELAXED);
    __atomic_store_n(&m->leader, leader, __ATOMIC_RELAXED);
    __atomic_store_n(&m->bound, to, __ATOMIC_RELAXED);
    return error;
}

static int pplconv_new_member(void) {
    pplconv_member *m;
    if (pthread_once(&pplconv_once, pplconv_set_up) || pplconv_set_up_error) return ENOMEM;
    m = (pplconv_member *)calloc(1, sizeof *m);
    if (m == NULL) return ENOMEM;
    if (pthread_setspecific(pplconv_key, m)) {
        free(m);
        return ENOMEM;
    }
    m->tid = pplconv_thread_id();
    pplconv_self = m;
    return 0;
}

static void pplconv_link(pplconv_member *m) {
    m->next = pplconv_members;
    m->previous = NULL;
    if (m->next) m->next->previous = m;
    pplconv_members = m;
}

static int pplconv_join_locked(pplconv_binding *b, uint64_t leader, int place) {
    const int is_new = pplconv_self == NULL;
    int error = 0;
    if (b->ended) return 0;
    if (is_new) error = pplconv_new_member();
    if (error == 0 && pplconv_self->bound == NULL) {
        /* A mask that cannot be read could not be put back, so it stays. */
        error = pplconv_note_before(pplconv_self, leader, is_new);
        if (is_new) pplconv_link(pplconv_self);
    }
    if (error == 0) error = pplconv_bind(pplconv_self, b, leader, place);
    if (error) {
        b->failures++;
        b->error = error;
    }
    return error;
}

/* Bind the calling thread to a place, unless it is bound there; 0 or an errno. */
static int pplconv_join(pplconv_binding *b, uint64_t leader, int place) {
    const pplconv_member *self = pplconv_self;
    int error;
    place %= b->places;
    if (self && __atomic_load_n(&self->bound, __ATOMIC_RELAXED) == b &&
        __atomic_load_n(&self->place, __ATOMIC_RELAXED) == place && self->leader == leader)
        return 0;
    pthread_mutex_lock(&pplconv_lock);
    error = pplconv_join_locked(b, leader, place);
    pthread_mutex_unlock(&pplconv_lock);
    return error;
}

/* Bind the calling thread and its teams. */
static int pplconv_enter(pplconv_binding *b, uint64_t leader, int place) {
    const pplconv_lead lead = {b, leader, place};
    const int error = pplconv_join(b, leader, place);
    pplconv_led = lead;
    return error;
}

static void pplconv_leave(void) { memset(&pplconv_led, 0, sizeof pplconv_led); }

static inline pplconv_lead pplconv_current_lead(void) {
    const pplconv_lead none = {NULL, 0, 0};
    if (pplconv_led.binding == NULL) return none;
    return __atomic_load_n(&pplconv_led.binding->ended, __ATOMIC_RELAXED) ? none : pplconv_led;
}

/* The CPUs that the calling thread had before it was bound, of at most so many bytes; 0 if it is
 * not bound, and so has them. */
static int pplconv_cpus_before(unsigned long *cpus, size_t bytes) {
    const pplconv_member *self = pplconv_self;
    int bound;
    if (self == NULL) return 0;
    pthread_mutex_lock(&pplconv_lock);
    bound = self->bound != NULL;
    if (bound)
        memcpy(cpus, self->before.words, bytes < sizeof self->before ? bytes : sizeof self->before);
    pthread_mutex_unlock(&pplconv_lock);
    return bound;
}

/* No thread can join any more. */
static void pplconv_end(pplconv_binding *b) {
    pthread_mutex_lock(&pplconv_lock);
    __atomic_store_n(&b->ended, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pplconv_lock);
}

/* Move the members that `from` has bound to places of `to`; if `to` is NULL, put their masks back.
 * Moves the members of one leader, or all if `leader` is 0. Returns 0 or the last errno. */
static int pplconv_move(const pplconv_binding *from, uint64_t leader, pplconv_binding *to,
                        int shift) {
    pplconv_member *m;
    int error, last = 0;
    pthread_mutex_lock(&pplconv_lock);
    for (m = pplconv_members; m; m = m->next) {
        if (m->bound != from || (leader && m->leader != leader)) continue;
        if (to) {
            error = pplconv_bind(m, to, m->leader,
                                 ((m->place + shift) % to->places + to->places) % to->places);
        } else {
            error = pplconv_set_mask(m->tid, &m->before);
            __atomic_store_n(&m->bound, NULL, __ATOMIC_RELAXED);
        }
        /* A thread that is about to end needs nothing. */
        if (error && error != ESRCH) last = error;
    }
    pthread_mutex_unlock(&pplconv_lock);
    return last;
}

/* A member as it is now. */
typedef struct {
    uint64_t leader;
    int tid, place, error;
    pplconv_mask mask;
} pplconv_sight;

/* Count the members of a binding, and write down at most `room` of them. */
static int pplconv_look(const pplconv_binding *b, pplconv_sight *sights, int room) {
    const pplconv_member *m;
    pplconv_sight *s;
    int count = 0;
    pthread_mutex_lock(&pplconv_lock);
    for (m = pplconv_members; m; m = m->next) {
        if (m->bound != b || count++ >= room) continue;
        s = &sights[count - 1];
        s->leader = m->leader;
        s->tid = m->tid;
        s->place = m->place;
        s->error = pplconv_get_mask(m->tid, &s->mask);
    }
    pthread_mutex_unlock(&pplconv_lock);
    return count;
}

/* Keep `older`, ascending, as the threads older than any pin; return the list kept so far. */
static int *pplconv_keep_older(int *older, int count) {
    int *former;
    pthread_mutex_lock(&pplconv_lock);
    former = pplconv_older;
    pplconv_older = older;
    pplconv_older_count = count;
    pthread_mutex_unlock(&pplconv_lock);
    return former;
}

/* Ask the system whether it grants memory of a node: 0 or an errno. */
static int pplconv_try_node(int node) {
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int error;
    if (page == MAP_FAILED) return errno;
    error = pplconv_prefer_node(page, size, node);
    (void)munmap(page, size);
    return error;
}

#endif
