"""Arguments of the public functions: checked, named in every error, made into a problem."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _checks
from .._checks import meant, one_of, shown
from ..numerics import BRAIN_KINDS, TYPES
from ..problem import (
    LARGEST_BLOCK,
    LARGEST_PLANE,
    LARGEST_PRODUCT,
    LAYOUTS,
    ConvProblem,
)
from ..runtime import scope
from ..sparsity import Sparsity

Pair = tuple[int, int]
Padding = tuple[Pair, Pair]
# One number for each spatial axis.
Sizes = tuple[int, ...]

# Types of arithmetic that each word of ``precision=`` permits for arrays of each type, the
# preferred one first. The planner compares those that the machine supports; a word without an entry
# for a type is refused.
_FULL = {"f16": ("f32",), "bf16": ("f32",), "f32": ("f32",), "f64": ("f64",)}
_AS_ARRAYS = {**_FULL, "f16": ("f16", "f32"), "bf16": (*BRAIN_KINDS, "f32")}
PRECISIONS: dict[str | None, dict[str, tuple[str, ...]]] = {
    None: _AS_ARRAYS,
    "auto": _AS_ARRAYS,
    "fp32": {name: types for name, types in _FULL.items() if name != "f64"},
    "fp16": {"f16": ("f16", "f32"), "f32": ("f16", "f32")},
    "bf16": {"bf16": (*BRAIN_KINDS, "f32"), "f32": (*BRAIN_KINDS, "f32")},
    "low": {
        "f16": ("f16", "f32"),
        "bf16": (*BRAIN_KINDS, "f32"),
        "f32": ("f16", *BRAIN_KINDS, "f32"),
    },
    "low_bf16": {"bf16": BRAIN_KINDS, "f32": BRAIN_KINDS},
}

_ARRAYS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}

_PADDING_WORDS = ("valid", "same", "same_upper", "same_lower")
# Forms of ``padding=`` besides the words, by the number of spatial axes.
PADDING_FORMS = {
    1: "an int, (int,), (left, right)",
    2: "an int, a pair (vertical, horizontal), ((top, bottom), (left, right))",
    3: "an int, (depth, vertical, horizontal), ((front, back), (top, bottom), (left, right))",
}


def integer(name: str, value: object, minimum: int) -> int:
    """Return `value` as an int, or raise an error that says what is wrong with it.

    Raises
    ------
    TypeError
        If `value` is not an integer (a bool does not count as one).
    ValueError
        If it is below `minimum`.
    """
    return _bounded(name, _checks.integer(name, value), minimum)


def _bounded(name: str, number: int, minimum: int) -> int:
    if number < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {number}")
    if number >= LARGEST_PRODUCT:
        raise ValueError(f"{name} is too large: {number}")
    return number


def _plain(value: object) -> object:
    """Turn an array of integers into a list, or into one integer."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def sizes(name: str, value: object, minimum: int, count: int) -> tuple[int, ...]:
    """Return an int, or one for each of `count` spatial axes, as a tuple.

    Raises
    ------
    TypeError, ValueError
        As `integer`, or if there are not `count` of them.
    """
    several = {1: "a tuple of one", 2: "a pair of ints", 3: "three ints"}[count]
    complaint = f"{name} must be an int or {several}, got {shown(value)}"
    plain = _plain(value)
    sides = plain if isinstance(plain, (tuple, list)) else (plain,) * count
    if len(sides) != count:
        raise ValueError(complaint)
    found = [_checks.integer(name, side, complaint=complaint) for side in sides]
    return tuple(_bounded(name, number, minimum) for number in found)


def pair(name: str, value: object, minimum: int) -> Pair:
    """Return an int or a pair of ints as a (vertical, horizontal) pair.

    Raises
    ------
    TypeError, ValueError
        As `sizes`.
    """
    down, across = sizes(name, value, minimum, 2)
    return down, across


