# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The base of all schedules of convolutions and products: shapes, types, and packed weights."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport (
    MAX_MR,
    MAX_VECTORS,
    PPLCONV_STORED_BF16,
    GemmFamily,
    find,
    find_if_any,
)
from pplconv.memory.workspace cimport Buffer, borrow, give_back
from pplconv.schedules.team_loop cimport Phase, phase_function, run_team
from pplconv.schedules.work cimport Work

from pplconv.numerics import numerics_of
from pplconv.schedules.work import COUNT, SIZE, check_each, check_numbers, check_reach

cdef enum:
    # Bytes of weights below which one thread packs them.
    SMALL_WEIGHTS = 1 << 18


cdef int check_offsets(dict offsets, int64_t element) except -1:
    """Refuse offsets in the scratch, the members of a struct, that are not whole elements."""
    for offset in offsets.values():
        if offset % element:
            raise ValueError("offsets are whole elements")
    return 0


cdef str mover_of(str type):
    """Name the type of the kernels that move elements of `type`: narrow types share by size."""
    return {"s8": "u8", "bf16": "s16"}.get(type, type)


cdef pplconv_kernel find_release(str product, str isa):
    """Find the kernel that releases tile registers; NULL for products that use none."""
    if not product.endswith("t"):
        return NULL
    return find("release_tiles", "u8", isa)


