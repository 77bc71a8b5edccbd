# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""One timed run of a candidate, for the planner's search: plan in, seconds out."""

from cpython.buffer cimport PyBUF_ND, PyBUF_WRITABLE
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from pplconv._kernels cimport pplconv_instruction, pplconv_quantization
from pplconv.memory.arrays cimport View, hold, release
from pplconv.memory.workspace cimport Buffer
from pplconv.schedules.base cimport Schedule, Tensors
from pplconv.schedules.execute cimport execute
from pplconv.schedules.team cimport leave_team, take_team
from pplconv.schedules.work cimport ELEMENT, SLOPE, Follow

import numpy as np

from pplconv.activations import KINDS, TRIED
from pplconv.memory.dtypes import DTYPES
from pplconv.schedules import compile_plan

cdef extern from "pplconv_caches.h" nogil:
    int pplconv_evict(const char *data, int64_t size)
    void pplconv_displace(const char *data, int64_t size)

# Bytes that are read to empty the caches on machines that have no instruction for it: several times
# their last-level cache.
cdef enum:
    AWAY_BYTES = 64 << 20

cdef Buffer away = None


cdef int displace_all() except -1:
    """Fill the caches with other data."""
    global away
    if away is None:
        away = Buffer(AWAY_BYTES)
        memset(away.data, 1, AWAY_BYTES)  # pages that were never written all map to one page
    pplconv_displace(away.data, AWAY_BYTES)
    return 0


cdef class Trial:
    """A compiled candidate, to be timed.

    Parameters
    ----------
    fields : dict
        As ``Candidate.fields`` collects them.
    isa : str
        Which kernels to call.
    weight : ndarray
        Contiguous weights (oc, ic / groups, kh, kw).
    epilogue : str
        Cost class of the epilogue, one of `activations.COST_CLASSES`.
    packed : Trial, optional
        Another trial whose packing is the same, to share its packed weights.
    """

    cdef Schedule schedule
    cdef Buffer weights
    cdef object weight
    cdef const char *filters
    cdef int threads
    cdef pplconv_instruction code
    cdef Follow follow
    # Whether every run had the full team that it should be timed with.
    cdef readonly bint whole
    cdef double slope
    # For integer sums: one scale per output channel, then the offsets.
    cdef Buffer scales
    cdef pplconv_quantization quantization

    def __cinit__(self, dict fields, str isa, weight, str epilogue="none",
                  Trial packed=None):
        cdef View view
        cdef Schedule schedule = <Schedule?> compile_plan(fields, isa)
        cdef int team
        self.schedule = schedule
        self.threads = fields["threads"]
        self.whole = True
        memset(&self.follow, 0, sizeof(Follow))
        kind = KINDS[TRIED[epilogue]]
        self.code.op, self.code.b = kind.code, SLOPE
        self.code.to = self.code.a = self.code.c = ELEMENT
        self.follow.code, self.follow.slope = &self.code, <const char *> &self.slope
        self.follow.count = self.code.op != 0
        self.follow.is_curve = kind.is_curve
        numerics = fields["numerics"]
        if numerics.exact:
            self.make_scales()
        slope = np.full(1, 0.125, DTYPES[numerics.bias]).tobytes()
        memcpy(&self.slope, <const char *> slope, <size_t> len(slope))
        view.held = False
        hold(weight, &view, PyBUF_ND)
        self.weight = weight
        # The memory stays where it is while the array lives.
        self.filters = <const char *> view.buffer.buf
        release(&view)
        if packed is not None and <int64_t> packed.weights.size >= schedule.packed_bytes():
            self.weights = packed.weights
            return
        self.weights = Buffer(schedule.packed_bytes())
        team = take_team(self.threads, self.threads)
        try:
            schedule.pack_weights(self.filters, self.weights.data, team)
        finally:
            leave_team(team)

    cdef int make_scales(self) except -1:
        """Make scales that bring integer sums into the range of outputs."""
        cdef int64_t i, count = self.schedule.shape.groups * self.schedule.shape.oc
        self.scales = Buffer(2 * count * sizeof(float))
        memset(self.scales.data, 0, 2 * count * sizeof(float))
        for i in range(count):
            (<float *> self.scales.data)[i] = 1e-4
        memset(&self.quantization, 0, sizeof(pplconv_quantization))
        self.quantization.low, self.quantization.high = -100.0, 100.0
        self.quantization.residual_scale = 1.0
        return 0

    cdef int evict(self, const Tensors *t, int64_t x_bytes, int64_t y_bytes) except -1:
        """Take input, output and packed weights out of the caches of all cores.

        Code and scratch stay in the caches: the layers of a network share them.
        """
        cdef bint evicted
        with nogil:
            evicted = pplconv_evict(t.x, x_bytes) != 0
            if evicted:
                pplconv_evict(t.weights, <int64_t> self.weights.size)
                pplconv_evict(t.y, y_bytes)
        if not evicted:
            displace_all()
        return 0

    def seconds(self, x, y, int runs=1, bint cold=False):
        """Run, and return the shortest time of a run.

        Parameters
        ----------
        x, y : ndarray
            Contiguous input and output of the problem's shapes.
        runs : int
            How many runs.
        cold : bool
            Whether input, output and packed weights leave the caches before each run, which is
            not timed.

        Returns
        -------
        float
            Seconds.
        """
        cdef View x_view, y_view
        cdef Tensors t
        cdef int64_t shortest = 0, took = 0
        cdef int _i, team
        x_view.held = y_view.held = False
        try:
            hold(x, &x_view, PyBUF_ND)
            hold(y, &y_view, PyBUF_ND | PyBUF_WRITABLE)
            t.x = <const char *> x_view.buffer.buf
            t.y = <char *> y_view.buffer.buf
            t.weights = self.weights.data
            t.filters = self.filters
            t.bias = NULL
            t.residual = NULL
            t.clip = NULL
            t.follow = self.follow
            t.after = NULL
            t.offsets = NULL
            t.x_zero = NULL
            t.window_sums = t.weight_zeros = NULL
            if self.scales is not None:
                t.bias = self.scales.data + self.schedule.shape.groups * self.schedule.shape.oc * 4
                t.multiplier = self.scales.data
                t.quantization = &self.quantization
            # Runs use warm scratch, as calls do, but demand the full team: a time measured next to
            # another call's threads is useless.
            if not cold:
                team = execute(self.schedule, &t, self.threads, self.threads, runs, &shortest)
                self.whole = self.whole and team == self.threads
            for _i in range(runs if cold else 0):
                self.evict(&t, x_view.buffer.len, y_view.buffer.len)
                team = execute(self.schedule, &t, self.threads, self.threads, 1, &took)
                self.whole = self.whole and team == self.threads
                shortest = took if _i == 0 else min(shortest, took)
        finally:
            release(&x_view)
            release(&y_view)
        return 1e-9 * shortest
