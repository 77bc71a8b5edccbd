# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""`Rescaling`: what becomes of the sums of a convolution of integers, for steps of a program."""

from libc.stdint cimport int64_t

from pplconv.memory.arrays cimport address_of

import numpy as np

# What is added to an input that kernels read as the other type of bytes.
SHIFTS = {("u8", "s8"): -128, ("s8", "u8"): 128}


cdef class Rescaling:
    """Numbers that finish sums of integers, in memory that lives as long as this object.

    Parameters
    ----------
    weight : ndarray of int8 or int16, shape (oc, ic / groups, kh, kw)
        Weights, zero points taken away.
    offset : ndarray of int32, shape (oc,)
        Added to sums of inputs as they are stored, of windows that lie in the image.
    types : (str, str)
        Of the inputs: as they are stored, and as kernels read them.
    x_zero : int
        Zero point of inputs.
    multiplier : ndarray of float32, shape (oc,), or None
        None: the sums are the outputs.
    y_zero, low, high, residual_scale, residual_zero
        As of `pplconv.api.quantized_run.QuantizedKernel`.
    """

    def __cinit__(self, weight, offset, tuple types, int x_zero, multiplier=None, int y_zero=0,
                  float low=-np.inf, float high=np.inf, float residual_scale=0.0,
                  int residual_zero=0):
        cdef int64_t size, shift = SHIFTS.get(types, 0)
        each = weight.sum(1, dtype=np.int64).reshape(len(weight), -1)
        # Both wrap around, as sums do: only what they add up to has to fit.
        offsets = wrapped(offset - shift * each.sum(1))
        zero = x_zero + shift
        taps = wrapped(np.ascontiguousarray(zero * each.T)) if zero else None
        if multiplier is None:
            multiplier = np.ones(len(weight))
        multipliers = np.require(multiplier, np.float32, ("A", "C"))
        self.kept = offsets, multipliers, taps
        self.channels, self.tap_count = len(weight), each.shape[1]
        if multipliers.shape != (self.channels,):
            raise ValueError("there is a multiplier for each output channel")
        self.offsets = address_of(offsets, &size)
        self.multipliers = address_of(multipliers, &size)
        self.taps = NULL if taps is None else address_of(taps, &size)
        self.quantization.low, self.quantization.high = low, high
        self.quantization.zero = y_zero
        self.quantization.residual_scale = residual_scale
        self.quantization.residual_zero = residual_zero

    cdef int check(self, int64_t channels, int64_t taps) except -1:
        """Refuse a plan of other weights."""
        if (channels, taps) != (self.channels, self.tap_count):
            raise ValueError("sums are rescaled by numbers of other weights")
        return 0


def wrapped(array):
    """Give int64 as int32, modulo 2**32."""
    return np.ascontiguousarray((array & 0xFFFFFFFF).astype(np.uint32)).view(np.int32)
