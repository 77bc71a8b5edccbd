"""Steps of a program that take several turns: places that move on, and how turns begin and end."""

from libc.stdint cimport int32_t, int64_t

from pplconv.schedules.work cimport Run, Tensors, run_one


cdef struct Place:
    # Bytes from where a base begins: an address of its own (0), the arena (1), or an array of the
    # caller (2 and on). In a repeat it moves on by `stride` bytes each turn.
    int64_t base, offset, stride


cdef inline char *at(const Place *place, char *const *bases) noexcept nogil:
    # Where an array of a step lies in its first turn.
    if place.base < 0:
        return NULL
    if place.base == 0:
        return <char *> <size_t> place.offset
    return bases[place.base] + place.offset


cdef inline char *in_turn(const Place *place, char *const *bases, int64_t turn) noexcept nogil:
    cdef char *first = at(place, bases)
    return first if first == NULL else first + turn * place.stride


cdef inline Place known(const void *address) noexcept:
    # The place of what does not move; NULL is none.
    cdef Place place
    place.stride = 0
    place.base, place.offset = -1 if address == NULL else 0, <int64_t> address
    return place


cdef inline Place behind(Place place, int64_t elements) noexcept:
    # Some elements of four bytes behind another place.
    place.offset += elements * <int64_t> sizeof(int32_t)
    return place


# Pointers of a run that move on with each turn of a repeat.
cdef struct Move:
    char **pointer
    int64_t stride


# A repeat during a run.
cdef struct Loop:
    Move *moves
    int64_t move_count, turns
    # The turn that runs now, and the first of the steps if all of them have one task.
    int64_t turn
    const Run *body
    # NULL if all turns are taken; else the byte that ends them, and whether it did.
    const char *stop
    bint stopped
    Run run


# A phase of a repeat. The team counts the tasks of all turns, and a work those of one turn.
cdef struct Turned:
    const Run *run
    const Loop *loop
    int64_t tasks


cdef inline void advance(const void *job, int64_t task, char *scratch) noexcept nogil:
    cdef Loop *loop = <Loop *> job
    cdef int64_t i
    if loop.stopped:
        return
    for i in range(loop.move_count):
        loop.moves[i].pointer[0] += loop.moves[i].stride
    loop.turn += 1
    loop.stopped = loop.stop != NULL and loop.stop[0] == 0


cdef inline void run_turned(const void *job, int64_t task, char *scratch) noexcept nogil:
    cdef const Turned *turned = <const Turned *> job
    # The team counts on all turns.
    if turned.loop.stopped:
        return
    run_one(turned.run, task - turned.loop.turn * turned.tasks, scratch)


cdef inline void run_loop(const void *job, const Tensors *t, int64_t task,
                          char *scratch) noexcept nogil:
    # All turns in one task: no step of the repeat has more than one.
    cdef const Loop *loop = <const Loop *> job
    while loop.turn < loop.turns and not loop.stopped:
        run_one(loop.body, 0, scratch)
        advance(loop, 0, scratch)


cdef inline Move *moved(Move *moves, char **pointer, const Place *place) noexcept nogil:
    if place.base < 0 or place.stride == 0:
        return moves
    moves.pointer, moves.stride = pointer, place.stride
    return moves + 1
