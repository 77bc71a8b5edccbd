"""Checks of convolutions and pools: windows against weights, channels against groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._records import NamedTuple
from .onnx_later import ir
from .padding import POOLS, rooms
from .values import Shapes, attribute_int, attribute_ints, attribute_string

__all__ = ["WINDOW_CHECKS"]


class _Places(NamedTuple):
    """Positions of a convolution's operands: weights, bias, and operands by channel."""

    weights: int = 1
    bias: int | None = None
    single: Sequence[int] = ()
    channels: Sequence[int] = ()


_PLACES = {
    "Conv": _Places(bias=2),
    "ConvInteger": _Places(single=(2,), channels=(3,)),
    "ConvTranspose": _Places(bias=2),
    "QLinearConv": _Places(3, 8, (1, 2, 6, 7), (4, 5)),
}


def _of_convolution(node: ir.Node, shapes: Shapes) -> str | None:
    places = _PLACES[node.op_type]
    x, w = shapes[0], shapes[places.weights]
    if w is None:
        return _of_windows(node, None if x is None else len(x) - 2)
    if len(w) < 3 or (x is not None and len(x) != len(w)):
        return f"the input has the shape {x}, the weights have {w}"
    kernel = attribute_ints(node, "kernel_shape", ())
    if kernel and kernel != w[2:]:
        return f"kernel_shape is {list(kernel)}, the weights have the shape {w}"
    if min(w[2:]) < 1:
        return f"the weights have the shape {w}"
    problem = _of_windows(node, len(w) - 2)
    if problem:
        return problem
    transposed = node.op_type == "ConvTranspose"
    if x is not None and not transposed and min(rooms(node, x[2:], w[2:])) < 0:
        return f"the padded input is smaller than the kernel, {x} and {w}"
    group = attribute_int(node, "group", 1)
    if group < 1 or w[0] % group:
        return f"group is {group}, the weights have the shape {w}"
    expected = w[0] if transposed else w[1] * group
    if x is not None and x[1] != expected:
        return f"group is {group}, the input has the shape {x}, the weights have {w}"
    channels = w[1] * group if transposed else w[0]
    wanted = attribute_ints(node, "output_shape", ())
    if x is not None and len(wanted) == len(w) and wanted[:2] != (x[0], channels):
        return f"output_shape is {list(wanted)}, expected {[x[0], channels]} before the axes"
    bias = shapes[places.bias] if places.bias is not None else None
    if bias is not None and bias != (channels,):
        return f"the bias has the shape {bias}, the weights have {w} in {group} groups"
    for place in places.single:
        shape = shapes[place]
        if shape not in (None, (), (1,)):
            return f"the operand {_name(node, place)} has the shape {shape}, expected one number"
    for place in places.channels:
        shape = shapes[place]
        if shape not in (None, (), (1,), (channels,)):
            return f"the operand {_name(node, place)} has the shape {shape}, expected {(channels,)}"
    return None


def _of_pool(node: ir.Node, shapes: Shapes) -> str | None:
    x, kernel = shapes[0], attribute_ints(node, "kernel_shape", ())
    axes = len(kernel) if x is None else len(x) - 2
    if axes < 1 or len(kernel) != axes or min(kernel) < 1:
        return f"kernel_shape is {list(kernel)}, the input has the shape {x}"
    return _of_windows(node, axes)


def _of_windows(node: ir.Node, axes: int | None) -> str | None:
    """Compare the attributes of windows with the number of axes, if known."""
    auto = attribute_string(node, "auto_pad", "NOTSET") or "NOTSET"
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        return f"auto_pad is {auto!r}"
    for name, times, least in (
        ("strides", 1, 1), ("dilations", 1, 1), ("pads", 2, 0), ("output_padding", 1, 0),
    ):  # fmt: skip
        given = attribute_ints(node, name, ())
        if given and ((axes is not None and len(given) != times * axes) or min(given) < least):
            count = "" if axes is None else f"{times * axes} "
            return f"{name} is {list(given)}, expected {count}integers from {least} upwards"
    pads = attribute_ints(node, "pads", ())
    # onnxruntime ignores the pads of pools then, and refuses convolutions.
    if auto != "NOTSET" and node.op_type not in POOLS and (any(pads) or (pads and auto != "VALID")):
        return f"auto_pad is {auto}, and pads is {list(pads)}"
    return _of_outputs(node, axes) if node.op_type == "ConvTranspose" and axes else None


def _of_outputs(node: ir.Node, axes: int) -> str | None:
    """Check a ConvTranspose's attributes of its output."""
    ones = (1,) * axes
    strides = attribute_ints(node, "strides", ()) or ones
    dilations = attribute_ints(node, "dilations", ()) or ones
    more = attribute_ints(node, "output_padding", ()) or (0,) * axes
    if any(n >= max(pair) for n, *pair in zip(more, strides, dilations, strict=True)):
        return (
            f"output_padding is {list(more)}, expected less than the strides {list(strides)} or "
            f"the dilations {list(dilations)}"
        )
    wanted = attribute_ints(node, "output_shape", ())
    # Older files count images and channels as well.
    if wanted and (len(wanted) not in (axes, axes + 2) or min(wanted) < 1):
        return f"output_shape is {list(wanted)}, expected {axes} integers from 1 upwards"
    return None


def _of_size(node: ir.Node, shapes: Shapes) -> str | None:
    size = attribute_int(node, "size", 1)
    return f"size is {size}, expected an odd number" if size < 1 or size % 2 == 0 else None


def _name(node: ir.Node, place: int) -> str:
    value = node.inputs[place]
    return repr(value.name if value is not None else "")


WINDOW_CHECKS: dict[str, Callable[[ir.Node, Shapes], str | None]] = {
    **dict.fromkeys(_PLACES, _of_convolution),
    **dict.fromkeys(POOLS, _of_pool),
    "LRN": _of_size,
}
"""By operator: the check of convolutions and pools."""
