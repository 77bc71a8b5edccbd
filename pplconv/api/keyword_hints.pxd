"""Errors of unknown keyword arguments say what was probably meant: ``strides`` is `stride` here.

Compiled code reads the arguments of a call before the first line of a function, and ``**others``
would make a dictionary in each call and stand in the signature. So another entry stands before that
of a function or a class: a call jumps once more, and an error is looked at once it is there.
"""

from cpython.object cimport PyObject


cdef extern from *:
    """
    /* Entries as the compiler of Cython made them: one kind for all functions of a module. */
    CYTHON_UNUSED static vectorcallfunc plain_call = NULL;
    CYTHON_UNUSED static initproc plain_init = NULL;
    #define call_entry(function) \
        ((vectorcallfunc *)((char *)(function) + Py_TYPE(function)->tp_vectorcall_offset))
    #define init_entry(type) (&((PyTypeObject *)(type))->tp_init)
    """
    ctypedef object (*Call "vectorcallfunc")(object, PyObject *const *, size_t, PyObject *)
    ctypedef int (*Init "initproc")(object, object, PyObject *) except -1
    Call plain_call
    Init plain_init
    Call *call_entry(object)
    Init *init_entry(object)


cdef inline object explained(object called, object error):
    # A table that only mistakes need, imported with the first of them.
    from pplconv.arguments.other_words import explained as words
    return words(called, error)


cdef inline object hinted_call(object function, PyObject *const *arguments, size_t count,
                               PyObject *names):
    try:
        return plain_call(function, arguments, count, names)
    except TypeError as error:
        raise explained(function, error)


cdef inline int hinted_init(object self, object arguments, PyObject *named) except -1:
    try:
        return plain_init(self, arguments, named)
    except TypeError as error:
        raise explained(type(self), error)


cdef inline void hint_calls(object function):
    """Put the other entry before a function's; once in a module."""
    global plain_call
    plain_call = call_entry(function)[0]
    call_entry(function)[0] = hinted_call


cdef inline void hint_init(object layer):
    """Put the other entry before a class's; once in a module."""
    global plain_init
    plain_init = init_entry(layer)[0]
    init_entry(layer)[0] = hinted_init
