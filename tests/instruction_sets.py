"""Count which instruction sets a run tests, and print at its end which it does not, and why.

A test belongs to an instruction set if it has a parameter ``row`` of the kernel table or ``isa``,
or the marker ``needs_isa(name)``. Where the CPU lacks the set, or ``PPLCONV_MAX_ISA`` caps it, such
a test is left out when it is collected, and counted. ``PPLCONV_TEST_REQUIRE_ISA=avx512`` ends a
run before its first test if the run would leave out a set that the variable names.

``--unnamed`` leaves out all tests of an instruction set, and tests with a parameter ``cap``: the
run's cap does not change the kernels that they call, so one run without a cap serves all caps.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from pplconv.architecture import owner
from tests import absent
from tests.levels import LADDER, MACHINE, why_not

__all__ = [
    "LEFT_OUT",
    "REQUIRE",
    "add_options",
    "configure",
    "deselect",
    "kind_of_case",
    "lines",
    "named_by",
    "report",
    "thin",
]

REQUIRE = "PPLCONV_TEST_REQUIRE_ISA"
_OWN = "instruction set"
# The key that counts tests left out by ``--unnamed``, beside the names of instruction sets.
_NAMED = "named"
LEFT_OUT = pytest.StashKey[Counter]()


def add_options(parser: pytest.Parser) -> None:
    """Declare the option."""
    group = parser.getgroup("instruction sets")
    group.addoption("--unnamed", action="store_true", help="no tests that name an instruction set")


def configure(config: pytest.Config) -> None:
    """Register the marker; refuse required instruction sets that cannot run.

    Raises
    ------
    pytest.UsageError
        If a required instruction set would not be tested, or a variable names an unknown one.
    """
    config.addinivalue_line("markers", "needs_isa(name): calls kernels of that instruction set")
    problems = [absent.usage_error()] if absent.usage_error() else []
    for name in filter(None, os.environ.get(REQUIRE, "").replace(" ", "").split(",")):
        if name not in LADDER:
            problems.append(f"{REQUIRE} names {name}, expected some of {', '.join(LADDER)}")
        elif why_not(name):
            problems.append(f"{REQUIRE} names {name}, which would not run: {why_not(name)}")
    if problems:
        raise pytest.UsageError(*problems)


def isa_of(item: pytest.Item) -> str | None:
    """Give the instruction set of this architecture that a test belongs to, or None.

    A test marked with another architecture's set skips, and does not count as left out.
    """
    mark = item.get_closest_marker("needs_isa")
    if mark:
        name = str(mark.args[0])
        if name not in LADDER:
            item.add_marker(pytest.mark.skip(reason=f"{name} is {owner(name)}'s, not {MACHINE}'s"))
        return name if name in LADDER else None
    return named_by(getattr(getattr(item, "callspec", None), "params", {}))


def named_by(params: Mapping[str, Any]) -> str | None:
    """Give the instruction set of this architecture that a case's parameters name, or None."""
    row = params.get("row")
    name = row.get("isa") if isinstance(row, dict) else params.get("isa")
    return name if isinstance(name, str) and name in LADDER else None


def thin(metafunc: pytest.Metafunc) -> None:
    """Drop cases whose instruction set does not run here, and count them."""
    counts = metafunc.config.stash.setdefault(LEFT_OUT, Counter())
    calls, kept, left = metafunc._calls, [], []
    for call in calls:
        reason = _why_left_out(isa_of_case(call), call.params, metafunc.config)
        left.append(reason) if reason else kept.append(call)
    if kept:  # else `deselect` leaves out the whole test
        counts.update(left)
        calls[:] = kept


def _why_left_out(name: str | None, params: Mapping[str, Any], config: pytest.Config) -> str:
    """Give the key that counts a test that is left out; empty if the test runs."""
    if name is not None and why_not(name):
        return name
    named = name is not None or params.get("cap") in LADDER  # the test sets the cap itself
    return _NAMED if named and config.option.unnamed else ""


def isa_of_case(call: Any) -> str | None:
    """Give the instruction set that a case belongs to, by its marks or by its parameters."""
    marks = [mark.args[0] for mark in call.marks if mark.name == "needs_isa"]
    return next((name for name in marks if name in LADDER), None) or named_by(call.params)


def kind_of_case(call: Any) -> tuple[str | None, str | None]:
    """Give the instruction set of a case and the operation of its kernel; None for one it lacks."""
    row = call.params.get("row")
    return isa_of_case(call), row.get("op") if isinstance(row, dict) else None


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of instruction sets that do not run here, and count them."""
    counts = config.stash.setdefault(LEFT_OUT, Counter())
    kept, left = [], []
    for item in items:
        name = isa_of(item)
        if reason := _why_left_out(
            name, getattr(getattr(item, "callspec", None), "params", {}), config
        ):
            counts[reason] += 1
            left.append(item)
            continue
        kept.append(item)
        if name is not None:
            item.user_properties.append((_OWN, name))
    items[:] = kept
    if left:
        config.hook.pytest_deselected(items=left)


def lines(config: pytest.Config, reporter: Any) -> list[str]:
    """Give a line for each instruction set of this architecture, lowest first."""
    ran: Counter[str] = Counter()
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in reporter.stats.get(outcome, []):
            ran.update(name for key, name in getattr(report, "user_properties", ()) if key == _OWN)
    return describe(ran, config.stash.get(LEFT_OUT, Counter()))


def describe(ran: Counter[str], left_out: Counter[str]) -> list[str]:
    """Give a line for each instruction set: how many tests ran, or why none did."""
    found = []
    best = [name for name in LADDER if not why_not(name)][-1]
    width = max(map(len, LADDER))
    for name in LADDER:
        if why_not(name):
            text = f"NOT RUN HERE: {why_not(name)}; {left_out[name]} tests of its own left out"
        else:
            text = f"run: {ran[name]} tests of its own" if not left_out[_NAMED] else "run"
            text += ", and all that name none" if name == best else ""
        found.append(f"{name:<{width}} {text}")
    if left_out[_NAMED]:
        found.append(f"{left_out[_NAMED]} tests name one of these: no cap changes how they run")
    return found


def report(config: pytest.Config, reporter: Any) -> list[str]:
    """Print the lines, and return them."""
    said = lines(config, reporter)
    reporter.section("instruction sets")
    for line in said:
        reporter.line(line)
    return said
