# cython: boundscheck=False, wraparound=False, initializedcheck=False, binding=True
"""The caller's arrays: checked, and held as plain memory for the length of a call.

An array in the layout that kernels read (native byte order, C-contiguous, aligned) is used in
place; NumPy copies any other. Nothing here knows what a convolution is.
"""

from cpython.buffer cimport PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cpython.buffer cimport PyObject_GetBuffer as get_buffer
from cpython.exc cimport PyErr_Clear
from libc.stdint cimport int64_t, uintptr_t

import math
import operator
import sys

import numpy as np

from pplconv.memory.array_like import array_of, bfloat16_dtype
from pplconv.memory.dtypes import NAMES, dtype_of
from pplconv.memory.namespaces import as_given as in_namespace

cdef object ndarray = np.ndarray
cdef object empty = np.empty
cdef object uint8 = np.dtype(np.uint8)
cdef object uint16 = np.dtype(np.uint16)
cdef object brain = None  # the type of bfloat16 arrays, from the first of them on

# Arrays begin at a multiple of this: a cache line, and the longest vector.
cdef enum:
    LINE = 64
    # Bytes of an array below which finding such a place costs more than it saves.
    SMALL = 16384
cdef dict DTYPE_NAMES = NAMES


cdef object as_array(object value, str name, object dtype=None):
    """An ndarray from anything that `array_of` takes; Python numbers become `dtype`.

    This may run code of the caller's objects, which may change arrays. So every argument is
    converted before the first array is held.
    """
    return value if type(value) is ndarray else array_of(value, name, dtype)


cdef object plain_out(object out):
    """The caller's `out` as a plain ndarray on its memory."""
    if type(out) is ndarray:
        return out
    if not issubclass(type(out), ndarray):
        raise TypeError(f"out must be a numpy.ndarray, got {type(out).__name__}")
    return array_of(out, "out")


cdef int refuse_change(str name) except -1:
    """Say that an array is no longer what it was when its shape was asked for."""
    raise ValueError(f"{name} has changed while the other arguments were read")


cdef object as_given(object given, object result, object out):
    """Return a result in the namespace of `given`, or the caller's own `out` if there is one."""
    if out is not None:
        return out
    if type(given) is ndarray:
        return result
    return in_namespace(given, result)


cdef bint is_brain(object dtype):
    """Whether a NumPy type is the bfloat16 of ml_dtypes."""
    global brain
    if brain is None and dtype.name == "bfloat16":
        brain = bfloat16_dtype()
    return brain is not None and dtype == brain


cdef int hold_bits(object array, Py_buffer *buffer, int flags) except -1:
    """Hold memory that the buffer protocol refused: bfloat16, for whose type it has no code.

    Memory that was refused for another reason is refused again, and the error passed on.
    """
    PyErr_Clear()
    if type(array) is ndarray and is_brain(array.dtype):
        array = array.view(uint16)  # the buffer keeps it, and it keeps the array
    get_buffer(array, buffer, flags)
    return 0


cdef str dtype_name(object array, str name):
    """"f16", "f32" or "f64", or a TypeError that names the argument."""
    cdef object found = name_of(array.dtype)
    if found is None:
        refuse_dtype(array.dtype, name, "float16, float32 or float64")
    return <str> found


cdef str float_name(object array, str name):
    """The same where bfloat16 is taken too, as "bf16"."""
    cdef object found = name_of(array.dtype)
    if found is None:
        if is_brain(array.dtype):
            return "bf16"
        refuse_dtype(array.dtype, name, "float16, bfloat16, float32 or float64")
    return <str> found


cdef object name_of(object dtype):
    """The short name of a floating-point type of NumPy's own, in any byte order, or None."""
    cdef object found = DTYPE_NAMES.get(dtype)
    return DTYPE_NAMES.get(dtype.newbyteorder("=")) if found is None else found


cdef int refuse_dtype(object dtype, str name, str wanted) except -1:
    raise TypeError(f"{name} must be {wanted}, got dtype {dtype}{conversion(dtype, np.float32)}")


cdef str conversion(object dtype, object wanted):
    """Advice for numbers of a type that is not taken; empty if they are not real numbers."""
    # The names of types that other packages define, such as bfloat16, tell more than their kind.
    if dtype.kind in "biuf" or "float" in dtype.name:
        wanted = np.dtype(wanted)
        package = "ml_dtypes" if is_brain(wanted) else "np"
        return f": use .astype({package}.{wanted.name})"
    return ""


