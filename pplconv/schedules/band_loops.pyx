# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Filters of images, in bands of rows that stay in a core's cache.

A task reads the rows of its band, and the values of pixels beyond the border, in the type of sums.
It runs one convolution or two over them and stores the results, rounded if they are integers. So no
image is padded in a copy, and the sums of a whole image are never in memory.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    PPLCONV_BOX_TAPS, PPLCONV_EXACT_LIMBS, PPLCONV_MEANS_BESIDE, find, find_if_any)
from pplconv.schedules.band_job cimport HEIGHTS, MOST_PASSES, MOST_PLACES, BandJob
from pplconv.schedules.band_passes cimport Pass, run_pass
from pplconv.schedules.band_rows cimport read_row, round_row, settle_rows
from pplconv.schedules.base cimport Schedule, ceil_div, least, most
from pplconv.schedules.box_lines cimport MOST_TAPS, BoxLines, lay_out_boxes, run_box_lines
from pplconv.schedules.factor_lines cimport lay_out_factors, run_factor_lines
from pplconv.schedules.float_lines cimport (
    MOST_TAP_ROWS, STREAM_BYTES, FloatLines, lay_out_lines, run_float_lines)
from pplconv.schedules.image_rows cimport IMAGE, RESULTS
from pplconv.schedules.integer_lines cimport (
    BLOCK_BYTES, INDEX, LINE, LONG_BLOCK_BYTES, IntegerLines, run_integer_lines)
from pplconv.schedules.mirror_lines cimport lay_out_mirrors, run_mirror_lines, take_mirrors
from pplconv.schedules.pair_lines cimport lay_out_pairs, run_pair_lines, take_pairs
from pplconv.schedules.pixel_loops cimport lay_pixels
from pplconv.schedules.row_pairs cimport lay_out_row_pairs, run_row_pairs
from pplconv.schedules.row_lines cimport SHORT, run_lines
from pplconv.schedules.square_lines cimport run_squares, take_means, take_squares
from pplconv.schedules.strip_lines cimport take_strips
from pplconv.schedules.work cimport Tensors, Work

import numpy as np

from pplconv._kernels import PIXELS as KINDS, SUMS as MODES
from pplconv.schedules.work import SIZE, check_numbers, extent_of

cdef extern from "pplconv_schedules.h" nogil:
    void pplconv_copy_row(void *dst, const void *src, int64_t bytes)

cdef enum:
    FLOAT = 4
    # Open results that are computed together: of separable kernels, whose sums of rows are kept,
    # and of others.
    MANY = 1 << 19
    FEW = 1 << 12


# With this instruction set, long rows are better than short ones in L1: prefetchers foresee them.
# Columns of taps come before rows where images lie in the type of sums, as sums along rows in a
# ring, and then columns of them, take 1.1 to 1.45 times as long; and blocks of integers are as wide
# as L2 allows, as shorter ones take up to 1.12 times as long (AMD EPYC 25-1).
LONG_ROWS = "avx2"
# Instruction sets whose kernels of floating point have no strips.
NO_STRIPS = (LONG_ROWS, "portable")
# How filters of bytes make results of their sums.
SUMS = MODES
# Bytes from the first to the last pixel of a row of a square whose mean kernels make, at most.
MEANS_BESIDE = PPLCONV_MEANS_BESIDE
# Types of pixels by name; and for each type of sums, the types of pixels that kernels read.
PIXELS = {"u8": np.dtype(np.uint8), "s8": np.dtype(np.int8), "u16": np.dtype(np.uint16),
          "s16": np.dtype(np.int16), "f16": np.dtype(np.float16), "f32": np.dtype(np.float32),
          "f64": np.dtype(np.float64)}
READ = {
    **{exact: (exact,) for exact in ("u8", "u16", "s16")},
    "f32": ("u8", "s8", "u16", "s16", "f16", "f32"),
    "f64": ("u8", "s8", "u16", "s16", "f32", "f64"),
}


def has_means(str isa):
    """Whether a level has kernels for means of squares of pixels of 16 bits or 8."""
    return find_if_any("filter_means", "s16", isa) != NULL


