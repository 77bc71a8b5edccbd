"""Lists, tensors of other libraries and exporters of memory, converted to plain ndarrays.

Errors of other libraries name neither the argument nor a remedy; errors raised here name both.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from .dlpack import Bits

# Errors that mean that an object is not an array; any other error is passed on.
_REFUSALS = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)
# Types whose objects run no code that others have defined.
_QUIET = {type(None), bool, int, float, str, type, np.ndarray, *np.sctypeDict.values()}
_CPU = 1  # DLPack's number for it


def array_of(value: Any, name: str, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    """Return an ndarray from anything that NumPy or DLPack (on the CPU) accepts.

    A tensor that records gradients is taken without them. Python numbers, and lists of them, have
    no type of their own.

    Parameters
    ----------
    value : array_like
        The caller's argument.
    name : str
        Of the argument.
    dtype : data-type, optional
        Type that Python numbers become, float64 by default.

    Returns
    -------
    ndarray
        Of any dtype and shape, never of a subclass, whose attributes could contradict its memory.
        It shares the memory of `value` if possible.

    Raises
    ------
    TypeError, ValueError
        If it cannot be an array, or would lose a mask.
    """
    if issubclass(type(value), np.ndarray):  # an object may lie about its class, too
        refuse_mask(value, name)
        return value if type(value) is np.ndarray else np.ndarray.view(value, np.ndarray)
    detach = getattr(value, "detach", None)
    if getattr(value, "requires_grad", False) and callable(detach):
        value = detach()
    # If an object has both, NumPy's own protocol is used, which may copy where DLPack may not.
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        if is_bfloat16(value):
            return _as_bfloat16(value, name)
        return _through_dlpack(value, name)
    try:
        array = np.asarray(value)
    except _REFUSALS as error:
        # DLPack is the only way from bfloat16 tensors to NumPy.
        if is_bfloat16(value) and hasattr(value, "__dlpack__") and not _misplaced(value, name):
            return _as_bfloat16(value, name)
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(_advice(value, name) or f"{name} is no array: {error}") from error
    if array.dtype.kind in "iuf" and _holds_python_numbers(value):
        # `dtype`, that of the other arrays, may be a type that is refused later.
        known = dtype is not None and (dtype.kind == "f" or dtype.name == "bfloat16")
        array = array.astype(dtype if known else np.float64, copy=False)
    return array


def numbers_of(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Take an array as `array_of` does, but let NumPy choose the type of Python's numbers.

    Raises
    ------
    TypeError, ValueError
        If it cannot be an array, or would lose a mask.
    """
    if not isinstance(value, (int, float, list, tuple)):
        return array_of(value, name)
    try:
        return np.asarray(value)
    except _REFUSALS as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"{name} is no array: {error}") from error


def _as_bfloat16(value: Any, name: str) -> np.ndarray[Any, Any]:
    """Convert an exporter of bfloat16 to an array of ml_dtypes' type."""
    dtype = bfloat16_dtype()
    if dtype is None:
        raise TypeError(
            f"{name} is bfloat16, a type that NumPy gets from the package ml_dtypes: install it, "
            "or use .float()"
        )
    array: np.ndarray[Any, Any] = as_bfloat16_bits(value, name).view(dtype)
    return array


def is_bfloat16(value: Any) -> bool:
    """Whether an array or tensor holds bfloat16, by the name of its type.

    NumPy has no such type: the package ml_dtypes adds one, and tensors have types of their own.
    """
    return str(getattr(value, "dtype", "")).rpartition(".")[2] == "bfloat16"


def bfloat16_dtype() -> np.dtype[Any] | None:
    """Return NumPy's type of bfloat16 arrays if ml_dtypes, which defines it, is installed."""
    try:
        found = import_module("ml_dtypes")
    except ImportError:
        return None
    dtype: np.dtype[Any] = np.dtype(found.bfloat16)
    return dtype


