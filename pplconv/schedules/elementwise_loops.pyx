# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Element-wise programs over arrays of any strides, broadcasts included.

The caller has merged dimensions that all arrays traverse with one stride. The innermost dimension
is the columns: an array has them as neighbours in memory, or has one element if it is broadcast
along them. Quantized integers are converted tile by tile, as they are read or written; arrays of
other types than the program's, truths (NumPy's bool) among them, are converted in the kernel. A
program that multiplies, adds and clips on its way to bytes is one call of `rescale`. Any other
program of a few short instructions with converted integers runs one instruction after the other on
whole tiles: the kernel's loops for one instruction do not copy operands to registers in memory. A
table of the 256 values of a function of a byte may take the place of a program.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from pplconv._kernels cimport (
    PPLCONV_CLIP,
    PPLCONV_MOST_REGISTERS,
    PPLCONV_OPERAND_BYTES,
    PPLCONV_OPERAND_COLUMNS,
    PPLCONV_OPERAND_NONE,
    PPLCONV_OPERAND_ONE,
    find,
    pplconv_dequantize_args,
    pplconv_elementwise_args,
    pplconv_lookup_args,
    pplconv_quantize_args,
    pplconv_rescale_args,
    pplconv_stream,
)
from pplconv.schedules.base cimport ceil_div, least
from pplconv.schedules.work cimport Tensors, Work

from pplconv._kernels import INSTRUCTIONS, OF_INTEGERS, STORED
from pplconv.memory.dtypes import DTYPES
from pplconv.schedules.work import check_numbers, extent_of

_OPERATIONS = frozenset(INSTRUCTIONS.values())
# The instructions of programs that compute integers.
_OF_INTEGERS = frozenset([INSTRUCTIONS[name] for name in OF_INTEGERS])
# Those for which kernels of floating point have loops of their own.
_STRAIGHT = frozenset([INSTRUCTIONS[name] for name in (
    "ADD", "SUBTRACT", "MULTIPLY", "MULTIPLY_ADD", "CLIP", "HARDSWISH", "SIGMOID", "SILU", "SLOPE",
)])
# Those that `rescale` runs, in its order.
_RESCALED = {INSTRUCTIONS[name]: name for name in ("MULTIPLY", "ADD", "CLIP")}
# `__cinit__` compares lengths of Python sequences with these.
globals().update(MOST_DIMS=MOST_DIMS, MOST_STREAMS=MOST_STREAMS, MOST_CODE=MOST_CODE,
                 TILE_ELEMENTS=TILE_ELEMENTS)


cdef enum:
    # A scale, then a zero point.
    NUMBERS_BYTES = 8
    FLOAT_BYTES = 4
    TABLE_BYTES = 256
    # Elements of the tiles of a program that runs tile by tile: all tiles stay in L1.
    STEP_ELEMENTS = 1024


cdef inline void join_rows(int64_t *rows, int64_t *columns, int64_t src_rs, int64_t src_bytes,
                           int64_t dst_rs, int64_t dst_bytes) noexcept nogil:
    """Make one row of rows that follow one another on both sides."""
    if src_rs == columns[0] * src_bytes and dst_rs == columns[0] * dst_bytes:
        columns[0] *= rows[0]
        rows[0] = 1


cdef inline void read_integers(const StreamField *f, pplconv_stream *stream, const Tensors *t,
                               char *tile, int64_t row_bytes, int64_t rows,
                               int64_t columns) noexcept nogil:
    """Convert a stream's integers into a tile, and have the stream read the tile."""
    cdef pplconv_dequantize_args a
    a.src, a.src_rs = stream.data, stream.rs
    a.dst, a.dst_rs = tile, row_bytes
    a.rows, a.columns = rows, columns if stream.step else 1
    a.scale = t.arrays[f.numbers]
    a.zero = t.arrays[f.numbers] + SCALE_BYTES
    a.flags = 0
    if stream.step:
        join_rows(&a.rows, &a.columns, a.src_rs, f.element, a.dst_rs, FLOAT_BYTES)
    f.convert(&a)
    stream.data, stream.rs = tile, row_bytes


