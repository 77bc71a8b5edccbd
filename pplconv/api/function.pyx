# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=True
"""`conv2d`: from the caller's arrays to a plan's loops and back, with a cache of plans.

A call finds in the cache or makes a `Prepared` (problem, plan, compiled schedule) for its
arguments, turns the arrays into pointers (`memory.arrays`), and runs the loops (``prepared``).
"""

from pplconv.memory.arrays cimport (
    as_array,
    as_given,
    batched_shape,
    float_name,
    has_dims,
    hold_plain,
    refuse_change,
)
from pplconv.api.function_operands cimport asked, is_numbers, like, refuse_another_type
from pplconv.api.keyword_hints cimport hint_calls
from pplconv.ops.border cimport compute_border, stay_finite
from pplconv.ops.keys cimport PLANS, is_plain, is_plain_activation, is_prelu, keep_plan
from pplconv.ops.prepared cimport (
    Activation,
    Operands,
    Prepared,
    hold_nothing,
    prepare,
    release_all,
    run,
)
from pplconv.ops.ready cimport (
    compute_strips,
    computed_bias,
    extended,
    plain_bias,
    scope_around,
)
from pplconv.schedules.base cimport Schedule
from pplconv.schedules.team cimport leave_team, take_team
from pplconv.memory.workspace cimport Buffer, borrow, give_back

from pplconv.activations import documentation
from pplconv.arguments import checks, input_shapes
from pplconv.arguments.activation import activation_of
from pplconv.ops.extension import Strips, check_padding_mode, extension_of
from pplconv.arguments.settings import checked
from pplconv.memory.array_like import renewed
from pplconv.memory.dtypes import DTYPES
from pplconv.problem import dimensions
from pplconv.runtime import ForkableLock

cdef dict conv2d_plans = {}
cdef object PRELU = object()  # in keys: a PReLU with any slopes
cdef object conv2d_lock = ForkableLock()


