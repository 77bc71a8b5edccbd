"""``Conv`` and ``ConvTranspose`` on `pplconv.conv2d` and `pplconv.conv_transpose2d`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from onnx.reference.ops.op_conv import Conv as OwnConv
from onnx.reference.ops.op_conv_transpose import ConvTranspose as OwnConvTranspose

import pplconv
from pplconv.integrations.onnx_reference.operator_settings import with_settings

__all__ = [
    "Conv",
    "ConvTranspose",
    "checked_keywords",
    "conv2d_keywords",
    "conv_transpose2d_keywords",
    "make_conv",
    "make_conv_transpose",
]

_SUPPORTED = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))
_AUTO_PADDING = {"VALID": "valid", "SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}


class Conv(OwnConv):
    """The ONNX operator ``Conv`` (opsets 1, 11 and 22) on `pplconv.conv2d`.

    The evaluator makes one instance for each node and reads the operator's name from the class, so
    a subclass has to be called ``Conv`` too; `make_conv` makes such subclasses.

    Attributes
    ----------
    threads : int or None
        Team size, as in `pplconv.conv2d`.
    algorithm : str
        Algorithm, as in `pplconv.conv2d`.
    tolerance : float or None
        Accuracy budget, as in `pplconv.conv2d`.
    """

    settings: ClassVar[tuple[str, ...]] = ("threads", "algorithm", "tolerance")
    threads: ClassVar[int | None] = None
    algorithm: ClassVar[Any] = "auto"  # a word of conv2d's, or what a user made of it
    tolerance: ClassVar[float | None] = None

    # Capitals and order are the evaluator's: it passes inputs by position, attributes by name.
    def _run(
        self, X: np.ndarray, W: np.ndarray, B: np.ndarray | None = None, **attributes: Any
    ) -> tuple[np.ndarray]:
        if X.ndim != 4 or X.dtype not in _SUPPORTED:
            own: tuple[np.ndarray] = super()._run(X, W, B, **attributes)
            return own
        y = pplconv.conv2d(
            X,
            W,
            B,
            **checked_keywords(W, **attributes),
            algorithm=self.algorithm,
            tolerance=self.tolerance,
            threads=self.threads,
        )
        return (y,)


class ConvTranspose(OwnConvTranspose):
    """The ONNX operator ``ConvTranspose`` (opsets 1, 11 and 22) on `pplconv.conv_transpose2d`.

    As with `Conv`, a subclass needs the same name; `make_conv_transpose` makes such subclasses.

    Attributes
    ----------
    threads, algorithm, tolerance
        As in `pplconv.conv_transpose2d`.
    """

    settings: ClassVar[tuple[str, ...]] = ("threads", "algorithm", "tolerance")
    threads: ClassVar[int | None] = None
    algorithm: ClassVar[Any] = "auto"  # a word of conv2d's, or what a user made of it
    tolerance: ClassVar[float | None] = None

    def _run(
        self, X: np.ndarray, W: np.ndarray, B: np.ndarray | None = None, **attributes: Any
    ) -> tuple[np.ndarray]:
        if X.ndim != 4 or X.dtype not in _SUPPORTED:
            own: tuple[np.ndarray] = super()._run(X, W, B, **attributes)
            return own
        y = pplconv.conv_transpose2d(
            X,
            W,
            B,
            **_checked_transposed(X, W, **attributes),
            algorithm=self.algorithm,
            tolerance=self.tolerance,
            threads=self.threads,
        )
        return (y,)


def checked_keywords(
    weight: np.ndarray, kernel_shape: Sequence[int] | None = None, **attributes: Any
) -> dict[str, Any]:
    """Translate a node's attributes as `conv2d_keywords`, and compare its shape with the weights.

    Raises
    ------
    ValueError
        If ``kernel_shape`` differs from the weights' shape, or as in `conv2d_keywords`.
    """
    _check_kernel_shape(kernel_shape, weight)
    return conv2d_keywords(**attributes)


def _checked_transposed(
    x: np.ndarray,
    weight: np.ndarray,
    kernel_shape: Sequence[int] | None = None,
    **attributes: Any,
) -> dict[str, Any]:
    _check_kernel_shape(kernel_shape, weight)
    return conv_transpose2d_keywords(x.shape[2:], weight.shape[2:], **attributes)


def _check_kernel_shape(kernel_shape: Sequence[int] | None, weight: np.ndarray) -> None:
    if kernel_shape is not None and tuple(kernel_shape) != weight.shape[2:]:
        raise ValueError(
            f"kernel_shape is {tuple(kernel_shape)}, but W has the shape {weight.shape}: expected "
            f"{weight.shape[2:]}"
        )


def make_conv(
    *, threads: int | None = None, algorithm: str = "auto", tolerance: float | None = None
) -> type[Conv]:
    """Make a ``Conv`` for ``new_ops`` with settings of its own.

    Parameters
    ----------
    threads : int, optional
        Team size; by default what `pplconv.conv2d` takes by default.
    algorithm : str, optional
        Algorithm; by default the planner chooses.
    tolerance : float, optional
        Accuracy that the planner may spend, relative to the output's largest magnitude; by default
        what `pplconv.conv2d` takes by default.

    Returns
    -------
    type
        A subclass of `Conv`, for ``ReferenceEvaluator(model, new_ops=[make_conv(threads=1)])``.
        The settings are checked by `pplconv.conv2d` when the model runs.
    """
    return with_settings(Conv, threads=threads, algorithm=algorithm, tolerance=tolerance)


def make_conv_transpose(
    *, threads: int | None = None, algorithm: str = "auto", tolerance: float | None = None
) -> type[ConvTranspose]:
    """Make a ``ConvTranspose`` for ``new_ops`` with settings of its own.

    Parameters
    ----------
    threads, algorithm, tolerance
        As for `make_conv`.

    Returns
    -------
    type
        A subclass of `ConvTranspose`. The settings are checked by `pplconv.conv_transpose2d` when
        the model runs.
    """
    return with_settings(ConvTranspose, threads=threads, algorithm=algorithm, tolerance=tolerance)


def conv_transpose2d_keywords(
    size: Sequence[int],
    kernel: Sequence[int],
    auto_pad: str | None = None,
    dilations: Sequence[int] | None = None,
    group: int | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Translate the attributes of a two-dimensional ``ConvTranspose`` to `conv_transpose2d`'s.

    Parameters
    ----------
    size, kernel : sequence of 2 int
        Height and width of the input, and of the weights.
    auto_pad : {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}, optional
        How padding is found; all but ``NOTSET``, the default, override `pads`.
    dilations, strides, output_padding : sequence of 2 int, optional
        In rows and columns; 1, 1 and 0 by default.
    group : int, optional
        Number of groups; 1 by default.
    output_shape : sequence of 2 int, optional
        Height and width of the output; it overrides `pads`. What is to be cut off is cut off on
        both sides, the odd pixel at the end with ``SAME_UPPER`` and at the beginning otherwise.
    pads : sequence of 4 int, optional
        Padding as (top, left, bottom, right), in pixels; none by default.

    Returns
    -------
    dict
        The arguments ``stride``, ``padding``, ``output_padding``, ``dilation`` and ``groups``.

    Raises
    ------
    ValueError
        If `auto_pad` is not one of the four, or an attribute has not one entry for each side.
    """
    keywords = conv2d_keywords(auto_pad, dilations, group, pads, strides)
    more = _entries("output_padding", output_padding, 2, 0)
    if output_shape:
        wanted = _entries("output_shape", output_shape, 2, 0)
        sides, added = [], []
        for n, k, s, d, m, out in zip(
            size, kernel, keywords["stride"], keywords["dilation"], more, wanted, strict=True
        ):
            total = (n - 1) * s + (k - 1) * d + 1 + m - out
            small, large = max(total, 0) // 2, -(-max(total, 0) // 2)
            sides.append((small, large) if auto_pad == "SAME_UPPER" else (large, small))
            added.append(m + max(-total, 0))
        keywords["padding"], more = (sides[0], sides[1]), (added[0], added[1])
    return {**keywords, "output_padding": more}


