"""Random convolution problems: small enough to check, spread over the edges of tiles and blocks.

Hypothesis draws them by `problems`, and makes smaller what fails; the fuzzer by `draw_problem`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st

import pplconv
from pplconv import activations
from tests.reference import explicit_padding, output_size, pair

# Multiplications of the largest problem; the reference needs a few milliseconds for it.
MOST_PRODUCTS = 3_000_000
# Those that a problem with a side near a large power of two may have at least.
FOR_POWERS = 200_000

# Sizes around the widths of vectors, tiles and cache blocks, and channels beyond two tiles.
_WIDTHS = (8, 12, 13, 14, 15, 16, 17, 28, 31, 32, 33, 48, 64, 65, 96, 128)
_SIDES = (7, 8, 9, 13, 14, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65)
KERNELS = ((1, 1), (1, 1), (3, 3), (3, 3), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1), (2, 2))
CLIPS = [None, "relu", "relu6", ("clip", -0.5, 0.75), ("clip", 0.25, 0.25), ("clip", -3, 2)]
# A slope of PReLU for each channel follows from the seed.
CURVES = [*activations.CURVES, ("leaky_relu", 0.01), ("leaky_relu", -1.5), "prelu"]


@dataclass(frozen=True)
class Problem:
    """One convolution: everything but the numbers, which ``seed`` decides."""

    dtype: str
    layout: str
    batch: int | None  # None: a single image without the batch axis
    groups: int
    in_channels: int
    out_channels: int
    image: tuple[int, int]
    kernel: tuple[int, int]
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    activation: Any = None
    with_bias: bool = False
    with_residual: bool = False
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)  # of the package, not of the result

    def _in_layout(self, channels: int, image: tuple[int, int]) -> tuple[int, ...]:
        shape = (channels, *image) if self.layout == "NCHW" else (*image, channels)
        return shape if self.batch is None else (self.batch, *shape)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input, in the layout of the problem."""
        return self._in_layout(self.in_channels, self.image)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape of the output and of the residual."""
        stride, dilation = pair(self.stride), pair(self.dilation)
        pads = explicit_padding(self.padding, self.image, self.kernel, stride, dilation)
        axes = zip(self.image, pads, self.kernel, stride, dilation, strict=True)
        height, width = (output_size(*axis) for axis in axes)
        return self._in_layout(self.out_channels, (height, width))

    @property
    def has_output(self) -> bool:
        """Whether the kernel fits into the padded image."""
        dilation = pair(self.dilation)
        pads = explicit_padding(self.padding, self.image, self.kernel, pair(self.stride), dilation)
        axes = zip(self.image, pads, self.kernel, dilation, strict=True)
        return all(size + sum(pad) > d * (k - 1) for size, pad, k, d in axes)

    def arrays(self, integers: bool = False) -> dict[str, Any]:
        """Give input, weight, bias and residual; with ``integers``, whole numbers of -4 to 4."""
        rng = np.random.default_rng(self.seed)

        def draw(shape):
            numbers = rng.integers(-4, 5, shape) if integers else rng.standard_normal(shape)
            return numbers.astype(self.dtype)

        weight_shape = (self.out_channels, self.in_channels // self.groups, *self.kernel)
        return {
            "input": draw(self.input_shape),
            "weight": draw(weight_shape),
            "bias": draw((self.out_channels,)) if self.with_bias else None,
            "residual": draw(self.output_shape) if self.with_residual else None,
        }

    @property
    def full_activation(self) -> Any:
        """The argument: ``"prelu"`` stands for one with a slope for each output channel."""
        if self.activation != "prelu":
            return self.activation
        rng = np.random.default_rng([self.seed, 1])
        return ("prelu", rng.uniform(-1, 1, self.out_channels))

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments that decide the result, beside the arrays."""
        return {
            "stride": self.stride,
            "padding": self.padding,
            "dilation": self.dilation,
            "groups": self.groups,
            "activation": self.full_activation,
            "layout": self.layout,
        }


def stated_error(weight, shape: tuple[int, ...], **arguments: Any) -> float:
    """Give what the plan of a convolution says of its error; 0 for a direct sum."""
    return stated_by(pplconv.Conv2d(weight, **arguments).plan_for(shape))


def stated_by(plan: pplconv.Plan) -> float:
    """Give what a plan says of its error; 0 for a direct sum.

    Direct sums are held to the bound that follows from their length (see ``reference``).
    """
    return plan.error_bound if plan.algorithm == "winograd" else 0.0


def width(r: Random, most: int = 70) -> int:
    """Draw channels, or columns of a matrix: mostly few, or around the widths of vectors."""
    if r.random() < 0.03:
        return near_power(r, 5, 9)
    kind = r.randrange(4)
    return r.choice(_WIDTHS) if kind == 3 else r.randint(1, most if kind == 2 else 9)


def near_power(r: Random, least: int, most: int) -> int:
    """Draw a power of two between two to the `least` and two to the `most`, or one beside it."""
    return (1 << r.randint(least, most)) + r.choice((-1, 0, 0, 1))


