# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Prepared filters, kept from call to call: small images take less time than their preparation.

A filter is kept by all that it depends on but pixels: the function, the form of the image, the
bytes of the kernels, the other arguments, the team, and the settings of the environment. One
look-up serves all functions that are one direct filter; no function knows of it.
"""

cimport cython
from cpython.bool cimport PyBool_Check
from cpython.buffer cimport PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.contextvars cimport get_value
from cpython.dict cimport PyDict_Next
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.string cimport memcmp, memcpy

from pplconv.imaging.banded cimport Banded
from pplconv.memory.arrays cimport (
    View,
    check_overlap,
    hold,
    hold_out,
    new_array,
    plain_out,
    release,
)
from pplconv.ops.ready cimport scope_around

from functools import partial, update_wrapper
from inspect import signature
from types import MethodType

import numpy as np

from pplconv import planner
from pplconv.imaging.noted import NOTES as NOTES_VARIABLE
from pplconv.imaging.noted import filter_of

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    # Borrowed. Declared without a check for errors: keys of bytes and text raise none.
    PyObject *PyDict_GetItemWithError(object found, object key)

cdef object ndarray = np.ndarray
cdef object empty = np.empty
cdef object descriptor = np.dtype
cdef object NOTES = NOTES_VARIABLE
cdef object machine_of = planner.current_machine
# Types of arrays, by their place in a key; other orders of bytes are other types.
cdef list TYPES = [np.dtype(order + code) for order in "<>" for code in (
    "?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8")]
cdef dict CODES = {dtype: code for code, dtype in reversed(list(enumerate(TYPES)))}
# Classes that mean the same type each time; others may have an attribute `dtype` that changes.
cdef frozenset CLASSES = frozenset((int, float, *np.sctypeDict.values()))

cdef enum:
    # Bytes of a kernel in float64, beyond which a filter is not kept: its arithmetic outweighs the
    # preparation.
    KERNEL_BYTES = 1 << 14
    # Words of a key, at most, and of anything in it but a kernel or a text.
    WORDS = (1 << 11) + 512
    LEAST_WORDS = 16
    ARGUMENTS = 16
    # The image and its kernels.
    OPERANDS = 3
    MOST_AXES = 4
    CHAINS = 256
    VARIABLES = 8
    # Bytes of a result that NumPy places well enough.
    SMALL = 16384
    # Marks in keys: of kinds of values, and of arrays.
    NOTHING = 1
    WHOLE
    FRACTION
    TRUTH
    TEXT
    ROW
    KIND
    CLASS
    IMAGE
    KERNEL


cdef struct Key:
    int end
    bint full
    uint64_t hash
    uint64_t[WORDS] words


cdef struct Operand:
    int argument, first  # place among the arguments, and in the key
    View view
    PyObject *array


cdef inline void add(Key *key, uint64_t word) noexcept:
    if key.end == WORDS:
        key.full = True
        return
    key.words[key.end] = word
    key.end += 1


cdef bint add_bytes(Key *key, const void *data, int64_t size) noexcept:
    """Add a number of bytes, the last word filled up with zeros; gives whether there is room."""
    cdef int64_t words = (size + 7) // 8
    if words > WORDS - LEAST_WORDS - key.end:
        return False
    if words:
        key.words[key.end + words - 1] = 0
        memcpy(&key.words[key.end], data, <size_t> size)
    key.end += <int> words
    return True


cdef int code_of(object dtype) except -2:
    """Place of an array's type among `TYPES`, or -1."""
    cdef object found = CODES.get(dtype)
    return -1 if found is None else found


