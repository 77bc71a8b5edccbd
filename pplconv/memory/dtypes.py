"""Types of elements: NumPy's type for each name that problems and kernels use."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numerics import TYPES
from .array_like import bfloat16_dtype

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind.numpy) for name, kind in TYPES.items()}
# Types of arrays that `conv2d` and similar functions take; integers would need scales.
NAMES = {DTYPES[name]: name for name in ("f16", "f32", "f64")}


def name_of(dtype: np.dtype[Any]) -> str:
    """Name a floating-point type of arrays as problems and kernels do.

    Raises
    ------
    KeyError
        If it is none of ours.
    """
    return "bf16" if dtype.name == "bfloat16" else NAMES[dtype]


def array_dtype(name: str) -> np.dtype[Any]:
    """Return the type of the caller's arrays for one of the names.

    For ``"bf16"`` it is the type of ml_dtypes if that is installed; `DTYPES` has the type of the
    bits.
    """
    return (bfloat16_dtype() if name == "bf16" else None) or DTYPES[name]


def dtype_of(name: str, value: object) -> np.dtype[Any]:
    """Return a type that the caller chose.

    Raises
    ------
    TypeError
        If it is none.
    """
    try:
        return np.dtype(value)  # type: ignore[call-overload, no-any-return]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TypeError(f"{name} must be a dtype, got {value!r}") from None
