"""How functions of signals and volumes read their arrays, before they make views of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._records import NamedTuple
from ..memory.array_like import array_of, is_bfloat16, renewed
from ..memory.dtypes import NAMES

__all__ = ["Operands", "native_dtype", "operands_of"]

Array = npt.NDArray[Any]


class Operands(NamedTuple):
    """The arrays of a call; `bias` and `residual` may be None."""

    x: Array
    weight: Array
    bias: Array | None
    residual: Array | None


def operands_of(input: Any, weight: Any, bias: Any, residual: Any) -> Operands:
    """Take a function's arguments as arrays; Python numbers have the type of the other array.

    Raises
    ------
    TypeError, ValueError
        If one cannot be an array; the message names it.
    """
    if (
        type(input) is type(weight) is np.ndarray
        and (bias is None or type(bias) is np.ndarray)
        and (residual is None or type(residual) is np.ndarray)
    ):
        return Operands(input, weight, bias, residual)
    if isinstance(input, (list, tuple)):
        w = array_of(weight, "weight")
        x = array_of(input, "input", w.dtype)
    else:
        x = array_of(input, "input")
        w = array_of(weight, "weight", x.dtype)
    b = None if bias is None else array_of(bias, "bias", x.dtype)
    r = None if residual is None else array_of(residual, "residual", x.dtype)
    # Reading the arguments may have run code that changed arrays.
    return Operands(
        renewed(input, x),
        renewed(weight, w),
        None if b is None else renewed(bias, b),
        None if r is None else renewed(residual, r),
    )


def native_dtype(array: Array, name: str) -> np.dtype[Any]:
    """Give the type of results for an operand of the argument `name`.

    Raises
    ------
    TypeError
        If there are no convolutions of such numbers.
    """
    dtype = array.dtype.newbyteorder("=")
    if dtype not in NAMES and not is_bfloat16(array):
        advice = ": use .astype(np.float32)" if dtype.kind in "biu" else ""
        raise TypeError(
            f"{name} must be float16, bfloat16, float32 or float64, got dtype {array.dtype}{advice}"
        )
    return dtype
