"""Types of what `Conv2d` and `Linear` have in common, and of arguments of all calls."""

from collections.abc import Sequence
from typing import (
    Any,
    Literal,
    Protocol,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..planner import Plan

class _SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

class _SparseMatrix(Protocol):
    """A matrix of ``scipy.sparse``, or a tensor of ``torch.sparse``."""

    @property
    def shape(self) -> Any: ...

_Float = TypeVar("_Float", np.float16, np.float32, np.float64)
_Input: TypeAlias = ArrayLike | _SupportsDLPack
_Pair: TypeAlias = SupportsIndex | tuple[SupportsIndex, SupportsIndex] | list[int]
# Values that later versions may add to (algorithms, ways to search) are str; fixed sets are
# literal.
_Padding: TypeAlias = (
    SupportsIndex
    | tuple[_Pair, _Pair]
    | list[int]
    | list[tuple[int, int]]
    | list[list[int]]
    | Literal["valid", "same", "same_upper", "same_lower"]
)
_PaddingMode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]
_Layout: TypeAlias = Literal["NCHW", "NHWC", "NCHWc"]
_Activation: TypeAlias = (
    Literal["relu", "relu6", "hardswish", "sigmoid", "silu"]
    | tuple[Literal["clip"], SupportsFloat, SupportsFloat]
    | tuple[Literal["leaky_relu"], SupportsFloat]
    | tuple[Literal["prelu"], _Input]
    | None
)
# What quantized operators have: a clamp, layouts without blocks, types of eight bits.
_Clamp: TypeAlias = (
    Literal["relu", "relu6"] | tuple[Literal["clip"], SupportsFloat, SupportsFloat] | None
)
_PlainLayout: TypeAlias = Literal["NCHW", "NHWC"]
_Sparse: TypeAlias = Literal["auto"] | bool
_Block: TypeAlias = tuple[SupportsIndex, SupportsIndex] | list[int] | None
_Precision: TypeAlias = Literal["auto", "fp32", "fp16", "bf16", "low", "low_bf16"] | None

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
    def search(self) -> str: ...
    @property
    def search_seconds(self) -> float: ...
    @property
    def search_context(self) -> str: ...
    @property
    def max_workspace(self) -> int | None: ...
    @property
    def threads(self) -> int | None: ...
    @overload
    def __call__(
        self,
        input: NDArray[_Float],
        residual: _Input | None = None,
        out: NDArray[_Float] | None = None,
    ) -> NDArray[_Float]: ...
    @overload
    def __call__(
        self,
        input: _Input,
        residual: _Input | None = None,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]: ...
    def plan_for(self, input_shape: Sequence[SupportsIndex]) -> Plan: ...
