"""What may be asked of the planner beside a problem, and how pickles of a `Conv2d` hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import planner
from . import checks

_CHECKS: dict[str, Callable[[Any], Any]] = {
    "algorithm": planner.check_algorithm,
    "tolerance": checks.check_tolerance,
    "search": planner.check_search,
    "search_seconds": checks.check_search_seconds,
    "search_context": planner.check_search_context,
    "max_workspace": checks.check_max_workspace,
    "threads": checks.check_threads,
}

# The order is that of version 0.1.0, whose pickles end with the fourth setting.
SETTINGS = ("algorithm", "tolerance", "search", "threads", "search_seconds", "max_workspace")
PICKLED = (*SETTINGS, "precision", "search_context", "sparse", "block", "padding_mode")


def checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return settings as `planner.make_plan` takes them, checked in the given order.

    ``precision`` is left out: it is the problem's.

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