def conv2d_keywords(
    auto_pad: str | None = None,
    dilations: Sequence[int] | None = None,
    group: int | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Translate the attributes of a two-dimensional ONNX ``Conv`` to those of `pplconv.conv2d`.

    Parameters
    ----------
    auto_pad : {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}, optional
        How padding is found; all but ``NOTSET``, the default, override `pads`.
    dilations, strides : sequence of 2 int, optional
        Steps in rows and columns; 1 by default.
    group : int, optional
        Number of groups; 1 by default.
    pads : sequence of 4 int, optional
        Padding as (top, left, bottom, right), in pixels; none by default.

    Returns
    -------
    dict
        The arguments ``stride``, ``padding``, ``dilation`` and ``groups``.

    Raises
    ------
    ValueError
        If `auto_pad` is not one of the four, or an attribute has not one entry for each side.
    """
    mode = auto_pad or "NOTSET"
    padding: Any
    if mode == "NOTSET":
        top, left, bottom, right = _entries("pads", pads, 4, 0)
        padding = ((top, bottom), (left, right))
    elif mode in _AUTO_PADDING:
        padding = _AUTO_PADDING[mode]
    else:
        raise ValueError(
            f"auto_pad is {auto_pad!r}: expected one of 'NOTSET', 'VALID', 'SAME_UPPER', "
            "'SAME_LOWER'"
        )
    return {
        "stride": _entries("strides", strides, 2, 1),
        "padding": padding,
        "dilation": _entries("dilations", dilations, 2, 1),
        "groups": 1 if group is None else int(group),
    }


def _entries(name: str, values: Sequence[int] | None, count: int, default: int) -> tuple[int, ...]:
    if values is None:
        return (default,) * count
    if len(values) != count:
        raise ValueError(f"{name} is {list(values)}: expected {count} integers")
    return tuple(int(value) for value in values)
