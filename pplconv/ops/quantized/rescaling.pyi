"""Types of ``rescaling.pyx``."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..prepared import Prepared

class Rescaling:
    """Numbers that finish sums of integers."""

    arguments: tuple[Any, ...]
    computed: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None

    def __init__(
        self,
        prepared: Prepared,
        weight: npt.NDArray[Any],
        offset: npt.NDArray[Any],
        x_zero: int | None,
        multiplier: npt.NDArray[np.float32] | None = None,
        y_zero: int = 0,
        low: float = ...,
        high: float = ...,
        residual_scale: float = 0.0,
        residual_zero: int = 0,
        sums: npt.NDArray[np.int64] | None = None,
        gate: tuple[float, float, float] | None = None,
        table: npt.NDArray[Any] | None = None,
        weight_zeros: npt.NDArray[Any] | None = None,
    ) -> None: ...
