"""Shapes that are easily confused with something else; messages say what was probably meant."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import shown
from ..problem import dimensions
from .checks import integer


def dimensions_of(input_shape: Any) -> tuple[int, ...]:
    """Return ``input_shape=`` as a tuple of ints of at least 0.

    Raises
    ------
    TypeError, ValueError
        If it is not a shape but, for example, the input itself.
    """
    if getattr(input_shape, "ndim", 1) != 1:
        raise TypeError(
            f"input_shape must be a tuple of ints, got {shown(input_shape)}: give its .shape"
        )
    try:
        dims = tuple(input_shape)
    except TypeError:
        raise TypeError(f"input_shape must be a tuple of ints, got {shown(input_shape)}") from None
    return tuple(integer("input_shape", size, 0) for size in dims)


def check_is_blocked(name: str, shape: tuple[int, ...], channels: int) -> None:
    """Refuse four dimensions in layout NCHWc that fit an NCHW input of `channels` as well.

    One image in blocks, without a batch, has as many dimensions as a batch in NCHW; taking one for
    the other would give meaningless numbers.

    Raises
    ------
    ValueError
        If the second dimension equals the number of channels.
    """
    if shape[1] == channels:
        raise ValueError(
            f"{name} of shape {tuple(shape)} with layout NCHWc may be one image of height "
            f"{channels} in blocks, or NCHW with {channels} channels: give the image a batch "
            f"axis, {(1, *shape)}, or NCHW to to_blocked first"
        )


def full_shape(input_shape: Any, layout: str, channels: int) -> tuple[int, ...]:
    """Return ``input_shape=``, which may lack the batch, with the batch.

    Raises
    ------
    TypeError, ValueError
        If it is not a shape of the layout.
    """
    ndim = dimensions(layout)
    dims = dimensions_of(input_shape)
    if len(dims) == ndim - 1:
        if layout == "NCHWc":
            check_is_blocked("input_shape", dims, channels)
        dims = (1, *dims)
    if len(dims) != ndim:
        raise ValueError(
            f"input_shape must have {ndim - 1} or {ndim} dimensions with layout "
            f"{layout}, got {dims}"
        )
    return dims


def check_weight_is_no_size(weight: object, shape: str, layer: str, sizes: str) -> None:
    """Refuse sizes, which the layer of the same name in torch takes in place of weights.

    Parameters
    ----------
    weight : object
        The argument.
    shape : str
        Shape of an array of weights.
    layer : str
        ``"Conv2d"`` or ``"Linear"``.
    sizes : str
        The sizes that torch takes.

    Raises
    ------
    TypeError
        If `weight` is an integer.
    """
    if isinstance(weight, (int, np.integer)):
        raise TypeError(
            f"weight must be an array of shape {shape}, got {weight!r}: {layer} takes the weights "
            f"themselves, where torch.nn.{layer} takes {sizes}"
        )