cdef tuple batched_shape(object array, str name, int ndim):
    """The `ndim` dimensions of an input that may lack the first, the batch."""
    shape = array.shape
    if len(shape) == ndim:
        return shape
    if len(shape) == ndim - 1:
        return (1, *shape)
    raise ValueError(
        f"{name} must have {ndim - 1} or {ndim} dimensions, got {len(shape)} (shape {shape})"
    )


cdef int check_operand(object array, str name, tuple shape, object dtype) except -1:
    """Check that an array has just this shape and dtype (any byte order)."""
    if array.dtype is not dtype and array.dtype.newbyteorder("=") != dtype:
        raise TypeError(f"{name} must be {dtype} like the other arrays, got {array.dtype}"
                        f"{conversion(array.dtype, dtype)}")
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    return 0


cdef bint lies_plain(object array, object dtype, View *view) except -1:
    """Hold an array's memory if it can be read in place: native, contiguous, aligned."""
    if type(array) is not ndarray or array.dtype is not dtype:
        return False
    try:
        hold(array, view, PyBUF_ND)
    except (BufferError, ValueError):
        return False
    if <uintptr_t> view.buffer.buf % <uintptr_t> view.buffer.itemsize:
        release(view)
        return False
    return True


cdef object hold_plain(object array, object dtype, View *view):
    """Hold the memory of an array or, if it is not plain, of a copy; return the held array."""
    if lies_plain(array, dtype, view):
        return array
    array = np.require(array, dtype=dtype, requirements=("C", "A"))
    hold(array, view, PyBUF_ND)
    return array


cdef int refuse_out(object out, tuple shape, object dtype) except -1:
    """Raise an error if an `out` cannot be written in place."""
    if out.dtype != dtype:
        raise TypeError(f"out must be {dtype} in native byte order, got {out.dtype}")
    if out.shape != shape:
        raise ValueError(f"out must have shape {shape}, got {out.shape}")
    if not out.flags.writeable:
        raise ValueError("out must be writeable, got a read-only array")
    if not out.flags.c_contiguous or not out.flags.aligned:
        raise ValueError("out must be C-contiguous and aligned")
    return 0


cdef int hold_out(object out, tuple shape, const int64_t *dims, int ndim, object dtype,
                  View *view) except -1:
    """Hold the memory of an `out` of `plain_out`, or say why it cannot be written."""
    if out.dtype == dtype and out.ndim == len(shape):
        try:
            hold(out, view, PyBUF_ND | PyBUF_WRITABLE)
        except (BufferError, ValueError):
            pass
        else:
            if (has_dims(view, dims, ndim)
                    and <uintptr_t> view.buffer.buf % <uintptr_t> view.buffer.itemsize == 0):
                return 0
            release(view)
    refuse_out(out, shape, dtype)
    raise ValueError("out must be a plain writeable array")


cdef void find_extent(const View *view, uintptr_t *begin, uintptr_t *end) noexcept:
    """Find the first byte of an array, and the first byte after it."""
    cdef uintptr_t span
    cdef int i
    begin[0] = <uintptr_t> view.buffer.buf
    end[0] = begin[0] + <uintptr_t> view.buffer.len
    if view.buffer.strides == NULL or view.buffer.len == 0:
        return
    end[0] = begin[0] + <uintptr_t> view.buffer.itemsize
    for i in range(view.buffer.ndim):
        # Unsigned, as addresses are: it wraps around for a negative stride, and back when added.
        span = <uintptr_t> (view.buffer.shape[i] - 1) * <uintptr_t> view.buffer.strides[i]
        if view.buffer.strides[i] < 0:
            begin[0] += span
        else:
            end[0] += span


cdef int check_overlap(object out, const View *out_view, object other, const View *other_view,
                       str name) except -1:
    """Refuse an `out` that shares memory with an operand (`other_view`: its memory, if held)."""
    cdef uintptr_t out_begin, out_end, begin, end
    if type(other) is not ndarray:
        if not issubclass(type(other), ndarray):
            return 0
        other = array_of(other, name)
    if other_view != NULL and other_view.held:
        find_extent(out_view, &out_begin, &out_end)
        find_extent(other_view, &begin, &end)
        if out_end <= begin or end <= out_begin:
            return 0
    if np.may_share_memory(out, other):
        try:
            shared = np.shares_memory(out, other, max_work=10_000)
        except np.exceptions.TooHardError:
            shared = True
        if shared:
            raise ValueError(f"out must not overlap {name}")
    return 0


