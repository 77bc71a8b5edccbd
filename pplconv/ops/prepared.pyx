# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""A compiled plan, and one run of it: pointers in, loops without the GIL, output out.

Everything that can be refused is refused before the first byte of `out` is written.
"""

from cpython.buffer cimport PyBUF_ND, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo

from pplconv.memory.arrays cimport (
    View,
    check_operand,
    check_overlap,
    hold,
    hold_out,
    hold_plain,
    new_array,
    plain_out,
    refuse_change,
    release,
)
from libc.string cimport memcpy, memset
from pplconv.schedules.base cimport Schedule, Shape, Tensors
from pplconv.schedules.execute cimport execute
from pplconv.schedules.team cimport leave_team, take_team
from pplconv.schedules.work cimport ELEMENT, SLOPE, Follow
from pplconv.memory.workspace cimport Buffer

import math

import numpy as np

from pplconv import planner
from pplconv.activations import KINDS
from pplconv.memory.dtypes import DTYPES, array_dtype
from pplconv.memory.mapping import discard
from pplconv.memory.mapping import release as release_pages
from pplconv import schedules
from pplconv.schedules import compile_plan
from pplconv.schedules.packing import Pack

cdef enum:
    # Of large weights, this much is packed at once.
    PART_BYTES = 1 << 24


cdef class Prepared:
    """A problem's plan, and the schedule compiled from the plan's `fields`."""

    def __cinit__(self, problem, plan, dict fields, int most):
        cdef int i
        self.problem = problem
        self.plan = plan
        self.fields = fields
        self.schedule = <Schedule?> compile_plan(fields, plan.isa)
        self.dtype = array_dtype(problem.dtype)
        self.out_dtype = array_dtype(plan.numerics.destination)
        self.bias_type = plan.numerics.bias
        self.output_shape = problem.output_shape
        self.threads = plan.threads
        self.most = most
        self.packing = f"{plan.packing} of {plan.numerics.weights}"
        self.multiplies_padding = fields["multiplies_padding"]
        numerics = plan.numerics
        self.narrows_weights = numerics.source == "f32" and numerics.weights in ("f16", "bf16")
        self.half_weights = numerics.weights == "f16"
        self.ndim = len(problem.input_shape)
        for i in range(self.ndim):
            self.input_dims[i] = problem.input_shape[i]
            self.output_dims[i] = self.output_shape[i]
        self.channels = problem.oc
        self.input_bytes = math.prod(problem.input_shape) * numerics.source_bytes
        self.filter_bytes = math.prod(problem.weight_shape) * numerics.filter_bytes

    @property
    def packed_bytes(self):
        """Size of the packed weights."""
        return self.schedule.packed_bytes()

    def pack_work(self):
        """Packing of the weights as a `Work`, for computed weights."""
        return Pack(self.schedule)

    def attention_work(self, Prepared sums not None, list before, list behind, dict fields,
                       str isa):
        """Attention as a `Work`, whose scores this product computes; see `Attention`."""
        return schedules.Attention(fields, self.schedule, sums.schedule, before, behind, isa)


cdef class Activation:
    """An activation in the type of the plan's bias, in the form that `Tensors` take.

    `clip` points to two bounds, or is NULL; `follow` says what follows the store. This object owns
    the bounds, the slopes and the code.

    Attributes
    ----------
    description : pplconv.arguments.activation.Activation
    dtype : str
        As given.

    Parameters
    ----------
    description : pplconv.arguments.activation.Activation
        What was asked for.
    dtype : str
        `Numerics.bias` of the plan.
    """

    def __cinit__(self, description, str dtype):
        cdef View view
        self.description, self.dtype = description, dtype
        self.clip = NULL
        memset(&self.follow, 0, sizeof(Follow))
        self.follow.code = &self.code
        kind = KINDS[description.kind]
        self.code.op = kind.code
        self.code.to = self.code.a = self.code.c = ELEMENT
        self.code.b = ELEMENT if description.slope is None else SLOPE
        self.follow.count = self.code.op != 0
        self.follow.is_curve = kind.is_curve
        self.follow.slope_of_channel = np.ndim(description.slope) > 0
        if description.bounds is not None:
            with np.errstate(all="ignore"):  # what the type cannot hold becomes inf or zero
                bounds = np.array(description.bounds, DTYPES[dtype])
            view.held = False
            if bounds.shape != (2,):
                raise ValueError("a clip has two bounds")
            hold(bounds, &view, PyBUF_ND)
            memcpy(&self.storage[0], view.buffer.buf, <size_t> view.buffer.len)
            release(&view)
            self.clip = &self.storage[0]
        if description.slope is not None:
            with np.errstate(all="ignore"):  # what the type cannot hold becomes inf or zero
                self.slopes = np.array(
                    description.slope, DTYPES[dtype], order="C", ndmin=1)
            view.held = False
            hold(self.slopes, &view, PyBUF_ND)
            # The memory stays where it is while the array lives.
            self.follow.slope = <const char *> view.buffer.buf
            release(&view)

    cdef int check(self, Schedule schedule) except -1:
        """Refuse a plan of other channels, or of another type."""
        cdef Shape *s = &schedule.shape
        if DTYPES[self.dtype].itemsize != s.size.bias:
            raise ValueError("an activation is of the type of the bias")
        if self.follow.slope_of_channel and self.slopes.size != s.groups * s.oc:
            raise ValueError("there is a slope for each output channel, or one for all")
        return 0


cdef Prepared prepare(object problem, dict settings):
    """Plan a problem, with `settings` as `planner.make_plan` takes them, and compile the plan."""
    plan, fields = planner.make_plan(problem, **settings)
    return Prepared(problem, plan, fields, planner.share(settings.get("threads")))


cdef class PackedWeights:
    """Weights in the order that a kernel walks; refuses a plan that wants another order.

    `Conv2d` makes them; `packing` names the format, and any plan of that format can use them. The
    object exports its bytes as a read-only buffer.

    Parameters
    ----------
    prepared : Prepared
        A plan with the wanted packing.
    weight : ndarray
        Contiguous weights (oc, ic / groups, kh, kw), kept and not copied; aligned, unless `packed`
        is given.
    packed : buffer, optional
        The same weights, packed the same way, in other memory, such as memory that processes share.
        They are used where they lie, and held while this object lives.
    keep : ndarray, optional
        The same weights in other memory, contiguous, aligned or not, to be kept in place of
        `weight`. They are kept only if loops of this packing read them.
    consume : bool, optional
        Whether `weight` is not needed afterwards, so that its memory may go as it is packed.

    Raises
    ------
    ValueError
        If `packed` is smaller than the plan's packed weights, or `keep` is not as large as
        `weight`.
    """

    def __cinit__(self, Prepared prepared not None, weight, packed=None, keep=None,
                  bint consume=False):
        cdef View view
        cdef const char *filters
        cdef Py_ssize_t bytes
        cdef int part, parts
        cdef Buffer buffer
        cdef int team
        cdef Schedule schedule = prepared.schedule
        self.prepared, self.packing = prepared, prepared.packing
        self.size = schedule.packed_bytes()
        self.memory.held = False
        view.held = False
        hold(weight, &view, PyBUF_ND)
        # The memory stays where it is while the array lives.
        filters, bytes = <const char *> view.buffer.buf, view.buffer.len
        release(&view)
        # A caller with packed weights may lack the unpacked ones, unless loops read those too.
        if bytes != prepared.filter_bytes and (
                packed is None or keep is None or schedule.reads_filters):
            refuse_change("weight")
        if keep is None:
            consume = False
            self.weight, self.filters, self.filter_bytes = weight, filters, bytes
        elif schedule.reads_filters:
            consume = consume and keep is not weight
            hold(keep, &view, PyBUF_ND)
            self.weight, self.filters = keep, <const char *> view.buffer.buf
            self.filter_bytes = view.buffer.len
            release(&view)
            if keep.nbytes != bytes:
                raise ValueError(f"keep has {keep.nbytes} bytes, and weight {bytes}")
        if packed is not None:
            hold(packed, &self.memory, PyBUF_SIMPLE)
            if self.memory.buffer.len < self.size:
                raise ValueError(
                    f"packed weights of {self.memory.buffer.len} bytes, where {self.packing} "
                    f"takes {self.size}"
                )
            self.data = <const char *> self.memory.buffer.buf
            schedule.check_packed(self.data)
            return
        # Comes before any allocation: a pin decides which node's memory is preferred.
        team = take_team(prepared.threads, prepared.most)
        try:
            buffer = Buffer(self.size)
            if schedule.shape.converts_weights:
                schedule.pack_weights(filters, buffer.data, team)
            else:
                parts = 1 + self.size // PART_BYTES
                for part in range(parts):
                    schedule.pack_part(filters, buffer.data, team, part, parts)
                    # Unpacked weights need not stay in memory beside the packed ones.
                    release_pages(weight)
                    if consume:
                        discard(weight[:schedule.rows_before(part + 1, parts)])
        finally:
            leave_team(team)
        self.owner = buffer
        self.data = buffer.data

    def __dealloc__(self):
        release(&self.memory)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void *> self.data, self.size, True, flags)

    cdef const char *data_for(self, Prepared prepared) except NULL:
        if prepared.packing != self.packing:
            raise ValueError(
                f"weights are packed as {self.packing}; the plan's kernel wants {prepared.packing}"
            )
        return self.data


cdef object hold_results(Operands *o, object residual, object out, tuple shape,
                         const int64_t *dims, int ndim, object dtype, object first,
                         const View *first_view, str first_name, object second,
                         const View *second_view, str second_name, object bias):
    """Check residual and `out`, and hold their memory; gives `out`, or a new array in its place.

    `residual` is None or of `as_array`: nothing here calls what others have defined, which could
    change the arrays that are held. `out` may overlap neither the residual nor `first`, `second`
    and `bias`. The last two may be None; their views are as in `check_overlap`.
    """
    cdef object plain = None
    if residual is not None:
        check_operand(residual, "residual", shape, dtype)
        plain = hold_plain(residual, dtype, &o.residual)
    if out is None:
        out = new_array(shape, dtype)
        hold(out, &o.y, PyBUF_ND | PyBUF_WRITABLE)
        return out
    out = plain_out(out)
    hold_out(out, shape, dims, ndim, dtype, &o.y)
    check_overlap(out, &o.y, first, first_view, first_name)
    if second is not None:
        check_overlap(out, &o.y, second, second_view, second_name)
    if bias is not None:
        check_overlap(out, &o.y, bias, NULL, "bias")
    if residual is not None:
        check_overlap(out, &o.y, residual, &o.residual if plain is residual else NULL, "residual")
    return out


cdef object run(Prepared prepared, Operands *o, object input, object x, const char *weights,
                const char *filters, object weight, object bias, object residual,
                Activation activation, object out, bint batched):
    """Check residual and `out`, then compute. `o.x` (and `o.bias`) are held already.

    The output is `out` as a plain array, or a new one. `residual` is as in `hold_results`.
    `input`, `weight` and `bias` are the caller's arrays, for the check of overlaps; `x` is the
    array behind `o.x`: `input`, or a copy of it if one was needed.
    """
    cdef Tensors t
    if o.x.buffer.len != prepared.input_bytes:
        refuse_change("input")
    out = hold_results(o, residual, out,
                       prepared.output_shape if batched else prepared.output_shape[1:],
                       prepared.output_dims, prepared.ndim, prepared.out_dtype,
                       input, &o.x if x is input else NULL, "input", weight, NULL, "weight", bias)
    if prepared.input_dims[0] == 0:
        return out
    t.x = <const char *> o.x.buffer.buf
    t.y = <char *> o.y.buffer.buf
    t.weights = weights
    t.filters = filters
    t.bias = <const char *> o.bias.buffer.buf if o.bias.held else NULL
    t.residual = <const char *> o.residual.buffer.buf if o.residual.held else NULL
    t.clip = activation.clip
    t.follow = activation.follow
    t.after = NULL
    t.offsets = NULL
    t.x_zero = NULL
    t.window_sums = t.weight_zeros = NULL
    execute(prepared.schedule, &t, prepared.threads, prepared.most, 1, NULL)
    return out
