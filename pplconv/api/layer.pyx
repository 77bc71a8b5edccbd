# cython: boundscheck=False, wraparound=False, initializedcheck=False
"""What `Conv2d` and `Linear` have in common: weights kept and packed once, settings, pickles."""

from dataclasses import replace

import numpy as np

from pplconv.api.ready cimport read_only
from pplconv.api.settings import state_of
from pplconv.runtime import pinned_cores


cdef class Layer:
    """An operator with its weights packed once; safe to call from many threads at once.

    Attributes
    ----------
    weight, bias : ndarray
        The copies, read-only; `bias` is None if there is none.
    """

    cdef int keep_copies(self) except -1:
        """Copy the arrays before the first plan is made."""
        if self.bias is not None:
            self.bias = read_only(np.array(self.bias, self.dtype, order="C"))
        # Calls compute with packed copies, so writing to the array that is shown would do nothing.
        self.weight = read_only(np.array(self.weight, self.dtype, order="C", copy=True))
        self.plans.keep_arrays(self.weight, self.bias)
        return 0

    cdef object shown_plan(self, tuple shape):
        """The plan for one shape of the problem; under a pin with no more threads than cores."""
        plan = self.made().make(shape).prepared.plan
        cores = pinned_cores()
        if cores is None or plan.threads <= cores:
            return plan
        return replace(plan, threads=cores)

    cdef str arrays_text(self):
        """Weights and bias as `repr` shows them."""
        bias = None if self.bias is None else f"<{self.dtype} array of shape {self.bias.shape}>"
        return f"<{self.dtype} array of shape {self.weight.shape}>, bias={bias}"

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
    def max_workspace(self):
        """As it was asked for."""
        return self.settings["max_workspace"]

    @property
    def threads(self):
        """The requested team; `plan_for` tells how many threads run."""
        return self.settings["threads"]

    cdef tuple pickled(self):
        """The arguments of the function that rebuilds it."""
        raise NotImplementedError

    cdef tuple pickling(self):
        """The class, and three functions that rebuild: it, a subclass, and one with its plans."""
        raise NotImplementedError

    def __reduce__(self):
        base, rebuild, rebuild_subclass, _ = self.pickling()
        values = self.pickled()
        if type(self) is base:
            return rebuild, values
        return rebuild_subclass, (type(self), *values), state_of(self)

    def __reduce_prepared__(self, threads):
        """Reduce for a process of this machine and version that shares memory with this one.

        Unlike an ordinary pickle it carries the plans and the packed weights, as buffers that
        protocol 5 can leave out of band; the function that rebuilds it uses all arrays where they
        lie.

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
        base, _, _, rebuild = self.pickling()
        # A subclass with its own way of pickling is pickled that way.
        if (type(self).__reduce__ is not base.__reduce__
                or type(self).__reduce_ex__ is not base.__reduce_ex__):
            return self.__reduce_ex__(5)
        values = (self.pickled(), *self.made().for_other_process(threads))
        if type(self) is base:
            return rebuild, values
        return rebuild, (*values, type(self)), state_of(self)
