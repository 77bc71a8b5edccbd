"""Scratch memory and packed weights: aligned, and kept for the next call.

Fresh pages cost a fault each, which for scratch of a megabyte is as much as ten million
FMAs; so what a call borrows goes back to a small pool. The pool holds few buffers and
bounded bytes; a buffer is used by one call at a time.

Under `pplconv.runtime.pin` on a machine of several NUMA nodes, a buffer prefers the memory of
the caller's node, and serves callers of that node only. It is a mapping of its own, so that the
preference ends with it: no thread's memory policy is ever changed.
"""

from libc.stdlib cimport free

from pplconv._binding cimport prefer_node, preferred_node

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
    void *pplconv_allocate(size_t size) nogil
    void *pplconv_map(size_t size) nogil
    int munmap(void *start, size_t size) nogil

cdef enum:
    POOL_BUFFERS = 8
    POOL_BYTES = 1 << 28

# The GIL guards these: nothing in `borrow` and `give_back` lets go of it between look and
# change. The one that came back last is kept apart, as most programs need only one.
cdef Buffer latest = None
cdef list pool = []
cdef size_t pool_bytes = 0


cdef class Buffer:
    """Memory aligned to a page, freed with the object."""

    def __cinit__(self, size_t size):
        self.node = preferred_node()
        if self.node < 0:
            self.data = <char *> pplconv_allocate(size if size else 1)
        else:
            self.data = <char *> pplconv_map(size if size else 1)
        if self.data == NULL:
            raise MemoryError(f"cannot allocate {size} bytes")
        self.size = size
        if self.node >= 0:
            # A pin asks the system first. Refused later, pages come from where they are touched.
            prefer_node(self.data, size if size else 1, self.node)

    def __dealloc__(self):
        if self.data == NULL:
            return
        if self.node < 0:
            free(self.data)
        else:
            munmap(self.data, self.size if self.size else 1)


cdef Buffer borrow(size_t size):
    """A buffer of at least `size` bytes, contents arbitrary."""
    global latest, pool_bytes
    cdef Buffer best = latest, each
    cdef Py_ssize_t i, at = -1
    cdef int node = preferred_node()
    if best is not None and best.size >= size and best.node == node:
        latest = None
        return best
    best = None
    for i in range(len(pool)):
        each = pool[i]
        if each.size >= size and each.node == node and (best is None or each.size < best.size):
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
    pool.append(buffer)
    pool_bytes += buffer.size
    while len(pool) > POOL_BUFFERS or pool_bytes > POOL_BYTES:
        oldest = pool.pop(0)
        pool_bytes -= oldest.size
