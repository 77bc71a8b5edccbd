"""A case is one call; everything about it follows from its seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import isqrt
from random import Random
from typing import Any

import numpy as np

from blocks import in_blocks, lanes_of_no_channel
from candidates import shape_in_blocks
from fuzz.special import SPECIALS, specialize
from problems import CLIPS, CURVES, Problem
from reference import explicit_padding, pair

# Multiplications of a problem, and how often it may have so many: most are tiny, since tiny
# problems have the same edges as large ones, and more of them fit into a second.
PRODUCTS = ((8_000, 70), (60_000, 25), (400_000, 4), (3_000_000, 1))
KERNELS = ((1, 1), (1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1), (2, 2))
BLOCKS = (1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 16, 24, 33, 64)
ALGORITHMS = ("depthwise", "pointwise", "winograd", "direct", "im2col")
TOLERANCES = (1e-5, 1e-5, 0.0, 1e-3, 1e-6, 1e-14, float("inf"))
OPERANDS = ("input", "weight", "bias", "residual")
SPOILED_ARRAYS = (
    "input dtype", "input dimensions", "weight dtype", "weight dimensions", "bias shape",
    "bias dtype", "residual shape", "residual dtype", "out dtype", "out shape", "out strides",
    "out read-only", "out unaligned", "out overlaps input", "out no array",
)  # fmt: skip
WISDOM = ("bytes", "flipped", "cut", "spliced", "values", "division", "real")


@dataclass(frozen=True)
class Case:
    """One call, its surroundings and what is wrong with it.

    Parameters
    ----------
    problem : Problem
        Sizes and parameters; its ``options`` are those that do not change the result.
    block : int
        Channels of a block in NCHWc, in which a problem in NCHW is then computed; 0 otherwise.
    call : str
        ``"conv2d"``, ``"Conv2d"`` or ``"prepared"``, for an input of this shape.
    forms : dict
        How each operand lies (see ``arrays``).
    out : int or None
        Elements before ``out`` in guarded memory; None: no ``out``.
    tiny : bool
        Whether caches are so small that the problem is cut as large ones are.
    other_team : int or None
        A team that must give the same bytes.
    spoiled : str or None
        What is wrong: one of `SPOILED_ARRAYS`, or a name of the cases in ``test_errors``.
    wisdom : str or None
        What lies in the wisdom file: one of `WISDOM`.
    scale : int
        The input is multiplied by two to this power.
    special : str or None
        What is not like other numbers (see ``special``).
    """

    seed: int
    problem: Problem
    block: int = 0
    call: str = "Conv2d"
    forms: dict[str, str] = field(default_factory=dict)
    out: int | None = None
    tiny: bool = False
    other_team: int | None = None
    spoiled: str | None = None
    wisdom: str | None = None
    scale: int = 0
    special: str | None = None

    @cached_property
    def plain(self) -> dict[str, Any]:
        """The operands as the reference takes them, in NCHW or NHWC."""
        arrays = self.problem.arrays()
        # Half precision has no room for larger results.
        scale = min(self.scale, 0) if self.problem.dtype == "float16" else self.scale
        scale = 0 if self.special == "huge" else scale
        arrays["input"] *= arrays["input"].dtype.type(2.0**scale)
        if self.special is not None:
            specialize(self.problem, arrays, self.special)
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
        """What a call takes besides arrays."""
        arguments = {**self.problem.parameters, **self.problem.options}
        if self.block:
            arguments["layout"] = "NCHWc"
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


def _channels(r: Random) -> int:
    # Mostly few; around the widths of vectors and tiles otherwise.
    return r.choice((r.randint(1, 9), r.randint(1, 9), r.randint(1, 40), r.choice(_WIDTHS)))


_WIDTHS = (8, 12, 13, 14, 15, 16, 17, 28, 31, 32, 33, 48, 64, 65, 96, 128)
_SIDES = (7, 8, 9, 13, 14, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65)


def _pair(r: Random, most: int) -> Any:
    kind = r.random()
    if kind < 0.5:
        return 1
    return r.randint(1, most) if kind < 0.75 else (r.randint(1, most), r.randint(1, most))


def _padding(r: Random, strided: bool) -> Any:
    kind = r.randrange(8)
    if kind == 0:
        # With a stride it is refused.
        words = ("valid", "same_upper", "same_lower", "same")
        return r.choice(words if r.random() < 0.03 or not strided else words[:3])
    if kind < 3:
        return r.randint(0, 1)
    if kind < 5:
        return (r.randint(0, 3), r.randint(0, 3))
    if kind < 7:
        return ((r.randint(0, 4), r.randint(0, 4)), (r.randint(0, 4), r.randint(0, 4)))
    return 0


def _grouped(r: Random, block: int) -> tuple[int, int, int]:
    kind = r.random()
    if kind < 0.6:
        return 1, _channels(r), _channels(r)
    if kind < 0.8:
        groups = _channels(r)
        return groups, groups, groups * r.randint(1, 3)
    groups = r.randint(2, 5)
    # Blocks must be whole in each group, mostly.
    each = block if 1 < block <= 8 and r.random() < 0.8 else 1
    return groups, groups * each * r.randint(1, 8 // each), groups * each * r.randint(1, 8 // each)


def _algorithm(r: Random, p: dict[str, Any], block: int) -> str:
    """Any, but mostly one that can serve."""
    if r.random() < 0.04:
        return r.choice(ALGORITHMS)
    fits = ["auto", "auto", "direct", "direct"]
    if not block:
        fits += ["im2col"] * 2
    if p["kernel"] == (1, 1):
        fits += ["pointwise"] * 2
    if p["kernel"] in ((3, 3), (5, 5)):
        fits += ["winograd"] * 5
    if p["groups"] == p["in_channels"]:
        fits += ["depthwise"] * 3
    return r.choice(fits)


def draw(seed: int) -> Case:
    """Give the case of a seed."""
    r = Random(seed)
    block = r.choice(BLOCKS) if r.random() < 0.3 else 0
    groups, in_channels, out_channels = _grouped(r, block)
    kernel = r.choice(KERNELS) if r.random() < 0.8 else (r.randint(1, 5), r.randint(1, 5))
    p = {"kernel": kernel, "groups": groups, "in_channels": in_channels}
    algorithm = _algorithm(r, p, block)
    dense = algorithm == "winograd" or (algorithm == "pointwise" and r.random() < 0.95)
    stride = 1 if dense else _pair(r, 3)
    dilation = 1 if dense else _pair(r, 3)
    padding = 0 if algorithm == "pointwise" else _padding(r, pair(stride) != (1, 1))
    batch = r.choice((1, 1, 1, None, 2, 2, 3, 0))
    budgets, weights = zip(*PRODUCTS, strict=True)
    budget = r.choices(budgets, weights)[0]
    each = max(batch or 1, 1) * in_channels // groups * out_channels * kernel[0] * kernel[1]
    largest = max(isqrt(budget // max(each, 1)), 1)
    pads = explicit_padding(padding, (1, 1), kernel, pair(stride), pair(dilation))
    outgrown = r.random() < 0.01
    image: list[int] = []
    fits = True
    for pad, k, d in zip(pads, kernel, pair(dilation), strict=True):
        # Any size serves the "same" rules: they pad as much as the kernel needs.
        least = 1 if str(padding).startswith("same") else max(1, d * (k - 1) + 1 - sum(pad))
        more = r.randint(0, 11) if r.random() < 0.7 else r.choice(_SIDES)
        size = max(least - 1, 1) if outgrown else max(least, min(least + more, largest))
        # What the other words for padding give always fits.
        fits &= (padding != "valid" and isinstance(padding, str)) or size + sum(pad) > d * (k - 1)
        image.append(size)
    options: dict[str, Any] = {"algorithm": algorithm, "threads": r.choice((1, 1, 2, 3, 4, None))}
    if r.random() < 0.5 or algorithm == "winograd":
        options["tolerance"] = r.choice(TOLERANCES)
        if algorithm == "winograd" and r.random() < 0.9:
            options["tolerance"] = r.choice((1e-3, float("inf"), 1e-4))
    if r.random() < 0.1:
        options["max_workspace"] = r.choice((0, 4096, 12288, r.randint(0, 1 << 18)))
    problem = Problem(
        dtype=r.choice(("float32", "float32", "float64", "float16")),
        layout="NCHW" if block else r.choice(("NCHW", "NHWC")),
        batch=batch,
        groups=groups,
        in_channels=in_channels,
        out_channels=out_channels,
        image=(image[0], image[1]),
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        activation=r.choice((None, *CLIPS, *CURVES)),
        with_bias=r.random() < 0.5,
        with_residual=r.random() < 0.4 and fits,
        seed=seed,
        options=options,
    )
    spoiled = wisdom = None
    if (kind := r.random()) < 0.04:
        # A name of the table in ``test_errors``, which the judge looks up.
        spoiled = r.choice(SPOILED_ARRAYS) if kind < 0.02 else f"argument {r.randrange(1 << 16)}"
        spoiled = spoiled if fits else None
    elif kind < 0.06:
        wisdom = r.choice(WISDOM)
    return Case(
        seed=seed,
        problem=problem,
        block=block,
        call="Conv2d" if wisdom else r.choice(("conv2d", "Conv2d", "Conv2d", "prepared")),
        forms={name: _form(r) for name in OPERANDS},
        out=r.choice((None, 0, 1, 3, 16)) if fits else None,
        tiny=r.random() < 0.4,
        other_team=r.choice((1, 2, 3, 4)) if r.random() < 0.2 else None,
        spoiled=spoiled,
        wisdom=wisdom,
        scale=r.choice((0, 0, 0, 12, -12)),
        special=r.choice(SPECIALS) if r.random() < 0.15 else None,
    )


def _form(r: Random) -> str:
    from fuzz.arrays import FORMS

    return r.choice(FORMS) if r.random() < 0.3 else "plain"
