/* Preloaded before libgomp: what gcc and Cython make of parallel regions and barriers, on plain
 * pthreads, for ThreadSanitizer. It knows pthreads; libgomp's futexes it does not see, and would
 * report every region as a race.
 *
 * Every region creates its threads and joins them: threads are ordered where a region begins,
 * where it ends and at its barriers, and nowhere else. The package shares tasks out by relaxed
 * atomics, which order nothing, so that two tasks race in the tool's eyes even if one ran after the
 * other.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 256 };

struct team {
    void (*function)(void *);
    void *data;
    unsigned size;
    pthread_barrier_t barrier;
};

struct member {
    struct team *team;
    unsigned number;
};

static __thread struct member *self;

/* What this stands for, counted for whoever wants to know that it was in use. */
static int64_t regions, threads_started;

static void give_up(const char *why) {
    fprintf(stderr, "openmp_on_pthreads: %s\n", why);
    abort();
}

static void *work(void *pointer) {
    self = pointer;
    self->team->function(self->team->data);
    self = NULL;
    return NULL;
}

static bool in_team(void) { return self != NULL && self->team->size > 1; }

static unsigned default_size(void) {
    const char *text = getenv("OMP_NUM_THREADS");
    const long asked = text ? strtol(text, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    return asked < 1 ? 1 : asked > THREADS ? THREADS : (unsigned)asked;
}

/* Regions within regions run on one thread, as OpenMP has it unless told otherwise. */
void GOMP_parallel(void (*function)(void *), void *data, unsigned size, unsigned flags) {
    struct member *const outer = self;
    struct team team = {.function = function, .data = data};
    struct member members[THREADS];
    pthread_t threads[THREADS];
    team.size = in_team() ? 1 : size ? size : default_size();
    if (team.size > THREADS) give_up("a team is larger than it can be here");
    if (pthread_barrier_init(&team.barrier, NULL, team.size)) give_up("no barrier");
    (void)flags;
    __atomic_fetch_add(&regions, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&threads_started, team.size - 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < team.size; i++)
        members[i] = (struct member){.team = &team, .number = i};
    for (unsigned i = 1; i < team.size; i++)
        if (pthread_create(&threads[i], NULL, work, &members[i])) give_up("no thread");
    work(&members[0]);
    self = outer;
    for (unsigned i = 1; i < team.size; i++)
        if (pthread_join(threads[i], NULL)) give_up("a thread cannot be joined");
    pthread_barrier_destroy(&team.barrier);
}

void GOMP_barrier(void) {
    if (in_team()) pthread_barrier_wait(&self->team->barrier);
}

int omp_get_thread_num(void) { return self ? (int)self->number : 0; }

int omp_get_num_threads(void) { return self ? (int)self->team->size : 1; }

int omp_get_max_threads(void) { return in_team() ? 1 : (int)default_size(); }

int omp_in_parallel(void) { return in_team(); }

int omp_get_level(void) { return self != NULL; }

int omp_get_active_level(void) { return in_team(); }

void openmp_on_pthreads_counts(int64_t counts[2]) {
    counts[0] = __atomic_load_n(&regions, __ATOMIC_RELAXED);
    counts[1] = __atomic_load_n(&threads_started, __ATOMIC_RELAXED);
}
