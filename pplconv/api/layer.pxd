"""The base class of prepared operators; see ``layer.pyx``."""

from pplconv.ops.ready cimport ReadyPlans
from pplconv.memory.arrays cimport View, as_array, lies_plain


cdef object own_copy(object array)


cdef class Layer:
    cdef readonly object weight, bias, activation, dtype, precision
    cdef str dtype_name
    cdef dict settings
    cdef object zeros  # `SparseWeights` of operators that may leave zeros out
    cdef ReadyPlans plans

    cdef inline ReadyPlans made(self):
        if self.plans is None:  # C would follow the pointer
            raise TypeError(f"{type(self).__name__} was made without its __init__")
        return self.plans

    cdef inline object added(self, object residual):
        """Convert the residual to an array, before any array is held."""
        return None if residual is None else as_array(residual, "residual", self.dtype)

    cdef inline object taken(self, object input, View *view):
        """Convert the input to an array; hold it if kernels can read it where it lies."""
        if lies_plain(input, self.dtype, view):
            return input
        return self.converted(input)

    cdef object converted(self, object input)
    cdef tuple describe_type(self, str name, dict given)
    cdef object describe_rest(self, dict given, object array, object channels)
    cdef int keep_copies(self) except -1
    cdef object shown_plan(self, tuple shape)
    cdef tuple kept(self)
    cdef object base(self)
    cdef int describe(self, dict given) except -1
