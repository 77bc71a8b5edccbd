"""Types of elements: NumPy's for each of the names that problems and kernels have for them."""

from __future__ import annotations

from typing import Any

import numpy as np

DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
