"""Checks of a caller's numbers and words, shared by all rooms; how messages show a wrong value."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from types import MappingProxyType

# Longer texts would hide the rest of the message.
_LONGEST = 200
# Longer words are not misspellings, and would take long to compare.
_LONGEST_WORD = 40
# Arrays of at most this many elements are shown in full, larger ones by their shape.
_FEW = 8


def shown(value: object) -> str:
    """Return a value as messages show it, in a line or two at most."""
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


def flag(name: str, value: object) -> bool:
    """Return whether `value` counts as true.

    Raises
    ------
    TypeError
        If its truth is undefined, as that of arrays.
    """
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be True or False, got {shown(value)}") from None


def one_of(
    name: str, value: object, words: Iterable[str], *, or_none: bool = False,
    others: Mapping[str, str] = MappingProxyType({}),
) -> str:  # fmt: skip
    """Return `value` if it is one of some words.

    Parameters
    ----------
    name : str
        Of the argument.
    value : object
        What was given.
    words : iterable of str
        The accepted words, in the order in which a message lists them.
    or_none : bool
        Whether the message should say that None is taken as well.
    others : mapping of str to str, optional
        Words of other libraries, and what they are here.

    Raises
    ------
    ValueError
        If it is none of them; the message suggests the nearest word.
    """
    known = tuple(words)
    if isinstance(value, str) and value in known:
        return value
    wanted = f"{'None or ' if or_none else ''}one of {', '.join(known)}"
    raise ValueError(f"{name} must be {wanted}, got {shown(value)}{meant(value, known, others)}")


def meant(
    value: object, words: Iterable[str], others: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return the end of a message about an unknown word: the word probably meant, if any.

    Parameters
    ----------
    value, words, others
        As in `one_of`.
    """
    if not isinstance(value, str) or len(value) > _LONGEST_WORD:
        return ""
    here = others.get(value.strip().lower())
    if here is not None:
        return f": that is {here} here"
    from difflib import get_close_matches  # for the message alone: an import is not free

    known = {word.lower(): word for word in words}
    found = get_close_matches(value.strip().lower(), known, n=1, cutoff=0.75)
    return f": did you mean {known[found[0]]!r}?" if found else ""
