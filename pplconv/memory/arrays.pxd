"""The caller's arrays as plain memory; see ``arrays.pyx``."""

from cpython.buffer cimport PyBuffer_Release
from libc.stdint cimport int64_t


# Declared without a check for errors, which `hold_bits` makes.
cdef extern from "Python.h":
    int PyObject_GetBuffer(object array, Py_buffer *buffer, int flags)


cdef struct View:
    # The memory of a C-contiguous array, held for the length of a call.
    Py_buffer buffer
    bint held


cdef int hold_bits(object array, Py_buffer *buffer, int flags) except -1


cdef inline void release(View *view) noexcept:
    if view.held:
        PyBuffer_Release(&view.buffer)
        view.held = False


cdef inline int hold(object array, View *view, int flags) except -1:
    if PyObject_GetBuffer(array, &view.buffer, flags) < 0:
        hold_bits(array, &view.buffer, flags)
    view.held = True
    return 0


cdef inline bint has_dims(const View *view, const int64_t *dims, int ndim) noexcept:
    """Whether a view has the `ndim` dimensions `dims`, or all but the first of one image."""
    cdef int i, shift = ndim - view.buffer.ndim
    if shift != 0 and (shift != 1 or dims[0] != 1):
        return False
    for i in range(view.buffer.ndim):
        if view.buffer.shape[i] != dims[i + shift]:
            return False
    return True


cdef object as_array(object value, str name, object dtype=*)
cdef object plain_out(object out)
cdef int refuse_change(str name) except -1
cdef object as_given(object given, object result, object out)
cdef bint is_brain(object dtype)
cdef str dtype_name(object array, str name)
cdef str float_name(object array, str name)
cdef str conversion(object dtype, object wanted)
cdef tuple batched_shape(object array, str name, int ndim)
cdef int check_operand(object array, str name, tuple shape, object dtype) except -1
cdef bint lies_plain(object array, object dtype, View *view) except -1
cdef object hold_plain(object array, object dtype, View *view)
cdef int refuse_out(object out, tuple shape, object dtype) except -1
cdef int hold_out(object out, tuple shape, const int64_t *dims, int ndim, object dtype,
                  View *view) except -1
cdef int check_overlap(object out, const View *out_view, object other, const View *other_view,
                       str name) except -1
cdef object new_array(tuple shape, object dtype)
cdef const char *address_of(object array, int64_t *size) except? NULL


cdef inline bint lies_within(int64_t offset, int64_t low, int64_t size,
                             int64_t room) noexcept nogil:
    # Whether bytes from `low`, at most 0, to `size` behind the offset lie in a room. No sum wraps
    # around.
    return 0 <= size <= room and -low <= offset <= room - size
