"""Team and tolerance of a call that names none; this plans nothing."""

from __future__ import annotations

from typing import Any

from .. import config
from .._checks import one_of
from ..machine import current as current_machine
from ..runtime import default_threads, process_threads
from ..runtime import default_tolerance as tolerance_of

# More cores than any machine has; no system can start an unlimited number of threads.
LARGEST_TEAM = 1024

SEARCHES = ("estimate", "measure", "exhaustive")


def check_search(search: object) -> str:
    """Return `search` if it is a way to plan.

    Raises
    ------
    ValueError
        Otherwise.
    """
    return one_of("search", search, SEARCHES)


def default_tolerance() -> float:
    """Error that a call without ``tolerance=`` may spend, in the current environment."""
    return tolerance_of(config.current())


def team_size(threads: int | None) -> int:
    """Size of the team of a call that asks for `threads`; None: the process's default."""
    return team_and_settings(threads)[0]


def team_and_settings(threads: int | None) -> tuple[int, config.Settings]:
    """Give `team_size`, and the settings of the environment: what prepared calls depend on."""
    settings = config.current()
    own = threads or default_threads(settings, current_machine())
    return max(1, min(own, LARGEST_TEAM)), settings


def environment() -> tuple[Any, ...]:
    """Give the settings of the environment, and where they are read (`config.variables`)."""
    return config.current(), *config.variables()


def share(threads: int | None) -> int:
    """How many threads of this process may compute at once, if a call asks for `threads`.

    The process's default team, unless the call itself, or the code around it, asks for more.
    """
    of_process = process_threads(config.current(), current_machine())
    return max(team_size(threads), min(of_process, LARGEST_TEAM))
