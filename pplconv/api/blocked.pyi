"""Types of the changes of layout. An array of a known dtype gives an array of that dtype."""

from typing import Any, SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from .layer import _Input

_Float = TypeVar("_Float", np.float16, np.float32, np.float64)

@overload
def to_blocked(x: NDArray[_Float], block: SupportsIndex | None = None) -> NDArray[_Float]: ...
@overload
def to_blocked(x: _Input, block: SupportsIndex | None = None) -> NDArray[Any]: ...
@overload
def from_blocked(x: NDArray[_Float], channels: SupportsIndex | None = None) -> NDArray[_Float]: ...
@overload
def from_blocked(x: _Input, channels: SupportsIndex | None = None) -> NDArray[Any]: ...