def as_bfloat16_bits(value: Any, name: str = "input") -> np.ndarray[Any, Any]:
    """Return the bits of an array or tensor of bfloat16.

    Parameters
    ----------
    value : array_like
        An array of ml_dtypes' type, which refuses the buffer protocol, or an object that exports
        bfloat16 through DLPack on the CPU.
    name : str
        Of the argument.

    Returns
    -------
    ndarray of uint16
        Shares the memory of `value`, at whatever strides it has; not to be written to.

    Raises
    ------
    TypeError
        If it is neither, or would lose a mask.
    """
    if not issubclass(type(value), np.ndarray):
        detach = getattr(value, "detach", None)
        if getattr(value, "requires_grad", False) and callable(detach):
            value = detach()
        if hasattr(value, "__dlpack__"):
            return _through_dlpack(Bits(value), name)
    value = array_of(value, name)
    if not is_bfloat16(value):
        raise TypeError(f"{name} must be bfloat16, got dtype {value.dtype}")
    bits: np.ndarray[Any, Any] = value.view(np.uint16)
    return bits


def run_no_code(*values: Any) -> bool:
    """Whether arguments can be read without running code that others have defined.

    Other objects may change the arrays of the same call while they are read. Arrays that were
    checked before, or share memory with them, have to be copied then.
    """
    return all(
        type(value) in _QUIET
        or issubclass(type(value), np.dtype)
        or (type(value) in (list, tuple) and run_no_code(*value))
        for value in values
    )


def renewed(given: object, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Take an argument once more, as reading other arguments may have changed it.

    Parameters
    ----------
    given : object
        The caller's argument.
    array : ndarray
        The result of `array_of` before. If `given` is of a subclass, this is a view, which does not
        notice if `given` gets other memory.
    """
    return array_of(given, "an argument") if issubclass(type(given), np.ndarray) else array


def refuse_mask(array: np.ndarray[Any, Any], name: str) -> None:
    """Refuse a masked array: its masked elements would count like all others.

    Raises
    ------
    TypeError
        If it is one.
    """
    if type(array) is not np.ndarray and issubclass(type(array), np.ma.MaskedArray):
        raise TypeError(
            f"{name} must not be a masked array, as its mask would be lost: use .filled(value)"
        )


def _through_dlpack(value: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        device = int(value.__dlpack_device__()[0])
    except (AttributeError, TypeError) as error:
        raise TypeError(f"{name}: object has no usable __dlpack_device__: {error}") from error
    if device != _CPU:
        raise TypeError(f"{name} must be in CPU memory, got DLPack device type {device}")
    try:
        return np.from_dlpack(value)
    except _REFUSALS as error:
        text = _advice(value, name) or f"{name} cannot be taken through DLPack: {error}"
        raise TypeError(text) from error


def _holds_python_numbers(value: Any) -> bool:
    """Whether NumPy made the array from Python's own ints and floats.

    Only the first element is checked: lists do not mix Python's numbers and NumPy's scalars.
    """
    while type(value) in (list, tuple):
        if not value:
            return True
        value = value[0]
    return type(value) in (int, float)


def _misplaced(value: Any, name: str) -> str | None:
    """Why the memory of a tensor cannot be read here, and a remedy; None if it can."""
    device = getattr(value, "device", None)
    where = getattr(device, "type", "cpu")
    if where == "meta" or getattr(value, "is_meta", False) is True:
        return f"{name} must have data, got a tensor on the meta device: load its values first"
    layout = str(getattr(value, "layout", "strided"))
    if hasattr(value, "to_dense") and not layout.endswith("strided"):
        return f"{name} must be dense, got layout {layout}: use .to_dense()"
    if isinstance(where, str) and where != "cpu":
        return f"{name} must be in CPU memory, got device {device}: use .cpu()"
    return None


def _advice(value: Any, name: str) -> str | None:
    """Why a tensor cannot be an array, and a remedy; None if that is not known."""
    misplaced = _misplaced(value, name)
    if misplaced is not None:
        return misplaced
    dtype = str(getattr(value, "dtype", ""))
    # NumPy is not asked: it knows bfloat16 if another package has registered it.
    known = dtype.rpartition(".")[2] in ("float16", "float32", "float64")
    if "float" in dtype and not known:
        return f"{name} must be float16, float32 or float64, got {dtype}: use .float()"
    return None
