# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Convolutions of an image in bands: from arrays and `Conv2d` objects to the loops."""

from cpython.buffer cimport PyBUF_STRIDED, PyBUF_STRIDES
from libc.stdint cimport int64_t, uintptr_t
from libc.string cimport memcpy

from pplconv.ops.keys cimport keep_plan
from pplconv.api.layer cimport Layer
from pplconv.ops.prepared cimport Prepared
from pplconv.ops.ready cimport Ready, ReadyPlans
from pplconv.memory.arrays cimport View, address_of, hold, release
from pplconv.schedules.band_loops cimport Bands
from pplconv.schedules.execute cimport execute
from pplconv.schedules.work cimport Tensors

from typing import NamedTuple

import numpy as np

from pplconv import planner
from pplconv.imaging.tap_places import taken_by_rows
from pplconv.numerics import numerics_of
from pplconv.runtime import ForkableLock
from pplconv.schedules.band_loops import PIXELS
from pplconv.schedules.band_loops import READ as NAMES_READ
from pplconv.schedules.band_loops import SUMS as MODES
from pplconv.schedules.band_loops import has_pairs

# For each type of sums, the types of images that need no conversion beforehand.
READ = {PIXELS[computed]: frozenset([PIXELS[pixel] for pixel in names])
        for computed, names in NAMES_READ.items()}
SUMS = MODES
WORDS = (np.dtype(np.uint16), np.dtype(np.int16))
PIXEL_NAMES = {dtype: name for name, dtype in PIXELS.items()}


# Plans do not depend on weights: a filter with a new kernel reuses them.
cdef dict plans_of_bands = {}
cdef object bands_lock = ForkableLock()
cdef enum:
    PLANS_OF_BANDS = 64


cdef Ready ready_of(ReadyPlans plans, tuple shape, str isa):
    """Find or make the compiled plan for one plane of some size without padding."""
    cdef object scope = plans.scope(), found
    cdef Ready ready = plans.plans.get(shape if scope is None else (scope, shape))
    if ready is not None:
        return ready
    key = (plans.problem_of(shape), tuple(plans.settings.items()), scope, isa)
    found = plans_of_bands.get(key)
    if found is not None:
        return plans.of_plan(shape, scope, <Prepared> found)
    ready = plans.of_shape(shape, scope)
    with bands_lock:
        keep_plan(plans_of_bands, key, ready.prepared, PLANS_OF_BANDS)
    return ready


cdef list passes_of(tuple convs, int64_t height, int64_t width, str isa, list kept):
    """Find or make compiled plans for one plane of some size, one convolution after the other."""
    cdef Ready ready
    cdef Layer conv
    cdef list made = []
    cdef tuple shape = (1, 1, height, width)
    for conv in convs:
        ready = ready_of(conv.made(), shape, isa)
        kept.append(ready)
        made.append((ready.prepared.schedule,
                     <int64_t> ready.packed.data_for(ready.prepared),
                     <int64_t> ready.packed.filters))
        shape = ready.prepared.output_shape
    return made


class Rounding(NamedTuple):
    """How sums become integers, half to even and saturated.

    Parameters
    ----------
    limits : ndarray, shape (n, 5)
        Of the type of the sums, for each output channel: the largest error of a sum, the least and
        the largest result, a divisor and a direction, as in the contract of ``round_sums``.
    taps : ndarray of float64, shape (n, kh * kw) or (n, kh + kw)
        The kernels; with `separable`, a column and a row of each.
    again : ndarray of float64, shape (n, 2 + kh * kw + m * (1 + kh * kw)), optional
        For sums that are made once more in double: their error, a number of digits up to m, and
        their taps; then for each digit its modulus and its taps.
    separable : bool
        Whether `taps` are factors.
    near : float
        How far a sum of one kernel may be from an integer, so that it certainly is rounded to that
        one, in blocks of rows; 0 where these do not round.
    """

    limits: np.ndarray
    taps: np.ndarray
    again: np.ndarray | None
    separable: bool
    near: float = 0.0


class RowSums(NamedTuple):
    """Sums of one kernel that are made row by row, as ``filter_floats`` has it.

    Parameters
    ----------
    weights : ndarray
        Of the row and the column, or of all taps row by row; of the type of the sums.
    passes : int
        2 for a row and a column, else 1.
    running : bool
        Whether the column has equal taps, so that exact sums are moved from row to row.
    near : float
        As in `Rounding`, where blocks of rows make and round the sums; else 0.
    digits : ndarray of int16, optional
        With `near`, the weights of a mirrored kernel of bytes, as `mirrored_digits` has them.
    pairs : ndarray of int64, optional
        With `near`, the weights of a kernel of integers of at most 16 bits, as `pair_weights` has
        them.
    factors : ndarray of int64, optional
        With `near`, those of a column and a row of 16-bit integers, as `pair_factors` has them.
    """

    weights: np.ndarray
    passes: int
    running: bool = False
    near: float = 0.0
    digits: np.ndarray | None = None
    pairs: np.ndarray | None = None
    factors: np.ndarray | None = None


