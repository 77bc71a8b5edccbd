"""``auto_pad`` and ``output_shape`` made explicit, for which shapes have to be known."""

from __future__ import annotations

import onnx_ir as ir

from .shapes import describe
from .values import attribute_ints, attribute_string, static_shape

__all__ = ["resolve_padding"]

_WEIGHTED = frozenset(("Conv", "ConvInteger", "ConvTranspose"))
_WINDOWED = frozenset((*_WEIGHTED, "AveragePool", "MaxPool", "LpPool"))


def resolve_padding(graph: ir.Graph) -> None:
    """Give convolutions and pools their padding in numbers.

    Parameters
    ----------
    graph : ir.Graph
        A graph with known shapes; changed in place.

    Raises
    ------
    ValueError
        If ``auto_pad`` or an attribute's length is wrong.
    """
    for node in graph:
        if node.domain or node.op_type not in _WINDOWED:
            continue
        shape = static_shape(node.inputs[0])
        if shape is None or len(shape) < 3:
            continue
        kernel = _kernel(node)
        if kernel is None or len(kernel) != len(shape) - 2:
            continue
        if min(kernel) < 1:
            raise ValueError(f"model has the kernel_shape {kernel} at {describe(node)}")
        axes = len(kernel)
        strides = _entries(node, "strides", axes, 1)
        dilations = _entries(node, "dilations", axes, 1)
        span = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
        if node.op_type == "ConvTranspose":
            _resolve_transposed(node, shape[2:], span, strides)
        else:
            _resolve_forward(node, shape[2:], span, strides)
        _set(node, "strides", strides)
        _set(node, "dilations", dilations)
        _set(node, "kernel_shape", kernel)


def _kernel(node: ir.Node) -> tuple[int, ...] | None:
    if node.op_type in _WEIGHTED:
        shape = static_shape(node.inputs[1])
        return None if shape is None else shape[2:]
    return attribute_ints(node, "kernel_shape", ())


def _resolve_forward(
    node: ir.Node, sizes: tuple[int, ...], span: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    mode = _mode(node)
    if mode == "NOTSET":
        pads = _entries(node, "pads", 2 * len(sizes), 0)
    elif mode == "VALID":
        pads = (0,) * (2 * len(sizes))
    else:
        totals = tuple(
            max(0, (-(-size // stride) - 1) * stride + reach - size)
            for size, stride, reach in zip(sizes, strides, span, strict=True)
        )
        pads = _halves(totals, more_at_end=mode == "SAME_UPPER")
        # The output has as many pixels as strides fit, whatever way of rounding the node names.
        if "ceil_mode" in node.attributes:
            node.attributes["ceil_mode"] = ir.AttrInt64("ceil_mode", 0)
    _set(node, "pads", pads)


def _resolve_transposed(
    node: ir.Node, sizes: tuple[int, ...], span: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    axes = len(sizes)
    mode = _mode(node)
    extra = _entries(node, "output_padding", axes, 0)
    wanted = attribute_ints(node, "output_shape", ())
    if len(wanted) == axes + 2:  # older files count images and channels as well
        wanted = wanted[2:]
    if not wanted and mode.startswith("SAME"):
        wanted = tuple(size * stride for size, stride in zip(sizes, strides, strict=True))
    pads = _entries(node, "pads", 2 * axes, 0) if mode == "NOTSET" else (0,) * (2 * axes)
    if wanted:
        if len(wanted) != axes:
            raise ValueError(f"model has an output_shape of {len(wanted)} axes at {describe(node)}")
        full = tuple(
            (size - 1) * stride + reach + more
            for size, stride, reach, more in zip(sizes, strides, span, extra, strict=True)
        )
        totals = tuple(have - want for have, want in zip(full, wanted, strict=True))
        # What the taps do not reach is padding of the output.
        extra = tuple(more + max(0, -total) for more, total in zip(extra, totals, strict=True))
        pads = _halves(tuple(max(0, total) for total in totals), more_at_end=mode == "SAME_UPPER")
    node.attributes.pop("output_shape", None)
    _set(node, "output_padding", extra)
    _set(node, "pads", pads)


def _mode(node: ir.Node) -> str:
    mode = attribute_string(node, "auto_pad", "NOTSET") or "NOTSET"
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise ValueError(f"model has the auto_pad {mode!r} at {describe(node)}")
    node.attributes.pop("auto_pad", None)
    return mode


def _entries(node: ir.Node, name: str, count: int, default: int) -> tuple[int, ...]:
    values = attribute_ints(node, name, ()) or (default,) * count
    if len(values) != count or min(values) < default:
        raise ValueError(
            f"model has {name} {values} at {describe(node)}: expected {count} integers from "
            f"{default} upwards"
        )
    return values


def _halves(totals: tuple[int, ...], *, more_at_end: bool) -> tuple[int, ...]:
    small = tuple(total // 2 for total in totals)
    large = tuple(total - half for total, half in zip(totals, small, strict=True))
    return (*small, *large) if more_at_end else (*large, *small)


def _set(node: ir.Node, name: str, values: tuple[int, ...]) -> None:
    if node.op_type == "LpPool" and name == "dilations" and set(values) == {1}:
        return
    node.attributes[name] = ir.AttrInt64s(name, list(values))
