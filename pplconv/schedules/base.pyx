# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What every schedule is: a count of tasks, a function for one of them, and the team's loop.

A task owns its outputs: no sum is divided between tasks, and the order of a sum depends on
neither blocks nor team. That is why any team gives the same bits.
"""

from cython.parallel cimport parallel, prange, threadid
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from pplconv._kernels cimport find

cdef extern from "pplconv_schedules.h" nogil:
    uint64_t pplconv_flush_denormals()
    void pplconv_restore_denormals(uint64_t saved)

cdef enum:
    # Bytes of weights below which one thread packs them.
    SMALL_WEIGHTS = 1 << 18


cdef void run_tasks(task_function run_task, const void *job, int64_t tasks,
                    int64_t thread_scratch, const Tensors *t, char *scratch,
                    int team) noexcept nogil:
    cdef int64_t task
    cdef uint64_t saved
    if team == 1:
        # No region at all: the caller's thread, and nothing of OpenMP is touched.
        saved = pplconv_flush_denormals()
        for task in range(tasks):
            run_task(job, t, task, scratch)
        pplconv_restore_denormals(saved)
        return
    with parallel(num_threads=team):
        saved = pplconv_flush_denormals()
        for task in prange(tasks, schedule="dynamic", chunksize=1):
            run_task(job, t, task, scratch + threadid() * thread_scratch)
        pplconv_restore_denormals(saved)


cdef class Schedule:
    """A plan compiled for running: C numbers and kernel addresses.

    Parameters
    ----------
    fields : dict
        What the plan decides, by name.
    dtype, isa : str
        Which kernels to call.
    """

    def __cinit__(self, dict fields, str dtype, str isa):
        cdef Shape *s = &self.shape
        memset(s, 0, sizeof(Shape))
        g = &s.geometry
        (g.ih, g.iw, g.oh, g.ow, g.kh, g.kw, g.stride_h, g.stride_w,
         g.dilation_h, g.dilation_w, g.pad_top, g.pad_left) = fields["geometry"]
        s.element = fields["element"]
        s.batch = fields["batch"]
        s.groups = fields["groups"]
        s.ic = fields["ic"]
        s.oc = fields["oc"]
        s.taps = g.kh * g.kw
        s.x.image, s.x.block, s.x.row, s.x.pixel, s.x.width = fields["x"]
        s.y.image, s.y.block, s.y.row, s.y.pixel, s.y.width = fields["y"]
        s.activate = find("activate", dtype, isa)
        s.zero_lanes = find("zero_lanes", dtype, isa)
        self.tasks = fields["tasks"]
        self.threads = fields["threads"]
        self.thread_scratch = fields["scratch_bytes"]
        self.weight_bytes = fields["packed_weight_bytes"]
        if self.threads < 1 or min(self.tasks, self.thread_scratch, self.weight_bytes) < 0:
            raise ValueError("a plan has a team of at least 1 and no negative sizes")

    cdef void run(self, const Tensors *tensors, char *scratch, int team) noexcept nogil:
        run_tasks(self.task, self.job, self.tasks, self.thread_scratch, tensors, scratch, team)

    cdef void pack_weights(self, const char *weights, char *packed, int team) noexcept nogil:
        cdef int64_t piece
        if team == 1 or self.weight_bytes < SMALL_WEIGHTS:
            self.pack(self.job, weights, packed, 0, 1)
            return
        for piece in prange(team, num_threads=team, schedule="static"):
            self.pack(self.job, weights, packed, piece, team)

    cdef int64_t packed_bytes(self) noexcept nogil:
        return self.weight_bytes

    cdef int64_t scratch_bytes(self) noexcept nogil:
        return self.threads * self.thread_scratch