class Short(NamedTuple):
    """A filter of bytes in integers of 16 bits, as ``filter_row`` has it.

    Parameters
    ----------
    passes : tuple of bool
        Of a row and a column, or of a kernel alone: whether weights are not all ones.
    weights : ndarray of uint16
        Of the row and the column, or of all taps row by row; modulo 2**16.
    mode, add, factor, shift, low, high : int
        How sums become integers.
    squares : bool
        Whether ``filter_squares`` makes the results, where there is such a kernel.
    """

    passes: tuple
    weights: np.ndarray
    mode: int
    add: int
    factor: int
    shift: int
    low: int
    high: int
    squares: bool = False


class Means(NamedTuple):
    """The mean of a square of pixels of 16 bits or 8, as ``filter_means`` has it.

    Parameters
    ----------
    factor : ndarray of float64, shape (1,)
        Of sums.
    """

    factor: np.ndarray


def has_rows(array):
    """Whether pixels of a row are contiguous, in a form that the loops read.

    Parameters
    ----------
    array : ndarray, shape (..., W, C)
        Images, or results.
    """
    *_, width, channels = array.shape
    *_, step, one = array.strides
    neighbours = (channels == 1 or one == array.itemsize) and (
        width == 1 or step == channels * array.itemsize)
    return neighbours and array.dtype.isnative and array.flags.aligned


cdef class Form:
    """Type, shape and strides of arrays.

    Parameters
    ----------
    array : ndarray
        Of up to four axes, not empty.
    flags : int
        Of the buffers that are asked for.
    """

    def __init__(self, array, int flags):
        cdef int axis
        self.dtype, self.flags, self.size = array.dtype, flags, array.itemsize
        self.ndim = array.ndim
        if self.ndim > AXES:
            raise ValueError("an array has at most four axes")
        for axis in range(self.ndim):
            self.shape[axis], self.strides[axis] = array.shape[axis], array.strides[axis]

    cdef char *place(self, array) except NULL:
        """Return the address of an array of this form, which its caller keeps.

        It may lack axes of one element.
        """
        cdef View view
        cdef int axis, other = 0
        cdef bint same = array.dtype == self.dtype
        hold(array, &view, self.flags)
        cdef char *place = <char *> view.buffer.buf
        same = same and <uintptr_t> place % <uintptr_t> self.size == 0
        for axis in range(self.ndim):
            if other < view.buffer.ndim and view.buffer.shape[other] == self.shape[axis] and (
                    self.shape[axis] == 1 or view.buffer.strides[other] == self.strides[axis]):
                other += 1
            elif self.shape[axis] != 1:
                same = False
        same = same and other == view.buffer.ndim
        release(&view)
        if not same:
            raise ValueError("a filter is made for images and results of one form")
        return place


cdef int check_rounding(object rounding, object results, object dtype, tuple extent) except? -1:
    """Refuse a rounding of other sums or results; gives how many numbers sums are made again of."""
    cdef int64_t count = results.shape[0], again_numbers = 0
    most = 4 if dtype == np.float64 else 2
    if results.dtype.kind not in "iu" or results.itemsize > most or results.dtype == np.uint32:
        raise ValueError("results are integers that sums can be")
    area = extent[0] * extent[1]
    exact = sum(extent) if rounding.separable else area
    arrays_of = [(rounding.limits, dtype, 5), (rounding.taps, np.float64, exact)]
    again = rounding.again
    if again is not None:
        digits = 0
        if again.ndim == 2 and again.size and again.shape[1] > 1:
            digits = int(np.clip(again[:, 1], 0, again.shape[1]).max())
        again_numbers = 2 + area + digits * (1 + area)
        arrays_of.append((again, np.float64, again_numbers))
    for array, of, numbers in arrays_of:
        if array.dtype != of or array.shape != (count, numbers) or not array.flags.c_contiguous:
            raise ValueError("each output channel has its limits and taps")
    return again_numbers


def paired_isa():
    """Instruction set of filters of integers by pairs, in the current environment, if any."""
    for product in ("u8", "f32"):
        isa = planner.best_isa(numerics_of(product, product))
        if isa is not None and has_pairs(isa):
            return isa
    return None


def is_open(rounding):
    """Whether sums may leave a rounding open, so that they are made again from their pixels."""
    if not isinstance(rounding, Rounding):
        return False
    error, _, _, divisor, direction = rounding.limits.T
    return rounding.again is not None or bool((error != 0).any()) or bool(
        ((divisor != 0) & (direction == 0)).any())


