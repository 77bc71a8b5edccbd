"""`Opened`: the parts that a session is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .._records import NamedTuple
from .interface import Declared, Interface, NodeArg
from .plan_settings import Settings
from .programs import Found, Program, Programs

__all__ = ["AnyNetwork", "Opened"]


class AnyNetwork(Protocol):
    """A network of a session: `network.Network`, or a `KeptNetwork` over files of programs."""

    programs: Programs[Found]

    @property
    def settings(self) -> Settings:
        """Settings of its plans."""

    @property
    def shape_inputs(self) -> frozenset[str]:
        """Inputs that decide shapes or branches."""

    def key(self, inputs: Sequence[Any]) -> tuple[Any, Any, Any, list[Any]]:
        """Give the key of the program for these inputs, as `programs.key_of` does."""

    def find(self, inputs: Sequence[Any]) -> tuple[Program, dict[str, list[str]], list[Any]]:
        """Find or make the program for these inputs, and give the fired rules."""

    def is_ready(self, inputs: Sequence[Any]) -> bool:
        """Whether the program for these inputs is compiled."""

    def advice(self, program: Program) -> str:
        """Say what ``precision="low"`` would gain."""

    def with_model(self) -> Any:
        """Give the `network.Network` that has the model."""

    def with_programs(self) -> Any:
        """Give the same, with its programs."""

    def reopening(self) -> tuple[Any, ...] | None:
        """Give arguments that open its file again; None if there is no such file."""


class _AnyOverrides(Protocol):
    """`overriding.Overrides`."""

    declared: dict[str, Declared]

    def told(self) -> list[NodeArg]:
        """List the initializers that may be overridden."""

    def find(self, given: Mapping[str, Any]) -> tuple[Any, list[Declared], frozenset[str]] | None:
        """Find or make the network for the names that are given."""


class Opened(NamedTuple):
    """The parts of a session.

    Parameters
    ----------
    name : str
        Of the file, or of the graph.
    network : Network or KeptNetwork
        Finds and makes programs.
    interface : Interface
        Its inputs, outputs and texts.
    overrides : Overrides or None
        Networks for other initializers, if there are any that a feed may override.
    is_whole : bool
        Whether the model's bytes and a run's inputs are all that programs depend on: no weights lie
        in other files, and none may be overridden.
    """

    name: str
    network: AnyNetwork
    interface: Interface
    overrides: _AnyOverrides | None
    is_whole: bool = False