cdef inline void write_integers(const StreamField *f, const pplconv_stream *stream,
                                const Tensors *t, char *place, int64_t place_rs, int64_t rows,
                                int64_t columns) noexcept nogil:
    """Convert a tile that a stream has written."""
    cdef pplconv_quantize_args a
    a.src, a.src_rs = stream.data, stream.rs
    a.dst, a.dst_rs = place, place_rs
    a.rows, a.columns = rows, columns
    a.scale = t.arrays[f.numbers]
    a.zero = t.arrays[f.numbers] + SCALE_BYTES
    a.flags = 0
    join_rows(&a.rows, &a.columns, a.src_rs, FLOAT_BYTES, a.dst_rs, f.element)
    f.convert(&a)


cdef inline void convert_all(const ElementwiseJob *j, pplconv_stream *streams, const Tensors *t,
                             int64_t rows, int64_t columns) noexcept nogil:
    """Convert the only input into the only output, without a tile between them."""
    cdef char *place = <char *> streams[1].data
    if j.fields[0].convert != NULL:
        read_integers(&j.fields[0], streams, t, place, j.streams[1].rs, rows, columns)
    else:
        write_integers(&j.fields[1], streams, t, place, j.streams[1].rs, rows, columns)


cdef inline void look_up(const ElementwiseJob *j, const pplconv_stream *streams, const char *table,
                         int64_t rows, int64_t columns) noexcept nogil:
    """Look bytes up in a table, and store the results."""
    cdef pplconv_lookup_args a
    a.src, a.src_rs = streams[0].data, j.streams[0].rs
    a.dst, a.dst_rs = streams[1].data, j.streams[1].rs
    a.rows, a.columns = rows, columns
    a.table = table
    j.kernel(&a)


cdef inline void rescale(const ElementwiseJob *j, const pplconv_stream *streams, const Tensors *t,
                         int64_t rows, int64_t columns) noexcept nogil:
    """Run the whole program, conversions included, in one call."""
    cdef const Rescaling *r = &j.rescaling
    cdef const char *numbers = t.arrays[j.fields[j.input_count].numbers]
    cdef pplconv_rescale_args a
    memset(&a, 0, sizeof(a))
    a.src, a.src_rs, a.src_kind = streams[r.src].data, streams[r.src].rs, r.src_kind
    a.src_numbers = t.arrays[j.fields[r.src].numbers]
    a.factor_kind, a.addend_kind, a.flags = r.factor_kind, r.addend_kind, 0
    if r.factor >= 0:
        a.factor, a.factor_rs = streams[r.factor].data, streams[r.factor].rs
        a.factor_numbers = t.arrays[j.fields[r.factor].numbers]
    if r.addend >= 0:
        a.addend, a.addend_rs = streams[r.addend].data, streams[r.addend].rs
        a.addend_numbers = t.arrays[j.fields[r.addend].numbers]
    if r.low >= 0:
        a.low, a.high, a.flags = streams[r.low].data, streams[r.high].data, PPLCONV_CLIP
    a.dst, a.dst_rs = streams[j.input_count].data, streams[j.input_count].rs
    a.rows, a.columns = rows, columns
    a.scale, a.zero = numbers, numbers + SCALE_BYTES
    r.kernel(&a)


