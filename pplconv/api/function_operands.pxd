"""How functions read their arrays and what the code around a call says, before they plan."""

from pplconv.memory.arrays cimport as_array, conversion
from pplconv.ops.ready cimport scope_around


cdef inline tuple both(object first, str first_name, object second, str second_name):
    """Two operands as arrays; numbers of Python take the type of the other one."""
    if type(first) is list or type(first) is tuple:
        y = as_array(second, second_name)
        return as_array(first, first_name, y.dtype), y
    x = as_array(first, first_name)
    return x, as_array(second, second_name, x.dtype)


cdef inline object like(object given, str name, object x):
    """Another operand as an array, if there is one."""
    return None if given is None else as_array(given, name, x.dtype)


cdef inline int refuse_another_type(object w, object x) except -1:
    """Refuse weights of another type than the input, whatever the order of bytes."""
    if w.dtype is not x.dtype and w.dtype.newbyteorder("=") != x.dtype.newbyteorder("="):
        raise TypeError(f"weight must be {x.dtype} like input, got {w.dtype}"
                        f"{conversion(w.dtype, x.dtype)}")
    return 0


cdef inline tuple asked(object threads, object tolerance):
    """Team and tolerance: as arguments say, else as the code around the call does."""
    scope = scope_around(True, True)
    if scope is None:
        return threads, tolerance
    return ((<tuple> scope)[0] if threads is None else threads,
            (<tuple> scope)[1] if tolerance is None else tolerance)