cdef bint add_value(Key *key, object value) except -1:
    """Add an argument; gives whether equal words mean the same argument another time."""
    cdef int overflow = 0
    cdef double fraction
    cdef uint64_t bits
    cdef Py_ssize_t size
    cdef const char *text
    cdef object kind = type(value)
    if value is None:
        add(key, NOTHING)
    elif kind is int:
        add(key, WHOLE)
        add(key, <uint64_t> PyLong_AsLongLongAndOverflow(value, &overflow))
    elif kind is float:  # zeros of both signs are two values, and NaN is one
        fraction = value
        memcpy(&bits, &fraction, 8)
        add(key, FRACTION)
        add(key, bits)
    elif PyBool_Check(value):
        add(key, TRUTH + (<uint64_t> (value is True) << 8))
    elif kind is str:
        try:
            text = PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError:
            return False
        add(key, TEXT + (<uint64_t> size << 8))
        return add_bytes(key, text, size)
    elif kind is tuple:
        add(key, ROW + (<uint64_t> len(<tuple> value) << 8))
        for one in <tuple> value:
            if type(one) is tuple or not add_value(key, one):
                return False
    elif kind is type:
        if value not in CLASSES:
            return False
        add(key, CLASS)
        add(key, <uint64_t> <uintptr_t> <PyObject *> value)
    elif isinstance(value, descriptor):
        overflow = code_of(value)
        if overflow < 0:
            return False
        add(key, KIND + (<uint64_t> overflow << 8))
        return True
    else:
        return False
    return not overflow


cdef bint add_array(Key *key, object array, uint64_t mark, Operand *operand) except -1:
    """Hold the memory of an array, and add its type and shape, for an image also its strides."""
    cdef int axis, code = code_of(array.dtype)
    if code < 0:
        return False
    hold(array, &operand.view, PyBUF_STRIDES)
    operand.array = <PyObject *> array
    cdef const Py_buffer *buffer = &operand.view.buffer
    if buffer.ndim > MOST_AXES or not buffer.len:
        return False
    operand.first = key.end
    add(key, mark + (<uint64_t> code << 8) + (<uint64_t> buffer.ndim << 16))
    for axis in range(buffer.ndim):
        add(key, <uint64_t> buffer.shape[axis])
    if mark == IMAGE:
        for axis in range(buffer.ndim):
            add(key, <uint64_t> buffer.strides[axis])
        add(key, <uintptr_t> buffer.buf % <uintptr_t> buffer.itemsize == 0)
    return True


cdef object is_plain(object kernel):
    """Whether a kernel is a list of numbers, or of lists of equally many."""
    if type(kernel) is not list or not kernel:
        return False
    rows = kernel if type(kernel[0]) is list else [kernel]
    for row in rows:
        if type(row) is not list or len(row) != len(rows[0]):
            return False
        for one in row:
            if type(one) is not int and type(one) is not float:
                return False
    return True


cdef bint add_kernel(Key *key, object kernel, Operand *operand) except -1:
    """Hold a kernel, and add its type, shape and bytes."""
    cdef int axis
    cdef Py_ssize_t stride
    if type(kernel) is not ndarray:
        if not is_plain(kernel):
            return False
        kernel = np.array(kernel)
    if not add_array(key, kernel, KERNEL, operand):
        return False
    cdef const Py_buffer *buffer = &operand.view.buffer
    if buffer.len // buffer.itemsize * 8 > KERNEL_BYTES:
        return False
    stride = buffer.itemsize
    for axis in range(buffer.ndim - 1, -1, -1):
        if buffer.shape[axis] > 1 and buffer.strides[axis] != stride:
            data = kernel.tobytes()
            return add_bytes(key, PyBytes_AS_STRING(data), buffer.len)
        stride *= buffer.shape[axis]
    return add_bytes(key, buffer.buf, buffer.len)


cdef object kernel_at(const Key *key, int first):
    """The kernel that a key describes, whatever happens to the caller's meanwhile."""
    cdef uint64_t mark = key.words[first]
    cdef int i, dimensions = <int> (mark >> 16)
    cdef object dtype = TYPES[<int> (mark >> 8 & 255)]
    cdef int64_t size = dtype.itemsize
    shape = tuple([key.words[first + 1 + i] for i in range(dimensions)])
    for i in range(dimensions):
        size *= <int64_t> key.words[first + 1 + i]
    data = PyBytes_FromStringAndSize(<const char *> &key.words[first + 1 + dimensions], size)
    return np.frombuffer(data, dtype).reshape(shape)