cdef void run_steps(const ElementwiseJob *j, const pplconv_stream *streams, char *scratch,
                    int64_t rows, int64_t columns) noexcept nogil:
    """Run the instructions one after the other, each on whole tiles."""
    cdef pplconv_elementwise_args a
    cdef pplconv_stream[OPERANDS] given
    cdef pplconv_stream result
    cdef int64_t tile_bytes = TILE_ELEMENTS * j.element, row_bytes = columns * j.element, operand
    cdef int i, k
    a.inputs, a.input_count = given, OPERANDS
    a.outputs, a.output_count = &result, 1
    a.code_count = 1
    a.rows, a.columns = rows, columns
    memset(&result, 0, sizeof(pplconv_stream))
    result.rs, result.step, result.reg = row_bytes, 1, OPERANDS
    for i in range(j.step_count):
        result.data = scratch + j.steps[i].tile * tile_bytes
        for k in range(OPERANDS):
            operand = j.steps[i].operands[k]
            if operand < MOST_STREAMS:
                given[k] = streams[operand]
            else:
                given[k] = result
                given[k].data = scratch + (operand - MOST_STREAMS) * tile_bytes
            given[k].reg = k
        a.code = <const void *> &j.steps[i].code
        j.kernel(&a)


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const ElementwiseJob *j = <const ElementwiseJob *> job
    cdef pplconv_elementwise_args a
    cdef pplconv_stream[MOST_STREAMS] streams
    cdef int64_t column = task % j.column_segments * j.column_segment
    cdef int64_t row = task // j.column_segments * j.row_segment
    cdef int64_t end = least(row + j.row_segment, j.rows), rest, index, offset
    cdef int64_t count = j.input_count + j.output_count, row_bytes
    cdef char *places[MOST_STREAMS]
    cdef char *tile
    cdef int s, d
    memcpy(streams, j.streams, count * sizeof(pplconv_stream))
    a.inputs, a.input_count = streams, j.input_count
    a.outputs, a.output_count = streams + j.input_count, j.output_count
    a.code, a.code_count = <const void *> &j.code[0], j.code_count
    a.columns = least(j.column_segment, j.columns - column)
    row_bytes = a.columns * j.element
    while row < end:
        index = row % j.dims[MOST_DIMS - 1]
        a.rows = least(j.dims[MOST_DIMS - 1] - index, end - row)
        if j.tile_rows:
            a.rows = least(a.rows, j.tile_rows)
        for s in range(count):
            rest = row
            offset = column * j.fields[s].element if streams[s].step else 0
            for d in range(MOST_DIMS - 1, -1, -1):
                offset += rest % j.dims[d] * j.fields[s].strides[d]
                rest = rest // j.dims[d]
            streams[s].data = t.arrays[j.fields[s].array] + offset
            if j.fields[s].convert == NULL:
                continue
            streams[s].rs = j.streams[s].rs
            if j.only_converts or j.rescaling.kernel != NULL:
                continue
            tile = scratch + j.fields[s].tile * TILE_ELEMENTS * j.element
            if s < j.input_count:
                read_integers(&j.fields[s], &streams[s], t, tile, row_bytes, a.rows, a.columns)
            else:
                places[s] = <char *> streams[s].data
                streams[s].data, streams[s].rs = tile, row_bytes
        if j.only_converts or j.rescaling.kernel != NULL:
            if j.only_converts:
                convert_all(j, streams, t, a.rows, a.columns)
            else:
                rescale(j, streams, t, a.rows, a.columns)
            row += a.rows
            continue
        if j.table >= 0:
            look_up(j, streams, t.arrays[j.table], a.rows, a.columns)
        elif j.step_count:
            run_steps(j, streams, scratch, a.rows, a.columns)
        else:
            j.kernel(&a)
        for s in range(j.input_count, count):
            if j.fields[s].convert != NULL:
                write_integers(&j.fields[s], &streams[s], t, places[s], j.streams[s].rs, a.rows,
                               a.columns)
        row += a.rows


def _is_read(reg, to, code, outputs):
    """Whether later instructions, or outputs, read what a register holds before the one at `to`."""
    if reg == to:
        return False
    for line in code:
        if reg in line[2:]:
            return True
        if line[1] == reg:
            return False
    return reg in outputs


