"""Initializers that callers may override, as onnxruntime does from version 4 of the IR on.

An initializer that is also an input is a constant, unless a run is given another array for it. Then
it is an input of a network of its own, which is made once for each set of overridden names. Where
an operator needs constants, as scales are, small arrays become constants of a network for their
values.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from ..runtime import ForkableLock
from .declarations import declared, names_of, told
from .interface import Declared, NodeArg, item_of
from .network import Network, Shared
from .preparing import prepare
from .python_values import is_container
from .storage import Array

__all__ = ["Overrides", "overridable"]

_FIRST_VERSION = 4
_MOST_NETWORKS = 8
_MOST_ELEMENTS = 4096
"""Of arrays that become constants where an operator needs one."""


def overridable(model: ir.Model) -> list[ir.Value]:
    """List the initializers that are inputs, too.

    Parameters
    ----------
    model : ir.Model
        A model as `loading.load` gives it.
    """
    if model.ir_version < _FIRST_VERSION:
        return []
    inputs = (value for value in model.graph.inputs if not is_container(value))
    return [value for value in inputs if value.name in model.graph.initializers]


class Overrides:
    """Networks of a model in which some initializers are inputs, or other constants.

    Parameters
    ----------
    model : ir.Model
        A model as `loading.load` gives it.
    shared : Shared
        What the session's parts share; these networks pack weights of their own.
    kept : int
        Number of programs that each network keeps.

    Attributes
    ----------
    declared : dict
        What the model declares of the initializers that may be overridden, by name.
    """

    def __init__(self, model: ir.Model, shared: Shared, kept: int) -> None:
        self.model = model
        self.declared = {value.name or "": declared(value) for value in overridable(model)}
        self._shared, self._programs = shared, kept
        # Networks, or why there is none, the least recently used first.
        self._known: OrderedDict[Any, Network | ValueError] = OrderedDict()
        self._lock = ForkableLock()

    def told(self) -> list[NodeArg]:
        """List the initializers that may be overridden."""
        numbered = names_of(self.model.graph)
        return [told(value, numbered) for value in overridable(self.model)]

    def find(
        self, given: Mapping[str, Any]
    ) -> tuple[Network, list[Declared], frozenset[str]] | None:
        """Find or make the network for the names that are given.

        Parameters
        ----------
        given : mapping of str to array_like
            Inputs; those of other names are not looked at.

        Returns
        -------
        network : Network
        inputs : list of Declared
            Its inputs.
        constants : frozenset of str
            Names that it has no input for: its results are those of the given arrays.
            None in place of all if nothing is overridden.

        Raises
        ------
        TypeError, ValueError
            If an operator needs constants in place of large arrays, or of shapes, or an array does
            not fit.
        """
        names = frozenset(self.declared.keys() & given.keys())
        if not names:
            return None
        with self._lock:
            found = self._kept(names, lambda: self._made(names, {}))
            if isinstance(found, Network):
                return found, _inputs_of(found), frozenset()
            arrays = self._constants(names, given)
            told = tuple((name, array.shape, array.tobytes()) for name, array in arrays.items())
            again = self._kept((names, told), lambda: self._made(names, arrays)) if arrays else None
        if isinstance(again, Network):
            return again, _inputs_of(again), frozenset(arrays)
        raise ValueError(
            f"feed: cannot override the initializers {sorted(names)}: {found}"
        ) from found

    def _constants(self, names: Iterable[str], given: Mapping[str, Any]) -> dict[str, Array]:
        """Check the given arrays; give the small ones of numbers."""
        arrays = {}
        for name in sorted(names):
            if 0 < getattr(given[name], "size", 0) <= _MOST_ELEMENTS:
                array = item_of(self.declared[name], given)
                if isinstance(array, np.ndarray) and not array.dtype.hasobject:
                    arrays[name] = array
        return arrays

    def _kept(self, key: Any, make: Callable[[], Network | ValueError]) -> Network | ValueError:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make()
        self._known.move_to_end(key)
        while len(self._known) > _MOST_NETWORKS:
            self._known.popitem(last=False)
        return found

    def _made(self, names: frozenset[str], arrays: Mapping[str, Array]) -> Network | ValueError:
        model = self.model.clone()
        for name, array in arrays.items():
            value = model.graph.initializers[name]
            value.const_value = ir.Tensor(array.copy(), name=name)
            value.shape = ir.Shape(array.shape)
        shared = replace(self._shared, packed={}, making=ForkableLock())
        try:
            prepared = prepare(model, names - arrays.keys())
            shared.check(prepared.model.graph)
        except ValueError as error:
            return error
        return Network(prepared, shared, self._programs)


def _inputs_of(network: Network) -> list[Declared]:
    return [declared(value) for value in network.model.graph.inputs]
