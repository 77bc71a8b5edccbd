"""Names of arguments in messages, where a function has others than what it is made of."""

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
        Own names, by the names that checks know.

    Raises
    ------
    TypeError, ValueError
        As raised in the block, with names replaced.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        words = "|".join(names)
        text = re.sub(rf"\b({words})\b", lambda match: names[match[0]], str(error))
        raise (TypeError if isinstance(error, TypeError) else ValueError)(text) from error
