"""If, Loop, Scan and SequenceMap as functions of arrays, which run networks of their subgraphs.

Subgraphs read values of the graph around them. As networks of their own they have these values as
further inputs, behind those that they declare.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from ..runtime import ForkableLock
from .storage import Array, Shape
from .subgraphs import body_of, source_of
from .turns import Result
from .values import attribute_int, attribute_ints, constant

__all__ = ["Body", "Make", "function_of_flow"]


class Body(Protocol):
    """The network of a subgraph."""

    def compute(self, arrays: Sequence[Any]) -> list[Any]:
        """Compute the outputs, in the order of the subgraph."""

    def compute_turns(
        self, arrays: Sequence[Any], reads: Sequence[int], results: Sequence[Result], turns: int,
        ends: int | None = None, most: int | None = None,
    ) -> tuple[list[Array], int] | None:  # fmt: skip
        """Compute several turns at once, as `run_turns` does; None if that cannot be."""

    def shapes(self, arrays: Sequence[Any]) -> list[Shape]:
        """Give the shapes that the outputs would have; () where data decide them."""


# More turns of a known number are not taken at once: they run without a look at signals.
_MOST_TURNS = 1 << 16
# Turns at once, at most, where their number is not known, and at first; four times as many as
# before while they take less than so many seconds.
_MOST_AT_ONCE, _FEW_AT_ONCE, _SHORT = 64, 4, 0.02

Make = Callable[[ir.Model], Body]
"""Makes the network of a subgraph."""


def function_of_flow(node: ir.Node, model: ir.Model, make: Make) -> tuple[list[str], Any]:
    """Give the names of the values that a node with subgraphs reads, and its function.

    Parameters
    ----------
    node : ir.Node
        The node.
    model : ir.Model
        Its model, without which the node is not used.
    make : callable
        Makes networks of subgraphs.

    Returns
    -------
    names : list of str
        Empty where an operand is omitted.
    function : callable
        Takes an item for each of them, None for an omitted one, too; gives the outputs.
    """
    own = [value.name or "" if value is not None else "" for value in node.inputs]
    if node.op_type == "If":
        return _branches(node, model, make, own)
    body, outer = body_of(node.attributes["body"].as_graph(), model)
    run = _FUNCTIONS[node.op_type](node, body, make)
    count = len(node.inputs)

    def call(*arrays: Any) -> list[Any]:
        return run(arrays[:count], arrays[count:])

    return [*own, *outer], call


def _branches(node: ir.Node, model: ir.Model, make: Make, own: list[str]) -> tuple[list[str], Any]:
    models = [
        body_of(node.attributes[name].as_graph(), model) for name in ("else_branch", "then_branch")
    ]
    outer = list(dict.fromkeys(name for _, names in models for name in names))
    made: dict[int, Body] = {}
    making = ForkableLock()

    def choose(condition: Array, *arrays: Any) -> list[Any]:
        _check_number("the condition", condition, np.bool_)
        branch = int(bool(condition.reshape(())))
        body, names = models[branch]
        with making:
            # From a copy: a branch that is refused is made anew at the next call.
            if branch not in made:
                made[branch] = make(body.clone())
        given = dict(zip(outer, arrays, strict=True))
        return made[branch].compute([given[name] for name in names])

    return [*own, *outer], choose


Run = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def _turns(node: ir.Node, body: ir.Model, make: Make) -> Run:
    """Give the function of a Loop: it takes the operands, and the values from outside."""
    count = len(node.inputs) - 2
    # Nobody needs what turns make of these states, or they make nothing of them.
    kept = sorted({*_unchanged(body.graph, count), *_unneeded(node, body.graph, count)})
    scanned = list(body.graph.outputs[1 + count :])
    for index in reversed(kept):
        body.graph.outputs.pop(1 + index)
    # Others have what all turns pass on from outside.
    taken = [index for index in range(count) if _is_read(body.graph.inputs[2 + index])]
    for index in reversed(range(count)):
        if index not in taken:
            body.graph.inputs.pop(2 + index)
    always = _goes_on(body.graph)
    endless = node.inputs[0] is None and always
    inner = make(body)
    left = [index for index in range(count) if index not in kept]

    def at_once(
        turn: int, last: int | None, few: int, state: list[Any], around: Sequence[Any]
    ) -> tuple[bool, int, list[Array]] | None:
        """Take turns from one on: whether others follow, their number, and stacked results."""
        rest = _MOST_AT_ONCE if last is None else last - turn
        if rest < 2:
            return None
        whole = always and last is not None and rest <= _MOST_TURNS
        length = rest if whole else _MOST_AT_ONCE
        arrays = [np.arange(turn, turn + length), np.array(True)]
        arrays += [*(state[index] for index in taken), *around]
        places = {index: 2 + place for place, index in enumerate(taken)}
        results = [Result(), *(Result(places.get(index)) for index in left)]
        results += [Result(stacked=1)] * len(scanned)
        reads = [1] + [0] * (len(arrays) - 1)
        found = inner.compute_turns(
            arrays, reads, results, length, None if always else 0, rest if whole else min(few, rest)
        )
        if found is None:
            return None
        (goes_on, *own), turns = found
        for index in left:
            state[index] = own.pop(0)
        return always or bool(goes_on.reshape(())), turns, [stack[:turns] for stack in own]

    def loop(given: Sequence[Any], around: Sequence[Any]) -> list[Any]:
        most, condition, *state = given
        _check_number("the number of turns", most, np.int64)
        _check_number("the condition", condition, np.bool_)
        goes_on = condition is None or bool(condition.reshape(()))
        if endless and goes_on:
            raise ValueError("no number of turns, and a condition that is always true")
        stacks: list[list[Array]] = [[] for _ in scanned]

        def inputs(turn: int) -> list[Any]:
            read = [state[index] for index in taken]
            return [np.array(turn, np.int64), np.array(True), *read, *around]

        last = None if most is None else int(most.reshape(()))
        turn, few, repeats = 0, _FEW_AT_ONCE, True
        while goes_on and (last is None or turn < last):
            begin = time.perf_counter()
            found = at_once(turn, last, few, state, around) if repeats else None
            if found is not None:
                goes_on, turns, own = found
                if time.perf_counter() - begin < _SHORT:
                    few = min(4 * few, _MOST_AT_ONCE)
            else:
                turns, shapes = 1, _shapes(state)
                own = inner.compute(inputs(turn))
                goes_on = bool(own.pop(0).reshape(()))
                for index in left:
                    state[index] = own.pop(0)
                # The first turn may give states of other shapes than it takes, and others not.
                repeats = turn == 0 and shapes != _shapes(state)
                own = [element[np.newaxis] for element in own]
            for stack, elements in zip(stacks, own, strict=True):
                stack.append(elements)
            turn += turns
        # Without a turn, elements have the shapes that one would give.
        sizes = inner.shapes(inputs(0))[-len(stacks) :] if stacks and not turn else ()
        empty = [_empty(shape, value) for shape, value in zip(sizes, scanned, strict=False)]
        return [*state, *(empty or map(_joined, stacks))]

    return loop


def _check_number(what: str, array: Array | None, dtype: Any) -> None:
    if not isinstance(array, np.ndarray) and array is not None:
        raise ValueError(f"{what} is no array")
    if array is not None and (array.dtype != dtype or array.size != 1):
        raise ValueError(
            f"{what} is {array.dtype} of shape {array.shape}, expected one {np.dtype(dtype)}"
        )


def _goes_on(body: ir.Graph) -> bool:
    """Whether the condition of each turn is that of the turn before it, or always true."""
    value = source_of(body.outputs[0])
    known = constant(value)
    return value is body.inputs[1] or (known is not None and bool(known.all()))


def _unchanged(body: ir.Graph, count: int) -> list[int]:
    """List the numbers of the states that a body passes on as they are."""
    places = range(count)
    return [at for at in places if source_of(body.outputs[1 + at]) is body.inputs[2 + at]]


def _unneeded(node: ir.Node, body: ir.Graph, count: int) -> list[int]:
    """List the numbers of the states that neither a turn nor anybody behind a Loop reads."""
    pairs = enumerate(zip(body.inputs[2 : 2 + count], node.outputs[:count], strict=True))
    return [index for index, values in pairs if not any(map(_is_read, values))]


def _is_read(value: ir.Value) -> bool:
    return bool(value.uses()) or value.is_graph_output()


def _shapes(items: list[Any]) -> list[Shape | None]:
    return [getattr(item, "shape", None) for item in items]


def _joined(parts: list[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _empty(shape: Shape, value: ir.Value) -> Array:
    return np.empty((0, *shape), value.dtype.numpy() if value.dtype is not None else np.float32)


def _scan(node: ir.Node, body: ir.Model, make: Make) -> Run:
    """Give the function of a Scan: it takes the operands, and the values from outside."""
    inputs = attribute_int(node, "num_scan_inputs", 0)
    carried = len(node.inputs) - inputs
    scanned = list(body.graph.outputs[carried:])
    read_axes = attribute_ints(node, "scan_input_axes", (0,) * inputs)
    read_back = attribute_ints(node, "scan_input_directions", (0,) * inputs)
    axes = attribute_ints(node, "scan_output_axes", (0,) * len(scanned))
    turned = attribute_ints(node, "scan_output_directions", (0,) * len(scanned))
    inner = make(body)

    def scan(given: Sequence[Any], around: Sequence[Any]) -> list[Any]:
        arrays = [array for array in given if array is not None]
        state = arrays[:carried]
        parts = [
            np.moveaxis(array, axis, 0)
            for array, axis in zip(arrays[carried:], read_axes, strict=True)
        ]
        lengths = {len(array) for array in parts}
        if len(lengths) != 1:
            raise ValueError(f"scanned operands of lengths {sorted(lengths)}")
        length = lengths.pop()
        if 2 <= length <= _MOST_TURNS:
            reads = [0] * carried + [-1 if back else 1 for back in read_back] + [0] * len(around)
            goals = [Result(number) for number in range(carried)]
            goals += [Result(stacked=-1 if back else 1) for back in turned]
            taken = inner.compute_turns([*state, *parts, *around], reads, goals, length)
            if taken is not None:
                found, _ = taken
                stacked = zip(found[carried:], axes, strict=True)
                return [*found[:carried], *(np.moveaxis(a, 0, axis) for a, axis in stacked)]
        read = [
            np.flip(part, 0) if back else part for part, back in zip(parts, read_back, strict=True)
        ]
        stacks: list[list[Array]] = [[] for _ in scanned]
        for turn in range(length):
            results = inner.compute([*state, *(array[turn, ...] for array in read), *around])
            state = results[:carried]
            for stack, result in zip(stacks, results[carried:], strict=True):
                stack.append(result)
        if not read[0].shape[0]:
            zeros = [np.zeros(array.shape[1:], array.dtype) for array in read]
            shapes = inner.shapes([*state, *zeros, *around])[carried:]
            wholes = [_empty(shape, value) for shape, value in zip(shapes, scanned, strict=True)]
        else:
            wholes = [
                np.stack(stack[::-1] if back else stack)
                for stack, back in zip(stacks, turned, strict=True)
            ]
        written = [np.moveaxis(whole, 0, axis) for whole, axis in zip(wholes, axes, strict=True)]
        return [*state, *written]

    return scan


def _map(node: ir.Node, body: ir.Model, make: Make) -> Run:
    """Give the function of a SequenceMap: operands that are arrays are the same in all turns."""
    inner = make(body)
    count = len(node.outputs)

    def mapped(given: Sequence[Any], around: Sequence[Any]) -> list[Any]:
        if not isinstance(given[0], list):
            raise ValueError("input_sequence is no sequence")
        lengths = {len(item) for item in given if isinstance(item, list)}
        if len(lengths) > 1:
            raise ValueError(f"sequences of several lengths, {sorted(lengths)}")
        sequences: list[list[Array]] = [[] for _ in range(count)]
        for turn in range(len(given[0])):
            taken = [item[turn] if isinstance(item, list) else item for item in given]
            results = inner.compute([*taken, *around])
            for sequence, result in zip(sequences, results, strict=True):
                sequence.append(result)
        return sequences

    return mapped


_FUNCTIONS = {"Loop": _turns, "Scan": _scan, "SequenceMap": _map}
