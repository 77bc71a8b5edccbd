# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Short messages from one process to another, through memory that both see.

A mailbox holds one message, a few numbers. Its writer increments a count when it begins to prepare
a message, and again when the message is complete. The first increment tells a reader that waiting
pays. The reader looks for some time, without the interpreter's lock, since a wake-up by the system
takes tens of microseconds. Then it announces that it goes to sleep, and looks once more. A writer
that finds the reader asleep after leaving a message has to wake it. So one of the two always sees
the other's step, in whatever order they act. The mailbox does not say how a reader sleeps.

Nothing here waits for the other process: a process that is killed at any step leaves a complete
message or none.
"""

from cpython.buffer cimport PyBUF_ND, PyBUF_WRITABLE
from libc.stdint cimport int64_t, uint64_t, uintptr_t

from pplconv.memory.arrays cimport View, hold, release

__all__ = ["ANNOUNCED", "BYTES", "NOTHING", "THERE", "Inbox", "Outbox"]

cdef extern from *:
    """
    #include <stdint.h>
    #include <time.h>

    /* What one side writes lies two cache lines from what the other does: processors fetch lines
       in pairs. */
    typedef struct {
        uint64_t count; /* twice the messages, and one more while the next is prepared */
        int64_t words[5], since;
        char apart[72];
        uint64_t naps; /* of the reader; odd while it sleeps, or is about to */
        char end[120];
    } pplconv_mailbox;

    static int64_t pplconv_nanoseconds(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    }

    static inline void pplconv_breathe(void) {
    #if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
    #elif defined(__aarch64__) || (defined(__arm__) && __ARM_ARCH >= 7)
        __asm__ volatile("isb" ::: "memory");
    #endif
    }

    /* Each side writes one count and then looks at the other: in one order for both, which
       acquiring and releasing alone would not give. */
    static inline uint64_t pplconv_load(const uint64_t *from) {
        return __atomic_load_n(from, __ATOMIC_SEQ_CST);
    }

    static inline void pplconv_store(uint64_t *to, uint64_t value) {
        __atomic_store_n(to, value, __ATOMIC_SEQ_CST);
    }

    /* 0: nothing new, 1: a message is prepared, 2: it is there. */
    static inline int pplconv_sign(const pplconv_mailbox *box, uint64_t read) {
        const uint64_t count = pplconv_load(&box->count);
        return count >= read + 2 ? 2 : count > read;
    }

    static int pplconv_watch(const pplconv_mailbox *box, uint64_t read, int64_t first,
                             int64_t then) {
        int64_t end = pplconv_nanoseconds() + first;
        int sign, before = 0;
        for (;;) {
            for (int i = 0; i < 16; i++) {
                sign = pplconv_sign(box, read);
                if (sign == 2) return 2;
                if (sign > before) end = pplconv_nanoseconds() + then;
                before = sign;
                pplconv_breathe();
            }
            if (pplconv_nanoseconds() >= end) return sign;
        }
    }
    """
    ctypedef struct Box "pplconv_mailbox":
        uint64_t count
        int64_t words[5]
        int64_t since
        uint64_t naps
    int64_t nanoseconds "pplconv_nanoseconds"() nogil
    uint64_t load "pplconv_load"(const uint64_t *place) nogil
    void store "pplconv_store"(uint64_t *place, uint64_t value) nogil
    int sign_of "pplconv_sign"(const Box *box, uint64_t read) nogil
    int watch "pplconv_watch"(const Box *box, uint64_t read, int64_t first, int64_t then) nogil

NOTHING, ANNOUNCED, THERE = 0, 1, 2
BYTES = sizeof(Box)
"""Size of a mailbox, whose memory begins as zeros."""


cdef Box *box_in(object memory, View *view) except NULL:
    hold(memory, view, PyBUF_ND | PyBUF_WRITABLE)
    if view.buffer.len < <Py_ssize_t> sizeof(Box) or <uintptr_t> view.buffer.buf % 64:
        release(view)
        raise ValueError(f"memory must be {sizeof(Box)} bytes that begin on a cache line")
    return <Box *> view.buffer.buf


cdef void begin(Box *box) noexcept:
    if not box.count & 1:
        box.since = nanoseconds()
        store(&box.count, box.count + 1)


cdef class Outbox:
    """The writer's end of a mailbox; see ``_mailbox.pyi``."""

    cdef View view
    cdef Box *box
    cdef uint64_t rung

    def __cinit__(self, memory):
        self.box = box_in(memory, &self.view)

    def __dealloc__(self):
        release(&self.view)

    def announce(self):
        begin(self.box)

    def post(self, int64_t first, int64_t second, int64_t third, int64_t fourth, int64_t fifth):
        cdef Box *box = self.box
        begin(box)
        box.words[0] = first
        box.words[1] = second
        box.words[2] = third
        box.words[3] = fourth
        box.words[4] = fifth
        store(&box.count, box.count + 1)

    def sleeper(self):
        cdef uint64_t naps = load(&self.box.naps)
        return naps if naps & 1 and naps != self.rung else 0

    def rang(self, uint64_t nap):
        self.rung = nap


cdef class Inbox:
    """The reader's end of a mailbox; see ``_mailbox.pyi``."""

    cdef View view
    cdef Box *box
    cdef uint64_t read

    def __cinit__(self, memory):
        self.box = box_in(memory, &self.view)

    def __dealloc__(self):
        release(&self.view)

    def look(self, double first=0.0, double then=0.0):
        cdef int64_t first_ns = <int64_t> (1e9 * first), then_ns = <int64_t> (1e9 * then)
        cdef int sign = sign_of(self.box, self.read)
        if sign == 2 or (first_ns if sign == 0 else then_ns) <= 0:
            return sign
        with nogil:
            sign = watch(self.box, self.read, first_ns, then_ns)
        return sign

    def nap(self):
        store(&self.box.naps, self.box.naps | 1)
        return sign_of(self.box, self.read) < 2

    def wake(self):
        store(&self.box.naps, (self.box.naps + 1) & ~<uint64_t> 1)

    def take(self):
        cdef Box *box = self.box
        if sign_of(box, self.read) < 2:
            raise ValueError("there is no message")
        self.read += 2
        since = 1e-9 * box.since
        return box.words[0], box.words[1], box.words[2], box.words[3], box.words[4], since
