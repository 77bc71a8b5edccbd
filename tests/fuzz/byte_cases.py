"""Convolutions of bytes, every bit of which is known: two functions, and `QConv2d`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

import pplconv
from tests.api import quantized_cases
from tests.api.problems import CLIPS, Problem
from tests.api.quantized_cases import OUTPUTS, Drawn, draw_numbers
from tests.fuzz import byte_refusals
from tests.fuzz.case import Case, ExactCase
from tests.fuzz.conv_cases import OPERANDS, SPOILED, draw_convolution, smaller_problems
from tests.fuzz.zeros import Zeros

FUNCTIONS = ("qconv2d", "conv2d_integer")


class ExpectedBytes:
    """The expected outputs, to the bit.

    Parameters
    ----------
    exact : ndarray
        The outputs, in the layout of the call.
    """

    def __init__(self, exact: np.ndarray) -> None:
        self.exact = exact

    def difference(self, y: np.ndarray, stated: float) -> str | None:
        """Say what is wrong with `y`, whatever a plan states; None if nothing is."""
        wrong = y != self.exact  # NaN, which no output may be, differs from all
        if not wrong.any():
            return None
        at = tuple(int(i[0]) for i in np.nonzero(wrong))
        return (
            f"{np.count_nonzero(wrong)} of {y.size} elements are off; the first at {at}: got "
            f"{y[at]!r}, expected {self.exact[at]!r}"
        )


@dataclass(frozen=True)
class ByteCase(ExactCase):
    """A call of a function of `FUNCTIONS`, of ``"QConv2d"``, or ``"QConv2d, prepared"``.

    Parameters
    ----------
    problem : Problem
        As for all cases; its dtype is that of the output.
    numbers : dict
        The other fields of `quantized_cases.Case`.
    extreme : bool
        Whether input and weights are the least and the largest of their types, and nothing between.
    """

    refusals = byte_refusals

    problem: Problem
    numbers: dict[str, Any] = field(default_factory=dict)
    extreme: bool = False

    @cached_property
    def drawn(self) -> Drawn:
        """The numbers, as the reference takes them."""
        described = quantized_cases.Case(
            problem=self.problem, out_dtype=self.problem.dtype, **self.numbers
        )
        drawn = described.drawn()
        x, w = drawn.x, drawn.w
        if self.extreme:
            x, w = (_to_the_ends(a) for a in (x, w))
        if self.zeros is not None:
            p = self.problem
            left = self.zeros.prune(np.ones(w.shape, np.int8), p.groups, p.seed) != 0
            w = np.where(left, w, np.reshape(drawn.w_zero, (-1, 1, 1, 1)))
        return replace(drawn, x=x, w=w)

    @cached_property
    def plain(self) -> dict[str, Any]:
        """As all cases."""
        drawn = self.drawn
        arrays = (drawn.x, drawn.w, drawn.bias, drawn.residual)
        return dict(zip(OPERANDS, arrays, strict=True))

    @property
    def activation(self) -> Any:
        """As all cases; the sums alone have none."""
        return None if self.problem.dtype == "int32" else super().activation

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of a call besides arrays."""
        geometry = self.drawn.case.geometry
        if self.call == "conv2d_integer":
            return {**geometry, **self.problem.options}
        arguments = {**self.drawn.keywords(), "activation": self.activation}
        if self.call not in FUNCTIONS and self.zeros is not None:
            arguments.update(self.zeros.arguments)
        return arguments

    @property
    def layout(self) -> str:
        """For the figures."""
        return f"{self.problem.layout} of bytes"

    @property
    def keeps_plans(self) -> bool:
        """As all cases."""
        return self.call in FUNCTIONS

    def make(
        self, operands: dict[str, Any], arguments: dict[str, Any], out: Any
    ) -> tuple[np.ndarray, pplconv.Plan | None]:
        """As all cases."""
        x, w, bias, residual = (operands[name] for name in OPERANDS)
        d = self.drawn
        if self.call == "conv2d_integer":
            return pplconv.conv2d_integer(x, w, d.x_zero, d.w_zero, **arguments, out=out), None
        if self.call == "qconv2d":
            scales = d.x_scale, d.x_zero, w, d.w_scale, d.w_zero, d.y_scale, d.y_zero
            y = pplconv.qconv2d(x, *scales, bias, residual=residual, **arguments, out=out)
            return y, None
        if self.call == "QConv2d, prepared":
            arguments["input_shape"] = self.problem.input_shape
        conv = self._layer(w, bias, arguments)
        return conv(x, residual, out), conv.plan_for(self.problem.input_shape)

    def _layer(self, w: Any, bias: Any, arguments: dict[str, Any]) -> pplconv.QConv2d:
        return pplconv.QConv2d(
            w, bias, **{"x_dtype": self.drawn.x.dtype, **self.drawn.scales(), **arguments}
        )

    def plan(self, **changes: Any) -> pplconv.Plan | None:
        """As all cases; that of the layer for functions, too."""
        layer = replace(self, call="QConv2d")
        arguments = {**layer.drawn.keywords(), **layer.arguments, **changes}
        return self._layer(self.plain["weight"], self.plain["bias"], arguments).plan_for(
            self.problem.input_shape
        )

    def expected(self) -> Any:
        """As all cases; in the layout of the call."""
        return ExpectedBytes(self.drawn.expected())

    @property
    def text(self) -> str:
        """As all cases."""
        d = self.drawn
        return (
            f"{self.call} on {d.x.shape} {d.x.dtype}, weight {d.w.shape} {d.w.dtype}, "
            f"{self.problem.dtype} out, {d.scales()}, "
            + ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        )

    def simpler(self) -> Iterator[Case]:
        """As all cases."""
        if self.problem.options["algorithm"] != "sparse":
            yield replace(self, zeros=None)
        yield replace(self, extreme=False)
        for name, value in (
            ("bias", None), ("w_zeros", False), ("zero_each", False), ("scale_each", False),
            ("powers", True),
        ):  # fmt: skip
            yield replace(self, numbers={**self.numbers, name: value})
        yield from super().simpler()

    def smaller_problems(self) -> Iterator[Problem]:
        """As all cases."""
        yield from smaller_problems(self.problem)