cdef void finish(Key *key) noexcept:
    """Compute the hash of a key."""
    cdef uint64_t hash = <uint64_t> key.end
    cdef int i
    for i in range(key.end):
        hash = (hash ^ key.words[i]) * <uint64_t> 0x9E3779B97F4A7C15
        hash ^= hash >> 32
    key.hash = hash


cdef class Ready:
    """A filter prepared for images of one form.

    Parameters
    ----------
    filter : callable
        Takes an image (H, W, C) and results (n, rows, columns, C).
    shape, planes : tuple of int
        Of the result as the caller gets it, and as the filter takes it.
    dtype : dtype
        Of the result.
    """

    cdef object filter, dtype
    cdef tuple shape, planes
    cdef Banded banded  # the filter, if the loops run it
    cdef int64_t[MOST_AXES] dims
    cdef bint small

    def __init__(self, filter, tuple shape, tuple planes, dtype):
        self.filter, self.shape, self.planes, self.dtype = filter, shape, planes, dtype
        self.banded = filter if type(filter) is Banded else None
        self.small = True
        cdef int64_t size = dtype.itemsize, n
        cdef int axis = 0
        for n in shape:
            self.dims[axis] = n
            size = min(size * n, SMALL)
            axis += 1
        self.small = size < SMALL

    cdef object run(self, tuple names, Operand *operands, int count, object out):
        """Filter an image, the first of the operands, from which `out` must lie apart."""
        cdef View view
        cdef int i
        cdef object image = <object> operands[0].array, plain
        view.held = False
        try:
            if out is None:
                if self.small:
                    out = empty(self.shape, self.dtype)
                else:
                    out = new_array(self.shape, self.dtype)
                plain = out
                hold(plain, &view, PyBUF_ND | PyBUF_WRITABLE)
            else:
                plain = plain_out(out)
                hold_out(plain, self.shape, self.dims, <int> len(self.shape), self.dtype, &view)
                for i in range(count):
                    check_overlap(plain, &view, <object> operands[i].array, &operands[i].view,
                                  names[operands[i].argument])
            if self.banded is not None:
                self.banded.run(<char *> operands[0].view.buffer.buf, <char *> view.buffer.buf)
            else:
                self.filter(image.reshape(*image.shape[:2], -1),
                            plain.reshape(-1, *self.planes[1:]))
        finally:
            release(&view)
        return out


cdef class Entry:
    """A filter that is kept, or None for a call that is more than one direct filter."""

    cdef Ready ready
    cdef bytes words
    cdef object around  # whose addresses are in the key
    cdef uint64_t hash, used
    cdef int64_t size
    cdef PyObject *after


