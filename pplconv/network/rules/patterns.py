"""Patterns of rules: a few nodes that end in one, and their match in a graph.

A method ``pattern(op, x, ...)`` writes a pattern as it would write nodes: its parameters stand for
any values, ``op.Mul(x, op.Sigmoid(x))`` for two nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import zip_longest
from typing import Any

from ..._records import record
from ..onnx_later import ir

__all__ = ["Match", "Pattern"]


@record(frozen=True, eq=False)
class _Operand:
    """Any value; the same value wherever it occurs.

    Parameters
    ----------
    name : str
        That the methods of a rule know it by.
    """

    name: str


@record(frozen=True, eq=False)
class _Made:
    """An operator and its operands; every attribute matches.

    Parameters
    ----------
    domain, operator : str
        The operator.
    operands : sequence of _Operand or _Result
        For the first operands of the node.
    more : bool
        Whether the node may have more operands.
    names : sequence of str or None
        Of its first results, as the methods of a rule know them.
    """

    domain: str
    operator: str
    operands: Sequence[_Operand | _Result]
    more: bool
    names: Sequence[str | None]


@record(frozen=True, eq=False)
class _Result:
    """One of the results of an operator.

    Parameters
    ----------
    maker : _Made
        The operator.
    index : int
        Which result.
    """

    maker: _Made
    index: int


class _Writer:
    """What a method ``pattern`` gets as `op`."""

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        def write(
            *operands: _Operand | _Result,
            _domain: str = "",
            _allow_other_inputs: bool = False,
            _outputs: Sequence[str | None] = (None,),
        ) -> _Result | tuple[_Result, ...]:
            made = _Made(_domain, operator, operands, _allow_other_inputs, _outputs)
            results = tuple(_Result(made, index) for index in range(len(_outputs)))
            return results[0] if len(results) == 1 else results

        return write


@record(eq=False)
class Match:
    """The nodes of a graph that a pattern stands for.

    Parameters
    ----------
    nodes : list of ir.Node
        The last node of the pattern comes first.
    bindings : dict
        For each name of the pattern, the value.
    """

    nodes: list[ir.Node] = field(default_factory=list)
    bindings: dict[str, ir.Value | None] = field(default_factory=dict)
    _made: dict[int, ir.Node] = field(default_factory=dict)
    outputs: list[ir.Value] = field(default_factory=list)

    def _bind(self, name: str, value: ir.Value) -> bool:
        return self.bindings.setdefault(name, value) is value

    def of_node(self, pattern: _Made, node: ir.Node) -> bool:
        """Match a node and all that makes its operands."""
        known = self._made.get(id(pattern))
        if known is not None:
            return known is node
        operands, results = node.inputs, node.outputs
        more = len(operands) - len(pattern.operands)
        if (
            node.op_type != pattern.operator
            or node.domain != pattern.domain
            or node.overload
            or len(results) < len(pattern.names)
            or (more > 0 and not pattern.more)
        ):
            return False
        self._made[id(pattern)] = node
        self.nodes.append(node)
        pairs = zip_longest(operands[: len(pattern.operands)], pattern.operands)
        return all(self._of_value(own, value, node) for value, own in pairs) and all(
            name is None or self._bind(name, value)
            for name, value in zip(pattern.names, results, strict=False)
        )

    def _of_value(self, pattern: _Operand | _Result, value: ir.Value | None, user: ir.Node) -> bool:
        if value is None:
            return False
        if isinstance(pattern, _Operand):
            return self._bind(pattern.name, value)
        maker = value.producer()
        # A node of a graph around this one has other users.
        if maker is None or maker.graph is not user.graph or value.index() != pattern.index:
            return False
        return self.of_node(pattern.maker, maker)

    def is_alone(self) -> bool:
        """Tell whether nobody else reads a value that the rule does not replace."""
        return not any(
            value.is_graph_output() or any(user not in self.nodes for user in value.consumers())
            for node in self.nodes
            for value in node.outputs
            if value not in self.outputs
        )


class Pattern:
    """A pattern, as a method writes it.

    Parameters
    ----------
    write : callable
        Takes a writer of nodes, and its own names for operands.
    """

    def __init__(self, write: Callable[..., Any]) -> None:
        self._names = list(inspect.signature(write).parameters)[1:]
        written = write(_Writer(), *map(_Operand, self._names))
        self._results: Sequence[_Result] = written if isinstance(written, tuple) else (written,)
        self._last = self._results[0].maker

    def match(self, node: ir.Node) -> Match | None:
        """Match a node and the nodes in front of it.

        Parameters
        ----------
        node : ir.Node
            For the last node of the pattern.

        Returns
        -------
        Match or None
            None if these are other nodes, or someone else reads a result between them.
        """
        match = Match()
        if not match.of_node(self._last, node):
            return None
        match.outputs += (node.outputs[result.index] for result in self._results)
        if not match.is_alone():
            return None
        # Operands that no node of the pattern has.
        match.bindings = {**dict.fromkeys(self._names), **match.bindings}
        return match
