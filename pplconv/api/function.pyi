"""Types of `conv2d`. An array of a known dtype gives an array of that dtype."""

from typing import Any, SupportsFloat, SupportsIndex, overload

from numpy.typing import NDArray

from .layer import _Activation, _Float, _Input, _Layout, _Padding, _PaddingMode, _Pair, _Precision

@overload
def conv2d(
    input: NDArray[_Float],
    weight: _Input,
    bias: _Input | None = None,
    stride: _Pair = 1,
    padding: _Padding = 0,
    dilation: _Pair = 1,
    groups: SupportsIndex = 1,
    *,
    activation: _Activation = None,
    residual: _Input | None = None,
    layout: _Layout = "NCHW",
    algorithm: str = "auto",
    tolerance: SupportsFloat | None = None,
    precision: _Precision = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    padding_mode: _PaddingMode = "zeros",
    out: NDArray[_Float] | None = None,
) -> NDArray[_Float]: ...
@overload
def conv2d(
    input: _Input,
    weight: _Input,
    bias: _Input | None = None,
    stride: _Pair = 1,
    padding: _Padding = 0,
    dilation: _Pair = 1,
    groups: SupportsIndex = 1,
    *,
    activation: _Activation = None,
    residual: _Input | None = None,
    layout: _Layout = "NCHW",
    algorithm: str = "auto",
    tolerance: SupportsFloat | None = None,
    precision: _Precision = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    padding_mode: _PaddingMode = "zeros",
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
