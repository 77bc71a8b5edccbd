"""Scratch memory and packed weights: aligned, and kept for the next call.

Fresh pages cost a fault each, which for scratch of a megabyte is as much as ten million FMAs; so
buffers that a call borrows go back to a small pool. The pool holds few buffers and bounded bytes; a
buffer is used by one call at a time.

A flag guards the pool. It is held for a few instructions only, and a call that does not get it soon
does without the pool. So a child forked while another thread held it (possible only without the
GIL) goes on with a new pool.

Under `pplconv.runtime.pin` on a machine of several NUMA nodes, a buffer prefers the memory of
the caller's node, and serves callers of that node only. It is a mapping of its own, so that the
preference ends with it: no thread's memory policy is ever changed.
"""

from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from pplconv._binding cimport prefer_node, preferred_node

import os

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    #include <sys/mman.h>

    /* Sizes are reckoned in 64 bits, and a process of 32 has fewer addresses. */
    static int pplconv_addressable(int64_t size) {
        return size >= 0 && (uint64_t)size <= UINTPTR_MAX / 4;
    }

    /* Large buffers ask for huge pages; where that is refused, nothing is lost. */
    static void *pplconv_allocate(size_t size) {
        const size_t huge = (size_t)2 << 20;
        const int large = size >= 2 * huge;
        void *memory = NULL;
        if (posix_memalign(&memory, large ? huge : 4096, size)) return NULL;
    #ifdef MADV_HUGEPAGE
        if (large) (void)madvise(memory, size, MADV_HUGEPAGE);
    #endif
        return memory;
    }

    /* Pages of their own, none of them touched. */
    static void *pplconv_map(size_t size) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory == MAP_FAILED) return NULL;
    #ifdef MADV_HUGEPAGE
        if (size >= (size_t)4 << 20) (void)madvise(memory, size, MADV_HUGEPAGE);
    #endif
        return memory;
    }
    """
    bint pplconv_addressable(int64_t size) nogil
    void *pplconv_allocate(size_t size) nogil
    void *pplconv_map(size_t size) nogil
    int munmap(void *start, size_t size) nogil


cdef extern from *:
    """
    /* Bytes of all buffers there are, after a change. */
    static int64_t pplconv_count_bytes(int64_t change) {
        static int64_t bytes;
        return __atomic_add_fetch(&bytes, change, __ATOMIC_RELAXED);
    }

    static int pplconv_pool_taken;

    static int pplconv_pool_take(void) {
        int tries;
        for (tries = 0; tries < 1000; tries++) {
            if (!__atomic_test_and_set(&pplconv_pool_taken, __ATOMIC_ACQUIRE)) return 1;
        }
        return 0;
    }

    static void pplconv_pool_leave(void) {
        __atomic_clear(&pplconv_pool_taken, __ATOMIC_RELEASE);
    }
    """
    int64_t pplconv_count_bytes(int64_t change) noexcept nogil
    bint pplconv_pool_take() noexcept nogil
    void pplconv_pool_leave() noexcept nogil


cdef enum:
    POOL_BUFFERS = 9
    POOL_BYTES = 1 << 28

# Oldest first; the pool owns a reference to each. Guarded by the flag.
cdef PyObject *pool[POOL_BUFFERS]
cdef int pooled = 0
cdef size_t pool_bytes = 0
# The number of the allocation that fails, from now on; 0: none fails.
cdef size_t failing = 0


cdef char *allocate(int64_t size, int node) noexcept:
    """Allocate a buffer's memory, as a mapping if it prefers a node; NULL if that fails."""
    global failing
    cdef char *data
    if not pplconv_addressable(size):
        return NULL
    if failing:
        failing -= 1
        if not failing:
            return NULL
    if node < 0:
        data = <char *> pplconv_allocate(<size_t> size if size else 1)
    else:
        data = <char *> pplconv_map(<size_t> size if size else 1)
    if data != NULL:
        pplconv_count_bytes(size)
    return data


def fail_allocation(size_t which):
    """For tests: let the `which`-th allocation from now fail, that one alone; 0: let none fail.

    The pool is emptied, so that what a call borrows is allocated.
    """
    global failing
    empty_pool()
    failing = which


def allocated_bytes():
    """For tests: bytes of all buffers there are, the pool's included."""
    return pplconv_count_bytes(0)


def empty_pool():
    """For tests: free the buffers in the pool."""
    cdef PyObject *dropped[POOL_BUFFERS]
    cdef int i, count = 0
    if not pplconv_pool_take():
        return
    while pooled:
        dropped[count] = take_out(pooled - 1)
        count += 1
    pplconv_pool_leave()
    for i in range(count):
        Py_XDECREF(dropped[i])


cdef class Buffer:
    """Memory aligned to a page, freed with the object."""

    def __cinit__(self, int64_t size):
        self.node = preferred_node()
        self.data = allocate(size, self.node)
        if self.data == NULL:
            raise MemoryError(f"cannot allocate {size} bytes")
        self.size = <size_t> size
        if self.node >= 0:
            # The pin has checked that the system permits this. If it is refused all the same, pages
            # come from the node of the thread that touches them first.
            prefer_node(self.data, self.size if size else 1, self.node)

    def __dealloc__(self):
        if self.data == NULL:
            return
        if self.node < 0:
            free(self.data)
        else:
            munmap(self.data, self.size if self.size else 1)
        pplconv_count_bytes(-<int64_t> self.size)


cdef PyObject *take_out(int at) noexcept:
    # The caller holds the flag, and takes over the reference.
    global pooled, pool_bytes
    cdef PyObject *taken = pool[at]
    cdef int i
    pooled -= 1
    pool_bytes -= (<Buffer> taken).size
    for i in range(at, pooled):
        pool[i] = pool[i + 1]
    return taken


cdef Buffer borrow(int64_t size):
    """A buffer of at least `size` bytes, contents arbitrary."""
    cdef PyObject *best = NULL
    cdef int i, at = -1, node = preferred_node()
    cdef int64_t found, smallest = 0
    if pplconv_pool_take():
        for i in range(pooled - 1, -1, -1):
            found = <int64_t> (<Buffer> pool[i]).size
            if found >= size and (<Buffer> pool[i]).node == node and (at < 0 or found < smallest):
                at, smallest = i, found
                # The buffer that came back last is warm, and most programs need only one.
                if i == pooled - 1:
                    break
        if at >= 0:
            best = take_out(at)
        pplconv_pool_leave()
    if best == NULL:
        return Buffer(size)
    buffer = <Buffer> best
    Py_XDECREF(best)
    return buffer


cdef void give_back(Buffer buffer) noexcept:
    """Return a borrowed buffer; the oldest are dropped when the pool is full."""
    global pooled, pool_bytes
    # They are dropped after the flag is released: the system may take its time to unmap them.
    cdef PyObject *dropped[POOL_BUFFERS]
    cdef int i, count = 0
    if buffer.size > POOL_BYTES or not pplconv_pool_take():
        return
    while pooled == POOL_BUFFERS or pool_bytes + buffer.size > POOL_BYTES:
        dropped[count] = take_out(0)
        count += 1
    Py_INCREF(buffer)
    pool[pooled] = <PyObject *> buffer
    pooled += 1
    pool_bytes += buffer.size
    pplconv_pool_leave()
    for i in range(count):
        Py_XDECREF(dropped[i])


def _in_child():
    """Start anew if a thread that does not exist here holds the flag."""
    global pooled, pool_bytes
    if not pplconv_pool_take():
        pooled = 0
        pool_bytes = 0
    pplconv_pool_leave()


# Systems without fork have no such function, and no such problem.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
