# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Attention: softmax(Q K' ...) V of each head, by tiles of queries whose scores stay in a cache.

A task packs keys and values of its head once. For each of its tiles it multiplies queries by keys
into scratch, computes the element-wise program and the softmax there, and multiplies by the values.
Products, program and softmax are those of the separate steps, with the same order of each sum.

Queries, keys, values and the result may be stored in a narrower type. They are converted in
scratch: keys and values before they are packed, queries and the result with each tile.

Products may be of a narrower type than their sums: queries, keys and values are read as they are
stored, and the scores of a tile are rounded once, behind the softmax and the programs.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    find,
    pplconv_convert_in_args,
    pplconv_convert_out_args,
    pplconv_kernel,
    pplconv_softmax_args,
)
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.elementwise_loops cimport SCALE_BYTES, Elementwise
from pplconv.schedules.gemm_loops cimport GemmSchedule
from pplconv.schedules.work cimport MOST_ARRAYS, Tensors, Work

from pplconv.memory.dtypes import DTYPES
from pplconv.schedules.copy_loops import CONVERSIONS
from pplconv.schedules.work import check_numbers, extent_of

cdef enum:
    # Numbers of the arrays; operands of the program follow.
    Y = 0
    QUERIES = 1
    KEYS = 2
    VALUES = 3
    # Numbers of a tile's arrays in programs.
    SCORES = 0
    QUANTIZED = 1
    LINE = 64


cdef inline void multiply(const ProductJob *p, const char *a, char *c, char *scratch,
                          char *products) noexcept nogil:
    """Multiply rows by the packed matrix."""
    cdef Tensors t
    cdef int64_t task
    memset(&t, 0, sizeof(Tensors))
    t.x, t.y, t.weights = a, c, scratch + p.panels
    for task in range(p.tasks):
        p.task(p.job, &t, task, products)


cdef inline char *widened(const StoredJob *s, char *array, char *room) noexcept nogil:
    """Give a matrix in the type of the sums: in its place, or converted in scratch."""
    cdef pplconv_convert_in_args a
    if s.kernel == NULL:
        return array
    a.src, a.src_rs, a.dst, a.dst_rs = array, s.stride, room, s.wide
    a.rows, a.columns, a.flags = s.lines, s.length, 0
    s.kernel(&a)
    return room


cdef inline void narrow_rows(pplconv_kernel kernel, const char *src, int64_t src_rs, char *dst,
                             int64_t dst_rs, int64_t rows, int64_t columns) noexcept nogil:
    """Store rows in a narrower type: a result that was computed in scratch, or scores."""
    cdef pplconv_convert_out_args a
    a.src, a.src_rs, a.dst, a.dst_rs = src, src_rs, dst, dst_rs
    a.rows, a.columns, a.fill, a.flags = rows, columns, 0, 0
    a.residual, a.residual_rs, a.clip = NULL, 0, NULL
    kernel(&a)


