# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Threads bound to CPUs, and put back as they were: the mechanism of ``pplconv.runtime.pin``.

A `Binding` is a list of places for the threads of teams. ``pplconv.runtime`` decides which threads
are bound where; this module has the masks, the system calls and the list of bound threads
(``pplconv_binding.h``). No thread waits for the list's lock while it holds the GIL.
"""

from libc.stdint cimport uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

cdef extern from "pplconv_binding.h" nogil:
    enum:
        PPLCONV_WORD_BITS
        PPLCONV_CPUS
    ctypedef struct pplconv_mask:
        unsigned long words[1]
    ctypedef struct pplconv_binding:
        pplconv_mask *place
        uint64_t serial
        int places, node, failures, error
    ctypedef struct pplconv_lead:
        pplconv_binding *binding
        uint64_t leader
        int first
    ctypedef struct pplconv_sight:
        uint64_t leader
        int tid, place, error
        pplconv_mask mask
    ctypedef void *pplconv_set_affinity
    ctypedef void *pplconv_get_affinity
    ctypedef void *pplconv_bind_memory

    int pplconv_count_pins(int change)
    uint64_t pplconv_next_serial()
    int *pplconv_keep_older(int *older, int count)
    int pplconv_enter(pplconv_binding *b, uint64_t leader, int place)
    int pplconv_join(pplconv_binding *b, uint64_t leader, int place)
    void pplconv_leave()
    pplconv_lead pplconv_current_lead()
    int pplconv_cpus_before(unsigned long *cpus, size_t bytes)
    void pplconv_end(pplconv_binding *b)
    int pplconv_move(const pplconv_binding *b, uint64_t leader, pplconv_binding *to, int shift)
    int pplconv_look(const pplconv_binding *b, pplconv_sight *sights, int room)
    int pplconv_prefer_node(void *start, size_t size, int node)
    int pplconv_try_node(int node)
    void pplconv_replace_system(pplconv_set_affinity set_affinity,
                                pplconv_get_affinity get_affinity,
                                pplconv_bind_memory bind_memory)


cdef bint pinned() noexcept nogil:
    return pplconv_count_pins(0) != 0


cdef Lead current_lead() noexcept nogil:
    cdef pplconv_lead found = pplconv_current_lead()
    cdef Lead lead
    lead.binding, lead.leader, lead.first = found.binding, found.leader, found.first
    lead.serial = 0 if found.binding == NULL else found.binding.serial
    return lead


cdef void take_place(Lead lead, int thread) noexcept nogil:
    # The binding counts failures; an unbound thread works all the same.
    pplconv_join(<pplconv_binding *> lead.binding, lead.leader, lead.first + thread)


cdef int cpus_before(unsigned long *cpus, size_t bytes) noexcept nogil:
    return pplconv_cpus_before(cpus, bytes)


cdef int preferred_node() noexcept nogil:
    cdef pplconv_lead lead = pplconv_current_lead()
    return -1 if lead.binding == NULL else lead.binding.node


cdef int prefer_node(void *start, size_t size, int node) noexcept nogil:
    return pplconv_prefer_node(start, size, node)


cdef tuple cpus_of(const pplconv_mask *mask):
    cdef int cpu
    cdef list cpus = []
    for cpu in range(PPLCONV_CPUS):
        if mask.words[cpu // PPLCONV_WORD_BITS] >> (cpu % PPLCONV_WORD_BITS) & 1:
            cpus.append(cpu)
    return tuple(cpus)


cdef class Binding:
    """Places for the threads of teams.

    Parameters
    ----------
    places : tuple of tuple of int
        Logical CPUs of each place.

    Raises
    ------
    ValueError
        If there is no place, a place has no CPU, or a CPU number is beyond the mask.
    MemoryError
        If there is no memory for the masks.
    """

    cdef pplconv_binding binding

    def __cinit__(self, tuple places):
        cdef Py_ssize_t i
        cdef int cpu
        self.binding.node, self.binding.serial = -1, pplconv_next_serial()
        if not places or not all(places):
            raise ValueError(f"no CPUs to bind to: {places!r}")
        self.binding.place = <pplconv_mask *> calloc(len(places), sizeof(pplconv_mask))
        if self.binding.place == NULL:
            raise MemoryError(f"cannot allocate {len(places)} masks")
        self.binding.places = len(places)
        for i, cpus in enumerate(places):
            for cpu in cpus:
                if not 0 <= cpu < PPLCONV_CPUS:
                    raise ValueError(f"no such CPU: {cpu}")
                self.binding.place[i].words[cpu // PPLCONV_WORD_BITS] |= (
                    <unsigned long> 1 << (cpu % PPLCONV_WORD_BITS))

    def __dealloc__(self):
        free(self.binding.place)

    @property
    def failures(self):
        """Number of threads that could not be bound."""
        return self.binding.failures

    @property
    def error(self):
        """Errno of the last thread that could not be bound."""
        return self.binding.error

    def prefer_memory(self, int node):
        """Place scratch and weights of this binding's leaders on `node`; return 0 or an errno."""
        cdef int error
        with nogil:
            error = pplconv_try_node(node)
        if error == 0:
            self.binding.node = node
        return error

    def enter(self, uint64_t leader, int place):
        """Bind the calling thread and its teams; return 0 or an errno.

        The caller keeps this object until the thread enters another one, or leaves.
        """
        cdef int error
        with nogil:
            error = pplconv_enter(&self.binding, leader, place)
        return error

    def end(self):
        """Bind no more threads."""
        with nogil:
            pplconv_end(&self.binding)

    def move(self, uint64_t leader, Binding to or None, int shift=0):
        """Move bound threads to places of `to`, or back to where they were; return 0 or an errno.

        Parameters
        ----------
        leader : int
            The leader whose teams are moved; 0 for all.
        to : Binding or None
            None puts masks back as they were before anything was bound.
        shift : int
            Added to a place's number here to give its number in `to`.
        """
        cdef int error
        cdef pplconv_binding *target = NULL
        if to is not None:
            target = &to.binding
        with nogil:
            error = pplconv_move(&self.binding, leader, target, shift)
        return error

    def members(self):
        """List the threads bound here: (thread id, leader, place, CPUs read back) each.

        Raises
        ------
        MemoryError
            If there is no memory for the list.
        """
        cdef int i, count, room = 16
        cdef pplconv_sight *sights
        while True:
            sights = <pplconv_sight *> calloc(room, sizeof(pplconv_sight))
            if sights == NULL:
                raise MemoryError(f"cannot allocate a list of {room} threads")
            try:
                with nogil:
                    count = pplconv_look(&self.binding, sights, room)
                if count <= room:
                    return [(sights[i].tid, sights[i].leader, sights[i].place,
                             () if sights[i].error else cpus_of(&sights[i].mask))
                            for i in range(count)]
            finally:
                free(sights)
            room = 2 * count


def leave():
    """Bind no more teams of the calling thread."""
    pplconv_leave()


def count_pins(int change):
    """Add `change` to the number of pins, and return the sum."""
    return pplconv_count_pins(change)


def keep_older(threads):
    """Keep the ids of the threads that existed before the first of the present pins.

    A thread that starts later may have inherited its mask from a bound one.
    """
    cdef list ids = sorted(threads)
    cdef Py_ssize_t i
    cdef int count = len(ids)
    cdef int *older = NULL
    if count:
        older = <int *> calloc(count, sizeof(int))
        if older == NULL:
            raise MemoryError(f"cannot allocate a list of {count} threads")
    for i in range(count):
        older[i] = ids[i]
    with nogil:
        older = pplconv_keep_older(older, count)
    free(older)


def replace_system(uintptr_t set_affinity=0, uintptr_t get_affinity=0, uintptr_t bind_memory=0):
    """Replace system calls by functions of the tests; 0 restores the system's own.

    Addresses of C functions as ``pplconv_system.h`` has them. They may be called on any thread,
    without the GIL.
    """
    pplconv_replace_system(<pplconv_set_affinity> set_affinity,
                           <pplconv_get_affinity> get_affinity,
                           <pplconv_bind_memory> bind_memory)
