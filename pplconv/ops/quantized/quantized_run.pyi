"""What type checkers see of ``quantized_run.pyx``."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...planner import Plan

class QuantizedKernel:
    """A convolution of integers with its weights packed once."""

    weight: NDArray[Any]
    offset: NDArray[np.int32]
    multiplier: NDArray[np.float32]
    x_dtype: str
    out_dtype: str
    layout: str
    groups: int
    x_zero: int

    def __init__(
        self,
        weight: NDArray[Any],
        x_dtype: str,
        x_zero: int,
        offset: NDArray[Any],
        out_dtype: str,
        multiplier: NDArray[Any] | None = None,
        y_zero: int = 0,
        low: Any = ...,
        high: Any = ...,
        residual_scale: Any = None,
        residual_zero: int = 0,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: Any = 1,
        layout: Any = "NCHW",
        algorithm: Any = "auto",
        threads: Any = None,
        max_workspace: Any = None,
        search: Any = "estimate",
        search_seconds: Any = 0.5,
        search_context: Any = "hot",
        once: bool = False,
    ) -> None: ...
    def plan_for(self, input_shape: tuple[int, ...]) -> Plan: ...
    def __call__(self, input: Any, residual: Any = None, out: Any = None) -> NDArray[Any]: ...

class QuantizedMatrix:
    """Products of rows with a matrix of integers that is packed once."""

    kernel: QuantizedKernel
    columns: int

    def __init__(self, weight: NDArray[Any], **numbers: Any) -> None: ...
    def __call__(
        self, input: NDArray[Any], residual: NDArray[Any] | None = None, out: Any = None
    ) -> NDArray[Any]: ...
