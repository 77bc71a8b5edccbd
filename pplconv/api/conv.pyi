"""Types of `Conv2d`. An array of a known dtype gives an array of that dtype."""

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
from .layer import Layer

class _SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, Any]: ...

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
_Activation: TypeAlias = (
    Literal["relu", "relu6", "hardswish", "sigmoid", "silu"]
    | tuple[Literal["clip"], SupportsFloat, SupportsFloat]
    | tuple[Literal["leaky_relu"], SupportsFloat]
    | tuple[Literal["prelu"], _Input]
    | None
)
_Layout: TypeAlias = Literal["NCHW", "NHWC", "NCHWc"]
_Precision: TypeAlias = Literal["fp32", "fp16"] | None

class Conv2d(Layer):
    def __init__(
        self,
        weight: _Input,
        bias: _Input | None = None,
        stride: _Pair = 1,
        padding: _Padding = 0,
        dilation: _Pair = 1,
        groups: SupportsIndex = 1,
        *,
        activation: _Activation = None,
        layout: _Layout = "NCHW",
        algorithm: str = "auto",
        tolerance: SupportsFloat | None = None,
        precision: _Precision = None,
        input_shape: Sequence[SupportsIndex] | None = None,
        search: str = "estimate",
        search_seconds: SupportsFloat = 0.5,
        max_workspace: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
    ) -> None: ...
    @property
    def weight_shape(self) -> tuple[int, int, int, int]: ...
    @property
    def in_channels(self) -> int: ...
    @property
    def out_channels(self) -> int: ...
    @property
    def kernel_size(self) -> tuple[int, int]: ...
    @property
    def stride(self) -> tuple[int, int]: ...
    @property
    def padding(self) -> tuple[tuple[int, int], tuple[int, int]] | str: ...
    @property
    def dilation(self) -> tuple[int, int]: ...
    @property
    def groups(self) -> int: ...
    @property
    def activation(self) -> _Activation: ...
    @property
    def layout(self) -> _Layout: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def precision(self) -> _Precision: ...
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

def _unpickle(*values: Any) -> Conv2d: ...