cdef class Banded:
    """A filter of images of one form, channel by channel; any number of threads may call it.

    Parameters
    ----------
    image : ndarray, shape (H, W, C)
        Of the form of those to come: of a type in `READ`; the pixels of a row are neighbours. Not
        empty.
    sums : RowSums or tuple of Conv2d
        One convolution or two of one input channel, applied one after the other to a plane whose
        rows are those of all channels, without padding. Only the last one may have more than one
        output channel.
    rows : ndarray of int64, shape (height + kh - 1,)
        Which rows of the image the results see, -1 for rows of `value`.
    runs : ndarray of int64, shape (m, 3)
        Which pixels of these rows: for each run of neighbours, where it goes, where it begins in
        the image or -1, and how long it is.
    value : ndarray, shape (1,)
        Value of pixels outside the image, of the type of the convolutions.
    results : ndarray, shape (n, height, width, C)
        Of the form of those to come; the pixels of a row are neighbours. Of the type of the
        convolutions, or integers of 8, 16 or, for convolutions in float64, 32 bits.
    rounding : Rounding, Short or Means, optional
        How sums become integers. With `Short`, image and value are of uint8; with `Means`, image,
        value and results are of uint16 or int16. There are no convolutions then.
    extent : (int, int)
        Rows and columns of the kernels.
    band : int
        Rows of results that are computed at a time.
    threads, share : int
        Most threads that compute, and most of the process that may at once.
    origin : int
        Number of the first row that the results see, from the image's first one on: results do not
        depend on what is made with them.

    Raises
    ------
    ValueError
        If the arrays do not go together.
    MemoryError
        If memory cannot be had.
    """

    def __init__(self, image, sums, rows, runs, value, results, rounding, tuple extent,
                 int64_t band, int threads, int share, int64_t origin=0):
        cdef object words = rounding if isinstance(rounding, Short) else None
        cdef object means = rounding if isinstance(rounding, Means) else None
        cdef object limits = rounding if isinstance(rounding, Rounding) else None
        cdef str computed = PIXEL_NAMES[value.dtype]
        cdef str numbers = "f32" if words or means else computed
        cdef str isa = planner.best_isa(numerics_of(numbers, numbers))
        cdef object floats = sums if isinstance(sums, RowSums) else None
        cdef int64_t size
        count, height, width, channels = results.shape
        columns, halo = int(runs[:, 2].sum()), len(rows) - height
        for array in (image, results):
            if not has_rows(array):
                raise ValueError("pixels of a row are neighbours")
        for array, dtype in ((rows, np.int64), (runs, np.int64), (value, value.dtype)):
            if array.dtype != dtype or not array.flags.c_contiguous or not array.size:
                raise ValueError("rows, runs and value are contiguous")
        whole, taps, low, high, again, pitch, by_rows = 0, (0, 0), 0, 0, 0, 0, ()
        running, box, column_first = False, (False, False), False
        places = weights = None
        first, wide = (0, 0), 0
        of_pixels = (np.uint8,) if words else (np.uint8, *WORDS) if means else ()
        if value.dtype not in of_pixels and (of_pixels or value.dtype.kind in "iu"):
            raise ValueError("sums of 16 bits are of bytes, means of pixels of 8 or 16 bits")
        if words:
            by_rows, weights = words.passes, words.weights
            whole, low, high = results.itemsize, words.low, words.high
        elif means:
            weights, whole, taps = means.factor, results.itemsize, extent
            if weights.dtype != np.float64 or weights.shape != (1,) or (
                    results.dtype != value.dtype):
                raise ValueError("means have a factor, and are of the type of their pixels")
        elif limits is not None:
            again = check_rounding(rounding, results, value.dtype, extent)
            whole, taps = results.itemsize, extent
            low, high = np.iinfo(results.dtype).min, np.iinfo(results.dtype).max
        elif results.dtype != value.dtype:
            raise ValueError("results are of the type of the sums")
        near, digits, mirrored, paired, factored = 0.0, None, None, None, False
        if floats is not None:
            by_rows, weights = (True,) * floats.passes, floats.weights
            near, digits = floats.near, floats.digits
            if digits is not None and (digits.dtype != np.int16 or digits.shape != (
                    {(3, 3): 8, (5, 5): 12}.get(extent),)):
                raise ValueError("each weight has two digits")
            if digits is not None:
                mirrored = planner.best_isa(numerics_of("u8", "u8"))
            elif floats.pairs is not None:
                digits, paired = floats.pairs, paired_isa()
                # Bytes are paired with those below.
                one, other = extent[::-1] if results.itemsize == 1 else extent
                if digits.dtype != np.int64 or digits.shape != (9 + 6 * one * (other // 2 + 1),):
                    raise ValueError("each pair of weights has two digits and longer weights")
            elif floats.factors is not None:
                digits, paired, factored = floats.factors, paired_isa(), True
                if floats.passes != 2 or digits.dtype != np.int64 or digits.size < 12 or (
                        digits[8] not in (extent[0], (extent[0] + 1) // 2)) or (
                        digits.shape != (
                            12 + (extent[1] + 1) // 2 + digits[8] + extent[0] * extent[1],)):
                    raise ValueError("a row and a column have weights of two digits")
        if by_rows:
            taps = extent
            of = np.dtype(np.uint16) if words else value.dtype
            numbers_of = sum(extent) if len(by_rows) == 2 else extent[0] * extent[1]
            if weights.dtype != of or weights.shape != (numbers_of,):
                raise ValueError("each tap has a weight")
            taken = taken_by_rows(
                extent, len(by_rows), weights, words is not None,
                running=None if words else floats.running,
                is_open=bool(near) or is_open(limits),
                in_place=rounding is None and image.dtype == value.dtype,
                width=width * channels, columns=columns, channels=channels, pixel=value.itemsize)
            places, weights, pitch, first, wide, running, box, column_first = taken
        if image.shape[2] != channels:
            raise ValueError("image and results have the same channels")
        band = min(max(band, 1), height)
        last = height - (height - 1) // band * band
        self.kept = []
        passes = () if by_rows or means else [
            passes_of(sums, some + halo, columns * channels, isa, self.kept)
            for some in (band, last)]
        self.bands = Bands({
            "pixel": PIXEL_NAMES[image.dtype], "computed": computed, "result": whole,
            "image_rows": image.shape[0], "image_columns": image.shape[1], "channels": channels,
            "height": height, "width": width, "columns": columns, "rows": band, "halo": halo,
            "count": count, "runs": len(runs), "taps": taps,
            "separable": limits is not None and limits.separable,
            "by_rows": by_rows, "words": words, "means": means is not None, "pitch": pitch,
            "first": first, "wide": wide, "is_open": is_open(limits),
            "near": near, "mirrored": mirrored, "paired": paired, "factored": factored,
            "is_running": running, "box": box, "column_first": column_first, "origin": origin,
            "moves": planner.moves_lanes(),
            "again": again, "low": low, "high": high, "image_rs": image.strides[0],
            "result_rs": results.strides[1], "result_ps": results.strides[0],
        }, passes, isa)
        # Copies, which nobody else can change later.
        rows, runs, value = rows.copy(), runs.copy(), value.copy()
        self.bands.check_input(<const int64_t *> address_of(rows, &size),
                               <const int64_t *> address_of(runs, &size))
        # Scratch is for as many.
        self.bands.threads = max(min(threads, self.bands.tasks), 1)
        self.image_form = Form(image, PyBUF_STRIDES)
        self.results_form = Form(results, PyBUF_STRIDED)
        self.share = share
        of_rounding = [None] * 3 if limits is None else [limits.limits, limits.taps, limits.again]
        of_blocks = [None] * 2 if not near else [
            np.array([near, low, high, 1], value.dtype), value.astype(image.dtype)]
        self.keep([rows, runs, value, *of_rounding, places, weights, *of_blocks, digits])

    cdef int keep(self, list constants) except -1:
        """Keep the arrays that all calls share, behind results and image, and their addresses."""
        cdef int64_t size
        cdef int i
        self.constants = constants
        self.fixed[0] = self.fixed[1] = NULL
        for i in range(2, ARRAYS):
            self.fixed[i] = NULL
            if constants[i - 2] is not None:
                self.fixed[i] = <char *> address_of(constants[i - 2], &size)
        return 0

    def step(self):
        """Give the loops and what they read besides an image: a step of a program.

        Returns
        -------
        work : Bands
            Array 0 are its results, array 1 the image.
        constants : list of ndarray or None
            The arrays behind these. Weights are kept by this object.
        """
        return self.bands, self.constants

    def __call__(self, image, results):
        """Filter an image.

        Parameters
        ----------
        image, results : ndarray
            Of the forms that the filter was made for; results are written. An axis of one channel
            or of one kernel may be left out.

        Raises
        ------
        ValueError
            If they have other forms.
        MemoryError
            If memory cannot be had.
        """
        self.run(self.image_form.place(image), self.results_form.place(results))

    cdef int run(self, char *image, char *results) except -1:
        """Filter an image of the form that the filter was made for, by the addresses of both."""
        cdef char *arrays[ARRAYS]
        cdef Tensors t
        memcpy(arrays, self.fixed, sizeof(arrays))
        arrays[0], arrays[1] = results, image
        t.arrays = arrays
        execute(self.bands, &t, self.bands.threads, self.share, 1, NULL)
        return 0
