"""Types of elements: NumPy's for each of the names that problems and kernels have for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics import TYPES

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind.numpy) for name, kind in TYPES.items()}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