cdef class KeptFilters:
    """Filters that are kept, and bytes of them all together; the least recently used ones go first.

    Parameters
    ----------
    most, most_bytes : int
        Bounds.
    """

    cdef public int most
    cdef public int64_t most_bytes
    cdef readonly int64_t size
    cdef list entries
    cdef PyObject *heads[CHAINS]
    cdef uint64_t clock
    # The settings, and the raw variables that they were read from.
    cdef object settings, holder, mapping, raw
    cdef tuple variables
    cdef list values
    cdef PyObject *seen[VARIABLES]

    def __init__(self, int most, int64_t most_bytes):
        self.most, self.most_bytes, self.entries = most, most_bytes, []

    def __len__(self):
        return len(self.entries)

    def clear(self):
        """Keep nothing."""
        self.keep(None)

    cdef object around(self):
        """The settings of the environment, which is read again only if a variable has changed."""
        cdef int i
        cdef object found = None
        with cython.critical_section(self):
            if self.raw is not None and (
                    PyDict_GetItemWithError(self.holder, "environ") == <PyObject *> self.mapping):
                found = self.settings
                for i in range(VARIABLES):
                    if PyDict_GetItemWithError(self.raw, self.variables[i]) != self.seen[i]:
                        found = None
                        break
        return self.read() if found is None else found

    cdef object read(self):
        """Read the settings anew."""
        cdef int i
        settings, holder, mapping, raw, variables = planner.environment()
        if raw is None or len(variables) != VARIABLES:
            return settings
        values = [raw.get(name) for name in variables]
        if planner.environment()[0] is not settings:
            return settings
        # The dictionary's own names, which are found without a comparison of bytes.
        own = {name: name for name in raw}
        variables = tuple([own.get(name, name) for name in variables])
        with cython.critical_section(self):
            self.holder, self.mapping, self.raw, self.variables = holder, mapping, raw, variables
            self.settings, self.values = settings, values
            for i in range(VARIABLES):
                self.seen[i] = NULL if values[i] is None else <PyObject *> values[i]
        return settings

    cdef Entry find(self, const Key *key):
        """Find what was kept under a key."""
        cdef Entry entry, found = None
        cdef PyObject *at
        with cython.critical_section(self):
            at = self.heads[key.hash % CHAINS]
            while at != NULL:
                entry = <Entry> at
                if entry.hash == key.hash and len(entry.words) == 8 * key.end and memcmp(
                        PyBytes_AS_STRING(entry.words), key.words, 8 * <size_t> key.end) == 0:
                    self.clock += 1
                    entry.used = self.clock
                    found = entry
                    break
                at = entry.after
        return found

    cdef int keep(self, Entry added) except -1:
        """Keep a filter, and drop the least recently used ones; None: drop all."""
        cdef Entry entry, oldest
        cdef list entries = [], dropped
        cdef int i
        with cython.critical_section(self):
            # Other threads, and code that runs as objects end, see the old list or the new one.
            if added is not None:
                for entry in self.entries:
                    if entry.words != added.words:
                        entries.append(entry)
                self.clock += 1
                added.used = self.clock
                entries.append(added)
            self.size = sum([(<Entry> entry).size for entry in entries])
            while len(entries) > self.most or self.size > self.most_bytes:
                oldest = entries[0]
                for entry in entries:
                    if entry.used < oldest.used:
                        oldest = entry
                entries.remove(oldest)
                self.size -= oldest.size
            for i in range(CHAINS):
                self.heads[i] = NULL
            for entry in entries:
                entry.after = self.heads[entry.hash % CHAINS]
                self.heads[entry.hash % CHAINS] = <PyObject *> entry
            dropped, self.entries = self.entries, entries
        dropped.clear()
        return 0


kept_filters = KeptFilters(64, 1 << 23)
cdef KeptFilters KEPT = kept_filters