def _rescaled(code, given, result):
    """Take a program apart that is a product, a sum and bounds, each once or not at all.

    Parameters
    ----------
    code : sequence of tuple of int
        Its instructions.
    given : dict
        Number and kind of the stream in each register.
    result : int
        The register of the output.

    Returns
    -------
    dict or None
        The streams of the ``"SOURCE"`` and of the operands of each instruction; None if the program
        is another.
    """
    given, found, steps, value = dict(given), {}, [*_RESCALED.values()], None
    wide = PPLCONV_OPERAND_BYTES, PPLCONV_OPERAND_COLUMNS
    for op, to, *operands in code:
        name = _RESCALED.get(op)
        if name not in steps:
            return None
        steps = steps[steps.index(name) + 1:]
        if name != "CLIP":
            operands = operands[:2]
        if value is None:
            sources = [reg for reg in operands[:2] if reg in given and given[reg][1] in wide]
            if not sources:
                return None
            # Bytes before floats: a factor is rarely of bytes.
            integers = [reg for reg in sources if given[reg][1] == PPLCONV_OPERAND_BYTES]
            value = [*integers, *sources][0]
            found["SOURCE"] = given.pop(value)
        if operands.count(value) != 1 or (name == "CLIP" and operands[0] != value):
            return None
        operands.remove(value)
        if not all([reg in given for reg in operands]):
            return None
        if name == "CLIP":
            if any([given[reg][1] != PPLCONV_OPERAND_ONE for reg in operands]):
                return None
            found[name] = tuple([given[reg][0] for reg in operands])
        else:
            found[name] = given[operands[0]]
        value = to
        given.pop(to, None)
    return found if value == result and found else None


