"""`CutProgram`: a program with nodes in Python whose values choose sizes or branches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import onnx_ir as ir

from .._records import NamedTuple
from .compiled import Compiled
from .control_flow import Body, function_of_flow
from .cut_memory import Held, result_bytes
from .cutting import Cut
from .host_functions import function_of
from .host_steps import called, quietly
from .lone_steps import Alone
from .nodes import node_of
from .output_arrays import checked_out
from .programs import Found, Program, Programs
from .python_values import arrays_in, as_item, copied
from .storage import Array, Shape
from .subgraphs import is_flow, reads_of
from .values import constant

__all__ = ["Call", "CutProgram", "Part"]


class Call(NamedTuple):
    """A node at a cut.

    Parameters
    ----------
    kind : str
        Its operator.
    reads, writes : list of str
        Names of its operands, empty where one is omitted, and of its results.
    function : callable
        Takes the operands, and gives the results.
    node : ir.Node
        The node.
    """

    kind: str
    reads: list[str]
    writes: list[str]
    function: Callable[..., Sequence[Any]]
    node: ir.Node


class Part(Body, Protocol):
    """The network behind a cut, or of a subgraph."""

    model: ir.Model
    programs: Programs[Found]


class CutProgram:
    """A network for inputs of fixed shapes, with results whose shapes depend on data.

    Parameters
    ----------
    cut : Cut
        Its parts.
    first : Compiled or None
        The program of the first part.
    inputs : list of (str, tuple)
        Names and shapes of what it takes, in their order; () of sequences and optionals.
    rest, body : callable
        Make the network behind the cut, and networks of subgraphs; `body` is told whether the
        subgraph runs in turns, and whether sizes that it reads depend on data.
    alone : Alone
        For nodes at the cut that loops compute; its settings bound the bytes that arrays at the
        cut may hold.
    """

    def __init__(
        self,
        cut: Cut,
        first: Compiled | None,
        inputs: list[tuple[str, Shape]],
        rest: Callable[[ir.Model], Part],
        body: Callable[[ir.Model, bool, bool], Part],
        alone: Alone,
    ) -> None:
        self.first, self.inputs = first, inputs
        self._alone, self._opsets = alone, cut.model.opset_imports
        self.bodies: list[Part] = []

        late = {value for node in cut.nodes for value in node.outputs}

        def maker(node: ir.Node) -> Callable[[ir.Model], Part]:
            turns = node.op_type != "If"
            follows = not turns and not late.isdisjoint(reads_of(node))

            def made(model: ir.Model) -> Part:
                part = body(model, turns, follows)
                self.bodies.append(part)
                return part

            return made

        self.calls = [_call(node, cut.model, maker(node), alone) for node in cut.nodes]
        self.rest = rest(cut.rest) if cut.rest is not None else None
        # What the part behind the cut reads and gives: lists of the model are slow to read.
        behind = self.rest.model.graph if self.rest is not None else None
        self._read = [value.name or "" for value in behind.inputs] if behind else []
        self._found = [value.name or "" for value in behind.outputs] if behind else []
        self._outputs = [value.name or "" for value in cut.model.graph.outputs]
        # Results of NumPy may be views of an input, and a Loop may give its operands back.
        calls = [call for call in self.calls if call.kind != "If"]
        self._copied = {name for call in calls for name in call.writes}
        self._copied.update(name for name, _ in inputs)
        values = {value for node in cut.nodes for value in reads_of(node)}
        values.update(cut.model.graph.outputs)
        arrays = ((value.name or "", constant(value)) for value in values)
        self._constants = {name: array for name, array in arrays if array is not None}
        self._copied |= self._constants.keys()

    @property
    def packed(self) -> frozenset[Any]:
        """Keys of the packed weights of all parts made until now."""
        return frozenset(self._alone.used).union(*(part.packed for part in self.parts()))

    @property
    def planned(self) -> dict[Any, Any]:
        """Plans of all parts made until now."""
        return {key: plan for part in self.parts() for key, plan in part.planned.items()}

    def parts(self) -> Iterator[Program]:
        """Give the programs of all parts made until now."""
        if self.first is not None:
            yield self.first
        for network in (*self.bodies, *([self.rest] if self.rest is not None else [])):
            for _, (program, _) in network.programs.all():
                yield program

    def compute(
        self,
        arrays: Sequence[Any],
        given: Mapping[str, Array] | None = None,
        seconds: list[float] | None = None,
    ) -> dict[str, Any]:
        """Compute the outputs by name: arrays of their own, contiguous.

        Parameters
        ----------
        arrays : sequence of Item
            As `inputs` says, contiguous.
        given : mapping of str to ndarray, optional
            Where to copy outputs; nothing is written if one of them does not fit.
        seconds : list, optional
            The time of each node at the cut is added to it.

        Raises
        ------
        TypeError, ValueError
            If an output cannot be written to the given array, a node refuses its operands, or
            arrays at the cut hold too many bytes.
        """
        names = [name for name, _ in self.inputs]
        values: dict[str, Any] = self._constants | dict(zip(names, arrays, strict=True))
        if self.first is not None:
            values |= self.first.compute([values[name] for name, _, _ in self.first.inputs])
        held = None
        most = self._alone.settings.max_memory
        if most is not None:
            held = Held(dict(self.inputs), most, [*values.values()])
        with quietly():
            for call in self.calls:
                begin = time.perf_counter()
                operands = [values[name] if name else None for name in call.reads]
                if held is not None:
                    named = dict(zip(call.reads, operands, strict=True))
                    held.expect(result_bytes(call.node, self._opsets, named))
                results = called(call.function, operands, call.kind, call.writes)
                if seconds is not None:
                    seconds.append(time.perf_counter() - begin)
                values |= zip(call.writes, map(as_item, results), strict=True)
                if held is not None:
                    held.add(results)
        if self.rest is not None:
            found = self.rest.compute([values[name] for name in self._read])
            values |= zip(self._found, found, strict=True)
        if held is not None:
            copies = [values[name] for name in self._outputs if name in self._copied]
            held.expect(sum(array.nbytes for array in arrays_in(copies)))
        outputs: dict[str, Any] = {
            name: copied(values[name]) if name in self._copied else values[name]
            for name in self._outputs
        }
        for name, array in (given or {}).items():
            result = outputs[name]
            checked_out(array, name, result.shape, result.dtype, [*arrays_in(arrays)])
        for name, array in (given or {}).items():
            array[...] = outputs[name]
            outputs[name] = array
        return outputs

    def time(self, arrays: Sequence[Any]) -> list[float]:
        """Time each step of the first part by itself, and each node at the cut, in seconds."""
        seconds = []
        if self.first is not None:
            named = dict(zip((name for name, _ in self.inputs), arrays, strict=True))
            seconds = self.first.time([named[name] for name, _, _ in self.first.inputs])
        self.compute(arrays, None, seconds)
        return seconds


def _call(node: ir.Node, model: ir.Model, body: Callable[[ir.Model], Part], alone: Alone) -> Call:
    writes = [value.name or "" for value in node.outputs]
    if is_flow(node):
        reads, function = function_of_flow(node, model, body)
        return Call(node.op_type, reads, writes, function, node)
    plain = node_of(node)
    return Call(
        plain.op, list(dict.fromkeys(filter(None, plain.inputs))),
        [name for name in writes if name], function_of(plain, (), alone), node,
    )  # fmt: skip