cdef int check_tile(const GemmFamily *gemm, int64_t mr, int64_t nr) except -1:
    """Refuse a tile if any of its kernels is missing, even one for a tail."""
    cdef int64_t v, m
    if not (1 <= mr <= MAX_MR and gemm.lanes <= nr <= MAX_VECTORS * gemm.lanes) or nr % gemm.lanes:
        raise ValueError(f"no such tile: {mr}x{nr}")
    for v in range(nr // gemm.lanes):
        for m in range(mr):
            if gemm.tile[v][m] == NULL:
                raise ValueError(f"no kernel for a tile of {m + 1}x{(v + 1) * gemm.lanes}")
    return 0


cdef struct Packing:
    # Weights being packed, in pieces. They are converted to the kernels' type in `converted`; NULL
    # if they have that type already.
    const Shape *shape
    pack_function pack, count, place
    const void *job
    const char *weights
    char *converted
    char *packed
    int64_t pieces


cdef void convert_piece(const void *job, int64_t piece, char *scratch) noexcept nogil:
    """Convert one piece of the weights: some of the output channels of all groups."""
    cdef const Packing *p = <const Packing *> job
    cdef const Shape *s = p.shape
    cdef int64_t size = s.ic * s.taps, count = s.groups * s.oc
    cdef int64_t begin = count * piece // p.pieces, end = count * (piece + 1) // p.pieces
    convert_in(s, p.weights + begin * size * s.size.filter, 0,
               p.converted + begin * size * s.size.weight, 0, 1, (end - begin) * size)


cdef void pack_piece(const void *job, int64_t piece, char *scratch) noexcept nogil:
    cdef const Packing *p = <const Packing *> job
    p.pack(p.job, p.weights if p.converted == NULL else p.converted, p.packed, piece, p.pieces)


cdef void count_piece(const void *job, int64_t piece, char *scratch) noexcept nogil:
    cdef const Packing *p = <const Packing *> job
    p.count(p.job, p.weights if p.converted == NULL else p.converted, p.packed, piece, p.pieces)


cdef void place_pieces(const void *job, int64_t piece, char *scratch) noexcept nogil:
    cdef const Packing *p = <const Packing *> job
    p.place(p.job, p.weights if p.converted == NULL else p.converted, p.packed, 0, 1)


cdef int64_t array_bytes(const Memory *m, int64_t element, int64_t batch, int64_t channels,
                         int64_t height, int64_t width) noexcept nogil:
    """Bytes from the first element of an array to the end of its last one."""
    if min(batch, channels, height, width) < 1:
        return 0
    # Arrays in blocks of channels have whole blocks. If all channels are neighbours, there are no
    # blocks.
    if m.width > 1 and m.block:
        channels = ceil_div(channels, m.width) * m.width
    return ((batch - 1) * m.image + channel_offset(m, element, channels - 1)
            + (height - 1) * m.row + (width - 1) * m.pixel + element)


cdef inline void add_phase(Phase *phases, int *count, phase_function run, const Packing *p,
                           int64_t first, int64_t tasks) noexcept nogil:
    phases[count[0]].run, phases[count[0]].job = run, p
    phases[count[0]].first, phases[count[0]].tasks = first, tasks
    count[0] += 1


cdef class Schedule(Work):
    """A plan compiled for running: C numbers and kernel addresses.

    Parameters
    ----------
    fields : dict
        The plan's decisions, by name.
    isa : str
        Which kernels to call.

    Raises
    ------
    ValueError
        If the loops could not carry it out inside its memory.
    """

    # The numbers that may be as large as a size, in all plans. Loops add the members of a struct of
    # theirs.
    sizes = frozenset(("packed_weight_bytes", "scratch_bytes", "shared_bytes", "tasks"))

    def __cinit__(self, dict fields, str isa):
        cdef Shape *s = &self.shape
        numerics = fields["numerics"]
        cdef str dtype = numerics.accumulator
        check_numbers(fields, self.sizes)
        check_each("geometry", fields["geometry"], COUNT)
        check_each("x", fields["x"], SIZE)
        check_each("y", fields["y"], SIZE)
        # Sizes other than those of the kernels would lead outside arrays.
        if numerics_of(numerics.source, numerics.product, numerics.destination) != numerics:
            raise ValueError(f"no loops compute with {numerics}")
        memset(s, 0, sizeof(Shape))
        g = &s.geometry
        (g.ih, g.iw, g.oh, g.ow, g.kh, g.kw, g.stride_h, g.stride_w,
         g.dilation_h, g.dilation_w, g.pad_top, g.pad_left) = fields["geometry"]
        if min(g.kh, g.kw, g.stride_h, g.stride_w, g.dilation_h, g.dilation_w) < 1:
            raise ValueError("a window has pixels, and strides and dilations of at least 1")
        s.size.source = numerics.source_bytes
        s.size.operand = numerics.operand_bytes
        s.size.filter = numerics.filter_bytes
        s.size.weight = numerics.weight_bytes
        s.size.sum = numerics.sum_bytes
        s.size.destination = numerics.destination_bytes
        s.size.bias = numerics.bias_bytes
        s.converts_in = numerics.converts_in
        s.converts_out = numerics.converts_out
        s.converts_weights = numerics.converts_weights
        s.exact = numerics.exact
        s.rounds = numerics.rounds_on(isa)
        # Only bfloat16 is a type that programs of floats read besides their own.
        if numerics.destination == "bf16":
            s.stored = PPLCONV_STORED_BF16
        s.batch = fields["batch"]
        s.groups = fields["groups"]
        s.ic = fields["ic"]
        s.oc = fields["oc"]
        s.taps = g.kh * g.kw
        s.x.image, s.x.block, s.x.row, s.x.pixel, s.x.width = fields["x"]
        s.y.image, s.y.block, s.y.row, s.y.pixel, s.y.width = fields["y"]
        if s.x.width < 1 or s.y.width < 1:
            raise ValueError("at least one channel is a neighbour of itself")
        for name, channels, height, width in (("x", fields["ic"], g.ih, g.iw),
                                              ("y", fields["oc"], g.oh, g.ow)):
            channels = channels * fields["groups"]
            check_reach(name, (fields["batch"], channels, height, width, channels),
                        (*fields[name][:4], 8))
        check_reach("weights", (fields["groups"] * fields["oc"] * fields["ic"],),
                    (8 * fields["geometry"][4] * fields["geometry"][5],))
        # A higher level than that of the products may convert.
        converting = fields.get("converts_on", isa)
        if s.converts_in:
            s.convert_in = find("convert_in", numerics.in_converter, converting)
        if s.exact:
            s.requantize = find("requantize", numerics.destination, isa)
            s.elementwise = find("elementwise", dtype, isa)
        else:
            s.elementwise = find("elementwise", dtype, isa)
            s.curve = find_if_any("curve", dtype, isa)
            if s.curve == NULL:
                s.curve = s.elementwise
            s.zero_lanes = find("zero_lanes", dtype, isa)
            if s.converts_out:
                s.convert_out = find("convert_out", numerics.out_converter, converting)
                s.convert_residual = find("convert_in", numerics.out_converter, converting)
        self.tasks = fields["tasks"]
        self.threads = fields["threads"]
        self.thread_scratch = fields["scratch_bytes"]
        self.shared_scratch = fields["shared_bytes"]
        self.phases = 0
        self.weight_bytes = fields["packed_weight_bytes"]
        self.panel_width = fields.get("panel_width", 0)
        if self.threads < 1:
            raise ValueError("a plan has a team of at least 1")
        if self.thread_scratch % 64 or self.shared_scratch % 64:
            raise ValueError("scratch is whole lines of cache")

    cdef int pack_weights(self, const char *weights, char *packed, int team) except -1:
        """Pack contiguous weights; they are first converted to the type that kernels read."""
        cdef Buffer converted
        cdef Shape *s = &self.shape
        if not s.converts_weights:
            return self.pack_part(weights, packed, team, 0, 1)
        converted = borrow(s.groups * s.oc * s.ic * s.taps * s.size.weight)
        with nogil:
            self.pack_pieces(weights, converted.data, packed, team, 0, 1)
        give_back(converted)
        return 0

    cdef int pack_part(self, const char *weights, char *packed, int team, int part,
                       int parts) except -1:
        """Pack some of the output channels of weights that need no conversion."""
        if self.shape.converts_weights or not 0 <= part < parts:
            raise ValueError("weights are packed in parts if they are of the kernels' type")
        with nogil:
            self.pack_pieces(weights, NULL, packed, team, part, parts)
        return 0

    cdef int64_t rows_before(self, int part, int parts) noexcept nogil:
        """Count the output channels before those whose weights this or a later part reads."""
        cdef int64_t panels
        if self.shape.groups != 1 or not self.panel_width:
            return 0
        panels = ceil_div(self.shape.oc, self.panel_width)
        return least(panels * part // parts * self.panel_width, self.shape.oc)

    cdef void pack_pieces(self, const char *weights, char *converted, char *packed, int team,
                          int part, int parts) noexcept nogil:
        cdef Packing p
        cdef Phase[4] phases
        cdef int count = 0
        cdef int pieces = 1 if self.weight_bytes < SMALL_WEIGHTS else team
        p.shape, p.pack, p.job, p.pieces = &self.shape, self.pack, self.job, pieces * parts
        p.count, p.place = self.count, self.place
        p.weights, p.converted, p.packed = weights, converted, packed
        if converted != NULL:
            add_phase(phases, &count, convert_piece, &p, part * pieces, pieces)
        if self.count != NULL and part == 0:
            add_phase(phases, &count, count_piece, &p, 0, p.pieces)
            add_phase(phases, &count, place_pieces, &p, 0, 1)
        add_phase(phases, &count, pack_piece, &p, part * pieces, pieces)
        # No hooks: packing keeps subnormal numbers as they are.
        run_team(phases, count, 1, NULL, NULL, 0, pieces)

    cdef int check_packed(self, const char *packed) except -1:
        """Refuse packed weights from elsewhere that the loops could not follow."""
        return 0

    cdef int check_matrices(self, matrices) except -1:
        """Refuse distances between groups, and strides of weights, that lead outside arrays."""
        x, y, *weights, bias = matrices
        groups, depth = self.shape.groups, self.shape.ic * self.shape.taps
        check_each("matrices", matrices, SIZE)
        check_reach("x", (groups,), (x,))
        check_reach("y", (groups,), (y,))
        check_reach("weights", (groups, self.shape.oc, depth), weights)
        if bias > self.shape.oc:
            raise ValueError("a bias has the channels of all groups, or of one for all")
        return 0

    cdef int check_weights(self, int64_t size) except -1:
        """Refuse memory that `size` bytes of packed weights do not fit."""
        if self.weight_bytes < size:
            raise ValueError("packed weights are larger than their memory")
        return 0

    cdef int64_t packed_bytes(self) noexcept nogil:
        return self.weight_bytes

    cdef int64_t source_bytes(self) noexcept nogil:
        """Bytes of the weights before packing, in the type that the kernels read."""
        cdef const Shape *s = &self.shape
        return s.groups * s.oc * s.ic * s.taps * s.size.weight

    cdef int64_t filter_bytes(self) noexcept nogil:
        """Bytes that `Tensors.filters` reach, where loops read them."""
        cdef const Shape *s = &self.shape
        return most(self.source_bytes(), s.groups * s.oc * s.ic * s.taps * s.size.source)

    cdef int64_t input_bytes(self) noexcept nogil:
        cdef const Shape *s = &self.shape
        return array_bytes(&s.x, s.size.source, s.batch, s.groups * s.ic, s.geometry.ih,
                           s.geometry.iw)

    cdef int64_t output_bytes(self) noexcept nogil:
        cdef const Shape *s = &self.shape
        return array_bytes(&s.y, s.size.destination, s.batch, s.groups * s.oc, s.geometry.oh,
                           s.geometry.ow)
