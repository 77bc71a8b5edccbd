"""Defaults for a block of code: team and tolerance of its calls that name none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from pplconv._checks import integer
from pplconv._records import NamedTuple
from pplconv.config import MAX_THREADS

if TYPE_CHECKING:
    from pplconv.config import Settings

_Function = TypeVar("_Function", bound=Callable[..., Any])

DEFAULT_TOLERANCE = 1e-5
"""Error that may be spent by default: direct sums of float32 err as much in layers of a thousand
channels."""


class Scope(NamedTuple):
    """Defaults set by the blocks around a call; None if no block sets them.

    A tuple, so that equal scopes find the same plan.
    """

    team: int | None = None
    tolerance: float | None = None


SCOPE: ContextVar[Scope | None] = ContextVar("pplconv_scope", default=None)
"""Scope of this context, None outside of all blocks. A context variable, as each thread and each
task of an event loop has its own scope. A single variable for all defaults, as each call of
`conv2d` reads it."""

_TOKENS: ContextVar[tuple[Token[Scope | None], ...]] = ContextVar("pplconv_blocks", default=())
"""How to leave the blocks of this context. It is not kept in `Block`, as several threads may be
inside one at once."""


class Block(ContextDecorator):
    """What `team` and `tolerance` return: changes the scope of a ``with`` block.

    Decorates functions, too, and may be used any number of times.  One that is dropped without
    ever having been used warns, since by itself it does nothing.

    Parameters
    ----------
    call : str
        The call that made it, for the warning.
    change : callable
        Makes the scope inside the block from the scope outside.
    """

    def __init__(self, call: str, change: Callable[[Scope], Scope]) -> None:
        self._call = call
        self._change = change
        self._used = False

    def __call__(self, func: _Function) -> _Function:
        """Decorate a function: each call of it is such a block."""
        self._used = True
        return super().__call__(func)

    def __enter__(self) -> None:
        self._used = True
        token = SCOPE.set(self._change(SCOPE.get() or Scope()))
        _TOKENS.set((*_TOKENS.get(), token))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        *outer, token = _TOKENS.get()
        SCOPE.reset(token)
        _TOKENS.set(tuple(outer))

    # The default argument is still there when the interpreter ends and modules are gone.
    def __del__(self, _warn: Callable[..., None] = warnings.warn) -> None:
        if not self._used:
            _warn(
                f"{self._call} does nothing by itself: write `with {self._call}:`",
                RuntimeWarning,
                stacklevel=2,
            )


def team(threads: int) -> Block:
    """Have calls that name no team use `threads` threads, in this thread and within this block.

    For programs that cannot hand ``threads=`` to the calls themselves, such as one that runs a
    whole model beside others.  ``threads=`` of a call goes before it, and it goes before
    ``PPLCONV_NUM_THREADS``.  Blocks nest; other threads, also those that are started inside,
    keep their own default (an interpreter without a GIL hands new ones the starter's), and the
    tasks of an event loop do not see one another's.

    Parameters
    ----------
    threads : int
        Size of the team, 1 to 65536; the planner still makes it smaller where there is little
        work.

    Returns
    -------
    Block
        For a ``with`` statement, or to decorate a function.

    Raises
    ------
    TypeError, ValueError
        If `threads` is no integer, or out of range.

    Warns
    -----
    RuntimeWarning
        If what it returns is dropped and was never entered.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> conv = pplconv.Conv2d(np.ones((64, 64, 3, 3), np.float32), padding=1)
    >>> with pplconv.runtime.team(1):
    ...     conv.plan_for((1, 64, 56, 56)).threads
    1
    """
    number = integer("threads", threads, 1, MAX_THREADS)
    return Block(f"pplconv.runtime.team({number})", lambda scope: scope._replace(team=number))


def tolerance(tolerance: float) -> Block:
    """Have calls that name no tolerance spend at most this error, as `team` does for threads.

    ``with pplconv.runtime.tolerance(0):`` keeps a whole model to direct sums, without Winograd.
    ``tolerance=`` of a call goes before it, and it goes before ``PPLCONV_TOLERANCE``.  A `Conv2d`
    that was given none follows the block around each call, and keeps a plan for each tolerance.
    The instances of an `InstancePool` have the tolerance of the block in which it was made.

    Parameters
    ----------
    tolerance : float
        At least 0, as for `conv2d`.

    Returns
    -------
    Block
        For a ``with`` statement, or to decorate a function.

    Raises
    ------
    TypeError, ValueError
        If `tolerance` is no number, NaN or negative.

    Warns
    -----
    RuntimeWarning
        If what it returns is dropped and was never entered.

    Examples
    --------
    >>> import numpy as np, pplconv
    >>> conv = pplconv.Conv2d(np.ones((64, 64, 3, 3), np.float32), padding=1)
    >>> with pplconv.runtime.tolerance(0):
    ...     conv.plan_for((1, 64, 56, 56)).algorithm == "winograd"
    False
    """
    number = check_tolerance(tolerance)
    return Block(
        f"pplconv.runtime.tolerance({number:g})", lambda scope: scope._replace(tolerance=number)
    )


def scoped_team() -> int | None:
    """Team set by a block of `team` around the call; None if there is none."""
    scope = SCOPE.get()
    return None if scope is None else scope.team


def scoped_tolerance() -> float | None:
    """Tolerance set by a block of `tolerance` around the call; None if there is none."""
    scope = SCOPE.get()
    return None if scope is None else scope.tolerance


def default_tolerance(settings: Settings) -> float:
    """Error that a call may spend if it names no tolerance.

    That of a block of `tolerance`, else ``PPLCONV_TOLERANCE``, else `DEFAULT_TOLERANCE`.

    Parameters
    ----------
    settings : Settings
        Settings of the environment.

    Returns
    -------
    float
        At least 0.
    """
    return explain_default_tolerance(settings)[0]


def explain_default_tolerance(settings: Settings) -> tuple[float, str]:
    """Return `default_tolerance` and the reason for it, in words.

    Parameters
    ----------
    settings : Settings
        Settings of the environment.

    Returns
    -------
    tolerance : float
        At least 0.
    reason : str
        For people to read.
    """
    named = scoped_tolerance()
    if named is not None:
        return named, f"pplconv.runtime.tolerance({named:g})"
    if settings.tolerance is not None:
        return settings.tolerance, f"PPLCONV_TOLERANCE is {settings.tolerance:g}"
    return DEFAULT_TOLERANCE, "the default"


def check_tolerance(tolerance: object) -> float:
    """Return `tolerance` as a float >= 0.

    Raises
    ------
    TypeError, ValueError
        If it is no number, NaN or negative.
    """
    if isinstance(tolerance, (bool, str)):
        raise TypeError(f"tolerance must be a number, got {tolerance!r}")
    try:
        number = float(tolerance)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise TypeError(f"tolerance must be a number, got {tolerance!r}") from None
    if not number >= 0:
        raise ValueError(f"tolerance must be at least 0, got {tolerance!r}")
    return number
