"""Names of arguments in messages, where a function's names differ from those of its checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def named(**names: str) -> Iterator[None]:
    """Put the names of a function's own arguments into messages.

    Parameters
    ----------
    names : str
        The function's names, by the names that checks use.

    Raises
    ------
    TypeError, ValueError
        As raised in the block, with names replaced.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        raise renamed(error, **names) from error


def renamed(error: TypeError | ValueError, **names: str) -> TypeError | ValueError:
    """Make an error like `error` that has a function's own names, for calls that take microseconds.

    Parameters
    ----------
    error : TypeError or ValueError
        Raised by a check.
    names : str
        As in `named`.
    """
    words = "|".join(names)
    text = re.sub(rf"\b({words})\b", lambda match: names[match[0]], str(error))
    return (TypeError if isinstance(error, TypeError) else ValueError)(text)
