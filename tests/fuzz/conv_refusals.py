"""What must be refused: convolutions that are spoiled, and such that cannot be served as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.case import Reason, Spoiled
from tests.reference import explicit_padding, pair

if TYPE_CHECKING:
    from tests.api.problems import Problem
    from tests.fuzz.conv_cases import ConvCase

# Arguments of a call besides arrays, of those that ``test_errors`` spoils.
_ARGUMENTS = frozenset(
    {"stride", "padding", "dilation", "groups", "activation", "layout", "algorithm", "tolerance",
     "threads", "max_workspace"}
)  # fmt: skip


def arguments(case: ConvCase) -> frozenset[str]:
    """Arguments besides arrays, of those that ``test_errors`` spoils."""
    return _ARGUMENTS


def spoil(case: ConvCase, what: str, operands: dict[str, Any], out: Any) -> Spoiled | None:
    """Spoil one of the operands, as `refusals.spoil` does."""
    p = case.problem
    other = "float32" if p.dtype == "float64" else "float64"
    if what == "input dtype":
        operands["input"] = np.ones(np.shape(operands["input"]), "i4")
    elif what == "input dimensions":
        x = np.asarray(operands["input"])
        operands["input"] = x.reshape((1,) * (6 - x.ndim if case.block else 5 - x.ndim) + x.shape)
    elif what == "weight dtype":
        operands["weight"] = np.ones(np.shape(operands["weight"]), other)
        return Spoiled(f"spoiled {what}", "weight|input|bias", TypeError, out)
    elif what == "weight dimensions":
        operands["weight"] = np.asarray(operands["weight"])[0]
    elif what == "bias shape":
        operands["bias"] = np.zeros(p.out_channels + 1, p.dtype)
    elif what == "bias dtype":
        operands["bias"] = np.zeros(p.out_channels, other)
    elif what == "residual shape":
        operands["residual"] = np.zeros(
            (*case.output_shape[:-1], case.output_shape[-1] + 1), p.dtype
        )
    elif what == "residual dtype":
        operands["residual"] = np.zeros(case.output_shape, other)
    else:
        raise KeyError(what)
    name, of = what.split()
    error = TypeError if of == "dtype" else ValueError
    return Spoiled(f"spoiled {what}", f"{name}|weight" if name == "input" else name, error, out)


def of_geometry(p: Problem, weight: str) -> Reason | None:
    """Why windows are none, if they are none; `weight` is a pattern of the argument's names."""
    stride, dilation = pair(p.stride), pair(p.dilation)
    if p.padding == "same" and stride != (1, 1):
        return Reason('padding="same" with a stride', "padding")
    pads = explicit_padding(p.padding, p.image, p.kernel, stride, dilation)
    for size, pad, k, d in zip(p.image, pads, p.kernel, dilation, strict=True):
        if size + sum(pad) < d * (k - 1) + 1:
            return Reason("kernel outgrows the image", weight)
    return None


def few_channels(each_in: int, each_out: int) -> bool:
    """Whether loops of depthwise convolution take groups of so many channels in NHWC."""
    power = each_in & (each_in - 1) == 0
    return each_in == each_out <= 64 and (power or each_in % 16 == 0)


def predicted(case: ConvCase) -> Reason | None:
    """As `Case.predicted`."""
    p = case.problem
    stride, dilation = pair(p.stride), pair(p.dilation)
    if case.block and p.batch is None and p.image[0] == p.in_channels:
        # Another mistake may be found first.
        return Reason("blocks without a batch may be NCHW", "input|input_shape|padding|weight")
    if (reason := of_geometry(p, "weight")) is not None:
        return reason
    pads = explicit_padding(p.padding, p.image, p.kernel, stride, dilation)
    icg, ocg = p.in_channels // p.groups, p.out_channels // p.groups
    ragged = case.block and p.groups > 1 and (icg % case.block or ocg % case.block)
    dense = stride == dilation == (1, 1)
    if p.options["algorithm"] == "sparse" and icg == 1 < p.groups:
        return Reason("depthwise convolution is dense", "sparse")
    pointwise = p.kernel == stride == (1, 1) and pads == ((0, 0), (0, 0))
    serves = {
        "auto": True,
        "depthwise": icg == 1 or (p.layout == "NHWC" and not case.block and few_channels(icg, ocg)),
        "pointwise": pointwise and not ragged,
        "winograd": dense and min(p.kernel) > 1 and not ragged,
        "direct": not ragged,
        "im2col": True,
        "sparse": not ragged,
    }
    if not serves[p.options["algorithm"]]:
        return Reason("another algorithm is needed", "algorithm")
    return None
