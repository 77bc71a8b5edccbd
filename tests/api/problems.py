"""Random convolution problems: small enough to check, spread over the edges of tiles and blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np
from hypothesis import strategies as st

import pplconv
from pplconv import activations
from reference import explicit_padding, output_size, pair

# Multiplications of the largest problem; the reference needs a few milliseconds for it.
MOST_PRODUCTS = 3_000_000

# Sizes around the widths of vectors, tiles and cache blocks, and channel counts beyond two tiles.
CHANNELS = st.one_of(
    st.integers(1, 9), st.integers(1, 70), st.sampled_from([12, 13, 14, 16, 28, 32, 64, 96, 128])
)
IMAGE_SIDES = st.one_of(
    st.integers(1, 20), st.sampled_from([15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65])
)
KERNELS = st.one_of(
    st.just((1, 1)),
    st.just((3, 3)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.sampled_from([(7, 7), (1, 7), (7, 1), (5, 5)]),
)
CLIPS = [None, "relu", "relu6", ("clip", -0.5, 0.75), ("clip", 0.25, 0.25), ("clip", -3, 2)]
# A slope of PReLU for each channel follows from the seed.
CURVES = [*activations.CURVES, ("leaky_relu", 0.01), ("leaky_relu", -1.5), "prelu"]
_SIDES = st.tuples(st.integers(0, 4), st.integers(0, 4))
PADDINGS = st.one_of(
    st.sampled_from(["valid", "same", "same_upper", "same_lower"]),
    st.integers(0, 4),
    _SIDES,
    st.tuples(_SIDES, _SIDES),
)


def _int_or_pair(low: int, high: int) -> st.SearchStrategy:
    sizes = st.integers(low, high)
    return st.one_of(st.just(low), sizes, st.tuples(sizes, sizes))


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


@st.composite
def grouped_channels(draw: st.DrawFn, depthwise: bool | None = None) -> tuple[int, int, int]:
    """Give groups, input channels and output channels."""
    kind = "depthwise" if depthwise else draw(st.sampled_from(["one", "one", "some", "depthwise"]))
    if kind == "one":
        return 1, draw(CHANNELS), draw(CHANNELS)
    if kind == "depthwise":
        groups = draw(CHANNELS)
        return groups, groups, groups * draw(st.integers(1, 3))
    groups = draw(st.integers(2, 6))
    return groups, groups * draw(st.integers(1, 20)), groups * draw(st.integers(1, 20))


@st.composite
def problems(
    draw: st.DrawFn,
    dtype: str | None = None,
    layout: str | None = None,
    pointwise: bool = False,
    depthwise: bool | None = None,
    algorithms: tuple[str, ...] = ("auto",),
    channels: st.SearchStrategy[tuple[int, int, int]] | None = None,
    curved: bool = True,
) -> Problem:
    """Draw a problem that is valid by construction.

    With ``pointwise``, a 1x1 of stride 1; without ``curved``, no activation but a clip;
    ``channels`` draws groups, input channels and output channels.
    """
    if channels is None:
        channels = grouped_channels(depthwise)
    groups, in_channels, out_channels = draw(channels)
    kernel = (1, 1) if pointwise else draw(KERNELS)
    padding = draw(st.sampled_from([0, "valid", "same"])) if pointwise else draw(PADDINGS)
    stride = 1 if pointwise or padding == "same" else draw(_int_or_pair(1, 3))
    dilation = draw(_int_or_pair(1, 3))
    batch = draw(st.sampled_from([1, None, 2, 3, 0]))

    products = max(batch or 1, 1) * in_channels // groups * out_channels * kernel[0] * kernel[1]
    largest = isqrt(MOST_PRODUCTS // products)
    pads = explicit_padding(padding, (1, 1), kernel, pair(stride), pair(dilation))
    image = []
    for pad, k, d in zip(pads, kernel, pair(dilation), strict=True):
        # Any size serves the "same" rules: they pad as much as the kernel needs.
        fits = 1 if str(padding).startswith("same") else max(1, d * (k - 1) + 1 - sum(pad))
        image.append(max(fits, min(fits - 1 + draw(IMAGE_SIDES), largest)))

    return Problem(
        dtype=dtype or draw(st.sampled_from(["float32", "float64"])),
        layout=layout or draw(st.sampled_from(["NCHW", "NHWC"])),
        batch=batch,
        groups=groups,
        in_channels=in_channels,
        out_channels=out_channels,
        image=(image[0], image[1]),
        kernel=kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        activation=draw(st.sampled_from(CLIPS + CURVES if curved else CLIPS)),
        with_bias=draw(st.booleans()),
        with_residual=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32 - 1)),
        options={
            "algorithm": draw(st.sampled_from(algorithms)),
            "threads": draw(st.sampled_from([1, 1, 2, 3, None])),
        },
    )
