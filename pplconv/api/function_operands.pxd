"""How functions read their arrays and the settings around a call, before they plan."""

from pplconv.memory.arrays cimport as_array, conversion


cdef inline bint is_numbers(object given) noexcept:
    """Whether an operand is Python numbers, which take the type of the other operand."""
    return type(given) is list or type(given) is tuple


cdef inline object like(object given, str name, object x):
    """Another operand as an array, if there is one."""
    return None if given is None else as_array(given, name, x.dtype)


cdef inline int refuse_another_type(object w, object x) except -1:
    """Refuse weights of another type than the input, whatever the order of bytes."""
    if w.dtype is not x.dtype and w.dtype.newbyteorder("=") != x.dtype.newbyteorder("="):
        raise TypeError(f"weight must be {x.dtype} like input, got {w.dtype}"
                        f"{conversion(w.dtype, x.dtype)}")
    return 0


cdef inline tuple asked(tuple scope, object threads, object tolerance):
    """Team and tolerance: from the arguments, else from the code around the call."""
    return (scope[0] if threads is None else threads, scope[1] if tolerance is None else tolerance)
