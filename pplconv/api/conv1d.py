"""`conv1d`: signals as images of one row."""

from __future__ import annotations

from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._literals import Algorithm, PaddingMode, PaddingWord, Precision, SignalLayout
from ..arguments import checks
from ..arguments.activation import settled
from ..memory.namespaces import as_given
from .function import conv2d
from .given_arrays import operands_of
from .signals import Number, number, row_padding, rows_of

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
    rows = rows_of(layout)
    # Arguments that may run the caller's code are read before there are views of arrays.
    across, apart = number("stride", stride), number("dilation", dilation)
    around, groups = row_padding(padding), checks.integer("groups", groups, 1)
    threads, activation = checks.check_threads(threads), settled(activation)
    tolerance = checks.check_tolerance(tolerance)
    max_workspace = checks.check_max_workspace(max_workspace)
    x, taps, bias, residual = operands_of(input, weight, bias, residual)
    checks.check_weight_shape(taps.shape, groups, taps="kw")
    rows.check_input(x, taps.shape[1] * groups, groups)
    samples, reach = x.shape[rows.samples], (taps.shape[2] - 1) * apart + 1
    sides = checks.explicit_padding(
        around, (1, samples), (1, taps.shape[2]), (1, across), (1, apart)
    )
    made = (samples + sum(sides[1]) - reach) // across + 1
    shape = rows.result_shape(x, taps.shape[0], made)
    result = conv2d(
        np.expand_dims(x, rows.row), taps[:, :, None], bias, (1, across), around, (1, apart),
        groups, activation=activation, residual=rows.as_row("residual", residual, shape),
        layout=rows.images, algorithm=algorithm, tolerance=tolerance, precision=precision,
        threads=threads, max_workspace=max_workspace, padding_mode=padding_mode,
        out=rows.as_row("out", out, shape),
    )  # fmt: skip
    return as_given(input, np.squeeze(result, rows.row)) if out is None else out
