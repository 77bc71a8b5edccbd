# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=True
"""`conv_transpose2d`, with its cache of plans, and code shared with calls of `ConvTranspose2d`.

A call makes a `TransposedProblem` of its arguments. `transposing.decompose` divides this into
ordinary convolutions, which are cached, and `transposed.Transposed` packs the weights and runs the
convolutions as one program of a team.
"""

from libc.stdint cimport int64_t

from pplconv.api.function_operands cimport asked, is_numbers, like, refuse_another_type
from pplconv.api.keyword_hints cimport hint_calls
from pplconv.ops.border cimport are_finite
from pplconv.ops.keys cimport PLANS, is_plain, is_plain_activation, keep_plan
from pplconv.ops.prepared cimport Operands, hold_nothing, hold_results, release_all
from pplconv.ops.ready cimport plain_bias, scope_around
from pplconv.memory.arrays cimport (
    as_array,
    as_given,
    batched_shape,
    dtype_name,
    hold_plain,
    refuse_change,
)

from pplconv.arguments import checks, input_shapes
from pplconv.arguments.activation import activation_of
from pplconv.arguments.settings import checked
from pplconv.ops.transposed.transposed import Transposed
from pplconv.ops.transposed.transposed_problem import make_transposed
from pplconv.ops.transposed.transposing import decompose
from pplconv.memory.array_like import renewed
from pplconv.memory.dtypes import DTYPES
from pplconv.problem import dimensions
from pplconv.runtime import ForkableLock

cdef dict transposed_plans = {}
cdef object plans_lock = ForkableLock()


cdef object computed(object transposed, Operands *o, object input, object x, object weight,
                     object bias, object residual, object out, bint batched):
    """Check residual and `out`, then compute. `o.x` holds `x` already.

    `weight` and `bias` are the caller's arrays, for the check of overlaps, or None; `residual` is
    as in `hold_results`.
    """
    cdef int64_t[5] dims
    cdef object dtype = DTYPES[transposed.problem.dtype]
    cdef object plain = None
    cdef tuple shape = transposed.problem.output_shape
    cdef int i, ndim = <int> len(shape)
    for i in range(ndim):
        dims[i] = shape[i]
    out = hold_results(o, residual, out, shape if batched else shape[1:], dims, ndim, dtype, input,
                       &o.x if x is input else NULL, "input", weight, NULL, "weight", bias)
    if residual is not None:
        plain = plain_array(residual, dtype)
    transposed.run(x, out, plain)
    return out


cdef object plain_array(object array, object dtype):
    """An array that is contiguous, native and aligned."""
    cdef Operands o
    hold_nothing(&o)
    try:
        return hold_plain(array, dtype, &o.x)
    finally:
        release_all(&o)