def _to_the_ends(array: np.ndarray) -> np.ndarray:
    """Move numbers to the nearer end of their type, where sums of neighbours are largest."""
    info = np.iinfo(array.dtype)
    return np.where(array > (info.min + info.max) // 2, info.max, info.min).astype(array.dtype)


def _algorithm(r: Random, p: Problem) -> str:
    """Any, but mostly one that can serve."""
    if r.random() < 0.04:
        return r.choice(byte_refusals.ALGORITHMS)
    fits = [name for name in byte_refusals.ALGORITHMS if byte_refusals.serves(p, name)]
    return r.choice(("auto", "auto", *fits))


def _zeros(r: Random, zeros: Zeros | None, layer: bool) -> Zeros | None:
    """Functions take all weights as they are."""
    if zeros is None or not layer:
        return zeros and replace(zeros, sparse=False, asked=None)
    sparse = r.choice((True, "auto", "auto", False))
    return replace(zeros, sparse=sparse, asked=zeros.asked if sparse else None)


def draw_bytes(seed: int, r: Random) -> ByteCase:
    """Give a case: a convolution of floats, its numbers drawn anew."""
    base = draw_convolution(seed, r)
    call = r.choice(("qconv2d", "QConv2d", "QConv2d", "QConv2d, prepared", "conv2d_integer"))
    sums = call == "conv2d_integer"
    p = replace(
        base.problem,
        dtype="int32" if sums else r.choice(("uint8", "int8", *OUTPUTS)),
        activation=None if sums else r.choice(CLIPS),
        with_residual=base.problem.with_residual and not sums,
    )
    options = {k: v for k, v in p.options.items() if k != "tolerance"}
    spoiled = base.spoiled
    if spoiled is not None and not spoiled.startswith("argument"):
        spoiled = r.choice(SPOILED)
    zeros = _zeros(r, base.zeros, call not in FUNCTIONS)
    options["algorithm"] = _algorithm(r, p)
    if zeros is not None and zeros.sparse is True:
        options["algorithm"] = "sparse"
    numbers = draw_numbers(r)
    if sums:
        numbers["bias"] = None
    return ByteCase(
        seed=seed,
        problem=replace(p, options=options),
        call=call,
        forms=base.forms,
        out=base.out,
        tiny=base.tiny,
        other_team=base.other_team,
        spoiled=spoiled,
        zeros=zeros,
        extreme=r.random() < 0.2,
        numbers=numbers,
    )
