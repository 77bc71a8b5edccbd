"""Types of what `Conv2d` and `Linear` have in common, and of arguments of all calls."""

from array import array
from collections.abc import Sequence
from typing import (
    Any,
    Literal,
    Protocol,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import TypeVar

from .._literals import (
    Algorithm,
    Layout,
    PaddingMode,
    PaddingWord,
    PlainLayout,
    Precision,
    Search,
    SearchContext,
    Sparse,
)
from ..activations import Word
from ..ops.prepared import PackedWeights, Prepared
from ..planner import Plan

class _SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

class _SparseMatrix(Protocol):
    """A matrix of ``scipy.sparse``, or a tensor of ``torch.sparse``."""

    @property
    def shape(self) -> Any: ...

# One signature instead of overloads: a checker that refuses an argument then names it, rather than
# list all signatures. Every form of `_ImagesLike` that an array of NumPy has must tell its type, as
# checkers deduce nothing where one form tells it and another does not. So exporters of DLPack that
# have no `__array__` are left out here, though they are taken (tensors have both).
_Scalar = TypeVar("_Scalar", bound=np.generic, default=Any)
_Scalar_co = TypeVar("_Scalar_co", bound=np.generic, covariant=True)

class _SupportsArray(Protocol[_Scalar_co]):
    def __array__(self) -> np.ndarray[Any, np.dtype[_Scalar_co]]: ...

_ImagesLike: TypeAlias = (
    _SupportsArray[_Scalar] | list[Any] | tuple[Any, ...] | memoryview | array[int] | array[float]
)
_ArrayLike: TypeAlias = ArrayLike | _SupportsDLPack
_IntOrPair: TypeAlias = SupportsIndex | tuple[SupportsIndex, SupportsIndex] | list[int]
_Padding: TypeAlias = (
    SupportsIndex
    | tuple[_IntOrPair, _IntOrPair]
    | list[int]
    | list[tuple[int, int]]
    | list[list[int]]
    | PaddingWord
)
# Of volumes.
_Triple: TypeAlias = SupportsIndex | tuple[SupportsIndex, SupportsIndex, SupportsIndex] | list[int]
_Sides: TypeAlias = (
    SupportsIndex
    | tuple[_IntOrPair, _IntOrPair, _IntOrPair]
    | list[int]
    | list[tuple[int, int]]
    | list[list[int]]
)
_PaddingMode: TypeAlias = PaddingMode
_Layout: TypeAlias = Layout
_Activation: TypeAlias = (
    Word
    | tuple[Literal["clip"], SupportsFloat, SupportsFloat]
    | tuple[Literal["leaky_relu"], SupportsFloat]
    | tuple[Literal["prelu"], _ArrayLike]
    | None
)
# What quantized operators have: a clamp, layouts without blocks, types of eight bits.
_Clamp: TypeAlias = (
    Literal["relu", "relu6"] | tuple[Literal["clip"], SupportsFloat, SupportsFloat] | None
)
_PlainLayout: TypeAlias = PlainLayout
_Sparse: TypeAlias = Sparse
_Block: TypeAlias = tuple[SupportsIndex, SupportsIndex] | list[int] | None
_Precision: TypeAlias = Precision | None
_Algorithm: TypeAlias = Algorithm
_Search: TypeAlias = Search
_SearchContext: TypeAlias = SearchContext

class Layer:
    @property
    def weight(self) -> NDArray[Any]: ...
    @property
    def bias(self) -> NDArray[Any] | None: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def activation(self) -> _Activation: ...
    @property
    def precision(self) -> _Precision: ...
    @property
    def search(self) -> _Search: ...
    @property
    def search_seconds(self) -> float: ...
    @property
    def search_context(self) -> _SearchContext: ...
    @property
    def max_workspace(self) -> int | None: ...
    @property
    def threads(self) -> int | None: ...
    def __call__(
        self,
        input: _ImagesLike[_Scalar],
        residual: _ArrayLike | None = None,
        out: NDArray[_Scalar] | None = None,
    ) -> NDArray[_Scalar]: ...
    def plan_for(self, input_shape: Sequence[SupportsIndex]) -> Plan: ...

def ready_of(layer: Layer, shape: tuple[int, ...]) -> tuple[Prepared, PackedWeights]: ...
