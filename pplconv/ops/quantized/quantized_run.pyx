# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""`QuantizedKernel`: a convolution of integers with its weights packed once.

What users call (`QConv2d`, `qconv2d` and so on) speaks of scales; this speaks of integer offsets
and multipliers, which are all that the loops know.
"""

cimport cython
from libc.stdint cimport int64_t

from pplconv.ops.keys cimport PLANS, keep_plan
from pplconv.ops.prepared cimport (
    Operands,
    PackedWeights,
    Prepared,
    hold_nothing,
    hold_results,
    prepare,
    release_all,
)
from pplconv.ops.ready cimport scope_around
from pplconv.ops.quantized.rescaling cimport Rescaling
from pplconv.memory.arrays cimport (
    as_array,
    batched_shape,
    has_dims,
    hold_plain,
    refuse_change,
)
from pplconv.schedules.base cimport Tensors
from pplconv.schedules.execute cimport execute

from dataclasses import replace

import numpy as np

from pplconv.arguments import checks, input_shapes
from pplconv.arguments.argument_names import named
from pplconv.ops.quantized.pairs import product_permission
from pplconv.arguments.settings import checked
from pplconv.ops.sparse.sparse_weights import SparseWeights
from pplconv.memory.array_like import renewed
from pplconv.memory.dtypes import DTYPES
from pplconv.planner import as_run_here
from pplconv.runtime import ForkableLock

cdef enum:
    PLANS_KEPT = 16


# Plans of functions, which make a kernel in each call.
cdef dict function_plans = {}
cdef object function_lock = ForkableLock()


cdef Prepared kept_or_prepared(object problem, dict settings, object scope):
    """Find or make the plan of a function's call."""
    cdef object key = (problem, scope, tuple(settings.values()))
    cdef Prepared found = function_plans.get(key)
    if found is None:
        found = prepare(problem, settings)
        with function_lock:
            keep_plan(function_plans, key, found, PLANS)
    return found


cdef class Scaled:
    """A plan, packed weights, and the numbers that finish its sums."""

    cdef Prepared prepared
    cdef PackedWeights packed
    cdef Rescaling rescaling
    cdef tuple shape
    cdef object scope  # for which it was made; None if no scope had settings

    def __cinit__(self, Prepared prepared not None, PackedWeights packed not None,
                  Rescaling rescaling not None, tuple shape, scope):
        self.prepared, self.packed, self.rescaling = prepared, packed, rescaling
        self.shape, self.scope = shape, scope


