"""The table of activations: names, instruction, cost and formula of each, once.

The forms of ``activation=``, stubs, documents, rules and passes of networks, PyTorch's modules and
the cases of tests come from these rows. Bias and residual are not in the table: the store always
adds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from textwrap import fill
from typing import Literal, TypeAlias, get_args

from ._kernels import CURVES as OF_CURVE
from ._kernels import INSTRUCTIONS
from ._records import record

Word: TypeAlias = Literal[
    "relu", "relu6", "hardswish", "sigmoid", "silu", "softplus", "mish", "gelu"
]
"""Activations without parameters, as callers name them."""

COST_CLASSES = ("none", "slope", "exp")
"""Classes of epilogues by their cost: nothing but the store, another pass over the tile, or a
pass with exponentials. Plans are searched and remembered for each class."""

IN_STORE = 0
"""Instruction that tells the loops that no pass follows the store."""


@record(frozen=True)
class Kind:
    """One kind of activation.

    Parameters
    ----------
    cost : str
        One of `COST_CLASSES`.
    instruction : str
        Instruction of the program after the store; empty if the store computes it.
    parameters : tuple of str
        Parameters after the name, if the argument is a tuple.
    formula : str
        Its value as a function of x.
    onnx : str
        The operator that computes it, without other inputs than x.
    onnx_attributes : mapping of str to float or str
        Values that attributes of this operator must have; all of them are optional in ONNX.
    torch : str
        The class in ``torch.nn``.
    torch_attributes : mapping of str to float or str
        Arguments with which this class must be constructed.
    error : float
        Bound of the error that a pass adds, in eps of the exact value, or of the smallest normal
        number where that is larger.
    error_of_argument : bool
        Whether the bound is in eps of x instead.
    """

    cost: str
    instruction: str = ""
    parameters: tuple[str, ...] = ()
    formula: str = ""
    onnx: str = ""
    onnx_attributes: Mapping[str, float | str] = field(default_factory=dict)
    torch: str = ""
    torch_attributes: Mapping[str, float | str] = field(default_factory=dict)
    error: float = 2.0
    error_of_argument: bool = False

    @property
    def code(self) -> int:
        """Number of the instruction, `IN_STORE` for none."""
        return INSTRUCTIONS[self.instruction] if self.instruction else IN_STORE

    @property
    def is_curve(self) -> bool:
        """Whether the kernel `curve` computes it."""
        return self.instruction in OF_CURVE


KINDS: Mapping[str, Kind] = {
    "none": Kind("none"),
    "clip": Kind("none", parameters=("low", "high"), formula="min(max(x, low), high)"),
    "leaky_relu": Kind("slope", "SLOPE", ("a",), "a * x below zero, else x"),
    "prelu": Kind(
        "slope", "SLOPE", ("slope",),
        "the same with an array_like of one slope for each output channel, or of one for all, cast "
        "to the type of the arithmetic",
    ),
    "hardswish": Kind(
        "slope", "HARDSWISH", (), "x * clip(x + 3, 0, 6) / 6", "HardSwish", torch="Hardswish"
    ),
    "sigmoid": Kind("exp", "SIGMOID", (), "1 / (1 + exp(-x))", "Sigmoid", torch="Sigmoid"),
    "silu": Kind("exp", "SILU", (), "x * sigmoid(x)", "Swish", {"alpha": 1.0}, torch="SiLU"),
    "softplus": Kind(
        "exp", "SOFTPLUS", (), "log(1 + exp(x))", "Softplus",
        torch="Softplus", torch_attributes={"beta": 1.0, "threshold": 20.0},
    ),
    "mish": Kind("exp", "MISH", (), "x * tanh(softplus(x))", "Mish", torch="Mish", error=2.5),
    "gelu": Kind(
        "exp", "GELU", (), "x * (1 + erf(x / sqrt(2))) / 2", "Gelu", {"approximate": "none"},
        torch="GELU", torch_attributes={"approximate": "none"}, error=1.5, error_of_argument=True,
    ),
}  # fmt: skip
"""All kinds, by the name that an argument has for them."""

CLIPS: Mapping[str, tuple[float, float]] = {"relu": (0.0, math.inf), "relu6": (0.0, 6.0)}
"""Bounds of clips with a name of their own."""

CURVES = tuple(name for name, kind in KINDS.items() if kind.instruction and not kind.parameters)
"""Kinds without parameters that a pass computes."""

WORDS: tuple[str, ...] = get_args(Word)

TRIED = {"none": "none", "slope": "leaky_relu", "exp": "silu"}
"""For each class, the kind that trials of a search run. It reads one slope at most, as trials have
no slopes for channels."""


def passes() -> dict[str, list[str]]:
    """List the kinds of each class that need another pass over the tile."""
    return {
        cost: [name for name, kind in KINDS.items() if kind.cost == cost]
        for cost in COST_CLASSES[1:]
    }


def _form(name: str) -> str:
    parameters = KINDS[name].parameters if name in KINDS else ()
    return f'("{name}", {", ".join(parameters)})' if parameters else f'"{name}"'


_FORMS = (*CLIPS, *(name for name, kind in KINDS.items() if kind.parameters), *CURVES)


def forms() -> str:
    """List the forms of the argument, as messages show them."""
    *many, last = ["None", *map(_form, _FORMS)]
    return f"{', '.join(many)} or {last}"


def documentation(indent: str) -> str:
    """Describe the forms of the argument, for a docstring.

    Parameters
    ----------
    indent : str
        Before each line but the first.
    """
    *many, last = ["None", *(_described(name) for name in _FORMS)]
    usual = Kind("none").error
    text = (
        f"{', '.join(many)} or {last}. {', '.join(f'``{_form(name)}``' for name in CURVES)} add an "
        f"error of at most {usual:g} eps"
        + "".join(
            f", ``{_form(name)}`` {KINDS[name].error:g}{' of x' * KINDS[name].error_of_argument}"
            for name in CURVES
            if KINDS[name].error != usual
        )
        + ", relative to the exact value or to the smallest normal number, whichever is larger."
    )
    return fill(text, 92, subsequent_indent=indent, break_on_hyphens=False)


def _described(name: str) -> str:
    formula = KINDS[name].formula if name in KINDS else ""
    return f"``{_form(name)}`` ({formula})" if formula else f"``{_form(name)}``"
