/* The work of a team: phases of tasks, and hooks of its threads. */
#ifndef PPLCONV_PHASES_H
#define PPLCONV_PHASES_H

#include <stdint.h>

/* Runs one task from start to finish; `scratch` is the thread's own. Tasks are counted over all
 * rounds. */
typedef void (*pplconv_phase_function)(const void *job, int64_t task, char *scratch);

typedef struct {
    pplconv_phase_function run;
    const void *job;
    int64_t tasks;
    int64_t first; /* number of the first one */
} pplconv_phase;

/* A thread calls `enter` before its first task, and `leave` with the result after its last one. */
typedef struct {
    uint64_t (*enter)(void);
    void (*leave)(uint64_t entered);
} pplconv_hooks;

#endif
