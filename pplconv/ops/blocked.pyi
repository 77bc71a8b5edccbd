"""Types of the changes of layout. An array of a known dtype gives an array of that dtype."""

from typing import SupportsIndex

from numpy.typing import NDArray

from ..api.layer import _ImagesLike, _Scalar

def to_blocked(x: _ImagesLike[_Scalar], block: SupportsIndex | None = None) -> NDArray[_Scalar]: ...
def from_blocked(
    x: _ImagesLike[_Scalar], channels: SupportsIndex | None = None
) -> NDArray[_Scalar]: ...
