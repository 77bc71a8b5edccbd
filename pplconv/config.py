"""Settings from the environment: the only module that reads environment variables.

========================  ==================================================================
``PPLCONV_MAX_ISA``       the highest instruction set to use: ``portable``, ``avx2``, ``avxvnni``,
                          ``avxvnniint8``, ``avx512``, ``avx512vnni``, ``avx512bf16``, ``amx`` on
                          x86_64; ``portable``, ``neon``, ``fp16``, ``dotprod``, ``i8mm``, ``bf16``
                          on aarch64; ``portable``, ``neon32``, ``half32`` on armv7l
``PPLCONV_NUM_THREADS``   the team size where a call names none
``OMP_NUM_THREADS``       the same, where ``PPLCONV_NUM_THREADS`` is not set; may be a list
                          (one entry per nesting level); the first entry counts
``PPLCONV_TEAM_START_US`` the cost of starting a team of threads, in microseconds, 1 to 1000000;
                          1 if it is not set
``PPLCONV_TOLERANCE``     the error that may be spent on speed where a call names none, a number
                          of at least 0; 0 allows direct sums only
``PPLCONV_WISDOM``        the file that keeps measured plans; ``off``, ``0`` or empty: none
``PPLCONV_CACHE``         the folder that keeps compiled networks; ``off``, ``0`` or empty: none
``XDG_CACHE_HOME``        where the user's caches lie, if not in ``~/.cache``
``HOME``                  the user's folder
========================  ==================================================================

All other modules are given a `Settings`.  Empty variables count as unset, except
``PPLCONV_WISDOM`` and ``PPLCONV_CACHE``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ._records import NamedTuple
from .architecture import canonical, here, ladder, owner

__all__ = ["MAX_THREADS", "Settings", "ask_for_threads", "current", "network_cache", "read"]

MAX_THREADS = 65536
"""The largest team that a setting may ask for; a larger one is probably a typing error."""

MAX_TEAM_START_US = 1_000_000
"""The longest start of a team that a setting may claim: a second."""

TEAM_START_US = 1
"""Microseconds that an idle team of two takes from start to end on Zen 4 and Zen 5, rounded.