cdef class QuantizedKernel:
    """y = saturate(round(clamp((sum((x - x_zero) * weight) + offset) * multiplier)) + y_zero).

    The sum is exact; each step behind it is one float32 operation. Padding counts as `x_zero`. Safe
    to call from many threads at once.

    Parameters
    ----------
    weight : ndarray of int8 or int16, shape (oc, ic / groups, kh, kw)
        Weights, their zero points already taken away.
    x_dtype : {"u8", "s8"}
        Type of inputs.
    x_zero : int
        Zero point of inputs.
    offset : ndarray of int32, shape (oc,)
        Added to the sums.
    out_dtype : {"u8", "s8", "s32", "f32"}
        Type of outputs; ``"s32"`` are the sums with their offsets, ``"f32"`` is neither rounded to
        integers nor given a zero point.
    multiplier : ndarray of float32, shape (oc,), optional
        What sums are multiplied by; of ``"s32"`` none.
    y_zero : int
        Zero point of outputs.
    low, high : float
        Bounds of what is rounded, before `y_zero` is added.
    residual_scale : float, optional
        What a residual, of the type of outputs, is multiplied by before it is added, after
        `residual_zero` has been taken away from it; None: there is no residual.
    residual_zero : int
        Zero point of residuals.
    stride, padding, dilation, groups, layout, algorithm, threads, max_workspace, search, \
search_seconds, search_context
        As of `Conv2d`; layouts are NCHW and NHWC.
    sparse, block
        As `checked_sparse` gives them, for the weights without their zero points.
    once : bool, optional
        Whether a function makes the kernel for one call; its plans are kept for later ones.

    Raises
    ------
    TypeError, ValueError
        If an argument of the geometry or a setting is not as described.
    """

    cdef readonly object weight, offset, multiplier
    cdef readonly str x_dtype, out_dtype, layout
    cdef readonly int64_t groups
    cdef readonly int x_zero
    cdef dict described
    cdef object lock, sums
    cdef dict settings, plans, weights, packings
    cdef tuple numbers  # of the output and the residual, as `Rescaling` takes them
    cdef bint takes_residual, free_team, once
    cdef object dtype, out_type
    cdef Scaled last

    def __init__(self, weight, str x_dtype, int x_zero, offset, str out_dtype, multiplier=None,
                 int y_zero=0, float low=-np.inf, float high=np.inf, residual_scale=None,
                 int residual_zero=0, stride=1, padding=0, dilation=1, groups=1, layout="NCHW",
                 algorithm="auto", threads=None, max_workspace=None, search="estimate",
                 search_seconds=0.5, search_context="hot", sparse=False, block=None, once=False):
        self.once = once
        self.groups = checks.integer("groups", groups, 1)
        checks.check_weight_shape(weight.shape, self.groups)
        self.layout = checks.check_layout(layout)
        if self.layout == "NCHWc":
            raise ValueError('layout must be "NCHW" or "NHWC" for quantized arrays, got "NCHWc"')
        self.weight = np.ascontiguousarray(weight)
        self.x_dtype, self.out_dtype, self.x_zero = x_dtype, out_dtype, x_zero
        self.dtype, self.out_type = DTYPES[x_dtype], DTYPES[out_dtype]
        self.offset = np.array(offset, np.int32, order="C")
        if multiplier is None:
            multiplier = np.ones(len(self.weight))
        self.multiplier = np.array(multiplier, np.float32, order="C")
        scale = 0.0 if residual_scale is None else residual_scale
        self.numbers = y_zero, low, high, scale, residual_zero
        self.takes_residual = residual_scale is not None or out_dtype == "f32"
        zeros = SparseWeights(self.weight, self.groups, sparse, block)
        self.settings = checked({
            "algorithm": algorithm, "tolerance": 0.0, "search": search,
            "search_seconds": search_seconds, "max_workspace": max_workspace, "threads": threads,
            "search_context": search_context,
        })
        self.free_team = self.settings["threads"] is None
        width = "s8" if self.weight.dtype == np.int8 else "s16"
        permitted = product_permission(x_dtype, self.weight, self.groups)
        self.described = {
            "weight_shape": self.weight.shape, "dtype": x_dtype, "stride": stride,
            "padding": padding, "dilation": dilation, "groups": groups, "layout": layout,
            "permitted": permitted, "sparsity": zeros.sparsity,
        }
        self.plans, self.packings = {}, {}
        self.weights = {width: self.weight}
        self.lock = ForkableLock()

    # Without the GIL, a reference read while another thread replaces it may be dangling.
    cdef Scaled latest(self, tuple shape, object scope):
        """The latest call's plan; None if it was for another shape or scope."""
        cdef Scaled found
        with cython.critical_section(self):
            found = self.last
        if found is None or found.shape != shape or found.scope != scope:
            return None
        return found

    cdef void keep_latest(self, Scaled found) noexcept:
        with cython.critical_section(self):
            self.last = found

    cdef Scaled made(self, tuple shape, object scope):
        """The plan for an input shape, with the data of its runs."""
        cdef Scaled found
        cdef Prepared prepared
        cdef tuple key = shape if scope is None else (scope, shape)
        with self.lock:
            found = self.plans.get(key)
            if found is not None:
                self.keep_latest(found)
                return found
            problem = replace(checks.make_problem(shape, **self.described),
                              destination=self.out_dtype)
            if self.once:
                prepared = kept_or_prepared(problem, self.settings, scope)
            else:
                prepared = prepare(problem, self.settings)
            numerics = prepared.plan.numerics
            if prepared.packing not in self.packings:
                self.packings[prepared.packing] = PackedWeights(
                    prepared, self.typed_weight(numerics.weights))
            found = Scaled(prepared, self.packings[prepared.packing], self.rescaling_for(prepared),
                           shape, scope)
            while len(self.plans) >= PLANS_KEPT:
                self.plans.pop(next(iter(self.plans)))
            self.plans[key] = found
            self.keep_latest(found)
        return found

    cdef object typed_weight(self, str kind):
        """The weights in a type that kernels pack."""
        if kind not in self.weights:
            self.weights[kind] = self.weight.astype(DTYPES[kind])
        return self.weights[kind]

    cdef Rescaling rescaling_for(self, Prepared prepared):
        """The numbers that finish the sums of a plan."""
        if self.sums is None:
            self.sums = self.weight.sum(1, dtype=np.int64)
        bare = self.offset - self.x_zero * self.sums.sum((1, 2))
        return Rescaling(prepared, self.weight, bare, self.x_zero, self.multiplier, *self.numbers,
                         sums=self.sums)

    def plan_for(self, input_shape):
        """Show how inputs of one shape are computed.

        Parameters
        ----------
        input_shape : tuple of int
            (N, C, H, W) or (C, H, W); (N, H, W, C) or (H, W, C) for ``layout="NHWC"``.

        Returns
        -------
        Plan
        """
        channels = self.weight.shape[1] * self.groups
        shape = input_shapes.full_shape(input_shape, self.layout, channels)
        with named(input="input_shape"):
            made = self.made(shape, scope_around(self.free_team, False))
        return as_run_here(made.prepared.plan)

    def __call__(self, input, residual=None, out=None):
        """Convolve.

        Parameters
        ----------
        input : array_like
            Of `x_dtype`, (N, C, H, W) or (C, H, W) by layout.
        residual : array_like, optional
            Of the type and shape of the output.
        out : ndarray, optional
            Written and returned; C-contiguous, native, and apart from every operand.

        Returns
        -------
        ndarray
        """
        cdef Operands o
        cdef Tensors t
        cdef Scaled scaled
        cdef Prepared p
        cdef tuple shape
        cdef object x
        cdef object extra = None, given = input
        if residual is not None:
            extra = as_array(residual, "residual", self.out_type)
        input = as_array(input, "input", self.dtype)
        if input.dtype != self.dtype:
            raise TypeError(f"input must be {self.dtype}, got {input.dtype}")
        if residual is not None and not self.takes_residual:
            raise ValueError("residual was given, but no residual_scale says what it counts")
        shape = batched_shape(input, "input", 4)
        scope = scope_around(self.free_team, False)
        scaled = self.latest(shape, scope)
        if scaled is None:
            scaled = self.made(shape, scope)
        p = scaled.prepared
        if input is not given or extra is not residual:
            input, extra = renewed(given, input), renewed(residual, extra)
        hold_nothing(&o)
        try:
            x = hold_plain(input, self.dtype, &o.x)
            if not has_dims(&o.x, p.input_dims, p.ndim):
                refuse_change("input")
            batched = input.ndim == 4
            out = hold_results(
                &o, extra, out, p.output_shape if batched else p.output_shape[1:],
                p.output_dims, p.ndim, p.out_dtype, input, &o.x if x is input else NULL,
                "input", None, NULL, "weight", None)
            if p.input_dims[0] == 0:
                return out
            t.x = <const char *> o.x.buffer.buf
            t.y = <char *> o.y.buffer.buf
            t.weights = scaled.packed.data_for(p)
            t.filters = NULL
            t.bias = scaled.rescaling.whole
            t.residual = <const char *> o.residual.buffer.buf if o.residual.held else NULL
            t.clip = NULL
            t.follow.count = 0
            t.multiplier = scaled.rescaling.multipliers
            t.quantization = &scaled.rescaling.quantization
            t.offsets = scaled.rescaling.offsets
            t.x_zero = &scaled.rescaling.x_zero
            t.window_sums = t.weight_zeros = NULL
            execute(p.schedule, &t, p.threads, p.most, 1, NULL)
            return out
        finally:
            release_all(&o)


