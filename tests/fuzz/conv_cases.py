"""Convolutions: `conv2d`, and `Conv2d` with and without an input shape of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from random import Random
from typing import Any

import numpy as np

import pplconv
from pplconv.arguments.activation import activation_of
from pplconv.planner.estimating import Request
from tests.api.blocks import in_blocks, lanes_of_no_channel, out_of_blocks
from tests.api.candidates import conv_problem, shape_in_blocks
from tests.api.problems import Problem, draw_kernel, draw_problem, grouped_channels
from tests.fuzz import conv_refusals, draws
from tests.fuzz.case import SHORTER, Case, Finding, plainer
from tests.fuzz.draws import SPOILED_OUT
from tests.fuzz.exact import Expected, sums_of_convolution
from tests.fuzz.special import specialize
from tests.fuzz.zeros import draw_zeros
from tests.reference import largest_mixed

BLOCKS = (1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 16, 24, 33, 64)
ALGORITHMS = ("depthwise", "pointwise", "winograd", "direct", "im2col")
TOLERANCES = (1e-5, 1e-5, 0.0, 1e-3, 1e-6, 1e-14, float("inf"))
OPERANDS = ("input", "weight", "bias", "residual")
SPOILED = (
    "input dtype", "input dimensions", "weight dtype", "weight dimensions", "bias shape",
    "bias dtype", "residual shape", "residual dtype", "out overlaps input", *SPOILED_OUT,
)  # fmt: skip


@dataclass(frozen=True)
class ConvCase(Case):
    """A call of a convolution: ``"conv2d"``, ``"Conv2d"``, or ``"prepared"`` for its input's shape.

    Parameters
    ----------
    problem : Problem
        As for all cases.
    block : int
        Channels of a block in NCHWc, in which a problem in NCHW is then computed; 0 otherwise.
    """

    refusals = conv_refusals

    problem: Problem
    block: int = 0

    @cached_property
    def plain(self) -> dict[str, Any]:
        """The operands as the reference takes them, in NCHW or NHWC."""
        arrays = self.problem.arrays()
        if self.zeros is not None:
            p = self.problem
            arrays["weight"] = self.zeros.prune(arrays["weight"], p.groups, p.seed)
        # Half precision has no room for larger results.
        scale = min(self.scale, 0) if self.problem.dtype == "float16" else self.scale
        scale = 0 if self.special == "huge" else scale
        arrays["input"] *= arrays["input"].dtype.type(2.0**scale)
        if self.special is not None:
            specialize(arrays, self.special, self.problem.seed, self._terms)
        return arrays

    def operands(self) -> dict[str, Any]:
        """The operands in the layout of the call; lanes of no channel hold what they may."""
        arrays = dict(self.plain)
        if self.block:
            p = self.problem
            # Lanes of the residual have no effect, so they may be NaN.
            for name, channels, filler in (
                ("input", p.in_channels, 7.5),
                ("residual", p.out_channels, np.nan),
            ):
                if arrays[name] is not None:
                    arrays[name] = in_blocks(arrays[name], self.block)
                    lanes_of_no_channel(arrays[name], channels)[...] = filler
        return arrays

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of a call besides arrays."""
        arguments = {**self.problem.parameters, **self.problem.options}
        arguments["activation"] = self.activation
        if self.block:
            arguments["layout"] = "NCHWc"
        if self.zeros is not None and self.call != "conv2d":
            arguments.update(self.zeros.arguments)
        return arguments

    @property
    def input_shape(self) -> tuple[int, ...]:
        """As the call takes it."""
        shape = self.problem.input_shape
        return shape_in_blocks(shape, self.block) if self.block else shape

    @property
    def output_shape(self) -> tuple[int, ...]:
        """As the call gives it."""
        shape = self.problem.output_shape
        return shape_in_blocks(shape, self.block) if self.block else shape

    @property
    def layout(self) -> str:
        """For the figures; odd blocks are told from those of a vector."""
        if not self.block:
            return self.problem.layout
        return f"NCHW{self.block}c" if self.block in (4, 8, 16) else "NCHWc, odd"

    @property
    def _terms(self) -> int:
        p = self.problem
        return p.in_channels // p.groups * prod(p.kernel)

    @property
    def keeps_plans(self) -> bool:
        """As all cases."""
        return self.call == "conv2d"

    def make(
        self, operands: dict[str, Any], arguments: dict[str, Any], out: Any
    ) -> tuple[np.ndarray, pplconv.Plan | None]:
        """As all cases."""
        if self.call == "conv2d":
            return pplconv.conv2d(**operands, **arguments, out=out), None
        operands = dict(operands)
        x, residual = operands.pop("input"), operands.pop("residual")
        if self.call == "prepared":
            arguments["input_shape"] = self.input_shape
        conv = pplconv.Conv2d(**operands, **arguments)
        y = conv(x, residual, out)
        return y, conv.plan_for(self.input_shape)

    def plan(self, **changes: Any) -> pplconv.Plan | None:
        """As all cases."""
        weight = self.plain["weight"]
        if self.call == "conv2d":
            # Functions do not look for zeros in weights.
            weight = np.ones_like(weight)
        conv = pplconv.Conv2d(weight, **{**self.arguments, **changes})
        return conv.plan_for(self.input_shape)

    def request(self) -> Request:
        """As all cases."""
        options = self.problem.options
        problem = conv_problem(self.problem, self.block)
        if self.zeros is not None:
            found = self.zeros.sparsity(self.plain["weight"], self.problem.groups)
            problem = replace(problem, sparsity=found)
        return Request(
            problem,
            options["algorithm"],
            options.get("tolerance", 1e-5),
            options["threads"],
            options.get("max_workspace"),
        )

    @property
    def epilogue(self) -> str:
        """As all cases."""
        return activation_of(self.problem.full_activation, self.problem.out_channels).epilogue

    def expected(self) -> Expected:
        """As all cases; in NCHW."""
        p = self.problem
        return Expected(
            *sums_of_convolution(p, self.plain), self.plain, terms=self._terms, dtype=p.dtype,
            activation=p.full_activation, mixed=self._mixed,
        )  # fmt: skip

    def _mixed(self) -> float:
        parameters = {k: v for k, v in self.problem.parameters.items() if k != "activation"}
        return largest_mixed(**self.plain, **parameters)

    def in_order(self, y: np.ndarray) -> np.ndarray:
        """As all cases; in NCHW."""
        if self.block:
            channels = self.problem.out_channels
            if lanes_of_no_channel(y, channels).any():  # NaN counts
                raise Finding("lanes of no channel are not zero")
            y = out_of_blocks(y, channels)
        if y.ndim == 3:
            y = y[np.newaxis]
        return y.transpose(0, 3, 1, 2) if self.problem.layout == "NHWC" else y

    @property
    def text(self) -> str:
        """As all cases."""
        p = self.problem
        return (
            f"{self.call} on {self.input_shape} {p.dtype}, weight "
            f"{(p.out_channels, p.in_channels // p.groups, *p.kernel)}, "
            + ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        )

    def simpler(self) -> Iterator[Case]:
        """As all cases."""
        yield replace(self, block=0)
        if self.problem.options["algorithm"] != "sparse":
            yield replace(self, zeros=None)
        yield from super().simpler()

    def smaller_problems(self) -> Iterator[Problem]:
        """As all cases."""
        yield from smaller_problems(self.problem)


