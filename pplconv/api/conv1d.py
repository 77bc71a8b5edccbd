"""`conv1d`: signals as images of one row."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, SupportsFloat, SupportsIndex

import numpy.typing as npt

from .._literals import Algorithm, PaddingMode, PaddingWord, Precision, SignalLayout
from ..arguments import checks
from ..arguments.activation import settled
from ..memory.namespaces import as_given
from .function import conv2d
from .given_arrays import operands_of
from .signals import Number, Rows, number, row_padding, rows_of

__all__ = ["conv1d"]

Array = npt.NDArray[Any]


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
    # Arguments that may run the caller's code are read before there are views of arrays.
    plain: Any = layout, stride, padding, dilation, groups, tolerance, threads, max_workspace
    is_plain = _PLAIN.issuperset(map(type, plain)) or all(map(_is_plain, plain))
    read = _kept_settings if is_plain else _settings
    rows, across, around, apart, count, error, team, room = read(*plain)
    activation = settled(activation)
    x, taps, bias, residual = operands_of(input, weight, bias, residual)
    checks.check_weight_shape(taps.shape, count, taps="kw")
    rows.check_input(x, taps.shape[1] * count, count)
    made = _samples(around, x.shape[rows.samples], taps.shape[2], across, apart)
    shape = rows.result_shape(x, taps.shape[0], made)
    result = conv2d(
        x[rows.as_images], taps[:, :, None], bias, (1, across), around, (1, apart), count,
        activation=activation, residual=rows.as_row("residual", residual, shape),
        layout=rows.images, algorithm=algorithm, tolerance=error, precision=precision,
        threads=team, max_workspace=room, padding_mode=padding_mode,
        out=rows.as_row("out", out, shape),
    )  # fmt: skip
    return as_given(input, result[rows.as_signals]) if out is None else out


_PLAIN = frozenset((type(None), int, str, float))


def _is_plain(value: object) -> bool:
    """Whether equal values of these types mean the same argument."""
    if type(value) is tuple:
        return all(type(one) is int for one in value)
    return type(value) in _PLAIN


def _settings(
    layout: Any, stride: Any, padding: Any, dilation: Any, groups: Any, tolerance: Any,
    threads: Any, max_workspace: Any,
) -> tuple[Rows, int, Any, int, int, float | None, int | None, int | None]:  # fmt: skip
    """Check the arguments that are no arrays; calls of a few microseconds keep the results."""
    return (
        rows_of(layout), number("stride", stride), row_padding(padding),
        number("dilation", dilation), checks.integer("groups", groups, 1),
        checks.check_tolerance(tolerance), checks.check_threads(threads),
        checks.check_max_workspace(max_workspace),
    )  # fmt: skip


_kept_settings = lru_cache(256, typed=True)(_settings)


@lru_cache(256)
def _samples(around: Any, samples: int, taps: int, across: int, apart: int) -> int:
    """Samples of the result."""
    sides = checks.explicit_padding(around, (1, samples), (1, taps), (1, across), (1, apart))
    return (samples + sum(sides[1]) - (taps - 1) * apart - 1) // across + 1
