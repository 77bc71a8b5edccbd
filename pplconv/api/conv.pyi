"""Types of `Conv2d`. An array of a known dtype gives an array of that dtype."""

from collections.abc import Iterable, Sequence
from typing import Any, SupportsFloat, SupportsIndex

from numpy.typing import DTypeLike

from .._literals import Method
from .layer import (
    Layer,
    _Activation,
    _Algorithm,
    _Block,
    _Input,
    _Layout,
    _Padding,
    _PaddingMode,
    _Pair,
    _Precision,
    _Search,
    _SearchContext,
    _Sparse,
    _SparseMatrix,
)
from .quantized_layer import QConv2d

class Conv2d(Layer):
    def __init__(
        self,
        weight: _Input | _SparseMatrix,
        bias: _Input | None = None,
        stride: _Pair = 1,
        padding: _Padding = 0,
        dilation: _Pair = 1,
        groups: SupportsIndex = 1,
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
        sparse: _Sparse = "auto",
        block: _Block = None,
        weight_shape: Sequence[SupportsIndex] | None = None,
        padding_mode: _PaddingMode = "zeros",
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
    def layout(self) -> _Layout: ...
    @property
    def algorithm(self) -> _Algorithm: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def sparse(self) -> _Sparse: ...
    @property
    def block(self) -> tuple[int, int] | None: ...
    @property
    def padding_mode(self) -> _PaddingMode: ...
    def quantize(
        self,
        samples: _Input | Iterable[_Input | tuple[_Input, _Input]],
        *,
        method: Method = "minmax",
        percentile: float = 99.99,
        per_channel: bool = True,
        symmetric: bool = True,
        x_dtype: DTypeLike = "uint8",
        out_dtype: DTypeLike | None = None,
    ) -> QConv2d: ...

def _unpickle(*values: Any) -> Conv2d: ...
