"""From a `Conv2d` and samples of its input to a `QConv2d`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import quant
from .._checks import flag
from .._literals import Method
from ..arguments.activation import activation_of
from ..arguments.argument_names import named
from ..arguments.settings import checked
from ..memory.array_like import array_of
from ..ops.quantized import quantization
from ..ops.quantized.quantization import DTYPES, INT32, NAMES, Array
from ..ops.quantized.quantized_description import check_conv_layout
from ..ops.quantized.quantized_output import refuse_curve
from ..quant.numbers import decibels
from ..quant.observing import Observer, arrays_of
from ..quant.weights import weights_beside
from .quantized_layer import QConv2d

if TYPE_CHECKING:
    from .layer import Layer

# A bias may take this much of the int32 range; the sums have the rest.
_LARGEST_BIAS = (INT32[1] + 1) // 2


def quantize_conv(
    conv: Layer,
    samples: Any,
    *,
    method: Method,
    percentile: float,
    per_channel: bool,
    symmetric: bool,
    x_dtype: Any,
    out_dtype: Any,
) -> QConv2d:
    """Quantize a convolution; `Conv2d.quantize` describes the arguments.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described there.
    """
    layer: Any = conv
    refuse_curve(activation_of(layer.activation, layer.out_channels), layer.activation)
    check_conv_layout(layer.layout)
    if layer.padding_mode != "zeros":
        raise ValueError(
            f"padding_mode must be 'zeros' for quantized convolutions, got {layer.padding_mode!r}"
        )
    x_kind = quantization.dtype_named("x_dtype", x_dtype, NAMES)
    allowed = {dtype: kind for dtype, kind in quantization.OUTPUTS.items() if kind != "s32"}
    out_kind = (
        x_kind if out_dtype is None else quantization.dtype_named("out_dtype", out_dtype, allowed)
    )
    observer = partial(Observer, method, percentile=percentile)
    per_channel, symmetric = flag("per_channel", per_channel), flag("symmetric", symmetric)
    of_x = observer(dtype=DTYPES[x_kind])
    integers = DTYPES[out_kind if out_kind in quantization.RANGES else x_kind]
    of_y, of_residual = observer(dtype=integers), observer(dtype=integers)
    # A list, as samples are read twice; bad samples are found before the slow calls.
    pairs = [_pair(sample) for sample in arrays_of(samples, "samples")]
    if not pairs:
        raise ValueError("samples must have at least one input")
    with named(x="samples", input="samples"):
        for x, residual in pairs:
            of_y.add(layer(x, residual))
            of_x.add(x)
            if residual is not None:
                of_residual.add(residual)
    scales: dict[str, Any] = dict(zip(("x_scale", "x_zero_point"), of_x.parameters(), strict=True))
    if out_kind != "f32":
        scales |= zip(("y_scale", "y_zero_point"), of_y.parameters(), strict=True)
        if any(residual is not None for _, residual in pairs):
            found = of_residual.parameters()
            scales |= zip(("residual_scale", "residual_zero_point"), found, strict=True)
    made = _made(layer, scales, out_kind, per_channel=per_channel, symmetric=symmetric)
    made._signal_to_noise = _ratio(layer, made, scales, pairs)
    return made


def _pair(sample: Any) -> tuple[Any, Any]:
    """Split a sample into input and residual, or None."""
    if not isinstance(sample, tuple):
        return sample, None
    if len(sample) != 2:
        raise ValueError(
            f"samples must be inputs, or tuples (input, residual), got a tuple of {len(sample)}"
        )
    return sample


def _made(
    conv: Any, scales: dict[str, Any], out_kind: str, *, per_channel: bool, symmetric: bool
) -> QConv2d:
    """Make the same convolution with quantized weights and the given scales of its arrays."""
    bias = None if conv.bias is None else conv.bias.astype(np.float32)
    q, w_scale, w_zero = weights_beside(
        conv.weight, bias, float(scales["x_scale"]), _LARGEST_BIAS, per_channel=per_channel,
        symmetric=symmetric,
    )  # fmt: skip
    names = ("search", "search_seconds", "max_workspace", "threads", "search_context")
    return QConv2d(
        q, bias, conv.stride, conv.padding, conv.dilation, conv.groups,
        w_scale=w_scale, w_zero_point=w_zero, **scales, activation=conv.activation,
        out_dtype=DTYPES[out_kind], layout=conv.layout,
        **checked({name: getattr(conv, name) for name in names}),
        sparse=conv.sparse is not False and "auto", block=conv.block,
    )  # fmt: skip


def _ratio(conv: Any, made: QConv2d, scales: dict[str, Any], pairs: list[tuple[Any, Any]]) -> float:
    """Return the signal-to-noise ratio of all samples together, in dB."""
    signal = noise = 0.0
    for exact, got in _outputs(conv, made, scales, pairs):
        signal += float(np.square(exact.astype(np.float64)).sum())
        noise += float(np.square(exact.astype(np.float64) - got).sum())
    return decibels(signal, noise)


def _outputs(
    conv: Any, made: QConv2d, scales: dict[str, Any], pairs: list[tuple[Any, Any]]
) -> Iterator[tuple[Array, Array]]:
    """The outputs of both convolutions as real numbers."""
    for x, residual in pairs:
        exact = array_of(conv(x, residual), "samples")  # tensors give tensors
        q_residual = residual
        if residual is not None and made.residual_scale is not None:
            q_residual = quant.quantize(
                residual, scales["residual_scale"], scales["residual_zero_point"]
            )
        elif residual is not None:
            q_residual = np.asarray(residual, np.float32)
        y = made(quant.quantize(x, scales["x_scale"], scales["x_zero_point"]), q_residual)
        if made.y_scale is not None:
            y = quant.dequantize(y, made.y_scale, made.y_zero_point)
        yield exact, y
