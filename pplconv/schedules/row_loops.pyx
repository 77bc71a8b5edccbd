# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations on rows or columns of matrices: reductions, softmax, layer normalization."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    find,
    pplconv_arg_columns_args,
    pplconv_layer_norm_args,
    pplconv_reduce_columns_args,
    pplconv_reduce_rows_args,
    pplconv_softmax_args,
)
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.work cimport Tensors, Work, task_function

from pplconv._kernels import REDUCTIONS
from pplconv.memory.dtypes import DTYPES
from pplconv.schedules.work import check_numbers, extent_of


cdef int64_t find_matrix(const RowsJob *j, int64_t index, const int64_t *strides) noexcept nogil:
    """Byte offset of one of the matrices."""
    cdef int64_t offset = 0
    cdef int d
    for d in range(ROWS_AROUND - 1, -1, -1):
        offset += index % j.dims[d] * strides[d]
        index = index // j.dims[d]
    return offset


cdef void reduce_rows(const void *job, const Tensors *t, int64_t task,
                      char *scratch) noexcept nogil:
    cdef const RowsJob *j = <const RowsJob *> job
    cdef pplconv_reduce_rows_args a
    cdef int64_t column = task % j.segments * j.segment, matrix = task // j.segments
    a.src = t.arrays[1] + find_matrix(j, matrix, j.src) + column * j.element
    a.dst = t.arrays[0] + find_matrix(j, matrix, j.dst) + column * j.element
    a.src_rs, a.rows, a.kind, a.flags = j.src_rs, j.rows, j.kind, 0
    a.columns = least(j.segment, j.columns - column)
    j.kernel(&a)


cdef void reduce_columns(const void *job, const Tensors *t, int64_t task,
                         char *scratch) noexcept nogil:
    cdef const RowsJob *j = <const RowsJob *> job
    cdef pplconv_reduce_columns_args a
    cdef int64_t row = task % j.segments * j.segment, matrix = task // j.segments
    a.src = t.arrays[1] + find_matrix(j, matrix, j.src) + row * j.src_rs
    a.dst = t.arrays[0] + find_matrix(j, matrix, j.dst) + row * j.dst_rs
    a.src_rs, a.dst_rs, a.columns, a.kind = j.src_rs, j.dst_rs, j.columns, j.kind
    a.rows = least(j.segment, j.rows - row)
    j.kernel(&a)


cdef void arg_columns(const void *job, const Tensors *t, int64_t task,
                      char *scratch) noexcept nogil:
    cdef const RowsJob *j = <const RowsJob *> job
    cdef pplconv_arg_columns_args a
    cdef int64_t row = task % j.segments * j.segment, matrix = task // j.segments
    a.src = t.arrays[1] + find_matrix(j, matrix, j.src) + row * j.src_rs
    a.dst = t.arrays[0] + find_matrix(j, matrix, j.dst) + row * j.dst_rs
    a.src_rs, a.dst_rs, a.columns = j.src_rs, j.dst_rs, j.columns
    a.kind, a.last = j.kind, j.last
    a.rows = least(j.segment, j.rows - row)
    j.kernel(&a)


