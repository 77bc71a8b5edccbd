# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Operations on rows or columns of matrices: reductions, softmax, layer normalization."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_ACCUMULATE,
    find,
    pplconv_arg_columns_args,
    pplconv_layer_norm_args,
    pplconv_reduce_columns_args,
    pplconv_reduce_rows_args,
    pplconv_softmax_args,
    pplconv_sum_bytes_args,
)
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.brain_rows cimport (
    BRAIN_BYTES,
    WIDE_BYTES,
    find_brain_rows,
    narrow_rows,
    widen_rows,
)
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


cdef void sum_bytes(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const RowsJob *j = <const RowsJob *> job
    cdef pplconv_sum_bytes_args a
    cdef int64_t column = task % j.segments * j.segment, matrix = task // j.segments
    a.src = t.arrays[1] + find_matrix(j, matrix, j.src) + column
    a.dst = t.arrays[0] + find_matrix(j, matrix, j.dst) + column * WIDE_BYTES
    a.src_rs, a.rows = j.src_rs, j.rows
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


cdef int64_t wide_columns(const RowsJob *j) noexcept nogil:
    """Columns that `reduce_rows` adds up at once, of bfloat16."""
    return least(WIDE_ELEMENTS // least(j.rows, REDUCED_ROWS), least(j.segment, j.columns))


cdef void reduce_brain_rows(const void *job, const Tensors *t, int64_t task,
                            char *scratch) noexcept nogil:
    """Blocks of rows, one after the other: their sums are those of all rows at once."""
    cdef const RowsJob *j = <const RowsJob *> job
    cdef pplconv_reduce_rows_args a
    cdef int64_t column = task % j.segments * j.segment, matrix = task // j.segments
    cdef int64_t end = least(column + j.segment, j.columns), most = wide_columns(j), row
    cdef const char *src
    cdef char *dst = t.arrays[0] + find_matrix(j, matrix, j.dst)
    cdef char *wide = scratch + most * WIDE_BYTES
    a.src, a.kind = wide, j.kind
    while column < end:
        a.dst = dst + column * WIDE_BYTES if j.wide else scratch
        a.columns = least(most, end - column)
        a.src_rs = a.columns * WIDE_BYTES
        src = t.arrays[1] + find_matrix(j, matrix, j.src) + column * j.element
        row = 0
        while row < j.rows:
            a.rows = least(REDUCED_ROWS, j.rows - row)
            a.flags = PPLCONV_ACCUMULATE if row else 0
            widen_rows(&j.brain, src + row * j.src_rs, j.src_rs, wide, a.src_rs, a.rows, a.columns)
            j.kernel(&a)
            row += a.rows
        if not j.wide:
            narrow_rows(&j.brain, scratch, a.src_rs, dst + column * BRAIN_BYTES,
                        a.columns * BRAIN_BYTES, 1, a.columns)
        column += a.columns


cdef int64_t wide_rows(const RowsJob *j) noexcept nogil:
    """Rows of bfloat16 that are float32 at once."""
    return least(max(WIDE_ELEMENTS // j.columns, 1), least(j.segment, j.rows))


cdef void run_brain_rows(const void *job, const Tensors *t, int64_t task,
                         char *scratch) noexcept nogil:
    """A few rows of float32 at a time, in the place of rows of the arrays."""
    cdef const RowsJob *j = <const RowsJob *> job
    cdef RowsJob wide = j[0]
    cdef Tensors own = t[0]
    cdef int64_t row = task % j.segments * j.segment, matrix = task // j.segments
    cdef int64_t end = least(row + j.segment, j.rows), most = wide_rows(j)
    cdef const char *src = t.arrays[1] + find_matrix(j, matrix, j.src)
    cdef char *dst = t.arrays[0] + find_matrix(j, matrix, j.dst)
    cdef char *arrays[5]
    cdef int i
    for i in range(2, 5):
        arrays[i] = t.arrays[i] if i < j.arrays else NULL
    arrays[0], arrays[1] = scratch, scratch
    if j.apart:
        arrays[0] += most * j.columns * WIDE_BYTES
    own.arrays = arrays
    wide.src_rs = j.columns * WIDE_BYTES
    wide.dst_rs = j.dst_rs if j.wide else j.results * WIDE_BYTES
    # Its only task.
    wide.segments = 1
    while row < end:
        wide.rows = wide.segment = least(most, end - row)
        widen_rows(&j.brain, src + row * j.src_rs, j.src_rs, scratch, wide.src_rs, wide.rows,
                   j.columns)
        if j.wide:
            arrays[0] = dst + row * j.dst_rs
        j.task(&wide, &own, 0, NULL)
        if not j.wide:
            narrow_rows(&j.brain, arrays[0], wide.dst_rs, dst + row * j.dst_rs, j.dst_rs,
                        wide.rows, j.results)
        row += wide.rows


cdef class Rows(Work):
    """An operation on matrices compiled: array 1 to array 0, with scales in array 2, offsets in 3.

    Parameters
    ----------
    fields : dict
        ``op``, the kernel's operation; ``dtype``; ``dims``, at most four counts of matrices, with
        the strides ``src`` and ``dst`` in bytes; ``rows``, ``columns``; ``src_rs``, ``dst_rs`` from
        row to row (elements of a row are neighbours); ``kind``, of the reduction, or 1 for the
        logarithm of softmax; ``last``, whether ``"arg_columns"``, whose results are int64, takes
        the last of several; ``segment``, rows of a task, columns for ``"reduce_rows"`` and
        ``"sum_bytes"``, whose results are int32; ``scale``
        and ``offset``, whether there are any: they are float32 beside ``"bf16"``. Array 4 has the
        eight bytes of an epsilon. With ``wide``, results of ``"bf16"`` stay float32.
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
        cdef int64_t around = 1, weight, result
        cdef task_function task
        cdef str op = fields["op"]
        cdef bint brain = fields["dtype"] == "bf16"
        memset(j, 0, sizeof(RowsJob))
        check_numbers(fields, frozenset(("src_rs", "dst_rs")))
        missing = ROWS_AROUND - <int> len(fields["dims"])
        if missing < 0:
            raise ValueError("matrices lie in more dimensions than the loops take")
        if brain:
            find_brain_rows(&j.brain, isa)
        j.kernel = find(op, "f32" if brain else fields["dtype"], isa)
        j.element = DTYPES[fields["dtype"]].itemsize
        weight = WIDE_BYTES if brain else j.element
        j.wide = brain and fields.get("wide", False)
        result = WIDE_BYTES if j.wide else j.element
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
        self.units[0], self.units[1] = result, j.element
        self.units[2] = self.units[3] = weight
        if op == "reduce_rows":
            task = reduce_rows
            self.extents[0] = extent_of(j.columns * result, dims, dst, result, True)
        elif op == "sum_bytes":
            task = sum_bytes
            self.extents[0] = extent_of(j.columns * WIDE_BYTES, dims, dst, WIDE_BYTES, True)
            self.units[0] = WIDE_BYTES
        elif op == "reduce_columns":
            task = reduce_columns
            self.extents[0] = extent_of(result, (*dims, j.rows), (*dst, j.dst_rs), result, True)
        elif op == "arg_columns":
            task = arg_columns
            j.last = fields["last"]
            self.extents[0] = extent_of(sizeof(int64_t), (*dims, j.rows), (*dst, j.dst_rs),
                                        sizeof(int64_t), True)
            self.units[0] = sizeof(int64_t)
        elif op in ("softmax", "layer_norm"):
            task = softmax if op == "softmax" else layer_norm
            self.extents[0] = extent_of(j.columns * result, (*dims, j.rows), (*dst, j.dst_rs),
                                        result, True)
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
            self.extents[4] = self.units[4] = 8
        if j.scale:
            self.extents[2] = j.columns * weight
        if j.offset:
            self.extents[3] = j.columns * weight
        whole = j.columns if op in ("reduce_rows", "sum_bytes") else j.rows
        j.segments = ceil_div(whole, j.segment)
        self.tasks = around * j.segments
        self.threads = 1
        self.job = j
        if brain:
            task = self.of_brain_floats(op, task)
        self.one_phase(task)

    cdef task_function of_brain_floats(self, str op, task_function task) except *:
        """Set up the conversion of rows, in scratch of each thread; give the task that does it."""
        cdef RowsJob *j = &self.own
        cdef int64_t elements
        if op == "arg_columns":
            raise ValueError("indices of extremes are not found in bfloat16")
        j.task, j.arrays = task, 5 if op == "layer_norm" else 2
        j.apart = op == "reduce_columns"
        j.results = 1 if j.apart else j.columns
        if op == "reduce_rows":
            elements = (least(j.rows, REDUCED_ROWS) + 1) * wide_columns(j)
        else:
            elements = wide_rows(j) * (j.columns + 1)
        self.thread_scratch = ceil_div(elements * WIDE_BYTES, 64) * 64
        return reduce_brain_rows if op == "reduce_rows" else run_brain_rows