cdef tuple conv2d_prepared(object x, object w, object stride, object padding, object dilation,
                           object groups, object activation, object layout, object algorithm,
                           object tolerance, object threads, object max_workspace,
                           object precision, object mode):
    """Find or make (Prepared, Activation, None) for one call of `conv2d`.

    Where padding is made of pixels, an `Extension` and the plans of its strips replace the None.
    """
    cdef object key = None, found, form = activation
    cdef Prepared prepared
    scope = scope_around(True, True)
    if scope is not None:
        threads, tolerance = asked(<tuple> scope, threads, tolerance)
    # No key holds slopes: each call reads them anew, and plans do not depend on them.
    cdef bint prelu = is_prelu(activation)
    if prelu:
        form = PRELU
    if (is_plain(stride) and is_plain(padding) and is_plain(dilation) and is_plain(groups)
            and (prelu or is_plain_activation(activation)) and is_plain(layout)
            and is_plain(algorithm) and (type(tolerance) is float or is_plain(tolerance))
            and is_plain(threads) and is_plain(max_workspace) and is_plain(precision)
            and is_plain(mode)):
        key = (x.shape, w.shape, x.dtype.char, stride, padding, dilation, groups,
               form, layout, algorithm, tolerance, threads, max_workspace, precision, mode)
        try:
            found = conv2d_plans.get(key)
        except TypeError:  # an unhashable activation: checked below
            found = key = None
        if found is not None:
            if prelu:
                # Slopes have the type that the plan computes in: the environment may have changed.
                return found[0], Activation(
                    activation_of(activation, w.shape[0]),
                    (<Prepared> found[0]).bias_type), found[2]
            return <tuple> found
    cdef str dtype = float_name(x, "input")
    cdef tuple batched = batched_shape(x, "input", dimensions(checks.check_layout(layout)))
    problem = checks.make_problem(
        batched, w.shape, dtype, stride=stride, padding=padding, dilation=dilation,
        groups=groups, layout=layout, permitted=checks.check_precision(precision, dtype))
    if len(batched) == 5 and len(x.shape) == 4:
        input_shapes.check_is_blocked("input", x.shape, problem.ic)
    described = activation_of(activation, w.shape[0])
    settings = checked({
        "algorithm": algorithm, "tolerance": tolerance, "threads": threads,
        "max_workspace": max_workspace,
    })
    settings["epilogue"] = described.epilogue
    extension = extension_of(problem, check_padding_mode(mode))
    extended_by = None
    if extension is not None:
        problem = extension.problem
        extended_by = extension, extension.plan(settings)
    prepared = prepare(problem, settings)
    made = prepared, Activation(described, prepared.bias_type), extended_by
    if key is not None:
        with conv2d_lock:
            keep_plan(conv2d_plans, key, (prepared, None, extended_by) if prelu else made,
                      PLANS)
    return made


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, *,
           activation=None, residual=None, layout="NCHW", algorithm="auto", tolerance=None,
           precision=None, threads=None, max_workspace=None, padding_mode="zeros", out=None):
    """Convolve a batch of images: 2-D cross-correlation, as `torch.nn.functional.conv2d`.

    It packs the weights at each call and keeps only plans; a program that uses the same weights
    again should make a `Conv2d`.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        float16, bfloat16 (of the package ml_dtypes), float32 or float64; (N, H, W, C) or
        (H, W, C) for ``layout="NHWC"``; (N, ceil(C / block), H, W, block) or the same without N
        for ``layout="NCHWc"``. Anything that `numpy.asarray` or DLPack on the CPU takes.
    weight : array_like, shape (oc, C / groups, kh, kw)
        Same dtype as `input`.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride, dilation : int or (int, int), optional
        Vertical and horizontal; an array of two integers will do.
    padding : int, (int, int), ((int, int), (int, int)) or str, optional
        Zeros around the input: one number, (vertical, horizontal), or ((top, bottom),
        (left, right)); or ``"valid"`` (none), ``"same"`` (PyTorch's rule: output as large as
        the input, stride 1 only), ``"same_upper"``, ``"same_lower"`` (ONNX's ``auto_pad``,
        any stride).
    groups : int, optional
        Groups of channels that do not see one another.
    activation : optional
        Applied last; NaN passes through, infinities give the limits.
        {activations}
    residual : array_like, optional
        Of the output's shape and dtype; added before the activation.
    layout : {"NCHW", "NHWC", "NCHWc"}, optional
        Of input, residual and output. Weights are OIHW in each. NCHWc, channels in blocks, is
        the layout that `to_blocked` makes; see the notes.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col"}, optional
        ``"auto"`` lets the planner choose; another one that cannot serve is an error, which
        says why.
    tolerance : float, optional
        Largest error that the planner may spend on speed, relative to the output's largest
        magnitude, against float64. It says which variants of Winograd may be used: 0 means
        none. All others are direct sums, which any tolerance allows. `Plan.error_bound` is the
        bound of the chosen plan. None: what `pplconv.runtime.tolerance` says around the call, else
        ``PPLCONV_TOLERANCE``, else 1e-5. See the notes.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation. ``"fp32"``: products and sums in float32, even for float16
        and bfloat16 arrays, whose results are rounded once. ``"fp16"`` permits half precision,
        ``"bf16"`` products of bfloat16 that are added up in float32, and ``"low"`` both, also for
        float32 arrays, where the CPU has instructions for them: the planner weighs them against
        float32, whose Winograd may be faster. ``"low_bf16"``: products of bfloat16 wherever the
        CPU has instructions for them, faster or not, but for depthwise convolution. None or
        ``"auto"``: as the arrays are.
    threads : int, optional
        Size of the team. None: what `pplconv.runtime.team` says around the call, else
        ``PPLCONV_NUM_THREADS``, else ``OMP_NUM_THREADS``, else the
        affinity mask and the container's CPU quota. The result's bits do not depend on it.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use, the whole team's together; algorithm,
        blocks and team are chosen to keep to it. Packed weights do not count. What a plan uses
        is `Plan.scratch_bytes`.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, optional
        Values of the padding, as in ``torch.nn.Conv2d``. ``"reflect"``: the mirror image without
        the edge; the image must be larger than the padding. ``"replicate"``: the edge.
        ``"circular"``: the opposite side; the image must be at least as large as the padding.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, oh, ow) or (oc, oh, ow); (N, oh, ow, oc) for ``layout="NHWC"``;
        (N, ceil(oc / block), oh, ow, block) for ``layout="NCHWc"``; of the input's dtype.
        oh = (H + top + bottom - dilation (kh - 1) - 1) // stride + 1, and ow alike. If
        `input` is of another library that knows the array API, or a tensor of PyTorch, so is the
        result, on memory of its own and without gradients; `out` stays what it is.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    See Also
    --------
    Conv2d : the same with the weights packed once.
    to_blocked, from_blocked : arrays in layout NCHWc from and to NCHW.

    Notes
    -----
    Plans follow the results of searches (`pplconv.wisdom`), else an estimate; `Conv2d` and
    ``python -m pplconv search`` can measure instead. Weights that are zero are multiplied like all
    others: finding them would take as long as using them. `Conv2d` may leave them out.

    Convolutions of 2x2 and more taps at stride 1 may go through Winograd's algorithm. Its error is
    relative to the largest output, not to each output. This shows in images: sums of integers are
    not quite integers, and ``y.astype(int)`` makes 2 of 2.9999998 (use `numpy.rint` before); zeros
    near a bright pixel become some 1e-7 of it, and may be negative. ``tolerance=0`` gives direct
    sums, in which zeros stay zero and integers are exact up to 2**24 in float32;
    ``with pplconv.runtime.tolerance(0):`` and ``PPLCONV_TOLERANCE=0`` give them to whole programs.

    In layout NCHWc the last dimension of the input is the block, 1 to 64 channels, and the
    output has the same. The weights determine C; where the block does not divide it, the last
    block ends in spare lanes without a channel. Spare lanes of the input are multiplied by zero
    weights: they may hold any finite numbers, but infinities and NaN spoil every output that they
    reach. Spare lanes of the residual have no effect, and those of the output are zero. An image
    without N whose height equals its number of channels could be an NCHW array, so it is refused;
    pass it as (1, ceil(C / block), H, W, block).

    NaN and infinities reach the outputs whose windows see them, and no others, with every
    algorithm. Padding is left out of the sums: it makes no NaN of an infinite weight.

    All arrays have one dtype, bias, residual and `out` too; none is ever cast, as in PyTorch and
    ONNX. Only Python numbers, in lists or tuples, have no dtype: they take that of input and
    weight, or float64 if both are Python numbers. A tensor that
    records gradients is taken without them; a masked array is refused, as its mask would be
    lost. float16 arrays give a float16 result. On a CPU
    without arithmetic of half precision they are computed in float32, bias, residual and
    activation included, and each element is rounded once, to the nearest: its error is half a
    unit in its last place beside that of float32. Results beyond 65504 then become infinite.
    `tolerance` is the error that may be spent besides that rounding. ``"auto"`` never chooses
    Winograd for float16 or bfloat16. Arithmetic in half precision first rounds
    input and weights of float32 to it. Bias, residual and activation are then separate steps in
    half precision, and numbers beyond 65504 are infinite, even in spare lanes.

    bfloat16 arrays give a bfloat16 array of the type that ml_dtypes has, tensors too. Sums, bias,
    residual and activation are in float32 with every kind of product, and each result is rounded
    once, to the nearest: its error is half a unit in its last place, 2**-8 of it, beside that of
    float32. Products of bfloat16 first round input and weights of float32 to it, which adds up to
    2 * 2**-8 of the largest output. Instructions for these products take subnormal numbers as
    zeros and add in orders of their own, so their last bits differ from float32 and from one
    another: `Plan.bits` names the instructions, and docs/accuracy.md describes them.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 3, 32, 32), np.float32)
    >>> w = np.ones((8, 3, 3, 3), np.float32)
    >>> pplconv.conv2d(x, w, padding="same", activation="relu").shape
    (1, 8, 32, 32)
    >>> pplconv.conv2d(x, w).shape  # without padding
    (1, 8, 30, 30)
    >>> pplconv.conv2d(x, w, stride=2, padding=1).shape
    (1, 8, 16, 16)
    """
    cdef Prepared prepared
    cdef Activation activated
    cdef Buffer packed
    cdef Operands o
    cdef Schedule schedule
    cdef int team
    cdef bint batched
    cdef object x, w, b, r, plain_x, plain_w, plain_b = None, y
    cdef object extended_by, seen, described = None, strips = None
    if is_numbers(input):
        w = as_array(weight, "weight")
        x = as_array(input, "input", w.dtype)
    else:
        x = as_array(input, "input")
        w = as_array(weight, "weight", x.dtype)
    b, r = like(bias, "bias", x), like(residual, "residual", x)
    float_name(x, "input")
    refuse_another_type(w, x)
    prepared, activated, extended_by = conv2d_prepared(
        x, w, stride, padding, dilation, groups, activation, layout, algorithm, tolerance, threads,
        max_workspace, precision, padding_mode)
    if extended_by is not None and (<tuple> extended_by)[0].whole is None:
        described = activation_of(activation, prepared.problem.oc)
    # Reading the arguments may have run code that changed arrays.
    if x is not input or w is not weight or b is not bias or r is not residual:
        x, w, b, r = renewed(input, x), renewed(weight, w), renewed(bias, b), renewed(residual, r)
    batched = x.ndim == prepared.ndim
    if b is not None:
        b = plain_bias(b, prepared.channels, prepared.dtype)
    schedule = prepared.schedule
    hold_nothing(&o)
    try:
        plain_x = hold_plain(x, prepared.dtype, &o.x)
        plain_w = hold_plain(w, prepared.dtype, &o.weight)
        if o.weight.buffer.len != prepared.filter_bytes:
            refuse_change("weight")
        if not has_dims(&o.x, prepared.input_dims, prepared.ndim) and extended_by is None:
            refuse_change("input")
        if b is not None:
            wanted = DTYPES[prepared.bias_type]
            plain_b = hold_plain(computed_bias(b, wanted), wanted, &o.bias)
        seen = plain_x
        if extended_by is not None:
            if (<tuple> extended_by)[0].whole is not None:
                seen = extended((<tuple> extended_by)[0], plain_x, &o.x)
            else:
                strips = Strips(*extended_by, plain_w, b, described)
        packed = borrow(schedule.packed_bytes())
        try:
            team = take_team(prepared.threads, prepared.most)
            try:
                schedule.pack_weights(<const char *> o.weight.buffer.buf, packed.data, team)
            finally:
                leave_team(team)
            y = run(prepared, &o, x, seen, packed.data,
                    <const char *> o.weight.buffer.buf, w, b, r, activated, out, batched)
        finally:
            give_back(packed)
        if strips is not None:
            compute_strips(strips, prepared, plain_x, r, y)
        elif prepared.multiplies_padding and not stay_finite(
                prepared, <const char *> o.weight.buffer.buf, o.weight.buffer.len,
                prepared.dtype.itemsize):
            compute_border(prepared, plain_x, plain_w, plain_b, activated, r, y)
        return as_given(input, y, out)
    finally:
        release_all(&o)


conv2d.__doc__ = conv2d.__doc__.replace("{activations}", documentation(8 * " "))
hint_calls(conv2d)
