"""Initializers that callers may override, as onnxruntime does from version 4 of the IR on.

An initializer that is also an input is a constant, unless a run is given another array for it. Then
it is an input of a network of its own, which is made once for each set of overridden names.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import replace

import onnx_ir as ir

from ..runtime import ForkableLock
from .network import Network, Shared
from .preparing import prepare

__all__ = ["Overrides", "overridable"]

_FIRST_VERSION = 4
_MOST_SETS = 4
"""Sets of overridden names whose networks are kept."""


def overridable(model: ir.Model) -> list[ir.Value]:
    """List the initializers that are inputs, too.

    Parameters
    ----------
    model : ir.Model
        A model as `loading.load` gives it.
    """
    if model.ir_version < _FIRST_VERSION:
        return []
    return [value for value in model.graph.inputs if value.name in model.graph.initializers]


class Overrides:
    """Networks of a model in which some initializers are inputs.

    Parameters
    ----------
    model : ir.Model
        A model as `loading.load` gives it.
    shared : Shared
        What the session's parts share; these networks pack weights of their own.
    kept : int
        Number of programs that each network keeps.
    """

    def __init__(self, model: ir.Model, shared: Shared, kept: int) -> None:
        self.model = model
        self.names = [value.name or "" for value in overridable(model)]
        self._shared, self._kept = shared, kept
        self._networks: OrderedDict[frozenset[str], Network] = OrderedDict()
        self._lock = ForkableLock()

    def network(self, names: Iterable[str]) -> Network:
        """Find or make the network with inputs for these names.

        Raises
        ------
        ValueError
            If an operator needs one of them as a constant.
        """
        key = frozenset(names)
        with self._lock:
            found = self._networks.get(key)
            if found is None:
                found = self._networks[key] = self._made(key)
            self._networks.move_to_end(key)
            while len(self._networks) > _MOST_SETS:
                self._networks.popitem(last=False)
            return found

    def _made(self, names: Collection[str]) -> Network:
        shared = replace(self._shared, packed={}, making=ForkableLock())
        try:
            prepared = prepare(self.model, names)
            shared.check(prepared.model.graph)
        except ValueError as error:
            raise ValueError(f"feed: without the initializers {sorted(names)}, {error}") from error
        return Network(prepared, shared, self._kept)