cdef bint all_finite(object array, object dtype) except -1:
    """Whether no number of a contiguous array is infinite or NaN."""
    cdef Operands o
    hold_nothing(&o)
    try:
        hold_plain(array, dtype, &o.x)
        return are_finite(<const char *> o.x.buffer.buf, o.x.buffer.len, dtype.itemsize)
    finally:
        release_all(&o)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                     dilation=1, *, output_size=None, activation=None, residual=None,
                     layout="NCHW", algorithm="auto", tolerance=None, precision=None, threads=None,
                     max_workspace=None, out=None):
    """Convolve transposed, as `torch.nn.functional.conv_transpose2d` and ONNX's ``ConvTranspose``.

    Each input pixel adds the kernel, times its value, to the output: the gradient of `conv2d`, used
    to make images larger. It packs the weights at each call and keeps only plans; a program that
    uses the same weights again should make a `ConvTranspose2d`.

    Parameters
    ----------
    input : array_like, shape (N, C, H, W) or (C, H, W)
        float16, float32 or float64; (N, H, W, C) or (H, W, C) for ``layout="NHWC"``;
        (N, ceil(C / block), H, W, block) or the same without N for ``layout="NCHWc"``. Anything
        that `numpy.asarray` or DLPack on the CPU takes.
    weight : array_like, shape (C, oc / groups, kh, kw)
        Same dtype as `input`.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride : int or (int, int), optional
        Output pixels from one input pixel to the next, vertical and horizontal.
    padding : int, (int, int), ((int, int), (int, int)) or str, optional
        Output pixels that are cut off: one number, (vertical, horizontal), or ((top, bottom),
        (left, right)); or ``"valid"`` (none), ``"same_upper"``, ``"same_lower"`` (ONNX's
        ``auto_pad``: the output is as large as the input times the stride).
    output_padding : int or (int, int), optional
        Output pixels that are added at the bottom and the right; some of them see no input. Less
        than the stride or the dilation.
    groups : int, optional
        Groups of channels that do not see one another.
    dilation : int or (int, int), optional
        Output pixels from one tap of the kernel to the next.
    output_size : int or (int, int), optional
        Height and width of the output, in place of `output_padding`: one of the sizes from which
        `conv2d` makes images as large as the input.
    activation : optional
        Applied last, as in `conv2d`.
    residual : array_like, optional
        Of the output's shape and dtype; added before the activation.
    layout : {"NCHW", "NHWC", "NCHWc"}, optional
        Of input, residual and output, as in `conv2d`; weights are (C, oc / groups, kh, kw) in each.
    algorithm : {"auto", "depthwise", "pointwise", "winograd", "direct", "im2col"}, optional
        For the ordinary convolutions that it is divided into; see the notes. ``"auto"`` lets the
        planner choose; another one that cannot serve all of them is an error, which says why.
    tolerance : float, optional
        Largest error that the planner may spend on speed, as in `conv2d`.
    precision : {None, "auto", "fp32", "fp16", "bf16", "low", "low_bf16"}, optional
        Precision of the computation, as in `conv2d`.
    threads : int, optional
        Size of the team, as in `conv2d`. The result's bits do not depend on it.
    max_workspace : int, optional
        Bytes of scratch memory that a call may use: the whole team's together, and copies of
        outputs and residuals.
    out : ndarray, optional
        Written and returned; C-contiguous, native, and apart from every operand.

    Returns
    -------
    ndarray
        Shape (N, oc, oh, ow) or (oc, oh, ow), with oh = (H - 1) * stride + dilation * (kh - 1) + 1
        + output_padding - top - bottom, and ow likewise; (N, oh, ow, oc) for ``layout="NHWC"``;
        (N, ceil(oc / block), oh, ow, block) for ``layout="NCHWc"``; of the input's dtype
        and library, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.
    MemoryError
        If memory for the output, the packed weights or the scratch cannot be had.

    See Also
    --------
    ConvTranspose2d : the same with the weights packed once.
    conv2d : the ordinary convolution; dtypes, layouts and precision are explained there.

    Notes
    -----
    The order of the positional arguments is PyTorch's, where groups come before the dilation.

    Outputs at the same place in the stride sum over the same taps, so they are an ordinary
    convolution by these taps. Each is planned as such; where it is cheaper, several are computed as
    one convolution with more channels. In layout NHWC and NCHWc results are written straight to
    their places in the output; in NCHW, with a stride above 1, one more pass over memory puts them
    there.

    NaN and infinities reach the outputs that their taps lead to, and no others. Outputs that see no
    input are the bias (with residual and activation).

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.ones((1, 16, 8, 8), np.float32)
    >>> w = np.ones((16, 4, 2, 2), np.float32)
    >>> pplconv.conv_transpose2d(x, w, stride=2).shape
    (1, 4, 16, 16)
    """
    cdef Operands o
    cdef object x, w, b, r, plain_x, plain_w, decomposed, key = None, y
    cdef bint finite
    if is_numbers(input):
        w = as_array(weight, "weight")
        x = as_array(input, "input", w.dtype)
    else:
        x = as_array(input, "input")
        w = as_array(weight, "weight", x.dtype)
    b, r = like(bias, "bias", x), like(residual, "residual", x)
    cdef tuple x_shape = x.shape, w_shape = w.shape
    cdef str dtype = dtype_name(x, "input")
    refuse_another_type(w, x)
    plain_w = plain_array(w, DTYPES[dtype])
    finite = all_finite(plain_w, DTYPES[dtype])
    scope = scope_around(True, True)
    if scope is not None:
        threads, tolerance = asked(<tuple> scope, threads, tolerance)
    plain = (stride, padding, output_padding, groups, dilation, output_size, layout, algorithm,
             threads, max_workspace, precision)
    described = None
    if (is_plain(plain) and is_plain_activation(activation)
            and (type(tolerance) is float or is_plain(tolerance))):
        key = (x_shape, w_shape, x.dtype.char, activation, tolerance, finite, *plain)
    decomposed, described = (None, None) if key is None else transposed_plans.get(
        key, (None, None))
    if decomposed is None:
        permitted = checks.check_precision(precision, dtype)
        batched = batched_shape(x, "input", dimensions(checks.check_layout(layout)))
        problem = make_transposed(
            batched, w.shape, dtype, stride=stride, padding=padding,
            output_padding=output_padding, output_size=output_size, dilation=dilation,
            groups=groups, layout=layout, permitted=permitted)
        if len(batched) == 5 and len(x.shape) == 4:
            input_shapes.check_is_blocked("input", x.shape, problem.ic)
        described = activation_of(activation, problem.oc)
        settings = checked({
            "algorithm": algorithm, "tolerance": tolerance, "threads": threads,
            "max_workspace": max_workspace,
        })
        decomposed = decompose(
            problem, {**settings, "epilogue": described.epilogue}, finite=finite)
        if key is not None:
            with plans_lock:
                keep_plan(transposed_plans, key, (decomposed, described), PLANS)
    # Reading the arguments may have run code that changed arrays.
    x, b, r = renewed(input, x), renewed(bias, b), renewed(residual, r)
    if plain_w is w:
        w = renewed(weight, w)
        plain_w = plain_array(w, DTYPES[dtype])
    if plain_w.shape != w_shape:
        refuse_change("weight")
    if b is not None:
        b = plain_bias(b, decomposed.asked.oc, DTYPES[dtype])
    hold_nothing(&o)
    try:
        plain_x = hold_plain(x, DTYPES[dtype], &o.x)
        if plain_x.shape != x_shape:
            refuse_change("input")
        transposed = Transposed(
            decomposed, plain_w, None if b is None else plain_array(b, DTYPES[dtype]), described,
            {})
        y = computed(transposed, &o, x, plain_x, w, b, r, out,
                     x.ndim == len(decomposed.asked.input_shape))
        return as_given(input, y, out)
    finally:
        release_all(&o)


hint_calls(conv_transpose2d)
