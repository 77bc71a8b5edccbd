# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Arrays laid out in memory for another process, without pickling them.

Most requests and answers are one array or a few. Their shapes and types are a few numbers; pickling
them takes five times as long, on either side.
"""

from cpython.buffer cimport PyBUF_ND, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.dict cimport PyDict_Size
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from pplconv.memory.arrays cimport View, hold, new_array, release

import numpy as np

__all__ = ["Flat", "flatten", "read_flat"]

cdef object ndarray = np.ndarray
cdef object generic = np.generic

cdef enum:
    LINE = 64
    # Arrays, dimensions: objects with more of either are pickled.
    MOST = 16
    DIMS = 8
    # The row of an array: type, whether it is read-only, place, bytes, number of dimensions,
    # dimensions.
    ROW = 5 + DIMS
    # An array of fewer bytes is always copied; from the second number on, without the GIL.
    SMALL = 16384

cdef enum:
    ARRAY, SCALAR, TUPLE, LIST, REQUEST

# Types by their number in NumPy: numbers in this machine's own byte order.
cdef list TYPES = [None] * 32
for _code in "?bBhHiIlLqQefdFD":
    TYPES[np.dtype(_code).num] = np.dtype(_code)


cdef class Flat:
    """Arrays to be written; see ``_flat.pyi``."""

    cdef readonly int64_t at, length, size
    cdef int count
    cdef int64_t words[2 + MOST * ROW]
    cdef Py_buffer views[MOST]

    def __dealloc__(self):
        cdef int i
        for i in range(self.count):
            PyBuffer_Release(&self.views[i])

    cdef bint add(self, object array) except -1:
        """Take an array in; False if it must be pickled."""
        cdef Py_buffer *view = &self.views[self.count]
        cdef int64_t *row = &self.words[2 + self.count * ROW]
        cdef int i, number
        if type(array) is not ndarray:
            return False
        dtype = array.dtype
        number = dtype.num
        if number >= 32 or TYPES[number] is not dtype:
            return False
        try:
            PyObject_GetBuffer(array, view, PyBUF_ND)
        except (BufferError, ValueError):  # not C-contiguous
            return False
        self.count += 1
        if view.ndim > DIMS or view.len == 0:
            return False
        row[0], row[1], row[2], row[3], row[4] = number, view.readonly, self.at, view.len, view.ndim
        for i in range(view.ndim):
            row[5 + i] = view.shape[i]
        self.at += (view.len + LINE - 1) // LINE * LINE
        return True

    def write(self, room):
        cdef View view
        cdef int64_t *row
        cdef char *base
        cdef int i
        hold(room, &view, PyBUF_ND | PyBUF_WRITABLE)
        try:
            if view.buffer.len < self.size:
                raise ValueError(f"room has {view.buffer.len} bytes, expected {self.size}")
            base = <char *> view.buffer.buf
            for i in range(self.count):
                row = &self.words[2 + i * ROW]
                copy(base + row[2], self.views[i].buf, row[3])
            memcpy(base + self.at, self.words, self.length)
        finally:
            release(&view)


cdef int copy(void *to, const void *source, int64_t size) except -1:
    if size < SMALL:
        memcpy(to, source, size)
    else:
        with nogil:
            memcpy(to, source, size)
    return 0


def flatten(obj):
    cdef Flat flat
    cdef int64_t form
    cdef Py_ssize_t count
    if type(obj) is ndarray:
        form, arrays = ARRAY, (obj,)
    elif type(obj) is tuple:
        form, arrays = TUPLE, obj
        if len(obj) == 2 and type(obj[0]) is tuple and type(obj[1]) is dict:
            if PyDict_Size(obj[1]):
                return None
            form, arrays = REQUEST, obj[0]
    elif type(obj) is list:
        form, arrays = LIST, tuple(obj)
    elif isinstance(obj, generic) and type(obj) is obj.dtype.type:
        form, arrays = SCALAR, (np.asarray(obj),)
    else:
        return None
    count = len(arrays)
    # An array that occurs twice must be one object for the reader too; pickle takes care of that.
    if not 1 <= count <= MOST or (count > 1 and len({id(array) for array in arrays}) < count):
        return None
    flat = Flat.__new__(Flat)
    for array in arrays:
        if not flat.add(array):
            return None
    flat.words[0], flat.words[1] = form, count
    flat.length = (2 + count * ROW) * sizeof(int64_t)
    flat.size = flat.at + flat.length
    return flat


def read_flat(block, int64_t at, bint own):
    cdef View view
    cdef int64_t form, count, i
    arrays = []
    hold(block, &view, PyBUF_ND)
    try:
        words = <const int64_t *> (<char *> view.buffer.buf + at)
        form, count = words[0], words[1]
        for i in range(count):
            arrays.append(one(block, <char *> view.buffer.buf, words + 2 + i * ROW, own))
    finally:
        release(&view)
    if form == ARRAY:
        return arrays[0]
    if form == SCALAR:
        return arrays[0][()]
    if form == LIST:
        return arrays
    return tuple(arrays) if form == TUPLE else (tuple(arrays), {})


cdef object one(object block, const char *base, const int64_t *row, bint own):
    """The array of a row: in place, or a copy."""
    cdef View view
    cdef int i
    shape = tuple([row[5 + i] for i in range(row[4])])
    dtype = TYPES[row[0]]
    if own or row[3] < SMALL:
        array = new_array(shape, dtype)
        hold(array, &view, PyBUF_ND | PyBUF_WRITABLE)
        try:
            copy(view.buffer.buf, base + row[2], row[3])
        finally:
            release(&view)
    else:
        array = ndarray(shape, dtype, block, row[2])
    if row[1]:
        array.setflags(write=False)
    return array
