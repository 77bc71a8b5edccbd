"""`conv1d`: signals as images of one row."""

from __future__ import annotations

from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._checks import one_of, shown
from .._literals import Algorithm, Layout, PaddingMode, PaddingWord, Precision, SignalLayout
from ..arguments import checks
from ..arguments.activation import settled
from ..memory.array_like import array_of, renewed
from ..memory.namespaces import as_given
from .function import conv2d

__all__ = ["LAYOUTS", "conv1d"]

Array = npt.NDArray[Any]
Number = SupportsIndex | tuple[SupportsIndex] | list[int]

# For each layout: the layout of images of one row, and the axes of samples and of the row.
_ROWS: dict[str, tuple[Layout, int, int]] = {"NCW": ("NCHW", -1, -2), "NWC": ("NHWC", -2, -3)}
LAYOUTS = tuple(_ROWS)


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Number = 1,
    padding: SupportsIndex | tuple[SupportsIndex, ...] | list[int] | PaddingWord = 0,
    dilation: Number = 1,
    groups: SupportsIndex = 1,
    *,
    activation: Any = None,
    residual: Any = None,
    layout: SignalLayout = "NCW",
    algorithm: Algorithm = "auto",
    tolerance: SupportsFloat | None = None,
    precision: Precision | None = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    padding_mode: PaddingMode = "zeros",
    out: Array | None = None,
) -> Array:
    """Convolve a batch of signals: 1-D cross-correlation, as `torch.nn.functional.conv1d`.

    It is `conv2d` on images of one row.

    Parameters
    ----------
    input : array_like, shape (N, C, W) or (C, W)
        float16, bfloat16, float32 or float64; (N, W, C) or (W, C) for ``layout="NWC"``.
    weight : array_like, shape (oc, C / groups, kw)
        Same dtype as `input`; the same shape for both layouts.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride, dilation : int or (int,), optional
        Samples from one output to the next, and from one tap to the next.
    padding : int, (int,), (int, int) or str, optional
        Around the input: on both sides, (left, right), or a word as in `conv2d`.
    groups : int, optional
        Groups of channels that do not see one another.
    layout : {"NCW", "NWC"}, optional
        Of input, residual and output.
    activation, residual, algorithm, tolerance, precision, threads, max_workspace, padding_mode, out
        As in `conv2d`, for arrays of one dimension less.

    Returns
    -------
    ndarray
        Shape (N, oc, ow) or (oc, ow); (N, ow, oc) or (ow, oc) for ``layout="NWC"``.
        Of the input's library, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.

    See Also
    --------
    conv2d : the same with images; dtypes, accuracy and precision are explained there.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.arange(5, dtype=np.float32)[None]
    >>> pplconv.conv1d(x, np.ones((1, 1, 3), np.float32), padding="same")
    array([[1., 3., 6., 9., 7.]], dtype=float32)
    """
    rows, samples, row = _row_of(layout)
    # Arguments that may run the caller's code are read before there are views of arrays.
    across, apart = _one("stride", stride), _one("dilation", dilation)
    around, groups = _padding(padding), checks.integer("groups", groups, 1)
    threads, activation = checks.check_threads(threads), settled(activation)
    tolerance = checks.check_tolerance(tolerance)
    max_workspace = checks.check_max_workspace(max_workspace)
    if isinstance(input, (list, tuple)):  # Python numbers have the type of the other array
        taps = array_of(weight, "weight")
        x = array_of(input, "input", taps.dtype)
    else:
        x = array_of(input, "input")
        taps = array_of(weight, "weight", x.dtype)
    if bias is not None:
        bias = array_of(bias, "bias", x.dtype)
    if residual is not None:
        residual = array_of(residual, "residual", x.dtype)
    x, taps = renewed(input, x), renewed(weight, taps)
    if taps.ndim != 3:
        raise ValueError(
            f"weight must have the 3 dimensions (oc, ic / groups, kw), got shape {taps.shape}"
        )
    if x.ndim not in (2, 3):
        wanted = "(N, C, W) or (C, W)" if layout == "NCW" else "(N, W, C) or (W, C)"
        raise ValueError(f"input must have shape {wanted} with layout {layout}, got {x.shape}")
    channels = -2 if layout == "NCW" else -1
    if not taps.size:
        raise ValueError(f"weight must not be empty, got shape {taps.shape}")
    if x.shape[channels] != taps.shape[1] * groups and taps.shape[0] % groups == 0:
        raise ValueError(
            f"input must have {taps.shape[1] * groups} channels (weight has {taps.shape[1]} for "
            f"each of {groups} groups), got {x.shape[channels]} in shape {x.shape} with layout "
            f"{layout}"
        )
    if not x.shape[samples]:
        raise ValueError(f"input must not be empty, got shape {x.shape} with layout {layout}")
    sides = checks.explicit_padding(
        around, (1, x.shape[samples]), (1, taps.shape[2]), (1, across), (1, apart)
    )
    shape = list(x.shape)
    reach = (taps.shape[2] - 1) * apart + 1
    shape[samples] = max((x.shape[samples] + sum(sides[1]) - reach) // across + 1, 0)
    shape[channels] = taps.shape[0]

    def as_row(name: str, value: Any) -> Any:
        """Give an array of the output's shape a row axis; the message for others has 1-D shapes."""
        if value is None:
            return None
        if not issubclass(type(value), np.ndarray):
            return value  # it is refused
        array = array_of(value, name)
        if array.shape != tuple(shape) and shape[samples] > 0:
            raise ValueError(f"{name} must have shape {tuple(shape)}, got {array.shape}")
        return np.expand_dims(array, row)

    result = conv2d(
        np.expand_dims(x, row), taps[:, :, None], bias, (1, across), around, (1, apart), groups,
        activation=activation, residual=as_row("residual", residual), layout=rows,
        algorithm=algorithm, tolerance=tolerance, precision=precision, threads=threads,
        max_workspace=max_workspace, padding_mode=padding_mode, out=as_row("out", out),
    )  # fmt: skip
    return as_given(input, np.squeeze(result, row)) if out is None else out


def _row_of(layout: object) -> tuple[Layout, int, int]:
    """Return the layout of images, and the axes of samples and of the row."""
    return _ROWS[one_of("layout", layout, LAYOUTS)]


def _one(name: str, value: Any) -> int:
    if isinstance(value, (tuple, list)) and len(value) == 1:
        value = value[0]
    return checks.integer(name, value, 1)


def _padding(value: Any) -> Any:
    """Turn padding of a signal into padding of an image of one row."""
    if isinstance(value, str):
        return value
    sides = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(sides) not in (1, 2):
        raise ValueError(
            f"padding must be an int, (int,), (left, right) or a word, got {shown(value)}"
        )
    left, right = (checks.integer("padding", side, 0) for side in (sides[0], sides[-1]))
    return (0, 0), (left, right)
