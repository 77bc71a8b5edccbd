"""Types of aligned arrays and of checks of `out`."""

from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

_Scalar = TypeVar("_Scalar", bound=np.generic)

@overload
def empty_aligned(shape: SupportsIndex | Sequence[SupportsIndex]) -> NDArray[np.float32]: ...
@overload
def empty_aligned(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: type[_Scalar] | np.dtype[_Scalar]
) -> NDArray[_Scalar]: ...
@overload
def empty_aligned(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike
) -> NDArray[Any]: ...
def refuse_overlap(out: object, **operands: object) -> None: ...
def check_out(
    out: object, shape: tuple[int, ...], dtype: np.dtype[Any], **operands: object
) -> NDArray[Any]: ...
