"""Keys and entries: their grammar, their bounds, and how two of them merge.

All data from files passes through these constructors, so every existing entry is valid.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any, TypeAlias

from .._checks import integer
from .._records import record
from ..config import MAX_THREADS
from ..machine import Machine

Scalar: TypeAlias = bool | int | str

SEARCHES = ("measure", "exhaustive")
"""How thoroughly a division was looked for."""

MAX_ENTRIES = 4096
"""Problems that are remembered; the oldest are dropped beyond that."""
MAX_TEAMS = 32
"""Team sizes that one entry keeps; the oldest are dropped beyond that."""
MAX_FIELDS = 32
"""Items of a choice, and of the blocks of a division."""
MAX_TEXT = 256
"""Characters of a string."""
MAX_INT = 2**53
"""Largest integer: beyond it, other readers of JSON would round."""
MAX_SECONDS = 1e6
"""Longest time of a run."""

# Printable ASCII: a terminal shows it as it is, and JSON needs no escapes but two.
_TEXT = r"[ -~]+"
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_TEAM = r"[1-9][0-9]{0,9}"


@record(frozen=True)
class Key:
    """The key of an entry: everything but the team.

    Parameters
    ----------
    problem : str
        ``str(ConvProblem)`` or ``str(MatrixProblem)``.
    dtype, layout : str
        Of the problem; a blocked layout with its block (``"NCHW16c"``); the order of matrices.
    epilogue : str
        Class of what happens in the store, for example ``"none"``, ``"clip"``, ``"exp"``.
    tolerance : float
        Error that the choice may spend, at least 0.
    cpu : str
        `cpu_model` of the machine.
    isa : str
        Instruction set of the kernels.

    Raises
    ------
    TypeError, ValueError
        If a field has another type, or a string is empty, longer than 256 characters or not
        printable ASCII.
    """

    problem: str
    dtype: str
    layout: str
    epilogue: str
    tolerance: float
    cpu: str
    isa: str

    def __post_init__(self) -> None:
        """Check the fields; they may come from a file."""
        for name in ("problem", "dtype", "layout", "epilogue", "cpu", "isa"):
            _check_text(name, getattr(self, name))
        tolerance = _check_float("tolerance", self.tolerance)
        if tolerance < 0.0:
            raise ValueError(f"tolerance is {tolerance!r}: expected at least 0")
        object.__setattr__(self, "tolerance", tolerance + 0.0)  # -0.0 is written as 0.0


@record(frozen=True)
class Division:
    """The division of work for one team size, and its time.

    Parameters
    ----------
    blocks : mapping of str to bool, int or str
        Block sizes and the like, by name; integers from 0 to 2**53.
    seconds : float
        Best time of a run, more than 0.
    search : {"measure", "exhaustive"}
        Thoroughness of the search.

    Raises
    ------
    TypeError, ValueError
        If a field has another type or is out of range.
    """

    blocks: Mapping[str, Scalar]
    seconds: float
    search: str = "measure"

    def __post_init__(self) -> None:
        """Check and freeze the fields; they may come from a file."""
        object.__setattr__(self, "blocks", _check_fields("blocks", self.blocks))
        seconds = _check_float("seconds", self.seconds)
        if not 0.0 < seconds <= MAX_SECONDS:
            raise ValueError(
                f"seconds is {seconds!r}: expected more than 0, at most {MAX_SECONDS:g}"
            )
        object.__setattr__(self, "seconds", seconds)
        if _check_text("search", self.search) not in SEARCHES:
            raise ValueError(f"search is {self.search!r}: expected one of {', '.join(SEARCHES)}")


@record(frozen=True)
class Entry:
    """The wisdom of one problem.

    Parameters
    ----------
    choice : mapping of str to bool, int or str
        The part that decides the bits, the same for every team: algorithm and variant.
    teams : mapping of int to Division
        By the size of the team; the latest measurement comes last.

    Raises
    ------
    TypeError, ValueError
        If `choice` or `teams` is empty, too large, or of another type.
    """

    choice: Mapping[str, Scalar]
    teams: Mapping[int, Division]

    def __post_init__(self) -> None:
        """Check and freeze the fields; they may come from a file."""
        if not self.choice:
            raise ValueError(f"choice is {self.choice!r}: expected at least one field")
        object.__setattr__(self, "choice", _check_fields("choice", self.choice))
        if not 1 <= len(self.teams) <= MAX_TEAMS:
            raise ValueError(f"{len(self.teams)} teams: expected 1 to {MAX_TEAMS}")
        for team in self.teams:
            check_team(team)
        object.__setattr__(self, "teams", MappingProxyType(dict(self.teams)))


FIELDS = tuple(entry.name for entry in fields(Key))
_ENTRY_FIELDS = {*FIELDS, "choice", "teams"}
_DIVISION_FIELDS = {entry.name for entry in fields(Division)}


def cpu_model(machine: Machine) -> str:
    """Name the CPU as keys do: architecture, vendor, family, model and name.

    Parameters
    ----------
    machine : Machine

    Returns
    -------
    str
    """
    model = f"{machine.arch} {machine.vendor} {machine.family}/{machine.model} {machine.cpu_name}"
    printable = "".join(c if " " <= c <= "~" else "?" for c in model)
    return " ".join(printable.split())[:MAX_TEXT]


def check_team(team: object) -> int:
    """Return `team` if it is a valid team size.

    Raises
    ------
    TypeError, ValueError
        Otherwise.
    """
    return integer("team", team, 1, MAX_THREADS, complaint=f"team is {team!r}: expected an int")


def merge(old: Entry | None, new: Entry) -> Entry:
    """Merge a new entry over the old one of the same problem.

    A new choice drops the old entry, whose divisions do not apply to it. For an equal choice, teams
    are merged, and a team's new figure replaces its old one.
    """
    if old is None or old.choice != new.choice:
        return new
    teams = {team: found for team, found in old.teams.items() if team not in new.teams}
    latest = [*teams.items(), *new.teams.items()][-MAX_TEAMS:]
    return Entry(new.choice, dict(latest))


def overlay(old: Mapping[Key, Entry], new: Mapping[Key, Entry]) -> dict[Key, Entry]:
    """Merge all of `new` over `old`; newest last, the oldest beyond the bound are dropped."""
    result = dict(old)
    for key, entry in new.items():
        result[key] = merge(result.pop(key, None), entry)
    for key in list(result)[: max(0, len(result) - MAX_ENTRIES)]:
        del result[key]
    return result


def to_json(key: Key, entry: Entry) -> dict[str, Any]:
    """Convert an entry to JSON's types."""
    teams = {
        str(team): {
            "blocks": dict(found.blocks),
            "seconds": found.seconds,
            "search": found.search,
        }
        for team, found in entry.teams.items()
    }
    names = {name: getattr(key, name) for name in FIELDS}
    return {**names, "choice": dict(entry.choice), "teams": teams}