cdef class KeptFunction:
    """A function of an image whose filters are kept; in all else like the function itself.

    Parameters
    ----------
    kernels : tuple of str
        Arguments that are known by their bytes.
    function : callable
        Takes an image first, and `out` if it writes to the caller's arrays.
    """

    cdef dict __dict__
    cdef object function
    cdef tuple names, defaults, kernels
    cdef dict places
    cdef int count, positional, out, threads
    cdef bint[ARGUMENTS] has_bytes

    def __init__(self, tuple kernels, function):
        cdef int i
        self.function = function
        found = list(signature(function).parameters.values())
        self.names = tuple([one.name for one in found])
        self.defaults = tuple([one.default for one in found])
        self.places = {name: place for place, name in enumerate(self.names)}
        self.count = len(found)
        if self.count > ARGUMENTS:
            raise ValueError("a function has too many arguments")
        self.positional = sum([one.kind is one.POSITIONAL_OR_KEYWORD for one in found])
        self.out, self.threads = self.places.get("out", -1), self.places.get("threads", -1)
        for i in range(self.count):
            self.has_bytes[i] = self.names[i] in kernels
        update_wrapper(self, function)

    def __get__(self, instance, owner):
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self):
        return self.__qualname__

    def __repr__(self):
        return repr(self.function)

    def __call__(self, *args, **kwargs):
        cdef PyObject *given[ARGUMENTS]
        cdef Operand operands[OPERANDS]
        cdef Key key
        cdef Entry entry
        cdef int i, count = 0
        cdef object out = None, around
        if get_value(NOTES) is not None or not self.place(args, kwargs, given):
            return self.function(*args, **kwargs)
        if self.out >= 0 and given[self.out] != NULL:
            out = <object> given[self.out]
        around = KEPT.around(), machine_of()
        for i in range(OPERANDS):
            operands[i].view.held = False
        try:
            if not self.describe(&key, given, around, operands, &count):
                return self.function(*args, **kwargs)
            entry = KEPT.find(&key)
            if entry is None:
                entry = self.prepare(&key, given, around, operands, count)
                if entry.ready is None:
                    result = self.function(*args, **kwargs)
                    KEPT.keep(entry)
                    return result
                if entry.size <= KEPT.most_bytes // 4:
                    KEPT.keep(entry)
            elif entry.ready is None:
                return self.function(*args, **kwargs)
            return entry.ready.run(self.names, operands, count, out)
        finally:
            for i in range(OPERANDS):
                release(&operands[i].view)

    cdef bint place(self, tuple args, dict kwargs, PyObject **given) except -1:
        """Find the arguments, NULL for defaults; False if they are not as the function has them."""
        cdef Py_ssize_t at = 0
        cdef PyObject *name = NULL
        cdef PyObject *value = NULL
        cdef int i, place
        if len(args) > self.positional:
            return False
        for i in range(self.count):
            given[i] = NULL
        for i in range(<int> len(args)):
            given[i] = <PyObject *> args[i]
        while PyDict_Next(kwargs, &at, &name, &value):
            place = self.places.get(<object> name, -1)
            if place < 0 or given[place] != NULL:
                return False
            given[place] = value
        return True

    cdef bint describe(self, Key *key, PyObject **given, tuple around, Operand *operands,
                       int *count) except -1:
        """Describe a call; False if equal arguments may mean something else another time."""
        cdef int i
        cdef uint64_t defaults = 0
        cdef object scope = scope_around(True, False)
        if given[0] == NULL or type(<object> given[0]) is not ndarray:
            return False
        key.end, key.full = 0, False
        add(key, <uintptr_t> <PyObject *> self)
        add(key, <uintptr_t> <PyObject *> around[0])
        add(key, <uintptr_t> <PyObject *> around[1])
        if not add_value(key, None if scope is None else (<tuple> scope)[0]):
            return False
        try:
            if not add_array(key, <object> given[0], IMAGE, &operands[0]):
                return False
            operands[0].argument, count[0] = 0, 1
            for i in range(1, self.count):
                if i == self.out:
                    continue
                if given[i] == NULL or given[i] == <PyObject *> self.defaults[i]:
                    defaults |= <uint64_t> 1 << i
                elif self.has_bytes[i]:
                    if not add_kernel(key, <object> given[i], &operands[count[0]]):
                        return False
                    operands[count[0]].argument = i
                    count[0] += 1
                elif not add_value(key, <object> given[i]):
                    return False
        except (BufferError, ValueError):  # memory that is not an array's own
            return False
        add(key, defaults)
        finish(key)
        return not key.full

    cdef Entry prepare(self, const Key *key, PyObject **given, object around, Operand *operands,
                       int count):
        """Prepare what a call runs, if that is one direct filter."""
        cdef int i
        cdef Entry entry = Entry.__new__(Entry)
        entry.hash, entry.around = key.hash, around
        entry.words = PyBytes_FromStringAndSize(<const char *> key.words, 8 * key.end)
        more = {}
        for i in range(1, self.count):
            if given[i] != NULL and i != self.out:
                more[self.names[i]] = <object> given[i]
        for i in range(1, count):
            more[self.names[operands[i].argument]] = kernel_at(key, operands[i].first)
        image = <object> given[0]
        found = filter_of(partial(self.function, **more), image, more.get("threads"))
        entry.size = len(entry.words)
        if found is not None:
            filter, shape, planes, dtype, size = found
            entry.ready = Ready(filter, shape, planes, dtype)
            entry.size += size
        return entry


def keeping(*kernels):
    """Keep the filters of a function: a decorator.

    Parameters
    ----------
    *kernels : str
        Arguments that are kernels, known by their bytes.
    """
    return partial(KeptFunction, kernels)