def _same(size: int, kernel: int, stride: int, dilation: int, *, lower: bool) -> Pair:
    """Padding that makes the output ceil(size / stride) long; an odd pixel goes last or first."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size)
    small, large = total // 2, total - total // 2
    return (large, small) if lower else (small, large)


def padded_sides(
    padding: object, size: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes
) -> tuple[Pair, ...]:
    """Resolve every form of ``padding=`` to a pair for each spatial axis: before and behind.

    ``"same"`` is PyTorch's rule (stride 1 only, the odd pixel at the end), ``"same_upper"``
    and ``"same_lower"`` are ONNX's ``auto_pad``.

    Raises
    ------
    TypeError, ValueError
        If `padding` is of no known form, negative, or ``"same"`` with a stride.
    """
    count = len(size)
    complaint = (
        f'padding must be {PADDING_FORMS[count]}, "valid", "same", "same_upper" or "same_lower", '
        f"got {shown(padding)}"
    )
    if isinstance(padding, str):
        if padding not in _PADDING_WORDS:
            raise ValueError(f"{complaint}{meant(padding, _PADDING_WORDS)}")
        if padding == "valid":
            return ((0, 0),) * count
        if padding == "same" and max(stride) > 1:
            raise ValueError(f'padding="same" needs stride 1, got stride {stride}')
        lower = padding == "same_lower"
        axes = zip(size, kernel, stride, dilation, strict=True)
        return tuple(_same(*axis, lower=lower) for axis in axes)
    plain = _plain(padding)
    sides = plain if isinstance(plain, (tuple, list)) else (plain,) * count
    ends = [side if isinstance(side, (tuple, list)) else (side, side) for side in sides]
    if [len(side) for side in ends] != [2] * count:
        raise ValueError(complaint)
    numbers = [
        [_bounded("padding", _checks.integer("padding", n, complaint=complaint), 0) for n in side]
        for side in ends
    ]
    return tuple((before, behind) for before, behind in numbers)


def explicit_padding(
    padding: object, size: Pair, kernel: Pair, stride: Pair, dilation: Pair
) -> Padding:
    """Resolve every form of ``padding=`` to ((top, bottom), (left, right)).

    Raises
    ------
    TypeError, ValueError
        As `padded_sides`.
    """
    vertical, horizontal = padded_sides(padding, size, kernel, stride, dilation)
    return vertical, horizontal


def check_layout(layout: object) -> str:
    """Return `layout` if it is a layout.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("layout", layout, LAYOUTS)


def check_block(block: object) -> int:
    """Return `block`, the channels of one block of NCHWc, as an int from 1 to 64.

    Raises
    ------
    TypeError, ValueError
        If it is not.
    """
    number = integer("block", block, 1)
    if number > LARGEST_BLOCK:
        raise ValueError(f"block must be at most {LARGEST_BLOCK}, got {number}")
    return number


def check_tolerance(tolerance: object) -> float | None:
    """Return `tolerance` as a float >= 0, or None.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    return None if tolerance is None else scope.check_tolerance(tolerance)


def check_threads(threads: object) -> int | None:
    """Return `threads` as an int of at least 1, or None.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    if threads is None:
        return None
    number = integer("threads", threads, 1)
    if number > 65536:
        raise ValueError(f"threads must be at most 65536, got {number}")
    return number


def check_search_seconds(seconds: object) -> float:
    """Return `seconds`, the time that a search may take, as a finite float > 0.

    Raises
    ------
    TypeError, ValueError
        If it is no number, or out of range.
    """
    if isinstance(seconds, (bool, str)):
        raise TypeError(f"search_seconds must be a number, got {seconds!r}")
    try:
        number = float(seconds)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"search_seconds must be a number, got {seconds!r}") from None
    if not 0 < number < math.inf:
        raise ValueError(f"search_seconds must be more than 0 and finite, got {seconds!r}")
    return number


def check_precision(precision: object, dtype: str) -> tuple[str, ...]:
    """Check ``precision=``, and return the types that arrays of `dtype` may be computed in.

    Parameters
    ----------
    precision : object
        None or ``"auto"``: that of the arrays, which for float16 permits half precision.
        ``"fp32"``: in float32. ``"fp16"`` and ``"bf16"`` permit the type, but do not demand it.
        ``"low"`` permits both. ``"low_bf16"`` demands bfloat16; `make_problem` makes an exception.
    dtype : str
        Of the arrays.

    Returns
    -------
    tuple of str
        As `ConvProblem.permitted`.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, or does not apply to arrays of `dtype`.
    """
    if precision is not None and not isinstance(precision, str):
        raise TypeError(f"precision must be None or a str, got {precision!r}")
    if precision is not None:
        one_of("precision", precision, filter(None, PRECISIONS), or_none=True)
    permitted = PRECISIONS[precision].get(dtype)
    if permitted is None:
        fitting = [word for word, by in PRECISIONS.items() if word != "auto" and dtype in by]
        fit = [f'"{word}"' if word else "None" for word in fitting]
        raise ValueError(
            f"precision must be {' or '.join(fit)} for {_ARRAYS[dtype]} arrays, got {precision!r}"
        )
    return permitted


def check_max_workspace(max_workspace: object) -> int | None:
    """Return `max_workspace` as a number of bytes, or None.

    Raises
    ------
    TypeError, ValueError
        If it is neither.
    """
    return None if max_workspace is None else integer("max_workspace", max_workspace, 0)


