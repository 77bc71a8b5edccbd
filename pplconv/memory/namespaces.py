"""Results in the library that the caller's arrays are from.

An input of JAX gives a result of JAX, as the array API, SciPy and scikit-learn have it. No library
is imported for this: a library whose arrays arrive here is imported already.
"""

from __future__ import annotations

import sys
from typing import Any, TypeVar

import numpy as np

_Result = TypeVar("_Result")

# Errors of libraries that do not accept an array in this way.
_REFUSALS = (AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError, ValueError)


def as_given(given: Any, result: _Result, out: Any = None) -> _Result:
    """Return a result in the namespace of the array that it was made from.

    Parameters
    ----------
    given : object
        The caller's input.
    result : ndarray
        The computed result: memory of its own, to which nobody else refers, or that of `out`.
    out : object, optional
        The caller's own array, if the result was written to one: that is what is returned.

    Returns
    -------
    object
        An array of the library of `given` (to a type checker one like `result`), on the memory of
        `result` where that library permits it. `result` itself if `given` is of NumPy, a list or a
        number, or of a library that is neither PyTorch nor knows ``__array_namespace__``.
    """
    if out is not None:
        return out  # type: ignore[no-any-return]
    if isinstance(given, (np.ndarray, list, tuple)):
        return result
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, getattr(torch, "Tensor", ())):
        tensor: _Result = _as_tensor(torch, result)
        return tensor
    find = getattr(given, "__array_namespace__", None)
    namespace = None if find is None else find()
    if namespace is None or namespace is np:
        return result
    theirs: _Result
    try:
        theirs = namespace.from_dlpack(result)
    except _REFUSALS:
        # NumPy exports no bfloat16 through DLPack, and not every library has this function.
        theirs = namespace.asarray(result)
    return theirs


def _as_tensor(torch: Any, result: Any) -> Any:
    """Make a tensor on the memory of an array."""
    if result.dtype.name == "bfloat16":  # the type that ml_dtypes has, unknown to PyTorch
        return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(result)
