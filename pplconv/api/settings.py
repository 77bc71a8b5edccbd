"""What may be asked of the planner beside a problem, and how pickles of a `Conv2d` hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import planner
from . import arguments

_CHECKS: dict[str, Callable[[Any], Any]] = {
    "algorithm": planner.check_algorithm,
    "tolerance": arguments.check_tolerance,
    "search": planner.check_search,
    "search_seconds": arguments.check_search_seconds,
    "max_workspace": arguments.check_max_workspace,
    "threads": arguments.check_threads,
}

# In the order of 0.1.0, whose pickles end with the fourth.
SETTINGS = ("algorithm", "tolerance", "search", "threads", "search_seconds", "max_workspace")
PICKLED = (*SETTINGS, "precision")


def checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return settings as `planner.make_plan` takes them, checked in the order they come in.

    ``precision`` is left out: it is the problem's.

    Raises
    ------
    TypeError, ValueError
        If one is not as described; the message names it.
    """
    return {name: _CHECKS[name](value) for name, value in given.items() if name in _CHECKS}


def state_of(conv: object) -> object:
    """Return what an object of a subclass has beside what `Conv2d` has."""
    # Before Python 3.11 no class has this by itself, and what lies in slots stays behind.
    getstate = getattr(conv, "__getstate__", None)
    return getattr(conv, "__dict__", None) if getstate is None else getstate()
