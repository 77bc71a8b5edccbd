"""Activations and clip of LSTM, GRU and RNN, as instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from . import expressions
from .expressions import Code

__all__ = ["ACTIVATIONS", "Gate", "directions_of", "gates_of", "unknown_activations"]

Gate = Callable[[Code, int], int]
"""Adds a clip and an activation, and gives the number of the result."""

ACTIVATIONS = {"GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh"), "RNN": ("tanh",)}
"""The activations of one direction that ONNX takes where none are named."""

# The numbers that an activation takes where none are given: alpha, then beta. ONNX has none for
# some, and onnxruntime takes zeros there.
_NUMBERS: dict[str, tuple[float | None, ...]] = {
    "affine": (None, None),
    "elu": (1.0,),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01,),
    "relu": (),
    "scaledtanh": (None, None),
    "sigmoid": (),
    "softplus": (),
    "softsign": (),
    "tanh": (),
    "thresholdedrelu": (1.0,),
}


def unknown_activations(op: str, attributes: Mapping[str, Any]) -> bool:
    """Whether a node names activations that ONNX has not, too few of them, or too few numbers."""
    names = attributes.get("activations") or ()
    if not names:
        return False
    count = len(ACTIVATIONS[op]) * directions_of(attributes)
    if len(names) < count or not all(name.lower() in _NUMBERS for name in names):
        return True
    numbers = _numbers(names[:count], attributes)
    return any(number is None for own in numbers for number in own)


def directions_of(attributes: Mapping[str, Any]) -> int:
    """Give the number of directions."""
    return 2 if attributes.get("direction", "forward") == "bidirectional" else 1


def _numbers(names: Sequence[str], attributes: Mapping[str, Any]) -> list[list[float | None]]:
    """Give the numbers of each activation; each takes the next one of a list, if it takes any."""
    lists = [iter(attributes.get(f"activation_{name}") or ()) for name in ("alpha", "beta")]
    usual = [_NUMBERS[name.lower()] for name in names]
    return [
        [next(source, number) for source, number in zip(lists, own, strict=False)] for own in usual
    ]


def gates_of(op: str, attributes: Mapping[str, Any]) -> list[tuple[Gate, ...]]:
    """Give the activations of a node, for each direction.

    A clip bounds the numbers before them, but not the cell of an LSTM, as in onnxruntime.

    Parameters
    ----------
    op : str
        LSTM, GRU or RNN.
    attributes : mapping
        Of the node.
    """
    usual = ACTIVATIONS[op]
    count, directions = len(usual), directions_of(attributes)
    names = list(attributes.get("activations") or usual * directions)[: count * directions]
    gates: list[Gate] = []
    for place, numbers in enumerate(_numbers(names, attributes)):
        bound = None if place % count == 2 else attributes.get("clip")
        gates.append(partial(_gate, names[place].lower(), numbers, bound))
    return [tuple(gates[d * count : (d + 1) * count]) for d in range(directions)]


def _gate(name: str, given: Sequence[float | None], bound: float | None, code: Code, x: int) -> int:
    numbers = [float(number) for number in given if number is not None]
    if bound is not None:
        x = code.do("CLIP", x, code.scalar(-bound), code.scalar(bound))
    if name == "tanh":
        return code.do("HYPERBOLIC_TANGENT", x)
    if name in ("sigmoid", "softplus"):
        return code.do(name.upper(), x)
    if name == "relu":
        return expressions.relu(code, [x], {}, [])
    if name == "softsign":
        return code.do("DIVIDE", x, code.do("ADD", code.do("ABSOLUTE", x), code.scalar(1.0)))
    alpha, *more = numbers
    if name == "affine":
        return code.do("MULTIPLY_ADD", x, code.scalar(alpha), code.scalar(more[0]))
    if name == "scaledtanh":
        curve = code.do("HYPERBOLIC_TANGENT", code.do("MULTIPLY", x, code.scalar(more[0])))
        return code.do("MULTIPLY", curve, code.scalar(alpha))
    if name == "thresholdedrelu":
        below = code.do("LESS", x, code.scalar(alpha))
        return code.do("WHERE", below, code.scalar(0.0), x)
    write = {
        "elu": expressions.elu,
        "hardsigmoid": expressions.hard_sigmoid,
        "leakyrelu": expressions.leaky_relu,
    }[name]
    return write(code, [x], dict(zip(("alpha", "beta"), numbers, strict=False)), [])
