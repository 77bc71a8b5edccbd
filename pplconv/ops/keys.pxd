"""Caches of plans: their size, and the arguments that can be part of a key."""

# Bound of a function's cache: plans are small (a few hundred bytes each, no tables).
cdef enum:
    PLANS = 256


cdef inline int keep_plan(dict plans, object key, object made, Py_ssize_t most) except -1:
    """Keep a plan in the place of the oldest; the caller holds the lock of the cache."""
    while len(plans) >= most:
        del plans[next(iter(plans))]
    plans[key] = made
    return 0


cdef inline bint is_plain(object value) noexcept:
    """Whether equal values of these exact types mean the same argument (True is not 1)."""
    kind = type(value)
    if kind is int or kind is str or value is None:
        return True
    if kind is tuple:
        for item in <tuple> value:
            if not is_plain(item):
                return False
        return True
    return False


cdef inline bint is_plain_activation(object value) noexcept:
    """The same for an activation: 6 and 6.0 are one bound, but True is an error."""
    if type(value) is not tuple:
        return is_plain(value)
    for item in <tuple> value:
        if type(item) is not float and type(item) is not int and type(item) is not str:
            return False
    return True


cdef inline bint is_prelu(object value) noexcept:
    """Whether an activation has the form of a PReLU with slopes in an array."""
    return (type(value) is tuple and len(<tuple> value) == 2 and type(value[0]) is str
            and value[0] == "prelu")