def grouped_channels(
    r: Random,
    kinds: Sequence[str] = ("one", "one", "one", "some", "few", "depthwise"),
    block: int = 1,
    most: int = 20,
) -> tuple[int, int, int]:
    """Draw groups, input channels and output channels.

    Parameters
    ----------
    r : Random
        Where they are drawn from.
    kinds : sequence of str
        Of these: one group, some, some with a power of two of channels, or one for each input
        channel.
    block : int
        The channels of each of some groups are whole blocks of so many.
    most : int
        Channels of one of some groups, or one block.
    """
    kind = r.choice(kinds)
    if kind == "one":
        return 1, width(r), width(r)
    if kind == "depthwise":
        groups = width(r)
        return groups, groups, groups * r.randint(1, 3)
    if kind == "few" and block == 1:
        channels = r.randint(1, 6) * (depth := r.choice((2, 4, 8, 16, 32)))
        return channels // depth, channels, channels
    groups, blocks = r.randint(2, 6), max(most // block, 1)
    own = (groups * block * r.randint(1, blocks) for _ in ("input", "output"))
    return groups, *own


def _sizes(r: Random, most: int) -> Any:
    """Draw a stride or a dilation."""
    if (kind := r.randrange(4)) < 2:
        return 1
    return r.randint(1, most) if kind == 2 else (r.randint(1, most), r.randint(1, most))


def _padding(r: Random) -> Any:
    kind = r.randrange(9)
    if kind < 2:
        return r.choice(("valid", "same", "same_upper", "same_lower"))
    if kind < 4:
        return r.randint(0, 1 if kind == 2 else 4)
    if kind < 6:
        return (r.randint(0, 4), r.randint(0, 4))
    if kind < 8:
        return ((r.randint(0, 4), r.randint(0, 4)), (r.randint(0, 4), r.randint(0, 4)))
    return r.choice((0, 0, (0, 0), ((0, 0), (0, 0))))


def draw_problem(
    r: Random,
    *,
    dtypes: Sequence[str] = ("float32", "float64"),
    layouts: Sequence[str] = ("NCHW", "NHWC"),
    channels: tuple[int, int, int] | None = None,
    kernel: tuple[int, int] | None = None,
    pointwise: bool = False,
    dense: bool = False,
    curved: bool = True,
    algorithms: Sequence[str] = ("auto",),
    most: int = MOST_PRODUCTS,
    refused: float = 0.0,
    seed: int | None = None,
    **kinds: Any,
) -> Problem:
    """Draw a convolution.

    Parameters
    ----------
    r : Random
        Where it is drawn from: all of it, and its numbers, follow from the state.
    dtypes, layouts, algorithms : sequence of str
        What to choose from.
    channels : (int, int, int), optional
        Groups, input channels and output channels; otherwise those of `grouped_channels`, which
        takes `kinds`.
    kernel : (int, int), optional
        Its size.
    pointwise, dense : bool
        Whether it is a 1x1 of stride 1, or one without stride and dilation.
    curved : bool
        Whether the activation may be other than a clip.
    most : int
        Multiplications, mostly.
    refused : float
        Share of the problems that may be of the kinds that are refused: they have "same" padding
        and a stride, or (a third of them) a kernel that outgrows the image.
    seed : int, optional
        Of the numbers.
    """
    groups, in_channels, out_channels = channels or grouped_channels(r, **kinds)
    if pointwise:
        kernel = (1, 1)
    elif kernel is None:
        kernel = draw_kernel(r)
    padding = r.choice((0, "valid", "same")) if pointwise else _padding(r)
    stride = 1 if pointwise or dense else _sizes(r, 3)
    if padding == "same" and r.random() >= refused:
        stride = 1
    dilation = 1 if dense else _sizes(r, 3)
    batch = r.choice((1, 1, 1, None, 2, 2, 3, 0))

    each = max(batch or 1, 1) * in_channels // groups * out_channels * kernel[0] * kernel[1]
    largest = max(isqrt(most // each), 1)
    pads = explicit_padding(padding, (1, 1), kernel, pair(stride), pair(dilation))
    outgrown = r.random() < refused / 3
    image = []
    for pad, k, d in zip(pads, kernel, pair(dilation), strict=True):
        # Any size serves the "same" rules: they pad as much as the kernel needs.
        least = 1 if str(padding).startswith("same") else max(1, d * (k - 1) + 1 - sum(pad))
        side = r.randint(1, 20) if r.random() < 0.7 else r.choice(_SIDES)
        image.append(max(least - 1, 1) if outgrown else max(least, min(least - 1 + side, largest)))
    if not outgrown and r.random() < 0.1:
        # Rows, or columns, that lie a power of two apart.
        axis, size = r.randrange(2), near_power(r, 6, 10)
        if each * image[1 - axis] * size <= max(most, FOR_POWERS):
            image[axis] = max(image[axis], size)
    problem = Problem(
        dtype=r.choice(dtypes),
        layout=r.choice(layouts),
        batch=batch,
        groups=groups,
        in_channels=in_channels,
        out_channels=out_channels,
        image=(image[0], image[1]),
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        activation=r.choice(CLIPS + CURVES if curved else CLIPS),
        with_bias=r.random() < 0.5,
        with_residual=r.random() < 0.5,
        seed=r.randrange(1 << 32) if seed is None else seed,
        options={
            "algorithm": r.choice(algorithms),
            "threads": r.choice((1, 1, 2, 3, 4, None)),
        },
    )
    return problem if problem.has_output else replace(problem, with_residual=False)


def draw_kernel(r: Random) -> tuple[int, int]:
    """Draw the size of a kernel: one that is used, mostly."""
    return r.choice(KERNELS) if r.random() < 0.7 else (r.randint(1, 5), r.randint(1, 5))


def problems(**parameters: Any) -> st.SearchStrategy[Problem]:
    """Draw problems that are valid by construction; parameters are those of `draw_problem`."""
    return st.randoms(use_true_random=False).map(lambda r: draw_problem(r, **parameters))
