"""Settings of the planner besides the problem, and the state of subclasses in pickles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .signatures import ARGUMENTS

_NAMES = (
    "algorithm", "tolerance", "search", "search_seconds", "search_context", "max_workspace",
    "threads",
)  # fmt: skip
_CHECKS: dict[str, Callable[[Any], Any]] = {
    name: check for name in _NAMES if (check := ARGUMENTS[name].check) is not None
}


def checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return settings as `planner.make_plan` takes them, checked in the given order.

    ``precision`` is left out: it is part of the problem.

    Raises
    ------
    TypeError, ValueError
        If one is not as described; the message names it.
    """
    return {name: _CHECKS[name](value) for name, value in given.items() if name in _CHECKS}


def state_of(conv: object) -> object:
    """Return the state that an object of a subclass has besides that of `Conv2d`."""
    # Before Python 3.11 no class has this method by default, and values in slots are lost.
    getstate = getattr(conv, "__getstate__", None)
    return getattr(conv, "__dict__", None) if getstate is None else getstate()