def from_json(value: object) -> tuple[Key, Entry]:
    """Read an entry from JSON's types.

    Raises
    ------
    TypeError, ValueError
        If it differs in form from the output of `to_json`.
    """
    value = _check_object("an entry", value, _ENTRY_FIELDS)
    teams: dict[int, Division] = {}
    written = _check_object("teams", value["teams"], None)
    if len(written) > MAX_TEAMS:
        raise ValueError(f"{len(written)} teams: expected at most {MAX_TEAMS}")
    for text, found in written.items():
        if not re.fullmatch(_TEAM, text):
            raise ValueError(f"team is {text[:40]!r}: expected an integer")
        teams[int(text)] = Division(**_check_object("a division", found, _DIVISION_FIELDS))
    return Key(**{name: value[name] for name in FIELDS}), Entry(value["choice"], teams)


def _check_object(what: str, value: object, names: set[str] | None) -> dict[str, Any]:
    if type(value) is not dict:
        raise TypeError(f"{what} is of type {type(value).__name__}: expected an object")
    if names is not None and value.keys() != names:
        raise ValueError(f"{what} has other fields than {', '.join(sorted(names))}")
    return value


def _check_text(name: str, value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{name} is of type {type(value).__name__}: expected a str")
    if len(value) > MAX_TEXT or not re.fullmatch(_TEXT, value):
        raise ValueError(
            f"{name} is {value[:40]!r}: expected 1 to {MAX_TEXT} printable ASCII characters"
        )
    return value


def _check_float(name: str, value: object) -> float:
    if type(value) not in (float, int):
        raise TypeError(f"{name} is of type {type(value).__name__}: expected a float")
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} is {number!r}: expected a finite number")
    return number


def _check_fields(name: str, value: object) -> Mapping[str, Scalar]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is of type {type(value).__name__}: expected a mapping")
    if len(value) > MAX_FIELDS:
        raise ValueError(f"{name} has {len(value)} fields: expected at most {MAX_FIELDS}")
    checked: dict[str, Scalar] = {}
    for field, item in value.items():
        if not (isinstance(field, str) and len(field) <= MAX_TEXT and re.fullmatch(_NAME, field)):
            raise ValueError(f"{name} has a field {field!r:.40}: expected an identifier")
        if type(item) is int:
            if not 0 <= item <= MAX_INT:
                raise ValueError(f"{name}[{field!r}] is out of the range from 0 to 2**53")
        elif type(item) is not bool:
            _check_text(f"{name}[{field!r}]", item)
        checked[field] = item
    return MappingProxyType(checked)
