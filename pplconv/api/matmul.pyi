"""Types of `matmul`. Arrays of one dtype give an array of that dtype."""

from typing import Any, SupportsIndex, overload

from numpy.typing import NDArray

from .layer import _Activation, _Float, _Input

@overload
def matmul(
    a: NDArray[_Float],
    b: NDArray[_Float],
    *,
    bias: _Input | None = None,
    residual: _Input | None = None,
    activation: _Activation = None,
    out: NDArray[_Float] | None = None,
    threads: SupportsIndex | None = None,
) -> NDArray[_Float]: ...
@overload
def matmul(
    a: _Input,
    b: _Input,
    *,
    bias: _Input | None = None,
    residual: _Input | None = None,
    activation: _Activation = None,
    out: NDArray[Any] | None = None,
    threads: SupportsIndex | None = None,
) -> Any: ...
