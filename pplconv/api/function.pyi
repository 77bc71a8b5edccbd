"""Types of `conv2d`. An array of a known dtype gives an array of that dtype."""

from typing import SupportsFloat, SupportsIndex

from numpy.typing import NDArray

from .layer import (
    _Activation,
    _Algorithm,
    _Images,
    _Input,
    _Layout,
    _Padding,
    _Pair,
    _Precision,
    _Scalar,
)

def conv2d(
    input: _Images[_Scalar],
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
    algorithm: _Algorithm = "auto",
    tolerance: SupportsFloat | None = None,
    precision: _Precision = None,
    threads: SupportsIndex | None = None,
    max_workspace: SupportsIndex | None = None,
    out: NDArray[_Scalar] | None = None,
) -> NDArray[_Scalar]: ...
