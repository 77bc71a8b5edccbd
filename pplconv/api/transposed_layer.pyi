"""Types of `ConvTranspose2d`. An array of a known dtype gives an array of that dtype."""

from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex, TypeAlias

from numpy.typing import NDArray

from .._literals import TransposedPaddingWord
from ..ops.transposed.transposed_report import TransposedPlan
from .layer import (
    Layer,
    _Activation,
    _Algorithm,
    _Images,
    _Input,
    _Layout,
    _Pair,
    _Precision,
    _Scalar,
    _Search,
    _SearchContext,
)

_TransposedPadding: TypeAlias = (
    SupportsIndex
    | tuple[_Pair, _Pair]
    | list[int]
    | list[tuple[int, int]]
    | list[list[int]]
    | TransposedPaddingWord
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
        algorithm: _Algorithm = "auto",
        tolerance: SupportsFloat | None = None,
        precision: _Precision = None,
        input_shape: Sequence[SupportsIndex] | None = None,
        search: _Search = "estimate",
        search_seconds: SupportsFloat = 0.5,
        max_workspace: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
        search_context: _SearchContext = "hot",
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
    def groups(self) -> int: ...
    @property
    def dilation(self) -> tuple[int, int]: ...
    @property
    def layout(self) -> _Layout: ...
    @property
    def algorithm(self) -> _Algorithm: ...
    @property
    def tolerance(self) -> float: ...
    def __call__(
        self,
        input: _Images[_Scalar],
        residual: _Input | None = None,
        out: NDArray[_Scalar] | None = None,
        output_size: _Pair | None = None,
    ) -> NDArray[_Scalar]: ...
    def plan_for(  # type: ignore[override]
        self, input_shape: Sequence[SupportsIndex], output_size: _Pair | None = None
    ) -> TransposedPlan: ...