cdef bint found_extent(object array, uintptr_t *begin, uintptr_t *end) except -1:
    """Find the bytes of an array of numbers in any strides; gives whether it is one."""
    cdef View view
    if type(array) is not ndarray:
        return False
    try:
        hold(array, &view, PyBUF_STRIDES)
    except (BufferError, ValueError):
        return False
    find_extent(&view, begin, end)
    release(&view)
    return True


def refuse_overlap(out, **operands):
    """Refuse an `out` that shares memory with an operand.

    Parameters
    ----------
    out : object
        The caller's argument; objects other than arrays are refused elsewhere.
    **operands : object
        By their names; objects other than arrays are skipped.

    Raises
    ------
    ValueError
        If it does.
    """
    cdef uintptr_t out_begin, out_end, begin, end
    cdef bint known
    if issubclass(type(out), ndarray):
        out = plain_out(out)
        known = found_extent(out, &out_begin, &out_end)
        for name, other in operands.items():
            if known and found_extent(other, &begin, &end) and (
                    out_end <= begin or end <= out_begin):
                continue
            check_overlap(out, NULL, other, NULL, name)


def check_out(out, tuple shape, dtype, **operands):
    """Check the type, shape, memory layout and overlap of an `out`.

    Parameters
    ----------
    out : object
        The caller's argument.
    shape : tuple of int
        Of the result.
    dtype : numpy.dtype
        Of the result.
    **operands : object
        As in `refuse_overlap`.

    Returns
    -------
    ndarray
        The same memory as a plain array, to be written.

    Raises
    ------
    TypeError, ValueError
        If it cannot be written as it lies.
    """
    out = plain_out(out)
    refuse_out(out, shape, dtype)
    refuse_overlap(out, **operands)
    return out


cdef object aligned(tuple shape, object dtype, object nbytes):
    """An array of `nbytes` bytes that begins on a cache line."""
    cdef View view
    memory = empty(nbytes + LINE - 1, uint8)
    hold(memory, &view, PyBUF_ND | PyBUF_WRITABLE)
    offset = -<uintptr_t> view.buffer.buf % <uintptr_t> LINE
    release(&view)
    return ndarray(shape, dtype, memory, offset)


cdef object new_array(tuple shape, object dtype):
    """An array for a result, aligned so that the vectors stored into it do not cross lines."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < SMALL:
        return empty(shape, dtype)
    return aligned(shape, dtype, nbytes)


def empty_aligned(shape, dtype=np.float32):
    """Make an uninitialised array that begins on a cache line, as kernels store fastest.

    NumPy's own arrays begin at any multiple of 16 bytes, and then vectors that are stored into
    them cross from one cache line into the next: a convolution with a short sum, such as the
    first of a network, takes up to a tenth longer. Results that pplconv makes itself are always
    aligned; this is for arrays that you pass as `out`, and for inputs.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the array.
    dtype : data-type, default: float32
        Any type without Python objects.

    Returns
    -------
    numpy.ndarray
        C-contiguous; `ndarray.base` is the memory that it is a part of.

    Raises
    ------
    TypeError
        If `shape` is not of integers, or `dtype` holds Python objects.
    ValueError
        If a dimension is negative, or the array would be too large to address.
    MemoryError
        If there is not so much memory.

    See Also
    --------
    Conv2d : takes `out`.

    Notes
    -----
    The idea, and the name, are pyFFTW's.
    """
    dtype = dtype_of("dtype", dtype)
    if dtype.hasobject:
        raise TypeError(f"dtype must not hold Python objects, got {dtype}")
    try:
        shape = (operator.index(shape),)
    except TypeError:
        try:
            shape = tuple(map(operator.index, shape))
        except TypeError as error:
            raise TypeError(f"shape must be one or more integers, got {shape!r}") from error
    if min(shape, default=0) < 0:
        raise ValueError(f"shape must not be negative, got {shape}")
    size = math.prod(shape) * dtype.itemsize
    if max(size, *shape, 0) > sys.maxsize:
        raise ValueError(f"shape must be of an array that can be addressed, got {shape}")
    return aligned(shape, dtype, size)


cdef const char *address_of(object array, int64_t *size) except? NULL:
    """Return the address of a contiguous array, valid while it lives; store its bytes in `size`."""
    cdef View view
    cdef const char *data
    view.held = False
    hold(array, &view, PyBUF_ND)
    data = <const char *> view.buffer.buf
    if size != NULL:
        size[0] = view.buffer.len
    release(&view)
    return data