def smaller_problems(p: Problem) -> Iterator[Problem]:
    """Convolutions that are a step simpler, the largest steps first."""
    yield from plainer(p, "tolerance", "max_workspace")
    yield replace(p, batch=1)
    yield replace(p, padding=0)
    yield replace(p, stride=1)
    yield replace(p, dilation=1)
    for shorter in SHORTER:
        height, width = p.image
        yield replace(p, image=(shorter(height), width))
        yield replace(p, image=(height, shorter(width)))
        kh, kw = p.kernel
        yield replace(p, kernel=(shorter(kh), kw))
        yield replace(p, kernel=(kh, shorter(kw)))
        each_in, each_out = p.in_channels // p.groups, p.out_channels // p.groups
        for groups, ic, oc in (
            (shorter(p.groups), each_in, each_out),
            (p.groups, shorter(each_in), each_out),
            (p.groups, each_in, shorter(each_out)),
        ):
            yield replace(p, groups=groups, in_channels=groups * ic, out_channels=groups * oc)


def _algorithm(r: Random, kernel: tuple[int, int], depthwise: bool, block: int) -> str:
    """Any, but mostly one that can serve."""
    if r.random() < 0.04:
        return r.choice(ALGORITHMS)
    fits = ["auto", "auto", "direct", "direct"]
    if not block:
        fits += ["im2col"] * 2
    if kernel == (1, 1):
        fits += ["pointwise"] * 2
    if min(kernel) > 1:
        fits += ["winograd"] * 5
    if depthwise:
        fits += ["depthwise"] * 3
    return r.choice(fits)


def draw_convolution(seed: int, r: Random) -> ConvCase:
    """Give a case."""
    block = r.choice(BLOCKS) if r.random() < 0.3 else 0
    # Blocks must be whole in each group, mostly.
    whole = block if 1 < block <= 8 and r.random() < 0.8 else 1
    channels = grouped_channels(r, block=whole, most=8)
    kernel = draw_kernel(r)
    in_groups = channels[0] == channels[1] or (channels[1] == channels[2] and not block)
    algorithm = _algorithm(r, kernel, in_groups, block)
    problem = draw_problem(
        r,
        dtypes=("float32", "float32", "float64", "float16"),
        layouts=("NCHW",) if block else ("NCHW", "NHWC"),
        channels=channels,
        kernel=kernel,
        pointwise=algorithm == "pointwise" and r.random() < 0.95,
        dense=algorithm == "winograd",
        algorithms=(algorithm,),
        most=draws.products(r),
        refused=0.03,
        seed=seed,
    )
    options = problem.options
    if r.random() < 0.5 or algorithm == "winograd":
        options["tolerance"] = r.choice(TOLERANCES)
        if algorithm == "winograd" and r.random() < 0.9:
            options["tolerance"] = r.choice((1e-3, float("inf"), 1e-4))
    if r.random() < 0.1:
        options["max_workspace"] = r.choice((0, 4096, 12288, r.randint(0, 1 << 18)))
    wrong = draws.wrong(r, SPOILED)
    if not problem.has_output:
        wrong["spoiled"] = None
    call = r.choice(("conv2d", "Conv2d", "Conv2d", "prepared"))
    call = "Conv2d" if wrong.get("wisdom") else call
    case = ConvCase(
        seed=seed,
        problem=problem,
        block=block,
        call=call,
        forms=draws.forms(r, OPERANDS),
        out=r.choice((None, 0, 1, 3, 16)) if problem.has_output else None,
        **wrong,
        **draws.surroundings(r),
    )
    zeros = draw_zeros(
        r,
        layer=call != "conv2d",
        forced=algorithm in ("auto", "direct", "im2col", "pointwise"),
        special=case.special is not None,
    )
    if zeros is not None and zeros.sparse is True:
        problem = replace(problem, options={**options, "algorithm": "sparse"})
    return replace(case, problem=problem, zeros=zeros)
