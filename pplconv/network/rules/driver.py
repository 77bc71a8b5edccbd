"""Applies rules, indexed by the last operator of their pattern, until none fires any more."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import onnx

from ..._lazy import lazy
from ..._records import record
from ...runtime.locks import ForkableLock
from ..graph_builder import GraphBuilder
from ..names import unused_name
from ..onnx_later import ir
from ..opsets import OPSET
from ..values import describe, is_constant
from .patterns import Match, Pattern

__all__ = ["OperatorRule", "Rule", "Rules", "apply_rules", "constant_at", "made_by", "maker_at"]

_MOST_PASSES = 50

# Rules keep state between matching and rewriting.
_lock = ForkableLock()

Root = tuple[str, str]


@record
class Rewritten:
    """What a rule puts in the place of nodes.

    Parameters
    ----------
    match : Match
        The nodes.
    values : sequence of ir.Value or None
        In the place of the results; None: a result stays.
    nodes, initializers : sequence
        The new ones.
    """

    match: Match
    values: Sequence[ir.Value | None]
    nodes: Sequence[ir.Node]
    initializers: Sequence[ir.Value]


class Rule(abc.ABC):
    """A pattern of nodes, and what replaces them.

    Parameters
    ----------
    name : str
        Name of the rule in reports; several may share one.
    *roots : str or tuple of str
        Operators that the last node of the pattern may have: names, or pairs of domain and name.
    above : str or tuple of str, optional
        Operator that must produce an input of the last node. If none does, the rule is not tried,
        which saves most of the time of rules.
    """

    def __init__(self, name: str, *roots: str | Root, above: str | Root | None = None) -> None:
        self.name = name
        self.roots = tuple(("", root) if isinstance(root, str) else root for root in roots)
        self.above: Root | None = ("", above) if isinstance(above, str) else above
        self.outputs = 1

    @lazy
    def compiled(self) -> Pattern:
        """The pattern; most networks need few rules."""
        return Pattern(self.pattern)

    def rewritten(self, node: ir.Node) -> Rewritten | None:
        """Build what replaces the nodes of a match; None if the rule does not fire.

        Parameters
        ----------
        node : ir.Node
            For the last node of the pattern.
        """
        match = self.compiled.match(node)
        if match is None or not self.check(None, **match.bindings):
            return None
        op = GraphBuilder()
        values = self.rewrite(op, **match.bindings)
        if values is None:
            return None
        values = [values] if isinstance(values, ir.Value) else values
        if len(values) != len(match.outputs):
            raise TypeError(f"the rule {self.name!r} gave {len(values)} values")
        return Rewritten(match, values, op.nodes, op.initializers)

    def may_fire(self, node: ir.Node) -> bool:
        """Tell at once that a rule does not match, before its pattern is compared.

        Parameters
        ----------
        node : ir.Node
            A node of one of its roots.

        Returns
        -------
        bool
            False only where pattern or `check` would refuse the node.
        """
        return True

    @abc.abstractmethod
    def pattern(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Describe the nodes that are replaced."""

    @abc.abstractmethod
    def check(self, context: Any, *args: Any, **kwargs: Any) -> Any:
        """Tell whether the matched nodes may be replaced."""

    @abc.abstractmethod
    def rewrite(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Build the replacement."""


class OperatorRule(Rule):
    """A rule for the nodes of one operator, with any number of operands.

    Its methods get the node's first operand as `x`, and its first output as `y`.

    Parameters
    ----------
    name : str
        See `Rule`.
    operator : str
        The operator.
    above : str, optional
        See `Rule`.
    domain : str, optional
        The operator's domain; by default ONNX's.
    outputs : int, optional
        The first outputs of the node that are replaced: nodes with fewer ones are left alone. Those
        after `y` are called ``y1``, ``y2`` and so on.
    """

    def __init__(
        self,
        name: str,
        operator: str,
        above: str | None = None,
        *,
        domain: str = "",
        outputs: int = 1,
    ) -> None:
        super().__init__(name, (domain, operator), above=above)
        self.operator, self.domain, self.outputs = operator, domain, outputs

    def pattern(self, op: Any, x: Any) -> Any:
        """See `Rule`."""
        names = ["y", *(f"y{number}" for number in range(1, self.outputs))]
        own = getattr(op, self.operator)
        return own(x, _domain=self.domain, _allow_other_inputs=True, _outputs=names)


class Rules:
    """Rules, indexed by the last operator of their pattern.

    Parameters
    ----------
    load : callable
        Imports the rules, when a graph first needs them: most graphs need few. Earlier ones are
        tried first.
    concern : callable, optional
        Whether a graph may need them: False only where none would fire. By default all graphs do.
    """

    def __init__(
        self, load: Callable[[], Iterable[Rule]], concern: Callable[[ir.Graph], bool] | None = None
    ) -> None:
        self._load, self._concern = load, concern

    @lazy
    def _by_root(self) -> dict[Root, list[Rule]]:
        by_root: dict[Root, list[Rule]] = {}
        for rule in self._load():
            for root in rule.roots:
                by_root.setdefault(root, []).append(rule)
        return by_root

    @property
    def roots(self) -> Collection[Root]:
        """Domains and names of the operators that the rules' patterns end with."""
        return self._by_root.keys()

    def concern(self, graph: ir.Graph) -> bool:
        """Tell whether rules may fire in a graph, before they are imported.

        Parameters
        ----------
        graph : ir.Graph
            Any graph.

        Returns
        -------
        bool
        """
        return self._concern is None or self._concern(graph)

    def of(self, node: ir.Node) -> Iterator[Rule]:
        """Give the rules that may fire at a node.

        Parameters
        ----------
        node : ir.Node
            Any node.

        Yields
        ------
        Rule
        """
        rules = self._by_root.get((node.domain, node.op_type))
        if not rules:
            return
        producers: set[Root | None] = {
            (producer.domain, producer.op_type)
            for value in node.inputs
            if value is not None and (producer := value.producer()) is not None
        }
        producers.add(None)
        outputs = len(node.outputs)
        for rule in rules:
            # A pattern of more outputs than the node has would match nothing, without a failure.
            if rule.outputs <= outputs and rule.above in producers and rule.may_fire(node):
                yield rule


def constant_at(node: ir.Node, place: int) -> bool:
    """Tell whether an operand of a node is a constant.

    Parameters
    ----------
    node : ir.Node
        Any node.
    place : int
        Of the operand.

    Returns
    -------
    bool
    """
    return place < len(node.inputs) and is_constant(node.inputs[place])


def made_by(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """Give the node that makes a value; None if it is of none of these operators.

    Parameters
    ----------
    value : ir.Value or None
        Any value.
    *operators : str
        Operators of ONNX.

    Returns
    -------
    ir.Node or None
    """
    maker = None if value is None else value.producer()
    return maker if maker is not None and not maker.domain and maker.op_type in operators else None


def maker_at(node: ir.Node, place: int, operator: str) -> ir.Node | None:
    """Give the node of an operator that makes an operand of a node; None if none does.

    Parameters
    ----------
    node : ir.Node
        Any node.
    place : int
        Of the operand.
    operator : str
        One of ONNX.

    Returns
    -------
    ir.Node or None
    """
    return made_by(node.inputs[place], operator) if place < len(node.inputs) else None


def apply_rules(model: ir.Model, rules: Rules, fired: dict[str, list[str]]) -> None:
    """Apply rules to a model's graph until none fires any more.

    Parameters
    ----------
    model : ir.Model
        Changed in place.  Subgraphs of its nodes are left alone.
    rules : Rules
        Rules to apply.
    fired : dict
        Gets the name of the output of each match, under the name of the rule.

    Raises
    ------
    ValueError
        If a node contradicts ONNX's definition of its operator.
    RuntimeError
        If rules undo one another's work without end.
    """
    if rules.concern(model.graph):
        with _lock:
            _apply(model, rules, fired)


def _apply(model: ir.Model, rules: Rules, fired: dict[str, list[str]]) -> None:
    graph = model.graph
    names = {value.name for value in graph.inputs} | set(graph.initializers)
    for node in graph:
        names.update(value.name for value in node.outputs)
    for _ in range(_MOST_PASSES):
        changed = False
        for node in graph:
            for rule in rules.of(node):
                made = _try(rule, node)
                if made is None:
                    continue
                name = str(made.match.outputs[0].name)
                if not _replace(graph, node, made, names, rule.name):
                    continue
                fired.setdefault(rule.name, []).append(name)
                changed = True
                break
        if not changed:
            return
    raise RuntimeError("the rules for rewriting a network do not come to an end")


def _try(rule: Rule, node: ir.Node) -> Rewritten | None:
    try:
        made = rule.rewritten(node)
        for new in made.nodes if made is not None else ():
            _check_operands(new)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        # Shapes are not checked yet, so a wrong file can claim anything of a node.
        raise ValueError(
            f"model is wrong at {describe(node)}, where the rule {rule.name!r} failed: {error}"
        ) from error
    # A rule that finds nothing to write leaves the node as it is.
    return made if made is not None and made.values[0] is not None else None


@functools.cache
def _required(operator: str) -> tuple[tuple[int, str], ...]:
    """Places and names of the operands that an operator of ONNX must have."""
    operands = enumerate(onnx.defs.get_schema(operator, OPSET).inputs)
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    return tuple((place, operand.name) for place, operand in operands if operand.option == single)


def _check_operands(node: ir.Node) -> None:
    """Refuse a new node that lacks an operand, because the node that it replaces lacks one."""
    if node.domain:
        return
    for place, name in _required(node.op_type):
        if len(node.inputs) <= place or node.inputs[place] is None:
            raise ValueError(f"there is no operand {name} for {node.op_type}")


def _replace(
    graph: ir.Graph, node: ir.Node, rewritten: Rewritten, names: set[str | None], rule: str
) -> bool:
    pairs: list[tuple[ir.Value, ir.Value]] = [
        (old, new)
        for old, new in zip(rewritten.match.outputs, rewritten.values, strict=True)
        if new is not None
    ]
    made = [new for _, new in pairs if new.producer() is not None]
    made = [new for new in made if new.producer() in rewritten.nodes]
    for old, new in pairs:
        if new in made or not old.is_graph_output():
            continue
        if new.producer() is None or new.is_graph_output() or new.graph is not graph:
            return False  # an output needs a node of its own
    for old, new in pairs:
        if new in made:
            new.type = old.type or new.type
            # A shape of no axes is false.
            new.shape = new.shape if old.shape is None else old.shape
    for value in rewritten.initializers:
        value.name = unused_name(f"{value.name or rule}", names)
        graph.register_initializer(value)
    first = pairs[0][0].name
    for old, new in pairs:
        kept = old.name
        if new in made or old.is_graph_output():
            old.name = unused_name(f"{kept}_before", names)
            new.name = kept
    for inner in rewritten.nodes:
        graph.opset_imports.setdefault(inner.domain, 1)
        inner.metadata_props["pplconv.rule"] = rule
        for value in inner.outputs:
            if value not in made:
                value.name = unused_name(f"{first}_{inner.op_type}", names)
        inner.name = node.name if inner is pairs[0][1].producer() else inner.outputs[0].name
    for old, new in pairs:
        ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    graph.insert_after(node, rewritten.nodes)
    for matched in rewritten.match.nodes:
        used = any(value.uses() or value.is_graph_output() for value in matched.outputs)
        if not used and matched.graph is graph:
            graph.remove(matched, safe=True)
    return True