cdef inline void store(const BandJob *j, const Tensors *t, int64_t first, int64_t rows,
                       const char *band, const char *sums, char *scratch) noexcept nogil:
    """Store the sums of a band."""
    cdef int64_t k, row, count
    cdef char *dst
    for k in range(j.count):
        dst = t.arrays[RESULTS] + k * j.result_ps + first * j.result_rs
        count = 0
        for row in range(rows):
            if j.round == NULL:
                pplconv_copy_row(dst + row * j.result_rs, sums, j.width * j.element)
            else:
                count = round_row(j, t, k, row, band, sums, dst,
                                  <int64_t *> (scratch + j.open_place), count)
                count = settle_rows(j, t, k, row == rows - 1, band, dst, scratch, count)
            sums += j.width * j.element


cdef void run_task(const void *job, const Tensors *t, int64_t task, char *scratch) noexcept nogil:
    cdef const BandJob *j = <const BandJob *> job
    cdef int64_t first = task * j.rows, rows = least(j.rows, j.height - first), row
    cdef int64_t numbers = j.columns * j.channels * j.element
    cdef const Pass *passes = j.passes[0 if rows == j.rows else 1]
    cdef char *dst = scratch + j.places[0]
    cdef const char *src
    cdef int p
    for row in range(rows + j.halo):
        read_row(j, t, first + row, dst + row * numbers)
    for p in range(j.pass_count):
        src = dst
        if j.straight and p == j.pass_count - 1:
            dst = t.arrays[RESULTS] + first * j.result_rs
        else:
            dst = scratch + j.places[p + 1]
        run_pass(&passes[p], src, dst, scratch + j.shared_place, scratch + j.own_place)
    if not j.straight:
        store(j, t, first, rows, scratch + j.places[0], dst, scratch)


def has_pairs(str isa):
    """Whether filters of integers by pairs have kernels of an instruction set, or below it.

    Parameters
    ----------
    isa : str
        Level of a ladder.
    """
    return find_if_any("pair_sums", "s16", isa) != NULL


