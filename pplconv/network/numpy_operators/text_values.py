"""Operators of texts: numbers from and to them, and labels. Texts are ``str`` objects of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..storage import Array, Shape
from .types import Attributes, Operands

__all__ = ["from_texts", "label_encoder", "to_texts"]


def to_texts(x: Array) -> Array:
    """Write numbers as onnxruntime does: floating point with eight digits."""
    write: Callable[[Any], str] = str
    if x.dtype == np.bool_:
        x = x.astype(np.int8)
    elif x.dtype.kind not in "iuO":
        write, x = _written, x.astype(np.float64)
    texts = np.empty(x.shape, object)
    for place, number in np.ndenumerate(x):
        texts[place] = write(number)
    return texts


def _written(number: float) -> str:
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "INF" if number > 0 else "-INF"
    return f"{number:.8g}"


def from_texts(x: Array, dtype: np.dtype[Any]) -> Array:
    """Read numbers; those of integers wrap, as in a cast.

    Raises
    ------
    ValueError
        If a text is no number, or no integer where one is needed.
    """
    real = dtype.kind not in "iub"
    found = np.empty(x.shape, np.float64 if real else object)
    for place, text in np.ndenumerate(x):
        try:
            # Python's own form with underscores is no number elsewhere.
            found[place] = (float if real else int)(text.replace("_", "?"))
        except ValueError:
            kind = "number" if real else "integer"
            raise ValueError(f"{text[:60]!r} is no {kind}") from None
    if real:
        numbers: Array = found.astype(dtype)
        return numbers
    if dtype == np.bool_:
        truths: Array = found != 0
        return truths
    bits = np.array([number & 0xFFFFFFFFFFFFFFFF for number in found.flat], np.uint64)
    found = bits.astype(dtype).reshape(x.shape)
    return found


# For each type of keys and values: the attributes' suffix, and the default value.
_KINDS = {"strings": ("default_string", "_Unused"), "int64s": ("default_int64", -1),
          "floats": ("default_float", -0.0)}  # fmt: skip
_TYPES = {"strings": object, "int64s": np.int64, "floats": np.float32}


def label_encoder(
    attributes: Attributes, operands: Operands, shapes: Sequence[Shape]
) -> list[Array]:
    """LabelEncoder: a value for each key, the first one of equal keys; a default for all others."""
    (x,) = operands
    assert x is not None
    keys, _ = _list("keys", attributes)
    values, kind = _list("values", attributes)
    if len(keys) != len(values):
        raise ValueError(f"{len(keys)} keys and {len(values)} values")
    if kind == "tensor":
        default, dtype = (
            attributes["default_tensor"].reshape(-1)[0],
            attributes["values_tensor"].dtype,
        )
    else:
        name, usual = _KINDS[kind]
        default, dtype = attributes.get(name, usual), np.dtype(_TYPES[kind])
    known = dict(zip(reversed(keys), reversed(values), strict=True))
    y = np.empty(x.shape, dtype)
    for place, key in np.ndenumerate(x):
        y[place] = known.get(key, default)
    return [y]


def _list(what: str, attributes: Attributes) -> tuple[list[Any], str]:
    """Give the keys or the values, and the suffix of their attribute."""
    for kind in ("tensor", *_KINDS):
        if f"{what}_{kind}" in attributes:
            found = attributes[f"{what}_{kind}"]
            return (found.reshape(-1).tolist() if kind == "tensor" else list(found)), kind
    raise ValueError(f"no {what}_strings, {what}_int64s, {what}_floats or {what}_tensor")