cdef void softmax(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const RowsJob *j = <const RowsJob *> job
    cdef pplconv_softmax_args a
    cdef int64_t row = task % j.segments * j.segment, matrix = task // j.segments
    a.src = t.arrays[1] + find_matrix(j, matrix, j.src) + row * j.src_rs
    a.dst = t.arrays[0] + find_matrix(j, matrix, j.dst) + row * j.dst_rs
    a.src_rs, a.dst_rs, a.columns, a.log = j.src_rs, j.dst_rs, j.columns, j.kind
    a.rows = least(j.segment, j.rows - row)
    j.kernel(&a)


cdef void layer_norm(const void *job, const Tensors *t, int64_t task,
                     char *scratch) noexcept nogil:
    cdef const RowsJob *j = <const RowsJob *> job
    cdef pplconv_layer_norm_args a
    cdef int64_t row = task % j.segments * j.segment, matrix = task // j.segments
    a.src = t.arrays[1] + find_matrix(j, matrix, j.src) + row * j.src_rs
    a.dst = t.arrays[0] + find_matrix(j, matrix, j.dst) + row * j.dst_rs
    a.src_rs, a.dst_rs, a.columns, a.epsilon = j.src_rs, j.dst_rs, j.columns, t.arrays[4]
    a.rows = least(j.segment, j.rows - row)
    a.scale = t.arrays[2] if j.scale else NULL
    a.offset = t.arrays[3] if j.offset else NULL
    j.kernel(&a)


cdef class Rows(Work):
    """An operation on matrices compiled: array 1 to array 0, with scales in array 2, offsets in 3.

    Parameters
    ----------
    fields : dict
        ``op``, the kernel's operation; ``dtype``; ``dims``, at most four counts of matrices, with
        the strides ``src`` and ``dst`` in bytes; ``rows``, ``columns``; ``src_rs``, ``dst_rs`` from
        row to row (elements of a row are neighbours); ``kind``, of the reduction, or 1 for the
        logarithm of softmax; ``last``, whether ``"arg_columns"``, whose results are int64, takes
        the last of several; ``segment``, rows of a task, columns for ``"reduce_rows"``; ``scale``
        and ``offset``, whether there are any. Array 4 has the eight bytes of an epsilon.
    isa : str
        Which kernel to call.

    Raises
    ------
    ValueError
        If it is more than the loops take.
    """

    def __cinit__(self, dict fields, str isa):
        cdef RowsJob *j = &self.own
        cdef int d, missing
        cdef int64_t around = 1
        cdef task_function task
        cdef str op = fields["op"]
        memset(j, 0, sizeof(RowsJob))
        check_numbers(fields, frozenset(("src_rs", "dst_rs")))
        missing = ROWS_AROUND - <int> len(fields["dims"])
        if missing < 0:
            raise ValueError("matrices lie in more dimensions than the loops take")
        j.kernel = find(op, fields["dtype"], isa)
        j.element = DTYPES[fields["dtype"]].itemsize
        j.rows, j.columns = fields["rows"], fields["columns"]
        j.src_rs, j.dst_rs, j.segment = fields["src_rs"], fields["dst_rs"], fields["segment"]
        j.kind = fields["kind"]
        j.scale, j.offset = fields["scale"], fields["offset"]
        if min(j.rows, j.columns, j.segment) < 1:
            raise ValueError("a matrix has elements, and a segment at least 1")
        kinds = set(REDUCTIONS.values())
        if op == "arg_columns" or DTYPES[fields["dtype"]].kind == "i":
            kinds = {REDUCTIONS["MAX"], REDUCTIONS["MIN"]}
        if op.startswith(("reduce", "arg")) and j.kind not in kinds:
            raise ValueError(f"no reduction {j.kind}")
        dims, src, dst = tuple(fields["dims"]), tuple(fields["src"]), tuple(fields["dst"])
        self.extents[1] = extent_of(j.columns * j.element, (*dims, j.rows), (*src, j.src_rs),
                                    j.element)
        if op == "reduce_rows":
            task = reduce_rows
            self.extents[0] = extent_of(j.columns * j.element, dims, dst, j.element, True)
        elif op == "reduce_columns":
            task = reduce_columns
            self.extents[0] = extent_of(j.element, (*dims, j.rows), (*dst, j.dst_rs), j.element,
                                        True)
        elif op == "arg_columns":
            task = arg_columns
            j.last = fields["last"]
            self.extents[0] = extent_of(sizeof(int64_t), (*dims, j.rows), (*dst, j.dst_rs),
                                        sizeof(int64_t), True)
        elif op in ("softmax", "layer_norm"):
            task = softmax if op == "softmax" else layer_norm
            self.extents[0] = extent_of(j.columns * j.element, (*dims, j.rows), (*dst, j.dst_rs),
                                        j.element, True)
        else:
            raise ValueError(f"no loops for {op}")
        for d in range(ROWS_AROUND):
            j.dims[d] = 1
            if d >= missing:
                j.dims[d], j.src[d] = dims[d - missing], src[d - missing]
                j.dst[d] = dst[d - missing]
            around *= j.dims[d]
            if around >= <int64_t> 1 << 31:
                raise MemoryError("matrices are beyond what the loops can address")
        if op == "layer_norm":
            self.extents[4] = 8
        if j.scale:
            self.extents[2] = j.columns * j.element
        if j.offset:
            self.extents[3] = j.columns * j.element
        j.segments = ceil_div(j.columns if op == "reduce_rows" else j.rows, j.segment)
        self.tasks = around * j.segments
        self.threads = 1
        self.job = j
        self.one_phase(task)
