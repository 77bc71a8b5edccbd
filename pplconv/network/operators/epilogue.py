"""The operations after a convolution's sums: in registers, in L1, or in another pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..._records import record
from ...activations import KINDS
from ...arguments.activation import Activation, activation_of
from ...memory.dtypes import NAMES
from ...schedules.finish import Finish
from ..builder import Builder
from ..nodes import Graph, Node
from ..storage import Array, Value, constant_value
from .elementwise_steps import emit_code
from .expressions import Code

# Activations in the convolutions' loops; others take another pass.
STORED = ("", "relu", *(name for name in KINDS if name != "none"))


@record(frozen=True)
class Epilogue:
    """The operations after the sums of a convolution.

    Parameters
    ----------
    bias : ndarray, Value or None
        One for each output channel; computed ones are a value.
    residual : Value or None
        Added before the activation.
    activation : str
        Its name in fused nodes.
    parameters : list of float
        Of the activation.
    slope : ndarray or None
        Of ``"prelu"``.
    scale, offset : ndarray or None
        One for each output channel, after the activation.
    last : Value or None
        Added at the end.
    """

    bias: Array | Value | None = None
    residual: Value | None = None
    activation: str = ""
    parameters: Sequence[float] = ()
    slope: Array | None = None
    scale: Array | None = None
    offset: Array | None = None
    last: Value | None = None

    def as_clip(self, oc: int) -> tuple[Epilogue, float]:
        """Rewrite HardSigmoid as a clip of scaled sums; give the epilogue and the factor."""
        if self.activation != "hardsigmoid" or self.residual is not None:
            return self, 1.0
        alpha, beta = self.parameters
        bias = np.zeros(oc, np.float32) if self.bias is None else self.bias
        if isinstance(bias, Value):
            return self, 1.0
        line = np.asarray(bias * bias.dtype.type(alpha) + bias.dtype.type(beta))
        return replace(self, bias=line, activation="clip", parameters=(0.0, 1.0)), alpha

    def described(self, oc: int) -> Activation | None:
        """The activation for the loops; None if they lack it."""
        if self.activation not in STORED:
            return None
        form: Any = self.activation or None
        if self.activation in ("clip", "leaky_relu"):
            form = (self.activation, *self.parameters)
        elif self.activation == "prelu":
            form = ("prelu", self.slope)
        return activation_of(form, oc)


def epilogue_of(node: Node, builder: Builder, graph: Graph) -> Epilogue:
    """Read the epilogue of a node: an ONNX Conv has at most a bias."""
    names = [*node.inputs, *[""] * 8][:8]
    if not node.op.startswith("pplconv."):
        names[3:] = [""] * 5

    def known(name: str) -> Array | None:
        return graph.constants[name] if name else None

    def value(name: str) -> Value | None:
        return builder.values[name] if name else None

    bias = known(names[2]) if names[2] in graph.constants else value(names[2])
    return Epilogue(
        bias, value(names[3]), node.attributes.get("activation", ""),
        list(node.attributes.get("activation_parameters", [])), known(names[7]), known(names[4]),
        known(names[5]), value(names[6]),
    )  # fmt: skip


def finish_of(
    epilogue: Epilogue, y: Value, bias: str
) -> tuple[Finish | None, Value | None, Epilogue]:
    """Split off the operations that loops can do after the activation, on a block in L1.

    Parameters
    ----------
    epilogue : Epilogue
        Its residual and activation run in the loops.
    y : Value
        The output.
    bias : str
        Type of numbers of a channel: `Numerics.bias`.

    Returns
    -------
    finish : Finish or None
        Operations for the convolution's step.
    after : Value or None
        Value that is added at the end.
    rest : Epilogue
        Operations that need another pass.
    """
    after = epilogue.last
    if after is not None and (after.dtype != y.dtype or not after.lies_as(y.strides)):
        after = None
    scale, offset = epilogue.scale, epilogue.offset
    if scale is None and offset is None and after is None:
        return None, None, epilogue
    channels = y.shape[1]
    finish = Finish(
        bias,
        *(None if a is None else np.broadcast_to(a.reshape(-1), channels) for a in (scale, offset)),
    )
    rest = replace(epilogue, scale=None, offset=None)
    return finish, after, replace(rest, last=None) if after is not None else rest


def emit_rest(
    builder: Builder, y: Value, epilogue: Epilogue, activate: bool, nodes: list[str]
) -> None:
    """Add the pass of the operations that the loops lack, if there are any."""
    code = Code()
    first = result = code.fresh()
    inputs: list[tuple[Value, int]] = [(y, first)]

    def channel(array: Array) -> int:
        number = code.fresh()
        numbers = array.astype(y.dtype if y.dtype in NAMES else np.float32)
        inputs.append((constant_value(numbers.reshape(1, -1, 1, 1)), number))
        return number

    def whole(value: Value) -> int:
        number = code.fresh()
        inputs.append((value, number))
        return number

    if activate and epilogue.residual is not None:
        result = code.do("ADD", result, whole(epilogue.residual))
    if activate and epilogue.activation:
        result = _activated(code, result, epilogue, channel)
    if epilogue.scale is not None and epilogue.offset is not None:
        scale, offset = channel(epilogue.scale), channel(epilogue.offset)
        result = code.do("MULTIPLY_ADD", result, scale, offset)
    elif epilogue.scale is not None:
        result = code.do("MULTIPLY", result, channel(epilogue.scale))
    elif epilogue.offset is not None:
        result = code.do("ADD", result, channel(epilogue.offset))
    if epilogue.last is not None:
        result = code.do("ADD", result, whole(epilogue.last))
    if result == first:
        return
    emit_code(builder, y, code, inputs, result, "epilogue", nodes)


def _activated(code: Code, x: int, epilogue: Epilogue, channel: Callable[[Array], int]) -> int:
    """Write an activation as instructions."""
    kind, parameters = epilogue.activation, epilogue.parameters
    if kind in ("relu", "clip"):
        low, high = parameters if kind == "clip" else (0.0, math.inf)
        return code.do("CLIP", x, code.scalar(low), code.scalar(high))
    if kind == "leaky_relu":
        return code.do("SLOPE", x, code.scalar(parameters[0]))
    if kind == "prelu":
        assert epilogue.slope is not None
        return code.do("SLOPE", x, channel(epilogue.slope))
    if kind == "hardsigmoid":
        alpha, beta = parameters
        line = code.do("MULTIPLY_ADD", x, code.scalar(alpha), code.scalar(beta))
        return code.do("CLIP", line, code.scalar(0.0), code.scalar(1.0))
    return code.do(KINDS[kind].instruction, x)
