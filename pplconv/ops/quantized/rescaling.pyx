# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""`Rescaling`: from sums of a convolution of integers to outputs, in calls and programs."""

from libc.stdint cimport int64_t
from libc.string cimport memset

from pplconv._kernels cimport pplconv_quantization
from pplconv.memory.arrays cimport address_of
from pplconv.ops.prepared cimport Prepared
from pplconv.schedules.base cimport Memory, Schedule, Shape, channel_offset

import numpy as np

cdef enum:
    TABLE_BYTES = 256

# Added to an input, and its zero point, that kernels read as the other type of bytes.
SHIFTS = {("u8", "s8"): -128, ("s8", "u8"): 128}


cdef class Rescaling:
    """Numbers that finish sums of integers, in memory that lives as long as this object.

    Parameters
    ----------
    prepared : pplconv.ops.prepared.Prepared
        The plan whose sums they are.
    weight : ndarray of int8 or int16, shape (oc, ic / groups, kh, kw)
        Weights less their zero points, except `weight_zeros`.
    offset : ndarray of int32, shape (oc,)
        Added to sums of inputs as they are stored, of windows that lie in the image.
    x_zero : int or None
        Zero point of inputs; None: a step of the program computes it, see `computed`.
    multiplier : ndarray of float32, shape (oc,), or None
        None: the sums are the outputs, or a step of the program computes it.
    y_zero, low, high, residual_scale, residual_zero
        As of `pplconv.ops.quantized.quantized_run.QuantizedKernel`.
    sums : ndarray of int64, shape (oc, kh, kw), optional
        Sums of the weights over input channels, where they are known.
    gate : (float, float, float), optional
        Slope, middle and shift: a number x becomes ``x * clip(x * slope + middle, 0, 1) + shift``
        before it is clamped. There is no residual then.
    table : ndarray of 256 bytes, optional
        What is stored for each byte; of outputs of one byte alone.
    weight_zeros : ndarray of int32, shape (oc,), optional
        Zero points that the weights keep. The loops then read the sum of the inputs of each window,
        less the input's zero point if it is computed, and padding counts as the zero point.

    Attributes
    ----------
    computed : (ndarray, ndarray) or None
        Without `x_zero`: base and slope, int32, of what the zero point makes (`ZeroPoint`). The
        first element is the value of padding; then come the offsets, one for each channel, of
        windows that lie in the image; then those of each rectangle that leaves taps out, if there
        are such loops.

    arguments : tuple
        Arguments of the constructor that make an equal object; sums stand for the weights.

    Raises
    ------
    ValueError
        If there is no multiplier, offset or sum for each output channel, or a table is no such
        array.
    """

    def __cinit__(self, prepared, weight, offset, x_zero, multiplier=None, int y_zero=0,
                  float low=-np.inf, float high=np.inf, float residual_scale=0.0,
                  int residual_zero=0, sums=None, gate=None, table=None, weight_zeros=None):
        cdef int64_t size
        memset(&self.quantization, 0, sizeof(pplconv_quantization))
        self.schedule = (<Prepared?> prepared).schedule
        numerics, fields = prepared.plan.numerics, prepared.fields
        shift = SHIFTS.get((numerics.source, numerics.operand), 0)
        self.lacks_multiplier = multiplier is None and numerics.destination != "s32"
        if multiplier is None:
            multiplier = np.ones(len(weight))
        multipliers = np.require(multiplier, np.float32, ("A", "C"))
        offset = np.asarray(offset).astype(np.int64)
        if not multipliers.shape == offset.shape == weight.shape[:1]:
            raise ValueError("there is a multiplier and an offset for each output channel")
        if sums is None:
            sums = weight.sum(1, dtype=np.int64)
        if sums.ndim != 3 or sums.shape[:1] != offset.shape:
            raise ValueError("there is a sum of weights for each output channel and tap")
        self.arguments = (
            prepared, np.empty((len(weight), 0), np.int8), offset, x_zero,
            None if self.lacks_multiplier else multipliers, y_zero, low, high, residual_scale,
            residual_zero, sums, gate, table, weight_zeros)
        total = sums.sum((1, 2))
        # These wrap around, as sums do: only the total has to fit.
        whole = wrapped(offset - shift * total)
        offsets = None
        zero = (x_zero or 0) + shift
        if fields["offsets_by_taps"] and (zero or x_zero is None):
            inside = np.array([
                sums[:, top:bottom, left:right].sum((1, 2))
                for _, _, top, bottom in fields["rows"]
                for _, _, left, right in fields["columns"]
            ], np.int64).reshape(-1, len(weight))  # a batch of no images has none
            # Without the zero point of taps outside the image.
            offsets = wrapped(offset + (x_zero or 0) * total - zero * inside)
        if x_zero is None:
            bases, slopes = [[zero], whole], [[1], -total]
            if offsets is not None:
                bases.append(offsets.reshape(-1))
                slopes.append(-inside.reshape(-1))
            self.computed = tuple([
                wrapped(np.concatenate(parts).astype(np.int64)) for parts in (bases, slopes)
            ])
        if table is not None:
            table = np.array(table, order="C").view(np.uint8)
            if table.shape != (TABLE_BYTES,):
                raise ValueError("a table has a byte for each byte")
            self.quantization.table = address_of(table, &size)
        if gate is not None:
            self.quantization.gate = 1
            (self.quantization.slope, self.quantization.middle,
             self.quantization.shift) = gate
        self.weight_zeros = NULL
        if weight_zeros is not None:
            weight_zeros = wrapped(-np.asarray(weight_zeros).astype(np.int64))
            if weight_zeros.shape != offset.shape:
                raise ValueError("there is a zero point of weights for each output channel")
            self.weight_zeros = address_of(weight_zeros, &size)
        self.kept = whole, offsets, multipliers, table, weight_zeros
        self.channels = len(weight)
        self.whole = address_of(whole, &size)
        self.offsets = NULL
        if offsets is not None:
            self.offsets = address_of(offsets, &size)
        self.multipliers = address_of(multipliers, &size)
        # The value of padding, as kernels read it.
        self.x_zero = zero
        self.quantization.low, self.quantization.high = low, high
        self.quantization.zero = y_zero
        self.quantization.residual_scale = residual_scale
        self.quantization.residual_zero = residual_zero

    cdef int check(self, Schedule schedule) except -1:
        """Refuse a plan of other weights, or of pixels with gaps where windows are counted."""
        if schedule is not self.schedule or (
                schedule.shape.groups * schedule.shape.oc != self.channels):
            raise ValueError("sums are rescaled by numbers of other weights")
        if self.weight_zeros != NULL and not counts_pixels(&schedule.shape):
            raise ValueError("sums of windows are read for pixels without gaps between them")
        return 0

    cdef int check_places(self, dict places) except -1:
        """Refuse a step of a program that lacks what is computed, or has it in vain."""
        if self.lacks_multiplier and places.get("multiplier") is None:
            raise ValueError("outputs that are no sums have a multiplier, known or computed")
        if (self.computed is None) != (places.get("offsets") is None):
            raise ValueError("offsets are computed where a zero point is, and nowhere else")
        if (self.weight_zeros == NULL) != (places.get("window_sums") is None):
            raise ValueError("windows are summed where weights keep zero points, nowhere else")
        return 0


cdef bint counts_pixels(const Shape *s) noexcept:
    """Whether the place of a channel in the output tells the number of its pixel."""
    cdef const Memory *y = &s.y
    cdef int64_t size = s.size.destination
    cdef int64_t last = channel_offset(y, size, s.groups * s.oc - 1)
    return (last + size <= y.pixel
            and (s.geometry.oh == 1 or y.row == s.geometry.ow * y.pixel)
            and (s.batch == 1 or y.image == s.geometry.oh * s.geometry.ow * y.pixel))


def wrapped(array):
    """Give int64 as int32, modulo 2**32."""
    return np.ascontiguousarray((array & 0xFFFFFFFF).astype(np.uint32)).view(np.int32)
