# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""Base class of `Conv2d`, `ConvTranspose2d` and `Linear`: packed weights, settings, pickles."""

from pplconv.memory.arrays cimport as_array, conversion, float_name, is_brain
from pplconv.ops.ready cimport plain_bias, read_only

import numpy as np

from pplconv.arguments import checks
from pplconv.arguments.activation import activation_of, activation_text, kept_activation
from pplconv.arguments.argument_names import named
from pplconv.arguments.settings import checked, state_of
from pplconv.memory.dtypes import array_dtype
from pplconv.planner import as_run_here


cdef object own_copy(object array):
    """Copy the weights before other arguments are read: reading those may change the array."""
    return np.array(array, order="C", copy=True)


cdef class Layer:
    """An operator with its weights packed once; safe to call from many threads at once.

    Attributes
    ----------
    weight, bias : ndarray
        The copies, read-only; `bias` is None if there is none.
    """

    cdef object converted(self, object input):
        """Convert an input that kernels cannot read where it lies; refuse another type."""
        input = as_array(input, "input", self.dtype)
        if float_name(input, "input") != self.dtype_name:
            raise TypeError(f"input must be {self.dtype} like weight, got {input.dtype}"
                            f"{conversion(input.dtype, self.dtype)}")
        return input

    cdef tuple describe_type(self, str name, dict given):
        """Keep the type of the weights; return the types that may be computed in."""
        self.dtype_name = name
        self.dtype = array_dtype(name)
        self.precision = given.get("precision")
        return checks.check_precision(self.precision, self.dtype_name)

    cdef object describe_rest(self, dict given, object array, object channels):
        """Check and keep activation, settings, bias and weights; return the `Activation`."""
        self.activation = kept_activation(given["activation"], channels)
        described = activation_of(self.activation, channels)
        self.settings = {**checked(given), "epilogue": described.epilogue}
        bias = given.get("bias")
        self.bias = None if bias is None else plain_bias(bias, channels, self.dtype)
        self.weight = array
        return described

    cdef int keep_copies(self) except -1:
        """Copy the bias before the first plan is made; `own_copy` has copied the weights."""
        if self.bias is not None:
            self.bias = read_only(np.array(self.bias, self.dtype, order="C"))
        # Calls compute with packed copies, so writing to the visible array would do nothing.
        self.weight = read_only(np.ascontiguousarray(self.weight, self.dtype))
        if self.zeros is not None:
            self.zeros.weight = self.weight
        if self.plans is not None:
            self.plans.keep_arrays(self.weight, self.bias)
        return 0

    cdef object shown_plan(self, tuple shape):
        """Return the plan for one shape of the problem, with the team that a call would have."""
        with named(input="input_shape"):
            return as_run_here(self.made().make(shape).prepared.plan)

    @property
    def weight_shape(self):
        """Shape of the weights."""
        return self.weight.shape

    @property
    def search(self):
        """As it was asked for."""
        return self.settings["search"]

    @property
    def search_seconds(self):
        """As it was asked for."""
        return self.settings["search_seconds"]

    @property
    def search_context(self):
        """As it was asked for."""
        return self.settings["search_context"]

    @property
    def max_workspace(self):
        """As it was asked for."""
        return self.settings["max_workspace"]

    @property
    def threads(self):
        """The requested team; `plan_for` tells how many threads run."""
        return self.settings["threads"]

    def __repr__(self):
        shown = [f"<{self.dtype} array of shape {self.weight.shape}>"]
        for name in self.kept()[1:]:
            value = getattr(self, name)
            if name == "bias" and value is not None:
                shown.append(f"bias=<{self.dtype} array of shape {value.shape}>")
            elif name == "activation":
                shown.append(f"activation={activation_text(value)}")
            else:
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    cdef tuple kept(self):
        """Names of the arguments that `repr` shows and pickles hold, in their order."""
        raise NotImplementedError

    cdef object base(self):
        """The class that pickles itself in this way; objects may be of a subclass."""
        raise NotImplementedError

    cdef int describe(self, dict given) except -1:
        """Check and keep every argument; the arrays are kept as they are.

        `given` has each argument by its name, and belongs to the layer.
        """
        raise NotImplementedError

    def __reduce__(self):
        return rebuild, (self.base(), type(self), *values_of(self)), state_of(self)

    def __reduce_prepared__(self, threads):
        """Reduce for a process of this machine and version that shares memory with this one.

        Unlike an ordinary pickle, the result carries the plans and the packed weights, as buffers
        that protocol 5 can keep out of band; `rebuild_prepared` uses all arrays where they lie.

        Parameters
        ----------
        threads : int
            Team of the other process: plans are made for it, unless `threads` was given to the
            constructor.

        Returns
        -------
        tuple
            As from `object.__reduce__`.
        """
        base = self.base()
        # A subclass with its own way of pickling is pickled that way.
        if (type(self).__reduce__ is not base.__reduce__
                or type(self).__reduce_ex__ is not base.__reduce_ex__):
            return self.__reduce_ex__(5)
        pickled = tuple([out_of_band(value) for value in values_of(self)])
        values = (base, type(self), pickled, *self.made().for_other_process(threads))
        return rebuild_prepared, values, state_of(self)


class Bits:
    """Pickle an array of bfloat16 as its bits, which stay out of band; bfloat16 would be copied.

    Parameters
    ----------
    array : ndarray
        The array that unpickling gives back.
    """

    def __init__(self, array):
        self.array = array

    def __reduce__(self):
        return numbers_of, (self.array.view(np.uint16), self.array.dtype)


def numbers_of(bits, dtype):
    """Return the array that `Bits` replaced, on the memory that arrived."""
    return bits.view(dtype)


cdef object out_of_band(object value):
    """Return an argument as pickles with out-of-band buffers hold it."""
    return Bits(value) if isinstance(value, np.ndarray) and is_brain(value.dtype) else value


cdef tuple values_of(Layer layer):
    """The arguments of a layer that a pickle holds, in their order."""
    return tuple([getattr(layer, name) for name in layer.kept()])


cdef dict arguments_of(Layer layer, tuple pickled):
    """The same by name; old pickles lack the newest arguments."""
    return dict(zip(layer.kept(), pickled))


def ready_of(Layer layer not None, tuple shape):
    """Return the plan of a layer for inputs of one shape, and its weights packed for that plan."""
    ready = layer.made().make(shape)
    return ready.prepared, ready.packed


def rebuild(base, kind, *pickled):
    """Rebuild an object of `kind`: `base`, or a subclass, whose constructor may take anything."""
    cdef Layer layer = base.__new__(kind)
    base.__init__(layer, **arguments_of(layer, pickled))
    return layer


def rebuild_prepared(base, kind, tuple pickled, list plans, dict packed, double tolerance):
    """Rebuild the same on read-only arrays, with plans and packed weights."""
    cdef Layer layer = base.__new__(kind)
    layer.describe(arguments_of(layer, pickled))
    layer.plans.take_over(plans, packed, tolerance)
    return layer