cdef class Bands(Work):
    """A filter compiled.

    Parameters
    ----------
    fields : dict
        ``pixel`` and ``computed``, types of the image and of sums; ``result``, bytes of a result if
        results are integers, else 0; ``image_rows`` and ``image_columns``, the size of the image,
        and ``channels`` of a pixel; ``height`` and ``width`` of the results, in pixels; ``columns``
        of a band, ``rows`` of its results and ``halo``, its input rows beyond these; ``count``, of
        kernels; ``runs``, of pixels in a row of a band; ``taps``, rows and columns of the kernels
        if results are integers or made row by row, else (0, 0); ``separable``, whether exact
        kernels are a column and a row; ``by_rows``, for each pass of a filter that makes its sums
        row by row whether it has weights, else (), and ``pitch``, bytes from row to row of what
        the last pass reads; ``first``, how many neighbours of a row and of a column are summed up
        before, or 0, and ``wide``, bytes of a row of pixels before such sums; ``words``, None or
        the numbers of one of bytes in integers of 16 bits; ``means``, whether it is the mean of a
        square of pixels of 16 bits; ``is_open``, whether sums may leave a
        rounding open; ``near``, how far a sum may be from the integer that blocks of rows round it
        to, or 0; ``mirrored``, where mirrored weights have digits the instruction
        set of products of bytes, else None; ``paired``, the same where weights are of pairs,
        and ``factored``, whether they are those of a column and a row;
        ``is_running``, whether sums of columns are moved from row to row; ``box``, whether the taps
        of a row, and of a column, are equal, whose sums strips of columns make, and ``origin``, the
        number of the first row that is seen; ``again``, how
        many numbers of a kernel its open results are computed again with in float64, or 0; ``low``
        and ``high``, limits of integers. ``image_rs``, ``result_rs`` and ``result_ps`` are bytes
        from row to row, and from plane to plane of results.
    passes : sequence of sequences of (Schedule, packed, filters)
        For bands of the usual height, then for the last band: the convolutions, the addresses of
        their packed weights, and the addresses of their weights before packing, or 0. The caller
        keeps them.
    isa : str
        Which kernels to call.

    Raises
    ------
    ValueError
        If it is more than the loops take, or the passes do not go together.
    MemoryError
        If memory cannot be had.
    """

    def __cinit__(self, dict fields, passes, str isa):
        cdef BandJob *j = &self.own
        cdef str pixel = fields["pixel"], computed = fields["computed"]
        memset(j, 0, sizeof(BandJob))
        self.kept = passes
        strides = frozenset(("image_rs", "result_rs", "result_ps"))
        unchecked = ("low", "high", "near", "origin", "box")
        words, by_rows, mirrored, paired, factored, means = map(
            fields.pop, ("words", "by_rows", "mirrored", "paired", "factored", "means"))
        check_numbers({n: v for n, v in fields.items() if n not in (*strides, *unchecked)},
                      frozenset())
        for name in strides:
            if abs(fields[name]) >= SIZE:
                raise MemoryError("an image is beyond what the loops can address")
        if pixel not in READ.get(computed, ()):
            raise ValueError(f"no loops read {pixel} as {computed}")
        j.height, j.rows, j.halo = fields["height"], fields["rows"], fields["halo"]
        j.channels, j.columns = fields["channels"], fields["columns"]
        j.count, j.result, j.run_count = fields["count"], fields["result"], fields["runs"]
        self.image_rows, self.image_columns = fields["image_rows"], fields["image_columns"]
        if min(j.height, j.rows, j.channels, j.columns, j.count, j.run_count,
               fields["width"]) < 1 or j.result not in (0, 1, 2, 4) or j.rows > j.height:
            raise ValueError("a filter has kernels, bands and pixels")
        j.image_rs = fields["image_rs"]
        j.result_rs, j.result_ps = fields["result_rs"], fields["result_ps"]
        j.pixel, j.element = PIXELS[pixel].itemsize, PIXELS[computed].itemsize
        j.reader.pixel, j.reader.element = j.pixel, j.element
        j.width = fields["width"] * fields["channels"]
        if pixel != computed:
            # Half precision has kernels of its own.
            j.reader.kind = KINDS.get(pixel, 0)
            j.reader.read = find("read_pixels" if j.reader.kind else "convert_in", computed, isa)
        j.tap_rows, j.tap_columns = fields["taps"]
        j.separable, j.again_numbers = fields["separable"], fields["again"]
        j.again_rows = j.tap_rows if j.again_numbers else 0
        j.low, j.high = fields["low"], fields["high"]
        if j.result or by_rows:
            if j.tap_rows != j.halo + 1 or j.tap_columns != j.columns - fields["width"] + 1:
                raise ValueError("taps are those that rows and columns were read for")
            if not -1 << 31 <= j.low <= j.high < 1 << 31:
                raise ValueError("integers have limits")
        if j.result and not words and not means:
            j.taps = (j.tap_rows + j.tap_columns if j.separable else j.tap_rows * j.tap_columns)
            j.room = most(least(j.rows * j.width, MANY if j.separable else FEW), j.width)
            if not fields["is_open"]:
                j.room = j.width
            j.exact = find("exact_sums", computed, isa)
            j.round = find("round_sums", computed, isa)
        j.straight = not j.result and j.count == 1 and j.result_rs == (
            fields["width"] * fields["channels"] * j.element)
        if j.image_rs >= 0 and min(j.result_rs, j.result_ps) >= 0:
            # Programs check their arrays.
            size = j.result or j.element
            self.extents[RESULTS] = extent_of(
                size * j.width, [j.count, j.height], [j.result_ps, j.result_rs], size, True)
            self.extents[IMAGE] = extent_of(
                self.image_columns * j.channels * j.pixel, [self.image_rows], [j.image_rs], j.pixel)
        self.tasks = ceil_div(j.height, j.rows)
        self.threads = 1
        self.job = j
        j.line_pitch = j.columns * j.channels * j.element
        if by_rows:
            self.take_rows(fields, words, by_rows, isa)
            squared = take_squares(j, words, isa)
            self.is_floats = not squared and self.take_floats(fields, words, isa)
            self.one_phase(run_squares if squared
                           else run_float_lines if self.is_floats
                           else run_box_lines if self.take_boxes(fields, isa)
                           else run_mirror_lines if self.take_integers(fields, words, isa) and (
                               take_mirrors(&self.integers, mirrored, isa))
                           else (run_row_pairs if j.result == 1
                                 else run_factor_lines if factored else run_pair_lines)
                           if self.take_pairs_of(paired, factored)
                           else run_integer_lines if self.job == &self.integers
                           else run_lines)
        elif means:
            take_means(j, pixel == "s16", isa)
            self.one_phase(run_squares)
        else:
            self.take(passes, fields)
            self.one_phase(run_task)

    cdef int take_rows(self, dict fields, words, by_rows, str isa) except -1:
        """Take taps that are summed up row by row, and lay out a thread's scratch."""
        cdef BandJob *j = &self.own
        cdef int64_t k
        if j.count != 1 or len(by_rows) > MOST_PASSES:
            raise ValueError("sums of rows are of one kernel")
        j.words, j.tap = words is not None, j.element
        if words:
            if j.result not in (1, 2):
                raise ValueError("short sums become bytes or two bytes")
            j.tap = SHORT
            j.mode, j.add, j.factor, j.shift = words.mode, words.add, words.factor, words.shift
        j.filter = find("filter_row" if words else "filter_floats", fields["computed"], isa)
        j.pass_count = <int> len(by_rows)
        extents = [j.tap_columns, j.tap_rows]
        if j.pass_count == 1:
            extents = [j.tap_rows * j.tap_columns]
        first, end = fields["first"], 0
        for k, (weighed, taps, many) in enumerate(zip(by_rows, extents, first, strict=False)):
            if many and (j.pass_count == 1 or fields["is_open"] or many > taps):
                raise ValueError("neighbours are of a row and a column of exact sums")
            j.first[k], j.weighed[k] = many, weighed
            j.short_taps[k] = taps // many + taps % many if many else taps
            end += 0 if k else many
            j.first_tap[k] = end
            end += j.short_taps[k]
        line, sums = j.line_pitch, j.tap * j.width
        j.pitch, j.place_step = fields["pitch"], 1 if j.pass_count == 2 else j.tap_columns
        if j.pitch < (sums if j.pass_count == 2 else line):
            raise ValueError("rows have room")
        j.line_pitch = ceil_div(line, LINE) * LINE if j.pass_count == 2 else j.pitch
        if j.first[0]:
            j.wide = fields["wide"]
            j.wide_count = j.width + (j.tap_columns - j.first[0]) * j.channels
            if j.wide < line or (j.words and j.tap_columns % j.first[0]):
                raise ValueError("sums of neighbours lie behind pixels")
            j.line_pitch = ceil_div(j.wide + j.tap * j.wide_count, LINE) * LINE
        # Sums that are open are made again from all rows of a band.
        j.lines = j.rows + j.halo if fields["is_open"] else 1 if j.pass_count == 2 else j.tap_rows
        j.running = fields["is_running"]
        if j.running and (j.pass_count != 2 or fields["is_open"] or not j.result):
            raise ValueError("sums that are moved are exact, of a row and a column")
        j.ring = j.tap_rows + 1 if j.running else j.tap_rows
        if j.first[1]:
            if j.running or j.words or max(j.short_taps[1], j.first[1]) > MOST_PLACES:
                raise ValueError("columns of sums of neighbours are not moved")
            j.ring, j.second = j.first[1], j.tap_rows - j.first[1] + 1
        j.sums_pitch = ceil_div(sums, LINE) * LINE
        exact = j.tap_rows * PPLCONV_EXACT_LIMBS * INDEX if j.separable else 0
        sizes = [<object> j.lines * j.line_pitch,
                 (<object> j.ring + j.second) * j.pitch if j.pass_count == 2 else 0,
                 2 * <object> j.sums_pitch if j.running or j.round != NULL else 0,
                 (j.room + j.width) * INDEX if j.round != NULL else 0, exact]
        self.lay_out(sizes)
        if j.pass_count == 1:
            j.places[1] = 0
        return 0

    cdef bint take_floats(self, fields, words, str isa) except -1:
        """Take the taps of sums that are results, if blocks of rows make them."""
        cdef BandJob *j = &self.own
        cdef FloatLines *f = &self.floats.lines
        if words is not None or j.result or j.running:
            return False
        f.reader, f.filter = j.reader, j.filter
        f.height, f.rows, f.tap_rows, f.across = j.height, j.rows, j.tap_rows, j.tap_columns
        square = j.pass_count == 2 and j.element == FLOAT and (
            j.tap_rows == j.tap_columns and j.tap_rows in (3, 5))
        f.product = square and isa not in NO_STRIPS
        f.separable = j.pass_count == 2 and not f.product
        f.channels, f.columns, f.width, f.run_count = j.channels, j.columns, j.width, j.run_count
        f.image_rs, f.result_rs = j.image_rs, j.result_rs
        take_strips(&f.strips, j.tap_rows, j.tap_columns, j.channels, j.element, isa)
        f.strips.height, f.strips.rows, f.strips.count = j.height, j.rows, j.width
        f.strips.product, f.strips.image_rs, f.strips.result_rs = (
            square, j.image_rs, j.result_rs)
        f.strips.moves = fields["moves"]
        f.stream = j.width * j.element * j.height >= STREAM_BYTES
        self.job = &self.floats
        self.columns_first = (
            fields["column_first"] and isa == LONG_ROWS and f.strips.kernel == NULL)
        return not any(fields["box"]) and not j.first[0] and not j.first[1] and (
            not self.columns_first and j.tap_rows <= MOST_TAP_ROWS)

    cdef bint take_boxes(self, fields, str isa) except -1:
        """Take a column and a row, if strips of columns make their sums: of equal taps, mostly."""
        cdef BandJob *j = &self.own
        cdef BoxLines *b = &self.floats
        even_row, even_column = fields["box"]
        strips = j.first[0] or even_column or self.columns_first
        if self.job != b or not strips or j.first[1] or (
                j.reader.read != NULL or j.tap_rows > MOST_TAP_ROWS or j.short_taps[0] > MOST_TAPS):
            self.job = j
            return False
        b.neighbours, b.taps, b.origin = j.first[0], j.short_taps[0], fields["origin"]
        if even_column:
            b.columns = find("box_columns", fields["computed"], isa)
        if even_row and j.channels == 1 and j.tap_columns <= PPLCONV_BOX_TAPS:
            b.rows = find_if_any("box_rows", fields["computed"], isa)
        if (even_row or j.first[0]) and isa == LONG_ROWS:
            b.near = find("near_rows", fields["computed"], isa)
        return True

    cdef bint take_integers(self, fields, words, str isa) except -1:
        """Take the taps of sums that are rounded to results, if blocks of rows make them."""
        cdef BandJob *j = &self.own
        cdef IntegerLines *lines = &self.integers.lines
        if not fields["near"]:
            return False
        if words is not None or j.result not in (1, 2) or j.running or j.first[0] or j.first[1]:
            raise ValueError("blocks of rows make sums of whole rows and columns")
        if j.tap_rows > MOST_TAP_ROWS or (j.pass_count == 2) != j.separable:
            raise ValueError("blocks of rows see few rows")
        lines.reader, lines.filter, lines.round, lines.exact = j.reader, j.filter, j.round, j.exact
        lines.whole = find("whole_sums", fields["computed"], isa)
        lines.separable, lines.block_bytes = j.separable, BLOCK_BYTES
        if j.separable:
            if isa == LONG_ROWS:
                lines.block_bytes = LONG_BLOCK_BYTES
            lines.columns = find("pixel_columns", fields["computed"], isa)
        lines.kind, lines.result = j.reader.kind, j.result
        lines.result_kind = KINDS[f"{'s' if j.low else 'u'}{8 * j.result}"]
        lines.height, lines.rows, lines.low, lines.high = j.height, j.rows, j.low, j.high
        lines.tap_rows, lines.across = j.tap_rows, j.tap_columns
        lines.channels, lines.width = j.channels, j.width
        lines.image_rs, lines.result_rs = j.image_rs, j.result_rs
        lines.run_count, lines.again_rows = j.run_count, j.again_rows
        self.job = &self.integers
        return True

    cdef bint take_pairs_of(self, paired, bint factored) except -1:
        """Take weights of pairs, if there are any for the sums of blocks of rows."""
        if self.job != &self.integers or not take_pairs(
                &self.pairs, &self.integers.lines, paired, factored):
            return False
        self.job = &self.pairs
        return True

    cdef list lay_out(self, list sizes):
        """Give parts of a thread's scratch some sizes; returns their offsets."""
        cdef BandJob *j = &self.own
        offsets, end = [], 0
        for size in sizes:
            offsets.append(end)
            end += -(-size // LINE) * LINE
        # Rows of few bytes are read for a vector.
        end += LINE
        if end >= SIZE:
            raise MemoryError("bands are beyond what the loops can address")
        for k in range(MOST_PASSES + 1):
            j.places[k] = offsets[k]
        j.open_place, j.exact_place = offsets[MOST_PASSES + 1], offsets[MOST_PASSES + 2]
        self.thread_scratch = end
        return offsets

    cdef int take(self, passes, dict fields) except -1:
        """Take the convolutions of both heights, and lay out a thread's scratch."""
        cdef BandJob *j = &self.own
        cdef Pass *p
        cdef Schedule schedule
        cdef int height, k, i
        cdef int64_t packed, filters, own = 0, shared = 0
        sizes = [0] * (MOST_PASSES + 1)
        last = j.height - (j.height - 1) // j.rows * j.rows
        if len(passes) != HEIGHTS or not 1 <= len(passes[0]) <= MOST_PASSES or (
                len(passes[0]) != len(passes[1])):
            raise ValueError("a filter has one or two passes, for both heights of bands")
        j.pass_count = <int> len(passes[0])
        for height, rows in enumerate((j.rows, last)):
            size = (rows + j.halo) * fields["columns"] * fields["channels"] * j.element
            sizes[0] = max(sizes[0], size)
            for k, (one, packed, filters) in enumerate(passes[height]):
                schedule = <Schedule?> one
                p = &j.passes[height][k]
                if schedule.input_bytes() != size:
                    raise ValueError("a pass reads other rows than there are")
                size = schedule.output_bytes()
                sizes[k + 1] = max(sizes[k + 1], size)
                p.job, p.phases, p.rounds = schedule.job, schedule.phases, schedule.rounds
                for i in range(schedule.phases):
                    p.steps[i] = schedule.steps[i]
                p.weights, p.filters = <const char *> packed, <const char *> filters
                if packed == 0 or schedule.reads_filters and filters == 0:
                    raise ValueError("a pass has weights")
                own = most(own, schedule.thread_scratch)
                shared = most(shared, schedule.shared_scratch)
            if size != j.count * rows * fields["width"] * fields["channels"] * j.element:
                raise ValueError("passes make other sums than there are results")
        if j.straight:
            sizes[j.pass_count] = 0
        rows_kept = j.tap_rows * PPLCONV_EXACT_LIMBS * INDEX if j.separable else 0
        sizes += [(j.room + j.width) * INDEX if j.result else 0, rows_kept, own, shared]
        offsets = self.lay_out(sizes)
        j.own_place, j.shared_place = offsets[MOST_PASSES + 3], offsets[MOST_PASSES + 4]
        return 0

    cdef int check_input(self, const int64_t *rows, const int64_t *runs) except -1:
        """Refuse rows and runs of pixels that are not in the image, or leave gaps."""
        cdef const BandJob *j = &self.own
        cdef const int64_t *run
        cdef int64_t i, at = 0, size
        for i in range(j.height + j.halo):
            if not -1 <= rows[i] < self.image_rows:
                raise ValueError("a row is not in the image")
        for i in range(j.run_count):
            run = runs + 3 * i
            if run[0] != at or not 1 <= run[2] <= j.columns - at or not -1 <= run[1] or (
                    run[2] > self.image_columns - run[1] and run[1] >= 0):
                raise ValueError("a run of pixels is not in the image")
            at += run[2]
            if run[2] > runs[3 * j.longest_run + 2]:
                self.own.longest_run = i
        if at != j.columns:
            raise ValueError("runs of pixels are not those of a band")
        self.integers.lines.longest_run, run = j.longest_run, runs + 3 * j.longest_run
        if self.job == &self.integers:
            self.thread_scratch = lay_out_mirrors(&self.integers, run[0], run[1], run[2])
        elif self.job == &self.pairs:
            self.pairs.lines.longest_run = j.longest_run
            self.thread_scratch = (lay_out_row_pairs(&self.pairs) if j.result == 1
                                   else lay_out_factors(&self.pairs) if self.pairs.factored
                                   else lay_out_pairs(&self.pairs))
        elif self.job == &self.floats:
            if self.is_floats:
                size = lay_out_lines(&self.floats.lines, rows, runs, j.longest_run)
            else:
                size = lay_out_boxes(&self.floats, j.longest_run)
            self.thread_scratch = size
        elif j.squares.kernel != NULL:
            self.thread_scratch = lay_pixels(&self.own.squares, run[0], run[1], run[2])
        if self.thread_scratch >= SIZE:
            raise MemoryError("bands are beyond what the loops can address")
        return 0
