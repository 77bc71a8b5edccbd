# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""What every schedule is: a count of tasks, a function for one of them, and the team's loop.

A task owns its outputs: no sum is divided between tasks, and the order of a sum depends on
neither blocks nor team. That is why any team gives the same bits.
"""

from cython.parallel cimport parallel, prange, threadid
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from pplconv._binding cimport Lead, current_lead, take_place
from pplconv._kernels cimport MAX_MR, MAX_VECTORS, GemmFamily, find
from pplconv.memory.workspace cimport Buffer, borrow, give_back

from pplconv.numerics import numerics_of

cdef extern from "pplconv_schedules.h" nogil:
    uint64_t pplconv_flush_denormals()
    void pplconv_restore_denormals(uint64_t saved)

cdef enum:
    # Bytes of weights below which one thread packs them.
    SMALL_WEIGHTS = 1 << 18


# Products of two counts, and of a size with the positions of a tile, must fit 64 bits.
COUNT, SIZE = 1 << 31, 1 << 47
SIZES = frozenset((
    "b_ahead", "m_offset", "m_position", "packed_weight_bytes", "pixels", "run_offset",
    "runs_offset", "scratch_bytes", "slab_offset", "slab_tiles", "tasks", "tile_offset",
    "v_position",
))


def check_numbers(dict fields):
    """Refuse numbers with which the checks of the loops could not reckon."""
    for name, value in fields.items():
        if isinstance(value, int):
            if value < 0:
                raise ValueError(f"{name} is negative: {value}")
            if value >= (SIZE if name in SIZES else COUNT):
                raise MemoryError(f"{name} is beyond what the loops can address: {value}")


cdef int check_tile(const GemmFamily *gemm, int64_t mr, int64_t nr) except -1:
    """Refuse a tile of which a kernel is missing, be it for a tail."""
    cdef int64_t v, m
    if not (1 <= mr <= MAX_MR and gemm.lanes <= nr <= MAX_VECTORS * gemm.lanes) or nr % gemm.lanes:
        raise ValueError(f"no such tile: {mr}x{nr}")
    for v in range(nr // gemm.lanes):
        for m in range(mr):
            if gemm.tile[v][m] == NULL:
                raise ValueError(f"no kernel for a tile of {m + 1}x{(v + 1) * gemm.lanes}")
    return 0


cdef void run_tasks(task_function run_task, const void *job, int64_t tasks,
                    int64_t thread_scratch, const Tensors *t, char *scratch,
                    int team) noexcept nogil:
    cdef int64_t task
    cdef uint64_t saved = 0
    cdef Lead lead
    if team == 1:
        # No region at all: the caller's thread, and nothing of OpenMP is touched.
        saved = pplconv_flush_denormals()
        for task in range(tasks):
            run_task(job, t, task, scratch)
        pplconv_restore_denormals(saved)
        return
    lead = current_lead()
    with parallel(num_threads=team):
        saved = pplconv_flush_denormals()
        if lead.binding != NULL:
            take_place(lead, threadid())
        for task in prange(tasks, schedule="dynamic", chunksize=1):
            run_task(job, t, task, scratch + threadid() * thread_scratch)
        pplconv_restore_denormals(saved)


cdef void convert_filters(const Shape *s, const char *weights, char *converted, int64_t begin,
                          int64_t end) noexcept nogil:
    """Convert the weights of output channels `begin` to `end`."""
    cdef int64_t size = s.ic * s.taps
    # The caller's weights are of the type of the input.
    convert_in(s, weights + begin * size * s.size.source, 0,
               converted + begin * size * s.size.weight, 0, 1, (end - begin) * size)


cdef class Schedule:
    """A plan compiled for running: C numbers and kernel addresses.

    Parameters
    ----------
    fields : dict
        What the plan decides, by name.
    isa : str
        Which kernels to call.

    Raises
    ------
    ValueError
        If the loops could not carry it out inside its memory.
    """

    def __cinit__(self, dict fields, str isa):
        cdef Shape *s = &self.shape
        numerics = fields["numerics"]
        cdef str dtype = numerics.operand
        check_numbers(fields)
        # Sizes that are not those of kernels would lead outside arrays.
        if numerics_of(numerics.source, dtype) != numerics:
            raise ValueError(f"no loops compute with {numerics}")
        memset(s, 0, sizeof(Shape))
        g = &s.geometry
        (g.ih, g.iw, g.oh, g.ow, g.kh, g.kw, g.stride_h, g.stride_w,
         g.dilation_h, g.dilation_w, g.pad_top, g.pad_left) = fields["geometry"]
        s.size.source = numerics.source_bytes
        s.size.operand = numerics.operand_bytes
        s.size.weight = numerics.weight_bytes
        s.size.sum = numerics.sum_bytes
        s.size.destination = numerics.destination_bytes
        s.size.bias = numerics.bias_bytes
        s.converts = numerics.converts
        s.batch = fields["batch"]
        s.groups = fields["groups"]
        s.ic = fields["ic"]
        s.oc = fields["oc"]
        s.taps = g.kh * g.kw
        s.x.image, s.x.block, s.x.row, s.x.pixel, s.x.width = fields["x"]
        s.y.image, s.y.block, s.y.row, s.y.pixel, s.y.width = fields["y"]
        s.activate = find("activate", dtype, isa)
        s.zero_lanes = find("zero_lanes", dtype, isa)
        if s.converts:
            s.convert_in = find("convert_in", dtype, isa)
            s.convert_out = find("convert_out", dtype, isa)
        self.tasks = fields["tasks"]
        self.threads = fields["threads"]
        self.thread_scratch = fields["scratch_bytes"]
        self.weight_bytes = fields["packed_weight_bytes"]
        if self.threads < 1:
            raise ValueError("a plan has a team of at least 1")
        if self.thread_scratch % 64:
            raise ValueError("a thread's scratch is whole lines of cache")

    cdef void run(self, const Tensors *tensors, char *scratch, int team) noexcept nogil:
        run_tasks(self.task, self.job, self.tasks, self.thread_scratch, tensors, scratch, team)

    cdef int pack_weights(self, const char *weights, char *packed, int team) except -1:
        """Pack contiguous weights; those of another type than computed in are converted first."""
        cdef Buffer converted
        cdef Shape *s = &self.shape
        if not s.converts:
            with nogil:
                self.pack_pieces(weights, packed, NULL, team)
            return 0
        converted = borrow(s.groups * s.oc * s.ic * s.taps * s.size.weight)
        with nogil:
            self.pack_pieces(weights, packed, converted.data, team)
        give_back(converted)
        return 0

    cdef void pack_pieces(self, const char *weights, char *packed, char *converted,
                          int team) noexcept nogil:
        cdef int64_t piece, count = self.shape.groups * self.shape.oc
        cdef const char *plain = weights if converted == NULL else converted
        cdef Lead lead
        if team == 1 or self.weight_bytes < SMALL_WEIGHTS:
            if converted != NULL:
                convert_filters(&self.shape, weights, converted, 0, count)
            self.pack(self.job, plain, packed, 0, 1)
            return
        lead = current_lead()
        with parallel(num_threads=team):
            if lead.binding != NULL:
                take_place(lead, threadid())
            if converted != NULL:
                for piece in prange(team, schedule="static"):
                    convert_filters(&self.shape, weights, converted, count * piece // team,
                                    count * (piece + 1) // team)
            for piece in prange(team, schedule="static"):
                self.pack(self.job, plain, packed, piece, team)

    cdef int64_t packed_bytes(self) noexcept nogil:
        return self.weight_bytes

    cdef int64_t scratch_bytes(self) noexcept nogil:
        return self.threads * self.thread_scratch
