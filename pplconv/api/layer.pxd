"""What prepared operators have in common; see ``layer.pyx``."""

from pplconv.api.ready cimport ReadyPlans


cdef class Layer:
    cdef readonly object weight, bias, activation, dtype, precision
    cdef str dtype_name
    cdef dict settings
    cdef ReadyPlans plans

    cdef inline ReadyPlans made(self):
        if self.plans is None:  # C would follow the pointer
            raise TypeError(f"{type(self).__name__} was made without its __init__")
        return self.plans

    cdef int keep_copies(self) except -1
    cdef object shown_plan(self, tuple shape)
    cdef str arrays_text(self)
    cdef tuple pickled(self)
    cdef tuple pickling(self)
