"""Types of `Linear`. An array of a known dtype gives an array of that dtype."""

from collections.abc import Sequence
from typing import SupportsFloat, SupportsIndex

from .layer import (
    Layer,
    _Activation,
    _Block,
    _Input,
    _Precision,
    _Search,
    _SearchContext,
    _Sparse,
    _SparseMatrix,
)

class Linear(Layer):
    def __init__(
        self,
        weight: _Input | _SparseMatrix,
        bias: _Input | None = None,
        *,
        activation: _Activation = None,
        precision: _Precision = None,
        input_shape: Sequence[SupportsIndex] | None = None,
        search: _Search = "estimate",
        search_seconds: SupportsFloat = 0.5,
        max_workspace: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
        search_context: _SearchContext = "hot",
        sparse: _Sparse = "auto",
        block: _Block = None,
    ) -> None: ...
    @property
    def weight_shape(self) -> tuple[int, int]: ...
    @property
    def in_features(self) -> int: ...
    @property
    def out_features(self) -> int: ...
    @property
    def sparse(self) -> _Sparse: ...
    @property
    def block(self) -> tuple[int, int] | None: ...
