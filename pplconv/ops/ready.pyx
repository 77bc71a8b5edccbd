# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Plans of a `Layer` for each input shape, and its weights in each packing."""

cimport cython
from cpython.buffer cimport PyBUF_ND
from cpython.contextvars cimport get_value
from libc.stdint cimport int64_t

from pplconv.ops.border cimport compute_border, stay_finite
from pplconv.ops.keys cimport keep_plan
from pplconv.ops.prepared cimport Activation, Operands, PackedWeights, Prepared, prepare, run
from pplconv.memory.arrays cimport View, as_array, check_operand, hold, hold_plain, release

from pickle import PickleBuffer

import numpy as np

from pplconv import planner
from pplconv.ops.extension import Strips, extension_of
from pplconv.memory.dtypes import DTYPES
from pplconv.runtime import ForkableLock
from pplconv.runtime.scope import SCOPE

# Limit of a cache.
cdef enum:
    PLANS_PER_LAYER = 16


cdef object plain_bias(object bias, int64_t oc, object dtype):
    """The bias as an array of `oc` elements."""
    bias = as_array(bias, "bias", dtype)
    check_operand(bias, "bias", (oc,), dtype)
    return bias


cdef object read_only(object array):
    """A read-only view of an array that cannot be made writeable again."""
    array.flags.writeable = False
    return array.view()


cdef object computed_bias(object bias, object dtype):
    """The bias in a plan's type; overflow gives infinity."""
    if bias is None or bias.dtype == dtype:
        return bias
    with np.errstate(all="ignore"):
        return bias.astype(dtype, order="C")


cdef object AROUND = SCOPE  # read by each call: no look-up of a global


cdef object scope_around(bint team, bint tolerance):
    """The settings of the enclosing scope: see `pplconv.runtime.scope`.

    The scope's team and tolerance, as far as the arguments ask for them; None if it has neither.
    """
    cdef object scope = get_value(AROUND), threads, error
    if scope is None or team and tolerance:
        return scope
    threads = (<tuple> scope)[0] if team else None
    error = (<tuple> scope)[1] if tolerance else None
    return None if threads is None and error is None else (threads, error)


cdef class Ready:
    """A plan together with weights in its packing, and bias and activation in its types.

    It was made for inputs of `shape`, and for `scope`; None if the code around the call had no say.
    `extension` says how padding is made of pixels, `strips` computes what that leaves; else None.
    """

    def __cinit__(self, tuple shape, Prepared prepared not None, PackedWeights packed not None,
                  object bias, Activation activation not None, object scope, object extension,
                  object strips):
        self.shape = shape
        self.prepared = prepared
        self.packed = packed
        self.bias = bias
        self.activation = activation
        self.scope = scope
        self.extension = extension
        self.strips = strips
        # Strips have no padding, and cover all of the border.
        self.border = strips is None and prepared.multiplies_padding and not stay_finite(
            prepared, packed.filters, packed.weight.nbytes, packed.weight.itemsize)

    cdef object compute(self, Operands *o, object input, object x, object residual, object out,
                        bint batched):
        """Compute, as `prepared.run`; `o.x` is held already."""
        if self.extension is not None and self.strips is None:
            x = extended(self.extension, x, &o.x)
        if self.bias is not None:
            hold(self.bias, &o.bias, PyBUF_ND)
        out = run(self.prepared, o, input, x, self.packed.data_for(self.prepared),
                  self.packed.filters, None, None, residual, self.activation, out, batched)
        if self.border:
            compute_border(self.prepared, x, self.packed.weight, self.bias, self.activation,
                           residual, out)
        if self.strips is not None:
            compute_strips(self.strips, self.prepared, x, residual, out)
        return out


cdef object extended(object extension, object x, View *view):
    """Copy an image with its border, and hold the copy in the place of the image."""
    x = extension.extended(x)
    release(view)
    return hold_plain(x, x.dtype, view)


cdef int compute_strips(object strips, Prepared prepared, object x, object residual,
                        object out) except -1:
    """Compute the outputs at the border again; residual and `out` are checked already."""
    strips.compute(x, residual, out)
    return 0