def check_weight_shape(
    shape: tuple[int, ...], groups: int, *, transposed: bool = False, taps: str = "kh, kw"
) -> None:
    """Check a weight shape (oc, ic / groups, kh, kw), or (ic, oc / groups, kh, kw) if `transposed`.

    `taps` are the names of the spatial dimensions.

    Raises
    ------
    ValueError
        If it does not have as many dimensions of at least 1, or `groups` does not divide the first.
    """
    first, second, channels = ("ic", "oc", "input") if transposed else ("oc", "ic", "output")
    ndim = 3 + taps.count(",")
    if len(shape) != ndim:
        raise ValueError(
            f"weight must have the {ndim} dimensions ({first}, {second} / groups, {taps}), "
            f"got shape {shape}"
        )
    if min(shape) < 1:
        raise ValueError(f"weight must not be empty, got shape {shape}")
    if shape[0] % groups:
        raise ValueError(f"groups must divide the {shape[0]} {channels} channels, got {groups}")


def make_problem(
    input_shape: tuple[int, ...],
    weight_shape: tuple[int, ...],
    dtype: str,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    layout: Any,
    permitted: tuple[str, ...] = (),
    sparsity: Sparsity | None = None,
) -> ConvProblem:
    """Check shapes and geometry, and make the problem of a batched input.

    `dtype` is that of the arrays; `permitted` and `sparsity` are as in `ConvProblem`. Where only
    bfloat16 is permitted, depthwise convolution may still be computed in float32.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; the message has its name, its value and what was expected.
    """
    layout = check_layout(layout)
    groups = integer("groups", groups, 1)
    stride, dilation = pair("stride", stride, 1), pair("dilation", dilation, 1)
    check_weight_shape(weight_shape, groups)
    oc, ic_group, kh, kw = weight_shape
    if permitted == BRAIN_KINDS and ic_group == 1:
        permitted = (*permitted, "f32")  # depthwise kernels have no narrow products
    n, *rest = input_shape
    ic, block = ic_group * groups, 0
    if layout == "NCHWc":
        found, ih, iw, block = rest
        wanted, what = _blocks(ic, block, input_shape), f"blocks of {block} channels"
    else:
        found, ih, iw = rest if layout == "NCHW" else (rest[2], rest[0], rest[1])
        wanted, what = ic, "channels"
    if ih < 1 or iw < 1:
        raise ValueError(
            f"input must not be empty, got {ih} rows and {iw} columns in shape "
            f"{tuple(input_shape)} with layout {layout}"
        )
    if found != wanted:
        raise ValueError(
            f"input must have {wanted} {what} (weight has {ic_group} channels for each of "
            f"{groups} groups), got {found} in shape {tuple(input_shape)} with layout {layout}"
            f"{' (to_blocked makes it of NCHW)' if block else ''}"
        )
    sides = explicit_padding(padding, (ih, iw), (kh, kw), stride, dilation)
    out = []
    for axis, size, kernel in ((0, ih, kh), (1, iw, kw)):
        padded = size + sum(sides[axis])
        reach = (kernel - 1) * dilation[axis] + 1
        if padded < reach:
            raise ValueError(
                f"weight: the kernel spans {reach} pixels {('vertically', 'horizontally')[axis]} "
                f"but the padded input has {padded} (input {size}, padding {sides[axis]})"
            )
        out.append((padded - reach) // stride[axis] + 1)
    problem = ConvProblem(
        n, groups, ic, ih, iw, oc, out[0], out[1], kh, kw, stride, dilation, sides, dtype, layout,
        block, permitted, sparsity=sparsity,
    )  # fmt: skip
    check_sizes(problem)
    return problem


def _blocks(channels: int, block: int, input_shape: tuple[int, ...]) -> int:
    """Return how many blocks `channels` fill, the last one maybe in part."""
    if not 1 <= block <= LARGEST_BLOCK:
        raise ValueError(
            f"input must have blocks of 1 to {LARGEST_BLOCK} channels in its last dimension "
            f"with layout NCHWc, got shape {tuple(input_shape)}"
        )
    return -(-channels // block)


def check_sizes(p: ConvProblem) -> None:
    """Refuse sizes whose products could exceed 64 bits anywhere in the native code."""
    element = max(kind.bytes for kind in TYPES.values())
    largest = {
        "input": math.prod(p.input_shape) * element,
        "weight": p.oc * p.k * element * 64,  # panels may be wider than oc
        "out": math.prod(p.output_shape) * element,
    }
    for name, size in largest.items():
        if size >= LARGEST_PRODUCT:
            raise ValueError(f"{name} is too large: its size overflows 64 bits ({p})")
    reach = (p.ih + sum(p.padding[0])) * (p.iw + sum(p.padding[1]))
    if reach >= LARGEST_PLANE or p.oh * p.ow >= LARGEST_PLANE:
        raise ValueError(
            f"input: one padded plane may have at most {LARGEST_PLANE} pixels, got {reach}"
        )
