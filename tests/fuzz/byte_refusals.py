"""What must be refused: convolutions of bytes that are spoiled, or cannot be served as asked."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.fuzz.case import Reason, Spoiled
from tests.fuzz.conv_refusals import of_geometry
from tests.reference import explicit_padding, pair

if TYPE_CHECKING:
    from tests.api.problems import Problem
    from tests.fuzz.byte_cases import ByteCase

ALGORITHMS = ("depthwise", "pointwise", "winograd", "direct", "im2col")
# Of the spoiled arguments in ``test_errors`` those that these calls have.
_ARGUMENTS = frozenset(
    {"stride", "padding", "dilation", "groups", "algorithm", "threads", "max_workspace"}
)
# The largest sum for which Winograd's products have room.
_LARGEST_SUM = 2**29 - 1


def arguments(case: ByteCase) -> frozenset[str]:
    """Arguments besides arrays, of those that ``test_errors`` spoils."""
    return _ARGUMENTS


def spoil(case: ByteCase, what: str, operands: dict[str, Any], out: Any) -> Spoiled | None:
    """Spoil one of the operands, as `refusals.spoil` does."""
    name, of = what.split()
    if name in ("bias", "residual") and case.call == "conv2d_integer":
        return None  # there is no such argument
    if name == "residual" and case.problem.dtype == "int32":
        operands["residual"] = np.zeros(case.output_shape, np.int32)
        return Spoiled(f"spoiled {what}", "residual", ValueError, out)
    if name == "residual" and case.plain["residual"] is None:
        return None  # the layer may have no scale for it
    array = np.asarray(operands[name]) if operands[name] is not None else None
    if of == "dtype":
        shape = (case.problem.out_channels,) if array is None else array.shape
        operands[name] = np.ones(shape, np.int16)
    elif what == "input dimensions":
        operands[name] = array.reshape((1,) * (5 - array.ndim) + array.shape)
    elif what == "weight dimensions":
        operands[name] = array[0]
    elif what == "bias shape":
        operands[name] = np.zeros(case.problem.out_channels + 1, np.int32)
    else:
        operands[name] = np.zeros((*array.shape[:-1], array.shape[-1] + 1), array.dtype)
    error = TypeError if of == "dtype" else ValueError
    names = {"input": "input|x|weight|w", "weight": "weight|w"}.get(name, name)
    return Spoiled(f"spoiled {what}", names, error, out)


def _is_product(p: Problem) -> bool:
    """Whether it is a product of the weights and the pixels as they lie."""
    pads = explicit_padding(p.padding, p.image, p.kernel, pair(p.stride), pair(p.dilation))
    return p.kernel == pair(p.stride) == (1, 1) and pads == ((0, 0), (0, 0))


def serves(p: Problem, algorithm: str) -> bool:
    """Whether an algorithm serves a convolution of bytes."""
    dense = pair(p.stride) == pair(p.dilation) == (1, 1)
    each = p.in_channels // p.groups
    if algorithm == "pointwise":
        return _is_product(p) and p.layout == "NHWC"
    if algorithm == "winograd":
        return dense and p.kernel == (3, 3) and each * prod(p.kernel) * 255 * 255 <= _LARGEST_SUM
    if algorithm == "depthwise":
        return each == 1 < p.groups
    return algorithm != "im2col" or p.layout == "NHWC"


def predicted(case: ByteCase) -> Reason | None:
    """As `Case.predicted`."""
    p = case.problem
    if (reason := of_geometry(p, "weight|w")) is not None:
        return reason
    algorithm = p.options["algorithm"]
    if algorithm == "sparse":
        if p.in_channels == p.groups > 1:
            return Reason("depthwise convolution is dense", "sparse")
        return None
    if algorithm != "auto" and not serves(p, algorithm):
        return Reason("another algorithm is needed", "algorithm")
    return None
