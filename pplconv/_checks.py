"""Checks of a caller's numbers, shared by all rooms, and how messages show a wrong value."""

from __future__ import annotations

import math
import operator

# Longer texts would hide the sentence that they stand in.
_LONGEST = 200
# Arrays of at most this many elements are shown in full, larger ones by their shape.
_FEW = 8


def shown(value: object) -> str:
    """Give a value as messages show it: never longer than a line or two."""
    shape = getattr(value, "shape", ())
    if not isinstance(shape, tuple) or not all(isinstance(size, int) for size in shape):
        shape = ()  # it is not an array
    if math.prod(shape) > _FEW:
        return f"an array of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def integer(
    name: str,
    value: object,
    least: int | None = None,
    most: int | None = None,
    *,
    complaint: str | None = None,
) -> int:
    """Return `value` as an int, or raise an error that says what is wrong with it.

    Parameters
    ----------
    name : str
        Of the argument.
    value : object
        What was given: an int, or an object with ``__index__``. A bool counts as a mistake.
    least, most : int, optional
        The range.
    complaint : str, optional
        Message of the TypeError, for arguments that may be more than integers.

    Raises
    ------
    TypeError
        If `value` is not an integer.
    ValueError
        If it is not within the range.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        text = f"{name} must be an integer, got {shown(value)}" if complaint is None else complaint
        raise TypeError(text) from None
    if (least is None or number >= least) and (most is None or number <= most):
        return number
    expected = f"at least {least}" if most is None else f"{least} to {most}"
    raise ValueError(f"{name} is {number}: expected {expected}")
