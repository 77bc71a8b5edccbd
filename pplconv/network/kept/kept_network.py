"""`KeptNetwork`: programs that were compiled before, and the model behind them for other shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...runtime import ForkableLock, scoped_team
from ..compiled import Compiled
from ..interface import Interface, shaped
from ..plan_settings import Settings
from ..programs import Found, Program, Programs, check_memory, key_of
from ..storage import Array, Shape

__all__ = ["KeptNetwork", "Source"]


class Source(Protocol):
    """Where programs lie."""

    def find(self, key: Any, settings: Settings, interface: Interface) -> Found | None:
        """Read a program; None if there is none for this key."""

    def has(self, key: Any) -> bool:
        """Tell whether there is a program for this key."""

    def add(self, key: Any, found: Found, advice: str) -> None:
        """Receive a program that was compiled because there was none."""

    def refusal(self, key: Any) -> str:
        """Say that there is no program for this key, and no model to compile one of."""

    def reopening(self) -> tuple[Any, ...] | None:
        """Give arguments of `files.open_kept` that open these programs again; None if none do."""


class KeptNetwork:
    """Programs that were compiled before; a `Network` makes others, if there is a model.

    Parameters
    ----------
    interface : Interface
        What callers see of it.
    source : Source
        Where the programs lie.
    settings : Settings
        Team, and limits of memory, of its runs; the settings that plans were made with.
    kept : int
        Number of programs to keep in memory.
    behind : callable, optional
        Gives the network of the model; called once, when it is first needed.
    network : Network, optional
        The same, if it is there already.
    """

    def __init__(
        self, interface: Interface, source: Source, settings: Settings, kept: int,
        behind: Callable[[], Any] | None = None, network: Any = None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.programs: Programs[Found] = Programs(kept, ForkableLock())
        self.interface, self.source = interface, source
        self._names = [value.name for value in interface.declared]
        self._behind, self._network = behind, network

    @property
    def shape_inputs(self) -> frozenset[str]:
        """Inputs that decide shapes or branches."""
        return self.interface.shape_inputs

    def is_ready(self, inputs: Sequence[Any]) -> bool:
        """Whether the program for these inputs is compiled: in memory, or in a file."""
        key = self.key(inputs)[0]
        return key in self.programs or self.source.has(key)

    def team(self) -> int | None:
        """Team of the enclosing ``runtime`` scope, which has programs of its own; else None."""
        return scoped_team() if self.settings.threads is None else None

    def key(
        self, inputs: Sequence[Any]
    ) -> tuple[Any, dict[str, Shape], dict[str, Array], list[Any]]:
        """Give the key of the program for these inputs, as `programs.key_of` does."""
        return key_of(self._names, inputs, self.shape_inputs, self.team())

    def find(self, inputs: Sequence[Any]) -> tuple[Program, dict[str, list[str]], list[Any]]:
        """Find, read or make the program for these inputs; see `Network.find`.

        Raises
        ------
        ValueError
            If there is no program for these shapes, and no model to compile one of.
        """
        key, _, _, rest = self.key(inputs)
        found = self.programs.find(key)
        if found is None:
            with self.programs.making:
                found = self.programs.find(key) or self._read(key)
                if found is None:
                    if self._behind is None and self._network is None:
                        raise ValueError(self.source.refusal(key))
                    program, fired, _ = self.with_model().find(inputs)
                    found = program, fired
                    self.source.add(key, found, self.advice(program))
                elif isinstance(found[0], Compiled):
                    check_memory(found[0], self.settings.max_memory)
                self.programs.add(key, found)
        return *found, rest

    def _read(self, key: Any) -> Found | None:
        return self.source.find(key, self.settings, self.interface)

    def with_model(self) -> Any:
        """Give the network that has the model.

        Raises
        ------
        ValueError
            If there is none.
        """
        if self._network is None:
            if self._behind is None:
                raise ValueError(
                    "the session has programs from a file without the network itself: open the "
                    "ONNX model, or save the file with portable=True"
                )
            self._network = self._behind()
        return self._network

    def advice(self, program: Program) -> str:
        """Say what ``precision="low"`` would gain, as when the program was compiled."""
        if self._network is not None:
            return str(self._network.advice(program))
        return program.advice if isinstance(program, Compiled) else ""

    def with_programs(self) -> Any:
        """Give the network that has the model, with programs of the same shapes."""
        network = self.with_model()
        for key, _ in self.programs.all():
            network.find(self._inputs(key))
        return network

    def reopening(self) -> tuple[Any, ...] | None:
        """Give arguments of `files.open_kept` that open its file again; None if there is none."""
        return self.source.reopening()

    def _inputs(self, key: Any) -> list[Any]:
        """Give inputs of the key of a program; nobody reads their elements, only their shapes."""
        shapes, constants, _ = key
        given: dict[str, Any] = {}
        told = iter(constants)
        for value, shape in zip(self.interface.declared, shapes, strict=True):
            given[value.name] = shape
            if value.name in self.shape_inputs and shape is not None:
                given[value.name] = np.frombuffer(next(told), value.dtype).reshape(shape)
        return shaped(self.interface.declared, given, self.shape_inputs)
