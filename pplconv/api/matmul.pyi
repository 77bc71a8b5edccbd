"""Types of `matmul`. Arrays of one dtype give an array of that dtype."""

from typing import SupportsIndex

from numpy.typing import NDArray

from .layer import _Activation, _Images, _Input, _Scalar

def matmul(
    a: _Images[_Scalar],
    b: _Images[_Scalar],
    *,
    bias: _Input | None = None,
    residual: _Input | None = None,
    activation: _Activation = None,
    out: NDArray[_Scalar] | None = None,
    threads: SupportsIndex | None = None,
) -> NDArray[_Scalar]: ...
