"""Replaces ``auto_pad`` and ``output_shape`` by explicit padding, once shapes are known."""

from __future__ import annotations

from collections.abc import Sequence

from .onnx_later import ir
from .values import attribute_int, attribute_ints, attribute_string, static_shape

__all__ = ["POOLS", "infer_pool", "resolve_node", "resolve_padding", "rooms", "settle_pool"]

POOLS = frozenset(("AveragePool", "LpPool", "MaxPool"))
"""Operators with windows."""

_WEIGHTED = frozenset(("Conv", "ConvInteger", "ConvTranspose"))
_WINDOWED = _WEIGHTED | POOLS


def resolve_padding(graph: ir.Graph) -> None:
    """Give convolutions and pools their padding in numbers.

    Parameters
    ----------
    graph : ir.Graph
        A graph with known shapes, whose nodes do not contradict themselves; changed in place.
    """
    for node in graph:
        if node.op_type in _WINDOWED:
            resolve_node(node)


def settle_pool(node: ir.Node) -> None:
    """Rewrite a pool to onnxruntime's meaning, before its shape is inferred.

    onnxruntime ignores ``pads`` beside ``auto_pad``.

    Parameters
    ----------
    node : ir.Node
        One of `POOLS`; changed in place.
    """
    if (attribute_string(node, "auto_pad", "NOTSET") or "NOTSET") != "NOTSET":
        node.attributes.pop("pads", None)


def rooms(node: ir.Node, sizes: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
    """Give the free range of windows in each dimension; negative where they do not fit.

    Parameters
    ----------
    node : ir.Node
        A convolution or a pool that does not contradict itself.
    sizes, kernel : sequence of int
        Pixels and taps.

    Returns
    -------
    tuple of int
        Zeros for padding that keeps as many pixels as strides fit, for any window.
    """
    axes = len(sizes)
    mode = attribute_string(node, "auto_pad", "NOTSET") or "NOTSET"
    if mode.startswith("SAME"):
        return (0,) * axes
    pads = _entries(node, "pads", 2 * axes, 0) if mode == "NOTSET" else (0,) * 2 * axes
    dilations = _entries(node, "dilations", axes, 1)
    each = zip(sizes, pads, pads[axes:], kernel, dilations, strict=False)
    return tuple(n + before + after - (k - 1) * d - 1 for n, before, after, k, d in each)


def infer_pool(node: ir.Node) -> None:
    """Correct ONNX's inferred number of windows where they do not fit and it rounds up.

    ONNX's inference rounds negative quotients toward zero.

    Parameters
    ----------
    node : ir.Node
        One of `POOLS`; its outputs are changed in place.
    """
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if before is None or after is None or not attribute_int(node, "ceil_mode", 0):
        return
    room = rooms(node, before[2:], attribute_ints(node, "kernel_shape", ()))
    strides = _entries(node, "strides", len(room), 1)
    sizes = [
        n if left >= 0 else 1 - -left // stride
        for n, left, stride in zip(after[2:], room, strides, strict=True)
    ]
    for value in node.outputs:
        value.shape = ir.Shape([*after[:2], *sizes])


def resolve_node(node: ir.Node) -> None:
    """Give a node its padding in numbers, if the shapes of its operands are known.

    Parameters
    ----------
    node : ir.Node
        A convolution or a pool that does not contradict itself; changed in place.
    """
    shape = static_shape(node.inputs[0])
    kernel = _kernel(node)
    if node.domain or shape is None or kernel is None:
        return
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
        # The output has as many pixels as strides fit, whichever rounding the node names.
        if "ceil_mode" in node.attributes:
            node.attributes["ceil_mode"] = ir.AttrInt64("ceil_mode", 0)
    _set(node, "pads", pads)


def _resolve_transposed(
    node: ir.Node, sizes: tuple[int, ...], span: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    """Follow onnxruntime, where ONNX's inference of shapes differs.

    ``auto_pad`` takes ``output_padding`` into account, and never cuts off a negative number.
    """
    axes = len(sizes)
    mode = _mode(node)
    extra = _entries(node, "output_padding", axes, 0)
    # Older files count images and channels as well.
    wanted = attribute_ints(node, "output_shape", ())[-axes:]
    full = tuple(
        (size - 1) * stride + reach + more
        for size, stride, reach, more in zip(sizes, strides, span, extra, strict=True)
    )
    if wanted:
        # Outputs that no tap reaches are output padding.
        extra = tuple(
            more + max(0, want - have) for more, want, have in zip(extra, wanted, full, strict=True)
        )
    elif mode.startswith("SAME"):
        wanted = tuple(size * stride for size, stride in zip(sizes, strides, strict=True))
    pads = _entries(node, "pads", 2 * axes, 0)
    if wanted:
        totals = tuple(max(0, have - want) for have, want in zip(full, wanted, strict=True))
        pads = _halves(totals, more_at_end=mode == "SAME_UPPER")
    node.attributes.pop("output_shape", None)
    _set(node, "output_padding", extra)
    _set(node, "pads", pads)


def _mode(node: ir.Node) -> str:
    mode = attribute_string(node, "auto_pad", "NOTSET") or "NOTSET"
    node.attributes.pop("auto_pad", None)
    return mode


def _entries(node: ir.Node, name: str, count: int, default: int) -> tuple[int, ...]:
    return attribute_ints(node, name, ()) or (default,) * count


def _halves(totals: tuple[int, ...], *, more_at_end: bool) -> tuple[int, ...]:
    small = tuple(total // 2 for total in totals)
    large = tuple(total - half for total, half in zip(totals, small, strict=True))
    return (*small, *large) if more_at_end else (*large, *small)


def _set(node: ir.Node, name: str, values: tuple[int, ...]) -> None:
    if node.op_type == "LpPool" and name == "dilations" and set(values) == {1}:
        return
    node.attributes[name] = ir.AttrInt64s(name, list(values))