cdef class Elementwise(Work):
    """An element-wise program compiled.

    Parameters
    ----------
    fields : dict
        ``dtype``; ``dims``, at most `MOST_DIMS` counts, and ``columns``; ``inputs`` and
        ``outputs``, each a tuple of the array's number, its strides in bytes, one for each of
        ``dims``, whether it has an element for each column (else one for all), and its register;
        ``code``, tuples of five numbers; ``row_segment`` and ``column_segment``. Streams whose
        elements the kernel converts name their type behind that, a key of `_kernels.STORED`:
        ``"truth"``, for example; ``"bf16"`` beside a ``dtype`` of ``"f32"`` only. Streams of
        quantized integers name their type, and the number of the array that holds a float32 scale
        and, after it, an int32 zero point; ``dtype`` is ``"f32"`` then, and ``column_segment`` at
        most `TILE_ELEMENTS`. With a ``table``, the number of an array of 256 bytes, each byte of
        the only input, of ``dtype`` ``"u8"``, is looked up in it; ``code`` is empty then.
    isa : str
        Which kernel to call.

    Raises
    ------
    ValueError
        If it is more than the loops take, or reads a register that nothing wrote.
    """

    def __cinit__(self, dict fields, str isa):
        cdef ElementwiseJob *j = &self.own
        cdef int i, d
        cdef int64_t extent, element, tiles = 0
        memset(j, 0, sizeof(ElementwiseJob))
        self.written = 0
        check_numbers(fields, frozenset())
        dims, streams = fields["dims"], [*fields["inputs"], *fields["outputs"]]
        written = set()
        operations = _OF_INTEGERS if DTYPES[fields["dtype"]].kind == "i" else _OPERATIONS
        if (len(dims) > MOST_DIMS or len(streams) > MOST_STREAMS
                or len(fields["code"]) > MOST_CODE or not fields["outputs"]):
            raise ValueError("an element-wise program is larger than the loops take")
        j.table = fields.get("table", -1)
        j.kernel = find("elementwise" if j.table < 0 else "lookup", fields["dtype"], isa)
        j.element = DTYPES[fields["dtype"]].itemsize
        missing = [1] * (MOST_DIMS - len(dims))
        rows = 1
        for d, n in enumerate([*missing, *dims]):
            if n < 1:
                raise ValueError("an element-wise program has no elements")
            rows *= n
            if rows >= 1 << 47:
                raise MemoryError("an element-wise program is beyond what the loops can address")
            j.dims[d] = n
        j.rows = rows
        j.columns = fields["columns"]
        j.row_segment, j.column_segment = fields["row_segment"], fields["column_segment"]
        if min(j.columns, j.row_segment, j.column_segment) < 1:
            raise ValueError("an element-wise program has no elements")
        j.input_count, j.output_count = len(fields["inputs"]), len(fields["outputs"])
        j.code_count = len(fields["code"])
        for i, (array, strides, step, reg, *stored) in enumerate(streams):
            j.fields[i].element = j.element
            if not (isinstance(array, int) and isinstance(strides, tuple) and isinstance(reg, int)):
                raise ValueError("a stream has an array, strides, a step and a register")
            if stored == ["bf16"] and fields["dtype"] != "f32":
                raise ValueError("bfloat16 is computed in float32")
            if len(stored) == 1 and stored[0] in STORED:
                j.streams[i].stored = STORED[stored[0]]
                j.fields[i].element = (1 if stored[0] == "truth"
                                       else DTYPES[stored[0]].itemsize)
            elif stored:
                if [type(part) for part in stored] != [str, int]:
                    raise ValueError("a stream of quantized integers has a type and the number of "
                                     "an array, any other stream a type or none")
                self.convert(i, stored[0], stored[1], fields["dtype"], isa)
                j.fields[i].tile = tiles
                tiles += 1
            element = j.fields[i].element
            if not (0 <= array < MOST_STREAMS and 0 <= reg < PPLCONV_MOST_REGISTERS):
                raise ValueError("an element-wise program names what is not there")
            extent = extent_of(element * (j.columns if step else 1), dims, strides, element,
                               i >= j.input_count)
            strides = [*([0] * len(missing)), *strides]
            for d in range(MOST_DIMS):
                j.fields[i].strides[d] = strides[d]
            j.fields[i].array = array
            j.streams[i].rs, j.streams[i].step = strides[MOST_DIMS - 1], bool(step)
            j.streams[i].reg = reg
            if i < j.input_count:
                written.add(reg)
            elif not step:
                raise ValueError("outputs have an element for each column")
            self.extents[array] = max(self.extents[array], extent)
            self.units[array] = max(self.units[array], element)
            if i >= j.input_count:
                self.written |= <int64_t> 1 << <int64_t> array
        for i, line in enumerate(fields["code"]):
            op, to, a, b, c = line
            if op not in operations or not 0 <= to < PPLCONV_MOST_REGISTERS:
                raise ValueError(f"no such instruction: {line}")
            if not {a, b, c} <= written:
                raise ValueError(f"an instruction reads what nothing wrote: {line}")
            j.code[i].op, j.code[i].to, j.code[i].a, j.code[i].b, j.code[i].c = op, to, a, b, c
            written.add(to)
        for stream in fields["outputs"]:
            if stream[3] not in written:
                raise ValueError("an output is what nothing wrote")
        if j.table >= 0:
            self.check_table(fields, tiles)
        # What is read and written has one register, and an element for each column.
        j.only_converts = (tiles == 1 and len(streams) == 2 and not fields["code"]
                           and j.streams[0].step and not j.streams[0].stored
                           and not j.streams[1].stored)
        if tiles and j.column_segment > TILE_ELEMENTS:
            raise ValueError("rows of integers are longer than a tile")
        if tiles and not self.rescales(streams, fields["code"], isa):
            tiles = self.in_steps(streams, fields["code"], tiles)
            most = STEP_ELEMENTS if j.step_count else TILE_ELEMENTS
            j.tile_rows = max(1, most // j.column_segment)
            self.thread_scratch = tiles * TILE_ELEMENTS * j.element
        j.column_segments = ceil_div(j.columns, j.column_segment)
        self.tasks = ceil_div(j.rows, j.row_segment) * j.column_segments
        self.threads = 1
        self.job = j
        self.one_phase(run_task)

    cdef int check_table(self, dict fields, int64_t tiles) except -1:
        """Refuse a table unless its only input is one array of bytes that is not broadcast."""
        if (tiles or fields["code"] or self.own.input_count != 1 or self.own.output_count != 1
                or self.own.table >= MOST_STREAMS or not self.own.streams[0].step
                or self.own.streams[0].stored or self.own.streams[1].stored):
            raise ValueError("a table is looked up for bytes of one array")
        self.extents[self.own.table] = max(self.extents[self.own.table], <int64_t> TABLE_BYTES)
        return 0

    cdef bint rescales(self, list streams, list code, str isa) except -1:
        """Have `rescale` run a program, if it multiplies, adds and clips on the way to bytes."""
        cdef ElementwiseJob *j = &self.own
        cdef Rescaling *r = &j.rescaling
        cdef int i
        if j.output_count != 1 or j.fields[j.input_count].convert == NULL:
            return False
        dtype = streams[j.input_count][4]
        given = {}
        for i, (_, _, step, reg, *stored) in enumerate(streams[:j.input_count]):
            if j.streams[i].stored or (stored and (stored[0] != dtype or not step)):
                return False
            kind = (PPLCONV_OPERAND_BYTES if stored else PPLCONV_OPERAND_COLUMNS if step
                    else PPLCONV_OPERAND_ONE)
            given[reg] = i, kind
        found = _rescaled(code, given, streams[j.input_count][3])
        if found is None:
            return False
        none = -1, PPLCONV_OPERAND_NONE
        r.src, r.src_kind = found["SOURCE"]
        r.factor, r.factor_kind = found.get("MULTIPLY", none)
        r.addend, r.addend_kind = found.get("ADD", none)
        r.low, r.high = found.get("CLIP", (-1, -1))
        if r.low >= 0 and (j.streams[r.low].rs or j.streams[r.high].rs):
            return False
        r.kernel = find("rescale", dtype, isa)
        return True

    cdef int64_t in_steps(self, list streams, list code, int64_t tiles) except -1:
        """Have a program run one instruction after the other, if that is faster.

        Gives the number of tiles in scratch; `tiles` is the number before.
        """
        cdef ElementwiseJob *j = &self.own
        cdef int i, k
        if (not 1 < len(code) <= MOST_STEPS
                or not {line[0] for line in code} <= _STRAIGHT
                or any([j.fields[i].convert == NULL for i in range(j.input_count, len(streams))])):
            return tiles
        outputs = {stream[3] for stream in streams[j.input_count:]}
        # Where the value of each register is, and which tiles may be overwritten after their last
        # reader.
        place = {stream[3]: i for i, stream in enumerate(streams[:j.input_count])}
        for i, line in enumerate(code):
            op, to, *operands = line
            own = [MOST_STREAMS + j.fields[at].tile if at < MOST_STREAMS else at
                   for reg in operands for at in [place[reg]]
                   if not _is_read(reg, to, code[i + 1:], outputs)
                   and (at >= MOST_STREAMS or (j.fields[at].convert != NULL
                                               and j.streams[at].step))]
            for k in range(OPERANDS):
                j.steps[i].operands[k] = place[operands[k]]
            if not own:
                own = [MOST_STREAMS + tiles]
                tiles += 1
            j.steps[i].tile = own[0] - MOST_STREAMS
            j.steps[i].code.op, j.steps[i].code.to = op, OPERANDS
            j.steps[i].code.a, j.steps[i].code.b, j.steps[i].code.c = 0, 1, 2
            place[to] = own[0]
        if not all([place[reg] >= MOST_STREAMS for reg in outputs]):
            return tiles
        for i in range(j.input_count, len(streams)):
            j.fields[i].tile = place[streams[i][3]] - MOST_STREAMS
        j.step_count = len(code)
        return tiles

    cdef int convert(self, int stream, str dtype, int64_t numbers, str computed,
                     str isa) except -1:
        """Set up a stream to be converted from integers, or to integers."""
        cdef StreamField *f = &self.own.fields[stream]
        if computed != "f32" or not 0 <= numbers < MOST_STREAMS:
            raise ValueError("integers are converted from float32 and to it, by an array's numbers")
        reads = stream < self.own.input_count
        f.convert = find("dequantize" if reads else "quantize", dtype, isa)
        f.element = DTYPES[dtype].itemsize
        f.numbers = numbers
        self.extents[numbers] = max(self.extents[numbers], <int64_t> NUMBERS_BYTES)
        self.units[numbers] = max(self.units[numbers], <int64_t> SCALE_BYTES)
        return 0
