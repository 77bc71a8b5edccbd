# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Copies of items to or from places that indices name: Gather, Scatter and their kin.

Indices are numbers of a run. The kernel checks each against the size of its dimension, and a run
that met another one is refused at its end.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport find, pplconv_copy_indexed_args
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.work cimport Tensors, Work

from pplconv.memory.dtypes import DTYPES
from pplconv.schedules.work import SIZE, check_numbers, extent_of

# Callers count in Python.
globals().update(AROUND=AROUND, MOST_INDICES=MOST_INDICES)

cdef enum:
    REFUSAL_BYTES = 8


def reach_of(dict fields, str name, int64_t last, int64_t element, limits):
    """Bytes from the first element of an array to the end of the last, whatever the indices are."""
    strides = [*fields[name], fields[f"{name}_step"]]
    if limits:
        strides.extend(fields[f"{name}_strides"])
    return extent_of(last, [*fields["dims"], fields["count"], *limits], strides, element)


cdef inline void copy_row(const IndexedJob *j, const Tensors *t, int64_t row, int64_t first,
                          int64_t count) noexcept nogil:
    """Copy some items of a row."""
    cdef pplconv_copy_indexed_args a
    cdef int64_t src = first * j.src_step, dst = first * j.dst_step, index = first * j.index_step
    cdef int64_t at
    cdef int d
    for d in range(AROUND - 1, -1, -1):
        at = row % j.dims[d]
        row = row // j.dims[d]
        src += at * j.src[d]
        dst += at * j.dst[d]
        index += at * j.index[d]
    a.src, a.src_step = t.arrays[1] + src, j.src_step
    a.dst, a.dst_step = t.arrays[0] + dst, j.dst_step
    a.index, a.index_step = t.arrays[2] + index, j.index_step
    a.size, a.count, a.depth = j.size, count, j.depth
    a.limits = <const void *> &j.limits[0]
    a.src_strides = <const void *> &j.src_strides[0]
    a.dst_strides = <const void *> &j.dst_strides[0]
    a.refused = t.arrays[3]
    j.kernel(&a)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const IndexedJob *j = <const IndexedJob *> job
    cdef int64_t row, first
    if j.together:
        for row in range(j.rows):
            copy_row(j, t, row, 0, j.count)
        return
    first = task % j.segments * j.segment
    copy_row(j, t, task // j.segments, first, least(j.segment, j.count - first))


cdef class Indexed(Work):
    """A copy by indices compiled: array 1 to array 0, with the indices in array 2.

    Parameters
    ----------
    fields : dict
        ``dtype``, of the indices, ``"s64"`` or ``"s32"``; ``size``, bytes of an item; ``dims``, at
        most `AROUND` counts of rows of items, with the strides ``src``, ``dst`` and ``index`` in
        bytes; ``count``, items of a row, with ``src_step``, ``dst_step`` and ``index_step``;
        ``limits``, the size of the dimension of each index of an item, at most `MOST_INDICES`,
        with the strides ``src_strides`` and ``dst_strides``; ``segment``, items of a task;
        ``together``, whether one task copies everything in its order, since items may go to one
        place. Array 3 are the refusals of the step.
    isa : str
        Which kernel to call.

    Raises
    ------
    ValueError
        If it is more than the loops take.
    """

    def __cinit__(self, dict fields, str isa):
        cdef IndexedJob *j = &self.own
        cdef int d, missing
        memset(j, 0, sizeof(IndexedJob))
        check_numbers(fields, frozenset(("size", "src_step", "dst_step", "index_step")))
        dims, limits = tuple(fields["dims"]), tuple(fields["limits"])
        missing = AROUND - len(dims)
        if missing < 0 or not 1 <= len(limits) <= MOST_INDICES:
            raise ValueError("a copy by indices has more dimensions than the loops take")
        if fields["dtype"] not in ("s32", "s64"):
            raise ValueError(f"indices are not {fields['dtype']}")
        j.kernel = find("copy_indexed", fields["dtype"], isa)
        j.size, j.count, j.segment = fields["size"], fields["count"], fields["segment"]
        if min(j.size, j.count, j.segment, *limits) < 1:
            raise ValueError("a copy by indices has items, and a segment at least one")
        j.src_step, j.dst_step = fields["src_step"], fields["dst_step"]
        j.index_step, j.depth = fields["index_step"], len(limits)
        j.together = fields["together"]
        element = DTYPES[fields["dtype"]].itemsize
        # Items that are written may share places if one task writes them.
        self.extents[0] = reach_of(fields, "dst", j.size, 1, limits)
        self.extents[1] = reach_of(fields, "src", j.size, 1, limits)
        self.extents[2] = reach_of(fields, "index", element * len(limits), element, ())
        self.extents[3] = REFUSAL_BYTES
        self.units[2], self.units[3] = element, REFUSAL_BYTES // 2
        self.written = 0b1001
        rows = 1
        for d in range(AROUND):
            j.dims[d] = 1
            if d >= missing:
                j.dims[d], j.src[d] = dims[d - missing], fields["src"][d - missing]
                j.dst[d], j.index[d] = fields["dst"][d - missing], fields["index"][d - missing]
                rows *= dims[d - missing]
        for d in range(j.depth):
            j.limits[d] = limits[d]
            j.src_strides[d] = fields["src_strides"][d]
            j.dst_strides[d] = fields["dst_strides"][d]
        j.segments = ceil_div(j.count, j.segment)
        if rows * <object> j.segments >= SIZE:
            raise MemoryError("a copy by indices is beyond what the loops can address")
        j.rows = rows
        self.tasks = 1 if j.together else j.rows * j.segments
        self.threads = 1
        self.job = j
        self.one_phase(run_task)