class QuantizedMatrix:
    """Products of rows with a matrix that is packed once, finished as `QuantizedKernel` does.

    Parameters
    ----------
    weight : ndarray of int8 or int16, shape (k, n)
        The matrix, its zero points already taken away.
    **numbers
        The other arguments of `QuantizedKernel`, but those of its geometry.
    """

    def __init__(self, weight, **numbers):
        self.columns = weight.shape[1]
        weight = np.ascontiguousarray(weight.T)[:, :, np.newaxis, np.newaxis]
        self.kernel = QuantizedKernel(weight, layout="NHWC", **numbers)

    def __call__(self, input, residual=None, out=None):
        """Multiply.

        Parameters
        ----------
        input : ndarray, shape (m, k)
            Of `x_dtype`.
        residual : ndarray, shape (m, n), optional
            Of the type of the output.
        out : ndarray, shape (m, n), optional
            C-contiguous; written and returned.

        Returns
        -------
        ndarray, shape (m, n)
        """
        rows = len(input)
        if residual is not None:
            residual = residual.reshape(1, 1, rows, self.columns)
        if out is not None:
            out = out.reshape(1, 1, rows, self.columns)
        image = input.reshape(1, 1, rows, -1)
        return self.kernel(image, residual, out).reshape(rows, self.columns)
