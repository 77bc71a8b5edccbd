"""`conv_transpose1d`, on images of one row."""

from __future__ import annotations

from typing import Any, SupportsFloat, SupportsIndex

import numpy as np
import numpy.typing as npt

from .._literals import Algorithm, Precision, SignalLayout, TransposedPaddingWord
from ..arguments import checks
from ..arguments.activation import settled
from ..memory.namespaces import as_given
from ..ops.transposed.transposed_problem import output_sizes
from .given_arrays import operands_of
from .signals import Number, number, row_padding, rows_of
from .transposed_function import conv_transpose2d

__all__ = ["conv_transpose1d"]

Array = npt.NDArray[Any]


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Number = 1,
    padding: SupportsIndex | tuple[SupportsIndex, ...] | list[int] | TransposedPaddingWord = 0,
    output_padding: Number = 0,
    groups: SupportsIndex = 1,
    dilation: Number = 1,
    *,
    output_size: Number | None = None,
    activation: Any = None,
    residual: Any = None,
    layout: SignalLayout = "NCW",
    algorithm: Algorithm = "auto",
    tolerance: SupportsFloat | None = None,
    precision: Precision | None = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    out: Array | None = None,
) -> Array:
    """Convolve signals transposed, as `torch.nn.functional.conv_transpose1d`.

    It is `conv_transpose2d` on images of one row.

    Parameters
    ----------
    input : array_like, shape (N, C, W) or (C, W)
        float16, float32 or float64; (N, W, C) or (W, C) for ``layout="NWC"``.
    weight : array_like, shape (C, oc / groups, kw)
        Same dtype as `input`; the same shape for both layouts.
    bias : array_like, shape (oc,), optional
        Same dtype as `input`.
    stride, dilation : int or (int,), optional
        Samples of the output from one of the input to the next, and from one tap to the next.
    padding : int, (int,), (int, int) or str, optional
        What is cut off the output: on both sides, (left, right), or a word as in
        `conv_transpose2d`.
    output_padding : int or (int,), optional
        Samples that are added on the right; less than the stride or the dilation.
    groups : int, optional
        Groups of channels that do not see one another.
    output_size : int or (int,), optional
        Samples of the output, in place of `output_padding`, as in `conv_transpose2d`.
    layout : {"NCW", "NWC"}, optional
        Of input, residual and output.
    activation, residual, algorithm, tolerance, precision, threads, max_workspace, out
        As in `conv_transpose2d`, for arrays of one dimension less.

    Returns
    -------
    ndarray
        Shape (N, oc, ow) or (oc, ow), with ow = (W - 1) * stride + dilation * (kw - 1) + 1
        + output_padding - left - right; (N, ow, oc) or (ow, oc) for ``layout="NWC"``. Of the
        input's library, as in `conv2d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is not as described; the message names it, and `out` is untouched.

    See Also
    --------
    conv_transpose2d : the same with images.
    conv1d : the ordinary convolution.

    Notes
    -----
    The order of the positional arguments is PyTorch's, where groups come before the dilation.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> x = np.arange(3, dtype=np.float32)[None]
    >>> pplconv.conv_transpose1d(x, np.ones((1, 1, 3), np.float32), stride=2)
    array([[0., 0., 1., 1., 3., 2., 2.]], dtype=float32)
    """
    rows = rows_of(layout)
    # Arguments that may run the caller's code are read before there are views of arrays.
    across, apart = number("stride", stride), number("dilation", dilation)
    around, groups = row_padding(padding), checks.integer("groups", groups, 1)
    more = number("output_padding", output_padding, 0)
    size = None if output_size is None else number("output_size", output_size)
    threads, activation = checks.check_threads(threads), settled(activation)
    tolerance = checks.check_tolerance(tolerance)
    max_workspace = checks.check_max_workspace(max_workspace)
    x, taps, bias, residual = operands_of(input, weight, bias, residual)
    checks.check_weight_shape(taps.shape, groups, transposed=True, taps="kw")
    rows.check_input(x, taps.shape[0], groups)
    _, (made,) = output_sizes(
        x.shape[rows.samples : rows.samples + 1 or None], taps.shape[2:], stride=(across,),
        dilation=(apart,), padding=around if isinstance(around, str) else around[1:],
        output_padding=more, output_size=size,
    )  # fmt: skip
    shape = rows.result_shape(x, taps.shape[1] * groups, made)
    result = conv_transpose2d(
        np.expand_dims(x, rows.row), taps[:, :, None], bias, (1, across), around, (0, more),
        groups, (1, apart), output_size=None if size is None else (1, size), activation=activation,
        residual=rows.as_row("residual", residual, shape), layout=rows.images, algorithm=algorithm,
        tolerance=tolerance, precision=precision, threads=threads, max_workspace=max_workspace,
        out=rows.as_row("out", out, shape),
    )  # fmt: skip
    return as_given(input, np.squeeze(result, rows.row)) if out is None else out
