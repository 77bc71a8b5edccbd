"""`Network`: a prepared model and its programs; a session's own, or a part of one behind a cut."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from .._literals import Fallback
from .._records import record
from ..drawing.progress_bar import Wanted, late_bar
from ..runtime import ForkableLock, paused_collector, scoped_team
from .compiled import Compiled
from .compiling import compile_model
from .cutting import Cut, is_light, sizes_in_loops
from .declarations import dtype_of, shape_inputs
from .kept_weights import Kept
from .plan_settings import Settings
from .preparing import Prepared, simplify, specialize
from .programs import Found, Program, Programs, check_memory, drop_unused, key_of
from .python_values import is_container, type_of
from .refusals import check_operators
from .storage import Array, Shape

if TYPE_CHECKING:
    from .cut_program import CutProgram
    from .turns import Result

__all__ = ["Network", "Shared"]


@record
class Shared:
    """The belongings of all parts of a session.

    Parameters
    ----------
    settings : Settings
        Settings of plans.
    fallback : {"warn", "error", "silent"}
        Whether ONNX's reference may run operators without a row.
    progress : callable, bool or None
        Takes the share done and a text while plans are searched, as `late_bar` has it.
    packed : dict
        Packed weights, which programs share.
    making : ForkableLock
        Held by whoever makes a program.
    warned : set of str
        Operators of which the caller was warned.
    whole : callable
        Gives the network of the whole session, or None; a weak reference to it.
    """

    settings: Settings
    fallback: Fallback
    progress: Wanted = False
    packed: dict[Any, Kept] = field(default_factory=dict)
    making: ForkableLock = field(default_factory=ForkableLock)
    warned: set[str] = field(default_factory=set)
    whole: Callable[[], Network | None] = lambda: None

    def check(self, graph: ir.Graph) -> None:
        """Refuse operators that cannot run, and warn of slow ones, as `check_operators` does."""
        check_operators(graph, self.fallback, self.warned)


class Network:
    """A prepared model, and its programs for the most recently used sets of input shapes.

    Parameters
    ----------
    prepared : Prepared
        The model, and the rules that rewrote it.
    shared : Shared
        What it shares with the other parts of the session.
    kept : int
        Number of programs to keep.
    is_part : bool
        Whether it is a part of another network.
    of_any_sizes : bool
        Whether one program, whose nodes run in Python, serves all sizes.
    repeats : bool
        Whether it is the body of a loop, or a part of one.
    """

    def __init__(
        self, prepared: Prepared, shared: Shared, kept: int, *, is_part: bool = False,
        of_any_sizes: bool = False, repeats: bool = False,
    ) -> None:  # fmt: skip
        self.model, self.fired = prepared.model, prepared.fired
        self.shared = shared
        # Inputs that decide shapes or branches: each of their values has a program of its own.
        self.shape_inputs = (sizes_in_loops if is_part else shape_inputs)(self.model.graph)
        self.programs: Programs[Found] = Programs(kept, shared.making)
        # Lists of the model are slow to read in each run.
        self._inputs = [value.name or "" for value in self.model.graph.inputs]
        self._outputs = [value.name or "" for value in self.model.graph.outputs]
        # Of the inputs of a part, once it has received some; None: a sequence or an optional.
        self._types: list[np.dtype[Any] | None] | None = None
        self._kept, self._of_any_sizes, self._repeats = kept, of_any_sizes, repeats
        if not is_part:
            shared.whole = weakref.ref(self)

    @property
    def settings(self) -> Settings:
        """Settings of its plans."""
        return self.shared.settings

    def is_ready(self, inputs: Sequence[Any]) -> bool:
        """Whether the program for these inputs is compiled."""
        return self.key(inputs)[0] in self.programs

    def with_model(self) -> Network:
        """Give the network that has the model: this one."""
        return self

    def advice(self, program: Program) -> str:
        """Say what ``precision="low"`` would gain, as `low_precision.advice` does."""
        from .low_precision import advice

        return advice(self.model.graph, program, self.settings)

    def with_programs(self) -> Network:
        """Give the network that has the model and the programs: this one."""
        return self

    def reopening(self) -> None:
        """Say that there is no file to open again."""

    def key(
        self, inputs: Sequence[Any]
    ) -> tuple[Any, dict[str, Shape], dict[str, Array], list[Any]]:
        """Give the key of the program for these inputs, as `programs.key_of` does."""
        if self._of_any_sizes:
            return None, dict.fromkeys(self._inputs, ()), {}, list(inputs)
        return key_of(self._inputs, inputs, self.shape_inputs, self.team())

    def team(self) -> int | None:
        """Team of the enclosing ``runtime`` scope, which has programs of its own; else None."""
        return scoped_team() if self.shared.settings.threads is None else None

    def find(self, inputs: Sequence[Any]) -> tuple[Program, dict[str, list[str]], list[Any]]:
        """Find or make the program for these inputs; give the fired rules, too.

        Inputs that are shapes are constants of a program; the others are returned.
        """
        key, shapes, constants, rest = self.key(inputs)
        found = self.programs.find(key)
        if found is None:
            with self.programs.making:
                found = self.programs.find(key)
                if found is None:
                    try:
                        found = self._made_at_once(shapes, constants)
                        self.programs.add(key, found)
                    finally:
                        whole = self.shared.whole()
                        if whole is not None:
                            whole.forget()
        return *found, rest

    def compute(self, arrays: Sequence[Any]) -> list[Any]:
        """Compute the outputs of a part, in their order.

        Parameters
        ----------
        arrays : sequence of Item
            The inputs, in the order of the model.
        """
        program, _, rest = self.find(self._taken(arrays))
        found = program.compute(rest)
        return [found[name] for name in self._outputs]

    def compute_turns(
        self, arrays: Sequence[Any], reads: Sequence[int], results: Sequence[Result], turns: int,
        ends: int | None = None, most: int | None = None,
    ) -> tuple[list[Array], int] | None:  # fmt: skip
        """Compute several turns of a body at once, as `run_turns` does; None if nothing can."""
        one = [array[0, ...] if read else array for array, read in zip(arrays, reads, strict=True)]
        program, _, rest = self.find(self._taken(one))
        if not isinstance(program, Compiled) or len(rest) < len(arrays):
            return None
        from .turns import run_turns

        return run_turns(program, arrays, reads, results, turns, ends, most)

    def shapes(self, arrays: Sequence[Any]) -> list[Shape]:
        """Give the shapes that the outputs of a part would have; () where nobody can tell."""
        known = {}
        try:
            program, _, _ = self.find(self._taken(arrays))
        except ValueError:
            # Nobody computes a part that refuses these arrays.
            return [()] * len(self.model.graph.outputs)
        if isinstance(program, Compiled):
            known = {name: shape for name, shape, _ in program.outputs}
        return [known.get(value.name or "", ()) for value in self.model.graph.outputs]

    def _taken(self, arrays: Sequence[Any]) -> list[Any]:
        if self._types is None:
            for value, array in zip(self.model.graph.inputs, arrays, strict=True):
                if value.type is None:
                    # Nothing can be inferred behind a node at a cut.
                    value.type = type_of(array)
            inputs = self.model.graph.inputs
            self._types = [None if is_container(value) else dtype_of(value) for value in inputs]
        taken: list[Any] = []
        for name, dtype, array in zip(self._inputs, self._types, arrays, strict=True):
            if dtype is not None:
                if not isinstance(array, np.ndarray):
                    raise ValueError(f"{name!r} is no array")
                if array.dtype != dtype:
                    raise ValueError(f"{name!r} is {array.dtype}, expected {dtype}")
                flags = array.flags
                if not (flags.c_contiguous and flags.aligned):
                    array = np.require(array, requirements=("A", "C")).reshape(array.shape)
            taken.append(array)
        return taken

    def _made_at_once(
        self, shapes: Mapping[str, Shape], constants: Mapping[str, Array]
    ) -> tuple[Program, dict[str, list[str]]]:
        if self.shared.settings.search != "estimate":
            # Other threads need the collector during a search of minutes.
            return self._made(shapes, constants)
        with paused_collector:
            return self._made(shapes, constants)

    def _made(
        self, shapes: Mapping[str, Shape], constants: Mapping[str, Array]
    ) -> tuple[Program, dict[str, list[str]]]:
        if self._of_any_sizes:
            nodes = Cut(None, self.model, list(self.model.graph), None)
            return self._cut_program(nodes, None, shapes), self.fired
        special = specialize(self.model, shapes, constants, repeats=self._repeats)
        first: Compiled | None = None
        if special.model is not None:
            # Branches are resolved by now.
            self.shared.check(special.model.graph)
            with late_bar(self.shared.progress) as progress:
                first = compile_model(
                    special.model, self.shared.settings, self.shared.packed,
                    progress=progress, banded=not self._repeats,
                )  # fmt: skip
            check_memory(first, self.shared.settings.max_memory)
        if special.cut is not None:
            program: Program = self._cut_program(special.cut, first, shapes)
        else:
            assert first is not None
            program = first
        fired = {**self.fired}
        for rule, outputs in special.fired.items():
            fired[rule] = [*fired.get(rule, []), *outputs]
        return program, fired

    def _cut_program(
        self, cut: Cut, first: Compiled | None, shapes: Mapping[str, Shape]
    ) -> CutProgram:
        # Most networks have no nodes in Python between their parts.
        from .cut_program import CutProgram
        from .lone_steps import Alone

        inputs = [(name, shapes[name]) for name in self._inputs if name in shapes]
        alone = Alone(self.shared.settings, self.shared.packed)
        return CutProgram(cut, first, inputs, self._rest, self._body, alone)

    def _rest(self, model: ir.Model) -> Network:
        prepared = Prepared(model)
        return Network(prepared, self.shared, self._kept, is_part=True, repeats=self._repeats)

    def _body(self, model: ir.Model, turns: bool, sizes_vary: bool) -> Network:
        prepared = simplify(model)
        self.shared.check(prepared.model.graph)
        repeats = self._repeats or turns
        varies = self._of_any_sizes or (sizes_vary and not repeats)
        return Network(
            prepared, self.shared, self._kept, is_part=True, repeats=repeats,
            of_any_sizes=varies and all(map(is_light, prepared.model.graph)),
        )  # fmt: skip

    def forget(self) -> None:
        """Drop packed weights that no program of a whole network uses."""
        drop_unused(self.shared.packed, (program for _, (program, _) in self.programs.all()))