cdef inline void run_programs(const AttentionJob *j, int first, int end, const Tensors *operands,
                              char *scratch) noexcept nogil:
    """Compute programs of a tile, in place."""
    cdef const ProgramJob *p
    cdef int64_t task
    cdef int i
    for i in range(first, end):
        p = &j.programs[i]
        for task in range(p.tasks):
            p.task(p.job, operands, task, scratch)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const AttentionJob *j = <const AttentionJob *> job
    cdef pplconv_softmax_args s
    cdef char *heads[MOST_ARRAYS]
    cdef char *operands[MOST_ARRAYS]
    cdef Tensors of_tile
    cdef char *tile = scratch + j.tile_offset
    cdef char *products = scratch + j.products_offset
    cdef char *room = scratch + j.room_offset
    cdef const char *rows
    cdef char *result
    cdef int64_t chunk = task % j.chunks, rest, query, i
    cdef int64_t end = j.tiles * (chunk + 1) // j.chunks
    cdef int a, d
    for a in range(j.array_count):
        heads[a] = t.arrays[a]
        rest = task // j.chunks
        for d in range(HEADS_AROUND - 1, -1, -1):
            heads[a] += rest % j.dims[d] * j.strides[a][d]
            rest = rest // j.dims[d]
    rows = widened(&j.stored[KEYS], heads[KEYS], room)
    j.scores.pack(j.scores.job, rows, scratch + j.scores.panels, 0, 1)
    rows = widened(&j.stored[VALUES], heads[VALUES], room)
    j.sums.pack(j.sums.job, rows, scratch + j.sums.panels, 0, 1)
    memset(&of_tile, 0, sizeof(Tensors))
    of_tile.arrays = operands
    operands[SCORES], operands[QUANTIZED] = tile, scratch + j.quantized_offset
    operands[KEYS] = operands[VALUES] = NULL
    s.src = s.dst = tile
    s.src_rs = s.dst_rs = j.score_row
    s.rows, s.columns, s.log = j.rows, j.keys, 0
    for i in range(j.tiles * chunk // j.chunks, end):
        # The last tile may begin before the end of the one above it, which is the same task's.
        query = least(i * j.rows, j.queries - j.rows)
        rows = widened(&j.stored[QUERIES], heads[QUERIES] + query * j.row[QUERIES], room)
        multiply(&j.scores, rows, tile, scratch, products)
        for a in range(VALUES + 1, j.array_count):
            operands[a] = heads[a] + query * j.row[a]
        run_programs(j, 0, j.before, &of_tile, products)
        j.softmax(&s)
        run_programs(j, j.before, j.program_count, &of_tile, products)
        rows = tile
        if j.narrow_scores != NULL:
            rows = scratch + j.narrowed_offset
            narrow_rows(j.narrow_scores, tile, j.score_row, <char *> rows, j.narrowed_row, j.rows,
                        j.keys)
        result = heads[Y] + query * j.row[Y]
        if j.stored[Y].kernel == NULL:
            multiply(&j.sums, rows, result, scratch, products)
        else:
            multiply(&j.sums, rows, room, scratch, products)
            narrow_rows(j.stored[Y].kernel, room, j.stored[Y].wide, result, j.stored[Y].stride,
                        j.stored[Y].lines, j.stored[Y].length)


cdef int take_product(ProductJob *p, GemmSchedule schedule, int64_t panels) except -1:
    """Set up a product of one matrix; give the bytes of its panels."""
    if (schedule.phases != 1 or schedule.rounds != 1 or schedule.shared_scratch
            or schedule.reads_filters or schedule.shape.converts_weights or schedule.shape.exact
            or schedule.shape.groups != 1 or schedule.shape.batch != 1):
        raise ValueError("attention multiplies matrices of one type, the second one packed")
    p.task, p.tasks = schedule.steps[0].task, schedule.steps[0].tasks
    p.pack, p.job, p.panels = schedule.pack, schedule.job, panels
    return 0


cdef class Attention(Work):
    """Attention compiled: array 0 from queries, keys and values, arrays 1 to 3, and operands.

    Parameters
    ----------
    fields : dict
        ``dtype``; ``dims``, at most four counts of heads, and ``strides``, a tuple of as many
        numbers for each array, in bytes; ``rows``, bytes from a query to the next, for each array,
        0 for keys and values; ``queries``; ``tile``, queries at a time; ``chunks``, tasks of a
        head; ``score_row``, bytes from a tile's row of scores to the next; ``operands``, the type
        of the products, and ``narrowed_row``, the bytes from a tile's row to the next in it, 0 if
        it is ``dtype``; ``stored``, for each of
        the arrays 0 to 3, None if it has the type of the sums, or a narrower type, the number and
        the length of contiguous lines, and the bytes from one to the next: those of a tile, or of
        the keys and values of a head. The products then see these lines without gaps.
    scores, sums : GemmSchedule
        The products of a tile: by the keys into rows of scores, and of these by the values.
    before, behind : list of Elementwise
        Programs between product and softmax, and behind the softmax, of one tile: array 0 has its
        scores, to read and to write, array 1 is room for quantized ones, and operands have their
        numbers.
    isa : str
        Which kernels to call.

    Raises
    ------
    ValueError
        If it is more than the loops take, or its parts do not fit one another.
    """

    def __cinit__(self, dict fields, GemmSchedule scores not None, GemmSchedule sums not None,
                  list before not None, list behind not None, str isa):
        cdef AttentionJob *j = &self.own
        cdef int64_t element, tile_bytes, heads = 1, last, products, room, narrowed
        cdef int64_t tops[MOST_ARRAYS]
        cdef int64_t units[MOST_ARRAYS]
        cdef int a, d, missing
        memset(j, 0, sizeof(AttentionJob))
        memset(tops, 0, sizeof(tops))
        check_numbers(fields, frozenset(("score_row", "narrowed_row")))
        dims, strides, rows = fields["dims"], fields["strides"], fields["rows"]
        missing = HEADS_AROUND - <int> len(dims)
        j.array_count = len(rows)
        if missing < 0 or not VALUES < j.array_count <= MOST_ARRAYS or len(strides) != len(rows):
            raise ValueError("heads lie in more dimensions or arrays than the loops take")
        self.scores, self.sums = scores, sums
        element = DTYPES[fields["dtype"]].itemsize
        j.softmax = find("softmax", fields["dtype"], isa)
        j.queries, j.rows, j.chunks = fields["queries"], fields["tile"], fields["chunks"]
        j.score_row, j.keys = fields["score_row"], scores.shape.oc
        if not 1 <= j.rows <= j.queries or j.chunks < 1:
            raise ValueError("a tile has queries, and no more than there are")
        j.tiles = ceil_div(j.queries, j.rows)
        # Both tiles that share queries are one task's.
        if j.chunks > 1 and (j.tiles // j.chunks < 2 or j.tiles > j.rows):
            raise ValueError("a task has at least two tiles, unless a head is one task")
        last = j.queries - j.rows
        if j.score_row % element or j.score_row < j.keys * element:
            raise ValueError("a row of scores is shorter than the keys")
        tile_bytes = ceil_div((j.rows - 1) * j.score_row + j.keys * element, LINE) * LINE
        if tile_bytes >= <int64_t> 1 << 40:
            raise MemoryError("a tile is beyond what the loops can address")
        narrowed = self.take_products(fields, isa, tile_bytes)
        take_product(&j.scores, scores, 0)
        j.sums.panels = ceil_div(scores.packed_bytes(), LINE) * LINE
        take_product(&j.sums, sums, j.sums.panels)
        j.tile_offset = j.sums.panels + ceil_div(sums.packed_bytes(), LINE) * LINE
        tops[Y], tops[QUERIES] = sums.output_bytes(), scores.input_bytes()
        tops[KEYS], tops[VALUES] = scores.source_bytes(), sums.source_bytes()
        j.room_offset = j.tile_offset + tile_bytes
        room = self.take_stored(fields["stored"], fields["dtype"], isa, tops)
        j.narrowed_offset = j.room_offset + room
        j.quantized_offset = j.narrowed_offset + narrowed
        j.products_offset = j.quantized_offset + self.take_programs(before, behind, tile_bytes,
                                                                    tops, units)
        products = max(scores.thread_scratch, sums.thread_scratch)
        for program in self.programs:
            products = max(products, (<Elementwise> program).thread_scratch)
        self.thread_scratch = j.products_offset + products
        for a in range(j.array_count):
            if a > VALUES:
                unit = units[a]
            elif j.stored[a].kernel == NULL:
                unit = sums.shape.size.destination if a == Y else scores.shape.size.source
            else:
                unit = DTYPES[fields["stored"][a][0]].itemsize
            self.extents[a] = extent_of(tops[a], (*dims, last + 1), (*strides[a], rows[a]), unit,
                                        a == Y)
            self.units[a] = unit
            j.row[a] = rows[a]
        if j.row[KEYS] or j.row[VALUES]:
            raise ValueError("keys and values are those of all queries")
        for a, row in ((Y, sums.shape.y.pixel), (QUERIES, scores.shape.x.pixel)):
            if j.rows > 1 and j.row[a] != (row if j.stored[a].kernel == NULL
                                           else j.stored[a].stride):
                raise ValueError("queries are as far apart as the products say")
        for d in range(HEADS_AROUND):
            j.dims[d] = 1
            if d >= missing:
                j.dims[d] = dims[d - missing]
                for a in range(j.array_count):
                    j.strides[a][d] = strides[a][d - missing]
            heads *= j.dims[d]
            if heads >= <int64_t> 1 << 31:
                raise MemoryError("heads are beyond what the loops can address")
        self.tasks = heads * j.chunks
        if self.tasks >= <int64_t> 1 << 31:
            raise MemoryError("heads are beyond what the loops can address")
        self.threads = 1
        self.job = j
        self.one_phase(run_task)

    cdef int64_t take_products(self, dict fields, str isa, int64_t tile_bytes) except -1:
        """Check the products of a tile; give the bytes of scores that are narrowed for them."""
        cdef AttentionJob *j = &self.own
        cdef GemmSchedule scores = self.scores, sums = self.sums
        cdef int64_t element = DTYPES[fields["dtype"]].itemsize, size = element, narrowed = 0
        cdef int64_t row = j.score_row, room = tile_bytes
        types = fields["dtype"], fields["operands"]
        if types[0] != types[1]:
            if types not in CONVERSIONS or DTYPES[types[1]].itemsize >= element:
                raise ValueError(f"no kernel makes {types[1]} of {types[0]}")
            operation, pair = CONVERSIONS[types]
            j.narrow_scores = find(operation, pair, isa)
            size = DTYPES[types[1]].itemsize
            row = j.narrowed_row = fields["narrowed_row"]
            if row % size or row < j.keys * size:
                raise ValueError("a row of narrowed scores is shorter than the keys")
            room = narrowed = ceil_div((j.rows - 1) * row + j.keys * size, LINE) * LINE
            if narrowed >= <int64_t> 1 << 40:
                raise MemoryError("a tile is beyond what the loops can address")
        for schedule in (scores, sums):
            if ((<GemmSchedule> schedule).shape.size.source != size
                    or (<GemmSchedule> schedule).shape.geometry.ow
                    * (<GemmSchedule> schedule).shape.geometry.oh != j.rows):
                raise ValueError("products are of the tile's queries and of its type")
        # A product that stores its result in the operands' type converts it itself.
        if (scores.shape.size.destination != element
                or sums.shape.size.destination != element
                and (sums.shape.size.destination != size or fields["stored"][Y] is not None)):
            raise ValueError("products are of the tile's queries and of its type")
        # The products write and read whole rows of the tile, as the softmax does.
        if (sums.shape.ic != j.keys or scores.output_bytes() > tile_bytes
                or sums.input_bytes() > room or scores.shape.y.pixel != j.score_row
                or sums.shape.x.pixel != row):
            raise ValueError("products differ in the tile of scores")
        return narrowed

    cdef int64_t take_stored(self, stored, str dtype, str isa, int64_t *tops) except -1:
        """Set up conversions; put the bytes of stored arrays into `tops`, give the scratch."""
        cdef StoredJob *s
        cdef int64_t room = 0, element = DTYPES[dtype].itemsize, size
        cdef int a
        if len(stored) != STORED_ARRAYS:
            raise ValueError("a result, queries, keys and values have types")
        for a in range(STORED_ARRAYS):
            if stored[a] is None:
                continue
            if [type(part) for part in stored[a]] != [str, int, int, int]:
                raise ValueError("lines have a type, their number and length, and a stride")
            kind, lines, length, stride = stored[a]
            types = (dtype, kind) if a == Y else (kind, dtype)
            if (types not in CONVERSIONS or DTYPES[kind].itemsize >= element
                    or a != Y and self.own.narrow_scores != NULL):
                raise ValueError(f"no kernel makes {types[1]} of {types[0]}")
            check_numbers({"lines": lines, "length": length, "stride": stride},
                          frozenset(("stride",)))
            size = DTYPES[kind].itemsize
            s = &self.own.stored[a]
            operation, pair = CONVERSIONS[types]
            s.kernel = find(operation, pair, isa)
            s.lines, s.length, s.stride, s.wide = lines, length, stride, length * element
            # What the products read and write is what is converted, all of it.
            if lines < 1 or length < 1 or lines * length * element != tops[a]:
                raise ValueError("lines without gaps are what the products see")
            tops[a] = extent_of(length * size, (lines,), (stride,), size, a == Y)
            room = max(room, lines * s.wide)
        return ceil_div(room, LINE) * LINE

    cdef int64_t take_programs(self, list before, list behind, int64_t tile_bytes, int64_t *tops,
                               int64_t *units) except -1:
        """Set up programs; give bytes of scratch.

        The bytes of operands go into `tops`, and those of their elements, at whose multiples the
        loops read them, into `units`.
        """
        cdef AttentionJob *j = &self.own
        cdef Elementwise program
        cdef int64_t quantized = 0
        cdef int a, i, f
        self.programs = (*before, *behind)
        if len(self.programs) > MOST_PROGRAMS:
            raise ValueError("a tile has fewer programs")
        j.before, j.program_count = len(before), len(self.programs)
        for a in range(MOST_ARRAYS):
            units[a] = 1
        for i in range(j.program_count):
            program = self.programs[i]
            if (program is None or program.phases != 1 or program.rounds != 1
                    or program.shared_scratch):
                raise ValueError("a program is of a tile")
            j.programs[i].task, j.programs[i].tasks = program.steps[0].task, program.steps[0].tasks
            j.programs[i].job = program.job
            if program.extents[SCORES] > tile_bytes:
                raise ValueError("a program is of a tile")
            quantized = max(quantized, program.extents[QUANTIZED])
            for a in range(KEYS, MOST_ARRAYS):
                if program.extents[a] and not VALUES < a < j.array_count:
                    raise ValueError("a program reads operands, and writes the tile")
                tops[a] = max(tops[a], program.extents[a])
            for f in range(program.own.input_count + program.own.output_count):
                a = program.own.fields[f].array
                units[a] = max(units[a], program.own.fields[f].element)
                if program.own.fields[f].convert != NULL:
                    a = program.own.fields[f].numbers
                    units[a] = max(units[a], SCALE_BYTES)
            for a in range(program.own.input_count, program.own.input_count
                           + program.own.output_count):
                if program.own.fields[a].array > QUANTIZED:
                    raise ValueError("a program reads operands, and writes the tile")
        if quantized >= <int64_t> 1 << 40:
            raise MemoryError("a tile is beyond what the loops can address")
        return ceil_div(quantized, LINE) * LINE