cdef class ReadyPlans:
    """The plans of one `Layer`, found or made, with what they share.

    Parameters
    ----------
    described : pplconv.arguments.activation.Activation
        The activation, checked.
    problem_of : callable
        Makes the problem for a shape of the input.
    settings : dict
        As `planner.make_plan` takes them.
    """

    def __cinit__(self, described, problem_of, dict settings):
        self.described = described
        self.problem_of = problem_of
        self.settings = settings
        self.free_team = settings["threads"] is None
        self.free_tolerance = settings["tolerance"] is None
        self.lock = ForkableLock()
        self.plans = {}
        self.last = None

    cdef void keep_arrays(self, object weight, object bias) noexcept:
        """Set the arrays to compute with, before the first plan is made; `bias` may be None."""
        self.weight = weight
        self.bias = bias

    # Without the GIL, a reference read while another thread replaces it may be dangling.
    cdef Ready latest(self, object scope):
        """The latest call's `Ready`; None if it was made for another scope."""
        cdef Ready ready
        with cython.critical_section(self):
            ready = self.last
        if ready is None or ready.scope is not scope and ready.scope != scope:
            return None
        return ready

    cdef void keep_latest(self, Ready ready) noexcept:
        with cython.critical_section(self):
            self.last = ready

    cdef object scope(self):
        """The enclosing scope's settings, if the constructor left team or tolerance open."""
        return scope_around(self.free_team, self.free_tolerance)

    cdef Ready of_shape(self, tuple shape, object scope):
        """Find or make the `Ready` for inputs of one shape."""
        cdef Ready ready = self.plans.get(shape if scope is None else (scope, shape))
        if ready is None:
            return self.make(shape)
        self.keep_latest(ready)
        return ready

    cdef Ready make(self, tuple shape):
        """Find or make the plan and the packed weights for one input shape."""
        cdef Ready ready
        cdef object scope = self.scope()
        cdef tuple key = shape if scope is None else (scope, shape)
        with self.lock:
            ready = self.plans.get(key)
            if ready is None:
                problem = self.problem_of(shape)
                extension = self.extension(problem)
                if extension is not None:
                    problem = extension.problem
                ready = self.join(shape, extension, prepare(problem, self.settings), None, scope)
                keep_plan(self.plans, key, ready, PLANS_PER_LAYER)
        self.keep_latest(ready)
        return ready

    cdef Ready of_plan(self, tuple shape, object scope, Prepared prepared):
        """Find the `Ready` for inputs of one shape, or make it of another layer's plan.

        That layer's settings and problem for this shape are the same, and it has the same scope.
        """
        cdef Ready ready
        cdef tuple key = shape if scope is None else (scope, shape)
        with self.lock:
            ready = self.plans.get(key)
            if ready is None:
                ready = self.join(shape, None, prepared, None, scope)
                keep_plan(self.plans, key, ready, PLANS_PER_LAYER)
        self.keep_latest(ready)
        return ready

    cdef object extension(self, object problem):
        """The `Extension` of a padding of pixels; None for zeros, or no padding."""
        return None if self.mode is None else extension_of(problem, self.mode)

    cdef Ready join(self, tuple shape, object extension, Prepared prepared, PackedWeights packed,
                    object scope):
        """Join a plan with packed weights and epilogue; plans share these where possible."""
        cdef Ready other
        cdef object bias = None
        cdef Activation activation = None
        for other in self.plans.values():
            if other.prepared.bias_type == prepared.bias_type:
                bias, activation = other.bias, other.activation
            # A packing is dropped with its last plan.
            if packed is None and other.packed.packing == prepared.packing:
                packed = other.packed
        if activation is None:
            bias = computed_bias(self.bias, DTYPES[prepared.bias_type])
            activation = Activation(self.described, prepared.bias_type)
        if packed is None:
            packed = PackedWeights(prepared, self.weight)
        strips = None
        if extension is not None and extension.whole is None:
            strips = Strips(extension, extension.plan(self.settings), self.weight, self.bias,
                            self.described, packed)
        return Ready(shape, prepared, packed, bias, activation, scope, extension, strips)

    cdef tuple for_other_process(self, object threads):
        """Collect the arguments of `take_over`, for a team of `threads`; buffers go out of band."""
        cdef Ready ready
        cdef Prepared prepared
        cdef dict settings = dict(self.settings)
        cdef dict packed = {}
        cdef list plans = []
        cdef set wanted = set()
        if settings["threads"] is None:
            settings["threads"] = threads
        if settings["tolerance"] is None:
            settings["tolerance"] = planner.default_tolerance()
        with self.lock:
            kept = list(self.plans.values())
        # Plans for a scope stay here; the other process has one team and one tolerance.
        problems = set()
        for ready in kept:
            packed[ready.packed.packing] = ready.packed
            problems.add((ready.shape, ready.prepared.problem))
        for shape, problem in problems:
            prepared = prepare(problem, settings)
            if prepared.packing not in packed:  # another team may need other panels
                packed[prepared.packing] = PackedWeights(prepared, self.weight)
            plans.append((shape, problem, prepared.plan, prepared.fields))
            wanted.add(prepared.packing)
        buffers = {name: PickleBuffer(packed[name]) for name in wanted}
        return plans, buffers, settings["tolerance"]

    cdef int take_over(self, list plans, dict packed, double tolerance) except -1:
        """Take over plans and packed weights from another process of this machine."""
        cdef Prepared prepared
        cdef PackedWeights weights
        cdef dict taken = {}
        most = planner.share(self.settings["threads"])
        # Only the tolerance counts: `for_other_process` was told the team.
        cdef object scope = scope_around(False, self.free_tolerance)
        if self.free_tolerance and planner.default_tolerance() != tolerance:
            return 0
        for shape, problem, plan, fields in plans:
            # Under another cap on the instruction set, a call plans and packs anew.
            if plan.isa != planner.best_isa(plan.numerics):
                continue
            prepared = Prepared(problem, plan, fields, most)
            weights = taken.get(prepared.packing)
            if weights is None:
                weights = PackedWeights(prepared, self.weight, packed[prepared.packing])
                taken[prepared.packing] = weights
            extension = None if self.mode is None else self.extension(self.problem_of(shape))
            self.last = self.join(shape, extension, prepared, weights, scope)
            self.plans[shape if scope is None else (scope, shape)] = self.last
        return 0
