# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Copies between arrays of any strides, broadcasts and transpositions included.

Copies from float16 to float32 and back convert the elements; rows of both arrays are then
contiguous.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    find,
    pplconv_convert_in_args,
    pplconv_convert_out_args,
    pplconv_copy_strided_args,
)
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.work cimport Tensors, Work

from pplconv.memory.dtypes import DTYPES
from pplconv.schedules.work import check_numbers, extent_of, first_of

# Kernels by the types of source and destination: operation and type.
CONVERSIONS = {
    ("f16", "f32"): ("convert_in", "f32"), ("f32", "f16"): ("convert_out", "f32"),
    ("bf16", "f32"): ("convert_in", "bf16f32"), ("f32", "bf16"): ("convert_out", "bf16f32"),
}


cdef inline void copy_block(const CopyJob *j, const char *src, char *dst,
                            int64_t rows) noexcept nogil:
    """Copy some rows, described by the arguments that the kernel takes."""
    cdef pplconv_copy_strided_args copy
    cdef pplconv_convert_in_args wide
    cdef pplconv_convert_out_args narrow
    cdef int64_t src_rs = j.src[COPIED_DIMS - 2], dst_rs = j.dst[COPIED_DIMS - 2]
    cdef int64_t columns = j.dims[COPIED_DIMS - 1]
    if j.widens:
        wide.src, wide.src_rs, wide.dst, wide.dst_rs = src, src_rs, dst, dst_rs
        wide.rows, wide.columns, wide.flags = rows, columns, 0
        j.kernel(&wide)
    elif j.narrows:
        narrow.src, narrow.src_rs, narrow.dst, narrow.dst_rs = src, src_rs, dst, dst_rs
        narrow.rows, narrow.columns, narrow.fill, narrow.flags = rows, columns, 0, 0
        narrow.residual, narrow.residual_rs, narrow.clip = NULL, 0, NULL
        j.kernel(&narrow)
    else:
        copy.src, copy.src_rs, copy.src_cs = src, src_rs, j.src[COPIED_DIMS - 1]
        copy.dst, copy.dst_rs, copy.dst_cs = dst, dst_rs, j.dst[COPIED_DIMS - 1]
        copy.rows, copy.columns = rows, columns
        j.kernel(&copy)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const CopyJob *j = <const CopyJob *> job
    cdef int64_t[COPIED_DIMS] at
    cdef int64_t row = task % j.row_segments * j.row_segment
    cdef int64_t rest = task // j.row_segments * j.lines
    cdef int64_t lines = least(j.lines, j.around - rest), src, dst
    cdef int64_t rows = least(j.row_segment, j.dims[COPIED_DIMS - 2] - row)
    cdef int d
    src, dst = j.first + row * j.src[COPIED_DIMS - 2], row * j.dst[COPIED_DIMS - 2]
    for d in range(COPIED_DIMS - 3, -1, -1):
        at[d] = rest % j.dims[d]
        src += at[d] * j.src[d]
        dst += at[d] * j.dst[d]
        rest = rest // j.dims[d]
    while True:
        copy_block(j, t.arrays[1] + src, t.arrays[0] + dst, rows)
        lines -= 1
        if lines == 0:
            return
        # Go on to the next matrix.
        d = COPIED_DIMS - 3
        while at[d] == j.dims[d] - 1:
            src -= at[d] * j.src[d]
            dst -= at[d] * j.dst[d]
            at[d] = 0
            d -= 1
        at[d] += 1
        src += j.src[d]
        dst += j.dst[d]


cdef class Copy(Work):
    """A copy compiled: array 1 to array 0.

    Parameters
    ----------
    fields : dict
        ``dtype``, a type of the size of the elements; or, if ``source`` is given and differs, the
        types of destination and source, between which elements are converted; ``dims``, two to six
        counts, of which the last two are rows and columns of a matrix; ``src`` and ``dst``, the
        strides of ``dims`` in bytes; ``row_segment``, the rows of a task, and ``lines``, its
        matrices. Strides of ``src`` may be negative; array 1 begins at the lowest byte all the
        same.
    isa : str
        Which kernel to call.

    Raises
    ------
    ValueError
        If it is more than the loops take.
    """

    def __cinit__(self, dict fields, str isa):
        cdef CopyJob *j = &self.own
        cdef int d, missing
        cdef int64_t around = 1, element, source
        memset(j, 0, sizeof(CopyJob))
        check_numbers(fields, frozenset())
        missing = COPIED_DIMS - <int> len(fields["dims"])
        if not 0 <= missing <= COPIED_DIMS - 2:
            raise ValueError("a copy has more dimensions than the loops take")
        types = fields.get("source", fields["dtype"]), fields["dtype"]
        source, element = DTYPES[types[0]].itemsize, DTYPES[types[1]].itemsize
        if types[0] == types[1]:
            j.kernel = find("copy_strided", types[1], isa)
        else:
            if types not in CONVERSIONS:
                raise ValueError(f"no kernel makes {types[1]} of {types[0]}")
            operation, pair = CONVERSIONS[types]
            j.kernel = find(operation, pair, isa)
            j.widens, j.narrows = element > source, element < source
        self.extents[0] = extent_of(element, fields["dims"], fields["dst"], element, True)
        # As many bytes as if the loops walked up: the array begins at the lowest one either way.
        steps = [abs(stride) for stride in fields["src"]]
        self.extents[1] = extent_of(source, fields["dims"], steps, source)
        self.units[0], self.units[1] = element, source
        j.first = first_of(fields["dims"], fields["src"])
        for d in range(COPIED_DIMS):
            j.dims[d] = 1
            if d >= missing:
                j.dims[d] = fields["dims"][d - missing]
                j.src[d] = fields["src"][d - missing]
                j.dst[d] = fields["dst"][d - missing]
            if d < COPIED_DIMS - 2:
                around *= j.dims[d]
            if around >= <int64_t> 1 << 31:
                raise MemoryError("a copy is beyond what the loops can address")
        d = COPIED_DIMS - 1
        if source != element and (j.src[d] != source or j.dst[d] != element):
            raise ValueError("rows are converted without gaps")
        j.row_segment, j.lines = fields["row_segment"], fields["lines"]
        if j.row_segment < 1 or j.lines < 1:
            raise ValueError("segments are at least 1")
        j.around = around
        j.row_segments = ceil_div(j.dims[COPIED_DIMS - 2], j.row_segment)
        self.tasks = ceil_div(around, j.lines) * j.row_segments
        self.threads = 1
        self.job = j
        self.one_phase(run_task)
