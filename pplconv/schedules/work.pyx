# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The base of everything that a team runs: a number of tasks and a function that runs one of them.

A task owns its outputs: no sum is divided between tasks, and the order of a sum depends on
neither blocks nor team. That is why any team gives the same bits.
"""

from libc.stdint cimport int64_t

from pplconv.schedules.team_loop cimport Phase, flushed, run_team

# Products of two counts, and of a size with the positions of a tile, must fit 64 bits.
COUNT, SIZE = 1 << 31, 1 << 47


def check_numbers(dict fields, frozenset sizes):
    """Refuse numbers so large that the checks of the loops could overflow, and negative ones.

    Names in `sizes` are sizes in bytes or elements, below `SIZE`; all others are counts, below
    `COUNT`.
    """
    for name, value in fields.items():
        if isinstance(value, int):
            check_each(name, (value,), SIZE if name in sizes else COUNT)


def check_each(str name, values, limit):
    """Refuse numbers of a list that are negative, or reach a limit."""
    for value in values:
        if value < 0:
            raise ValueError(f"{name} is negative: {value}")
        if value >= limit:
            raise MemoryError(f"{name} is beyond what the loops can address: {value}")


def check_reach(str name, counts, strides):
    """Refuse an array whose size in bytes could overflow."""
    # Python's integers do not wrap around.
    if sum([n * s for n, s in zip(counts, strides)]) >= 1 << 62:
        raise MemoryError(f"{name} is beyond what the loops can address")


def extent_of(int64_t last, counts, strides, int64_t element, bint written=False):
    """Bytes from the first element of an array to the end of the last.

    Parameters
    ----------
    last : int
        Contiguous bytes at each place that the strides reach.
    counts, strides : sequence of int
        Elements of each dimension, and bytes from one to the next.
    element : int
        Bytes of an element; strides must be multiples of it.
    written : bool
        Whether the array is written: then no stride may be 0, unless its count is 1.

    Raises
    ------
    ValueError
        If counts and strides differ in number, a count is not positive, or a stride is negative or
        not a multiple of `element`.
    MemoryError
        If the array is beyond what the loops can address.
    """
    if len(counts) != len(strides) or min(counts, default=1) < 1 or min(strides, default=0) < 0:
        raise ValueError("an array has elements, and a stride for each dimension")
    # Python's integers do not wrap around.
    extent = last
    for n, s in zip(counts, strides):
        if s % element:
            raise ValueError("strides are whole elements")
        if written and n > 1 and s == 0:
            raise ValueError("elements that are written lie apart")
        extent += (n - 1) * s
    if extent >= SIZE or max(counts, default=1) >= COUNT or max(strides, default=0) >= SIZE:
        raise MemoryError("an array is beyond what the loops can address")
    return extent


def first_of(counts, strides):
    """Bytes from the lowest element of an array to its first; negative strides lead down from it.

    Parameters
    ----------
    counts, strides : sequence of int
        As `extent_of` has checked them, with magnitudes for strides.
    """
    below = 0
    for n, s in zip(counts, strides):
        below += (n - 1) * max(-s, 0)
    return below


cdef void run_one(const void *job, int64_t task, char *scratch) noexcept nogil:
    cdef const Run *r = <const Run *> job
    r.task(r.job, r.tensors, task, scratch)
    r = r.after
    while r != NULL:
        r.task(r.job, r.tensors, 0, scratch)
        r = r.after


cdef class Work:
    """Phases of tasks; a subclass says which, and owns their `job`.

    Attributes
    ----------
    arguments : tuple
    named : dict
        The constructor's arguments: they make an equal work.
    """

    def __cinit__(self, *arguments, **named):
        self.arguments, self.named, self.written = arguments, named, 1

    cdef void one_phase(self, task_function task) noexcept:
        """Set a single phase of all tasks, in a single round."""
        self.phases = 1
        self.rounds = 1
        self.steps[0].task, self.steps[0].tasks = task, self.tasks

    cdef void run(self, const Tensors *tensors, char *scratch, int team) noexcept nogil:
        cdef Run[MOST_PHASES] runs
        cdef Phase[MOST_PHASES] phases
        cdef Tensors t = tensors[0]
        cdef int p
        t.shared = scratch
        for p in range(self.phases):
            runs[p].task, runs[p].job, runs[p].tensors = self.steps[p].task, self.job, &t
            runs[p].after = NULL
            phases[p].run, phases[p].job = run_one, &runs[p]
            phases[p].tasks, phases[p].first = self.steps[p].tasks, 0
        run_team(phases, self.phases, self.rounds, flushed(), scratch + self.shared_scratch,
                 self.thread_scratch, team)

    cdef int64_t scratch_bytes(self) noexcept nogil:
        return self.shared_scratch + self.threads * self.thread_scratch
