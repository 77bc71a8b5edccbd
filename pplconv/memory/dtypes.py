"""Types of elements: NumPy's for each of the names that problems and kernels have for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics import TYPES

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind.numpy) for name, kind in TYPES.items()}
# Types of the arrays that `conv2d` and its like take; integers need scales, which they have not.
NAMES = {DTYPES[name]: name for name in ("f16", "f32", "f64")}
