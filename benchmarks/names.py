"""Names that a command line gives of engines, networks and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

Named = TypeVar("Named")


def pick(what: str, names: Iterable[str], known: Mapping[str, Named]) -> dict[str, Named]:
    """Give those of `known` that are named, in their own order; no name means all.

    Raises
    ------
    ValueError
        If a name is unknown; `what` is the noun in the message.
    """
    wanted = list(names) or list(known)
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(
            f"unknown {what} {', '.join(unknown)}: expected some of {', '.join(known)}"
        )
    return {name: one for name, one in known.items() if name in wanted}
