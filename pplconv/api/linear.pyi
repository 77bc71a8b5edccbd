"""Types of `Linear`. An array of a known dtype gives an array of that dtype."""

from collections.abc import Sequence
from typing import Any, SupportsFloat, SupportsIndex, overload

from numpy.typing import NDArray

from ..planner import Plan
from .conv import _Activation, _Float, _Input, _Precision
from .layer import Layer

class Linear(Layer):
    def __init__(
        self,
        weight: _Input,
        bias: _Input | None = None,
        *,
        activation: _Activation = None,
        precision: _Precision = None,
        input_shape: Sequence[SupportsIndex] | None = None,
        search: str = "estimate",
        search_seconds: SupportsFloat = 0.5,
        max_workspace: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
    ) -> None: ...
    @property
    def weight_shape(self) -> tuple[int, int]: ...
    @property
    def in_features(self) -> int: ...
    @property
    def out_features(self) -> int: ...
    @property
    def activation(self) -> _Activation: ...
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
