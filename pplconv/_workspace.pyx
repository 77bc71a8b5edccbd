"""Scratch memory and packed weights: aligned, and kept for the next call.

Fresh pages cost a fault each, which for scratch of a megabyte is as much as ten million
FMAs; so what a call borrows goes back to a small pool. The pool holds few buffers and
bounded bytes; a buffer is used by one call at a time.
"""

from libc.stdlib cimport free

cdef extern from *:
    """
    #include <stdlib.h>
    #include <sys/mman.h>

    /* Large buffers ask for huge pages; where that is refused, nothing is lost. */
    static void *pplconv_allocate(size_t size) {
        const size_t huge = (size_t)2 << 20;
        const int large = size >= 2 * huge;
        void *memory = NULL;
        if (size > ((size_t)1 << 62)) return NULL;
        if (posix_memalign(&memory, large ? huge : 4096, size)) return NULL;
    #ifdef MADV_HUGEPAGE
        if (large) (void)madvise(memory, size, MADV_HUGEPAGE);
    #endif
        return memory;
    }
    """
    void *pplconv_allocate(size_t size) nogil

cdef enum:
    POOL_BUFFERS = 8
    POOL_BYTES = 1 << 28

# The GIL guards these: nothing in `borrow` and `give_back` lets go of it between look and
# change. The one that came back last is kept apart, as most programs need only one.
cdef Buffer latest = None
cdef list pool = []
cdef size_t pool_bytes = 0
# Of all buffers there are, and which of the next allocations fails (0: none does).
cdef size_t all_bytes = 0
cdef size_t failing = 0


cdef char *allocate(size_t size) noexcept:
    """Every native allocation of the package; NULL if it fails."""
    global all_bytes, failing
    cdef char *data
    if failing:
        failing -= 1
        if not failing:
            return NULL
    data = <char *> pplconv_allocate(size if size else 1)
    if data != NULL:
        all_bytes += size
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
    return all_bytes


def empty_pool():
    """For tests: free what waits for the next call."""
    global latest, pool_bytes
    latest = None
    pool.clear()
    pool_bytes = 0


cdef class Buffer:
    """Memory aligned to a page, freed with the object."""

    def __cinit__(self, size_t size):
        self.data = allocate(size)
        if self.data == NULL:
            raise MemoryError(f"cannot allocate {size} bytes")
        self.size = size

    def __dealloc__(self):
        global all_bytes
        free(self.data)
        all_bytes -= self.size


cdef Buffer borrow(size_t size):
    """A buffer of at least `size` bytes, contents arbitrary."""
    global latest, pool_bytes
    cdef Buffer best = latest, each
    cdef Py_ssize_t i, at = -1
    if best is not None and best.size >= size:
        latest = None
        return best
    best = None
    for i in range(len(pool)):
        each = pool[i]
        if each.size >= size and (best is None or each.size < best.size):
            best = each
            at = i
    if best is None:
        return Buffer(size)
    del pool[at]
    pool_bytes -= best.size
    return best


cdef void give_back(Buffer buffer) noexcept:
    """Return a borrowed buffer; the oldest are dropped when the pool is full."""
    global latest, pool_bytes
    cdef Buffer oldest
    if buffer.size > POOL_BYTES:
        return
    buffer, latest = latest, buffer
    if buffer is None:
        return
    try:
        pool.append(buffer)
    except MemoryError:  # where the list cannot grow, the buffer is freed
        return
    pool_bytes += buffer.size
    while len(pool) > POOL_BUFFERS or pool_bytes > POOL_BYTES:
        oldest = pool.pop(0)
        pool_bytes -= oldest.size