It is not measured in each process, as plans would differ from one to the next.
"""

_MAX_ISA = "PPLCONV_MAX_ISA"
_NUM_THREADS = "PPLCONV_NUM_THREADS"
_OMP_NUM_THREADS = "OMP_NUM_THREADS"
_TEAM_START = "PPLCONV_TEAM_START_US"
_TOLERANCE = "PPLCONV_TOLERANCE"
_WISDOM = "PPLCONV_WISDOM"
_CACHE = "PPLCONV_CACHE"
_CACHE_HOME = "XDG_CACHE_HOME"
_HOME = "HOME"

_ARCH = here()

# ASCII digits only: int() alone would also take "1_0" and the digits of other scripts.
# Compiled where a variable is set.
_DIGITS = r"[0-9]+"
_DECIMAL = r"(?i:\+?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf))"
_OMP_ENTRY = r"(?a:\s*\+?([0-9]+)\s*)"


class Settings(NamedTuple):
    """Settings from the environment; None where a variable is not set.

    Parameters
    ----------
    max_isa : str or None
        Highest instruction set that kernels may use, of this architecture's ladder.
    num_threads : int or None
        Team size from ``PPLCONV_NUM_THREADS``, at least 1.
    omp_num_threads : int or None
        Team size from the first entry of ``OMP_NUM_THREADS``, at least 1.
    wisdom : str or None
        The wisdom file that ``PPLCONV_WISDOM`` names; "" if it says that there is none.
    cache_folder : str or None
        Absolute path of the user's cache folder for pplconv, which need not exist; None where
        the environment names no folder of the user.
    team_start_us : int
        Cost of starting a team, in microseconds, from ``PPLCONV_TEAM_START_US``;
        `TEAM_START_US` if that is not set.
    tolerance : float or None
        Error that may be spent on speed, at least 0, from ``PPLCONV_TOLERANCE``.
    """

    max_isa: str | None = None
    num_threads: int | None = None
    omp_num_threads: int | None = None
    wisdom: str | None = None
    cache_folder: str | None = None
    team_start_us: int = TEAM_START_US
    tolerance: float | None = None


def read(environ: Mapping[str, str] | None = None, arch: str | None = None) -> Settings:
    """Parse the variables of `environ`.

    Parameters
    ----------
    environ : mapping of str to str, optional
        Where to look the variables up; the environment of this process by default.
    arch : str, optional
        Architecture that says which instruction sets there are; that of this process by default.

    Returns
    -------
    Settings

    Raises
    ------
    ValueError
        If a ``PPLCONV_*`` variable is malformed.  A malformed ``OMP_NUM_THREADS`` is ignored,
        as the OpenMP runtime itself ignores it.
    """
    env = os.environ if environ is None else environ
    return _parse(
        _ARCH if arch is None else arch,
        env.get(_MAX_ISA),
        env.get(_NUM_THREADS),
        env.get(_OMP_NUM_THREADS),
        env.get(_WISDOM),
        env.get(_CACHE_HOME),
        env.get(_HOME),
        env.get(_TEAM_START),
        env.get(_TOLERANCE),
    )


def _lookup() -> tuple[Callable[[Any], Any], tuple[Any, ...]]:
    """Give a function that reads raw variables of this process, and their names for it.

    ``os.environ`` takes a microsecond to say that a variable is not set, longer than all else that
    a small convolution does. CPython keeps its variables as bytes in a dictionary.
    """
    names = (
        _MAX_ISA, _NUM_THREADS, _OMP_NUM_THREADS, _WISDOM, _CACHE_HOME, _HOME, _TEAM_START,
        _TOLERANCE,
    )  # fmt: skip
    raw = getattr(os.environ, "_data", None)
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
    if type(raw) is dict and raw == encoded:
        return raw.get, tuple(map(os.fsencode, names))
    return os.environ.get, names


_environ = os.environ
_raw, _raw_names = _lookup()
# The raw variables at the last call, and what they say.
_last: tuple[tuple[Any, ...], Settings] | None = None


def current() -> Settings:
    """Read the settings of this process from its present environment.

    Returns
    -------
    Settings

    Raises
    ------
    ValueError
        If a ``PPLCONV_*`` variable is malformed.
    """
    global _environ, _raw, _raw_names, _last
    if os.environ is not _environ:  # replaced, as tests do
        _environ = os.environ
        _raw, _raw_names = _lookup()
    raw, last = tuple(map(_raw, _raw_names)), _last
    if last is not None and last[0] == raw:
        return last[1]
    settings = read()
    _last = raw, settings
    return settings


def network_cache(name: str) -> str | None:
    """Give the folder that keeps compiled networks; None if there is none.

    Parameters
    ----------
    name : str
        Of the folder in the user's cache of pplconv.

    Raises
    ------
    ValueError
        If ``PPLCONV_CACHE``, or another variable, is malformed.
    """
    text, settings = os.environ.get(_CACHE), current()
    if text is not None:
        home = os.environ.get(_HOME)
        return _path(_CACHE, text, home) or None
    found = settings.cache_folder
    return None if found is None else os.path.join(found, name)


def variables() -> tuple[Any, Any, dict[Any, Any] | None, tuple[Any, ...]]:
    """Tell where `current` reads, for calls that only ask whether anything has changed.

    Returns
    -------
    holder : dict
        Attributes of ``os``: its ``environ`` may be replaced.
    environ : mapping
        The environment that was read last.
    raw : dict or None
        Its raw variables, if there is such a dictionary.
    names : tuple
        Of the variables, as `raw` has them.
    """
    raw = getattr(_raw, "__self__", None)
    return vars(os), _environ, raw if type(raw) is dict else None, _raw_names


def ask_for_threads(threads: int) -> None:
    """Set ``PPLCONV_NUM_THREADS`` for this process; for a worker, which nobody else uses.

    Parameters
    ----------
    threads : int
        At least 1.
    """
    os.environ[_NUM_THREADS] = str(threads)


def ask_for_isa(level: str) -> None:
    """Set ``PPLCONV_MAX_ISA`` for this process, as `ask_for_threads` sets its team.

    Parameters
    ----------
    level : str
        Of this architecture's ladder.
    """
    os.environ[_MAX_ISA] = level


def ask_for_tolerance(tolerance: float) -> None:
    """Set ``PPLCONV_TOLERANCE`` for this process, as `ask_for_threads` sets its team.

    Parameters
    ----------
    tolerance : float
        At least 0.
    """
    os.environ[_TOLERANCE] = repr(tolerance)


# The key is the text of the variables: a changed environment is noticed, an unchanged one is not
# parsed again.
@lru_cache(maxsize=64)
def _parse(
    arch: str,
    max_isa: str | None,
    num_threads: str | None,
    omp: str | None,
    wisdom: str | None,
    cache_home: str | None,
    home: str | None,
    team_start: str | None,
    tolerance: str | None,
) -> Settings:
    return Settings(
        max_isa=_isa(max_isa, arch),
        num_threads=_whole(_NUM_THREADS, num_threads, MAX_THREADS),
        omp_num_threads=_omp(omp),
        wisdom=_wisdom(wisdom, home),
        cache_folder=_cache_folder(cache_home, home),
        team_start_us=_whole(_TEAM_START, team_start, MAX_TEAM_START_US) or TEAM_START_US,
        tolerance=_tolerance(tolerance),
    )


def _isa(text: str | None, arch: str) -> str | None:
    name = (text or "").strip().lower()
    if not name:
        return None
    names = ladder(arch)
    if name not in names:
        elsewhere = owner(name)
        what = f"{text!r}" if elsewhere is None else f"{text!r}, which {elsewhere} has"
        where = "" if elsewhere is None else f" on {canonical(arch)}"
        raise ValueError(f"{_MAX_ISA} is {what}: expected one of {', '.join(names)}{where}")
    return name


def _whole(name: str, text: str | None, most: int) -> int | None:
    digits = (text or "").strip()
    if not digits:
        return None
    count = _count(digits, most) if re.fullmatch(_DIGITS, digits) else None
    if count is None:
        raise ValueError(f"{name} is {text!r}: expected an integer from 1 to {most}")
    return count


def _tolerance(text: str | None) -> float | None:
    decimal = (text or "").strip()
    if not decimal:
        return None
    if not re.fullmatch(_DECIMAL, decimal):
        raise ValueError(f"{_TOLERANCE} is {text!r}: expected a number of at least 0")
    return float(decimal)


def _omp(text: str | None) -> int | None:
    # One bad entry spoils the list: libgomp then reports the variable and uses none of it.
    counts = []
    for entry in (text or "").split(","):
        match = re.fullmatch(_OMP_ENTRY, entry)
        count = _count(match.group(1), MAX_THREADS) if match else None
        if count is None:
            return None
        counts.append(count)
    return counts[0]


def _wisdom(text: str | None, home: str | None) -> str | None:
    return None if text is None else _path(_WISDOM, text, home)


def _path(name: str, text: str, home: str | None) -> str:
    """Give the path that a variable names, "" if it says that there is none."""
    if text.strip().lower() in ("", "off", "0"):
        return ""
    if "\0" in text:
        raise ValueError(f"{name} is {text!r}: expected a path")
    # A shell expands "~" at the start of a word; configuration files and containers do not.
    return os.path.join(home, text[2:]) if home and text.startswith("~/") else text


def _cache_folder(cache_home: str | None, home: str | None) -> str | None:
    # The XDG Base Directory Specification demands that relative paths be ignored.
    if cache_home and os.path.isabs(cache_home):
        return os.path.join(cache_home, "pplconv")
    if not (home and os.path.isabs(home)):
        return None
    place = "Library/Caches/pplconv" if sys.platform == "darwin" else ".cache/pplconv"
    return os.path.join(home, *place.split("/"))


def _count(digits: str, most: int) -> int | None:
    # The length comes first: int() refuses, slowly, strings of thousands of digits.
    significant = digits.lstrip("0")
    if not significant or len(significant) > len(str(most)):
        return None
    count = int(significant)
    return count if count <= most else None
