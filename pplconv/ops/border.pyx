# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Outputs at the border of an image, for weights that are infinite or NaN.

``im2col`` and ``sparse`` multiply padding as if it were pixels, and 0 * inf is NaN; all other
algorithms leave taps on padding out. So these outputs are computed again: those whose windows have
the same taps inside the image are, together, a convolution by these taps without padding.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from pplconv.ops.prepared cimport (
    Activation,
    Operands,
    PackedWeights,
    Prepared,
    hold_nothing,
    prepare,
    release_all,
    run,
)
from pplconv.memory.arrays cimport hold
from cpython.buffer cimport PyBUF_ND

cdef extern from "pplconv_words.h" nogil:
    uint64_t pplconv_word_at(const void *src)

from dataclasses import replace

import numpy as np

from pplconv.ops.taps import parts_of_border
from pplconv.sparsity import SCALE


cdef bint _are_finite(const char *numbers, int64_t size, uint64_t exponents,
                      uint64_t units) noexcept nogil:
    """Whether no number of `size` bytes has all bits of its exponent set.

    Numbers are taken eight bytes at a time: one unit more carries such an exponent into the sign.
    """
    cdef uint64_t odd = 0, word = 0
    cdef int64_t i, whole = size - size % 8
    for i in range(0, whole, 8):
        odd |= (pplconv_word_at(numbers + i) & exponents) + units
    memcpy(&word, numbers + whole, size - whole)
    odd |= (word & exponents) + units
    return odd & (exponents + units) == 0


cdef bint _are_below(const uint32_t *numbers, int64_t count, uint32_t bound) noexcept nogil:
    """Whether all magnitudes of float32 numbers are below a bound, given by its bits."""
    cdef int64_t i
    cdef bint below = True
    for i in range(count):
        below &= (numbers[i] & <uint32_t> 0x7FFFFFFF) < bound
    return below


cdef bint are_finite(const char *numbers, int64_t size, int64_t element) noexcept:
    """Whether none of the numbers in `size` bytes is infinite or NaN.

    Of bfloat16, whose exponent is longer, it also takes huge numbers to be infinite: then the
    border is looked at in vain.
    """
    with nogil:
        if element == 2:
            return _are_finite(numbers, size, 0x7C007C007C007C00, 0x0400040004000400)
        if element == 4:
            return _are_finite(numbers, size, 0x7F8000007F800000, 0x0080000000800000)
        return _are_finite(numbers, size, 0x7FF0000000000000, 0x0010000000000000)


cdef bint stay_finite(Prepared prepared, const char *numbers, int64_t size,
                      int64_t element) noexcept:
    """Whether none of the weights in `size` bytes is infinite or NaN as kernels read it.

    Where they are rounded to a narrower type, huge ones may become so.
    """
    if not prepared.narrows_weights:
        return are_finite(numbers, size, element)
    # Half of the largest float32, and 2 ** 15: rounding below these cannot overflow the type.
    with nogil:
        if prepared.half_weights:
            return _are_below(<const uint32_t *> numbers, size // 4, <uint32_t> 0x47000000)
        return _are_below(<const uint32_t *> numbers, size // 4, <uint32_t> 0x7F000000)


cdef int compute_border(Prepared prepared, object x, object weight, object bias,
                        Activation activation, object residual, object out) except -1:
    """Compute the border again, of output channels whose weights are not all finite.

    Parameters
    ----------
    prepared : Prepared
        The plan that `out` was computed by.
    x, weight : ndarray
        As the kernels read them.
    bias : ndarray or None
        In the type that the plan computes in.
    activation : Activation
    residual : array_like or None
    out : ndarray
        Written at the border alone.
    """
    problem = prepared.problem
    y = np.asarray(out).reshape(problem.output_shape)
    x = np.asarray(x).reshape(problem.input_shape)
    if residual is not None:
        residual = residual.reshape(problem.output_shape)
    odd = ~np.isfinite(weight).all(axis=(1, 2, 3))
    if prepared.narrows_weights:
        largest = 2.0**15 if prepared.half_weights else 2.0**127
        odd |= (abs(weight) >= largest).any(axis=(1, 2, 3))
    if problem.block:
        odd = np.pad(odd, (0, -len(odd) % problem.block)).reshape(-1, 1, 1, problem.block)
    elif problem.layout == "NCHW":
        odd = odd.reshape(-1, 1, 1)
    for part in parts_of_border(problem):
        whole = (slice(None),) if problem.layout == "NHWC" else (slice(None), slice(None))
        inputs, outputs = whole + part.inputs, whole + part.outputs
        taps = weight[(slice(None), slice(None), *part.taps)]
        seen = x[inputs]
        if part.is_empty:  # nothing but bias and residual
            seen = np.zeros(part.problem.input_shape, x.dtype)
            taps = np.zeros(part.problem.weight_shape, weight.dtype)
        left = None if residual is None else np.ascontiguousarray(residual[outputs])
        own = replace(part.problem, permitted=(prepared.plan.numerics.product,))
        if prepared.plan.leaves_zeros_out:  # leave them out here, too
            own = replace(own, sparsity=own.sparsity._replace(density=SCALE))
        seen, taps = np.ascontiguousarray(seen), np.ascontiguousarray(taps)
        # With the same algorithm, so that sums have the same order.
        again = _computed(own, prepared.plan.algorithm, prepared.threads, seen, taps, bias,
                          activation, left)
        np.copyto(y[outputs], again, where=odd)
    return 0


cdef object _computed(object problem, str algorithm, int threads, object x, object weight,
                      object bias, Activation activation, object residual):
    cdef Prepared part = prepare(problem, {"algorithm": algorithm, "threads": threads})
    cdef PackedWeights packed = PackedWeights(part, weight)
    cdef Operands o
    hold_nothing(&o)
    try:
        hold(x, &o.x, PyBUF_ND)
        if bias is not None:
            hold(bias, &o.bias, PyBUF_ND)
        return run(part, &o, x, x, packed.data, packed.filters, None, None, residual, activation,
                   None, True)
    finally:
        release_all(&o)
