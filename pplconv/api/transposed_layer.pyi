"""Types of `ConvTranspose2d`. An array of a known dtype gives an array of that dtype."""

from collections.abc import Sequence
from typing import Any, Literal, SupportsFloat, SupportsIndex, TypeAlias, overload

from numpy.typing import NDArray

from .layer import Layer, _Activation, _Float, _Input, _Layout, _Pair, _Precision
from .transposed_plan import TransposedPlan

_TransposedPadding: TypeAlias = (
    SupportsIndex
    | tuple[_Pair, _Pair]
    | list[int]
    | list[tuple[int, int]]
    | list[list[int]]
    | Literal["valid", "same_upper", "same_lower"]
)

class ConvTranspose2d(Layer):
    def __init__(
        self,
        weight: _Input,
        bias: _Input | None = None,
        stride: _Pair = 1,
        padding: _TransposedPadding = 0,
        output_padding: _Pair = 0,
        groups: SupportsIndex = 1,
        dilation: _Pair = 1,
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
        search_context: str = "hot",
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
    def output_padding(self) -> tuple[int, int]: ...
    @property
    def dilation(self) -> tuple[int, int]: ...
    @property
    def groups(self) -> int: ...
    @property
    def layout(self) -> _Layout: ...
    @property
    def algorithm(self) -> str: ...
    @property
    def tolerance(self) -> float: ...
    @overload
    def __call__(
        self,
        input: NDArray[_Float],
        residual: _Input | None = None,
        out: NDArray[_Float] | None = None,
        output_size: _Pair | None = None,
    ) -> NDArray[_Float]: ...
    @overload
    def __call__(
        self,
        input: _Input,
        residual: _Input | None = None,
        out: NDArray[Any] | None = None,
        output_size: _Pair | None = None,
    ) -> Any: ...
    def plan_for(  # type: ignore[override]
        self, input_shape: Sequence[SupportsIndex], output_size: _Pair | None = None
    ) -> TransposedPlan: ...
