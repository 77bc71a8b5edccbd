"""Divide the tests into the fast tier, which `make test` runs, and the slow tier.

``--tier=fast`` leaves out

- tests marked ``slow``, which build the package or take many seconds;
- all but `n` cases of a test marked ``sampled(n)``. The cases of these tests resemble one another
  and take most of the suite's time; `n` are drawn anew in each run, from each instruction set in
  turn;
- most random problems of tests that Hypothesis draws (`EXAMPLES` instead of 200).

The fast tier runs everything else whole, above all each case that ever was a bug: such cases are
tests of their own, or cases of tests without the mark. ``--tier=slow`` runs every test that the
fast tier does not run whole, ``--tier=all`` (the default) every test.

A run prints the seed of its draw, and ``--tier-seed`` repeats it. Cases are left out before pytest
makes tests of them: an emulated process takes milliseconds to make each.
"""

from __future__ import annotations

import os
import random
import secrets
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from pplconv import machine
from tests import instruction_sets

T = TypeVar("T")

__all__ = ["add_options", "configure", "deselect", "drawn", "report", "tell_worker", "thin"]

TIERS = ("fast", "slow", "all")
# Random problems of a test in the fast tier.
EXAMPLES = 40
_SEED = "tier_seed"


def add_options(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("tiers")
    group.addoption("--tier", choices=TIERS, default="all", help="what of the suite")
    group.addoption("--tier-seed", type=int, metavar="N", help="repeats the draw of the fast tier")


def configure(config: pytest.Config) -> None:
    """Register the marker; draw one seed for the run and its workers."""
    config.addinivalue_line(
        "markers", "sampled(n): in the fast tier n of its cases, drawn anew in each run"
    )
    told = getattr(config, "workerinput", {}).get(_SEED)
    if told is not None:
        config.option.tier_seed = told
    elif config.option.tier_seed is None:
        config.option.tier_seed = secrets.randbelow(10**6)
    if config.option.tier == "fast" and not config.getoption("hypothesis_profile", None):
        settings.register_profile("fast", settings.get_profile("ci"), max_examples=EXAMPLES)
        settings.load_profile("fast")


def tell_worker(node: Any) -> None:
    """Send the seed to a worker, so that all workers draw the same cases."""
    node.workerinput[_SEED] = node.config.option.tier_seed


def report(config: pytest.Config, reporter: Any) -> None:
    """Print tier, level, CPU and share of the run, and how to repeat the draw."""
    option, cpu = config.option, machine.current()
    draw = f", drawn by --tier-seed={option.tier_seed}" if option.tier == "fast" else ""
    where = ", emulated" if option.emulated else ""
    reporter.section("what ran")
    for name, text in {
        "tier": option.tier + draw,
        "level": os.environ.get("PPLCONV_MAX_ISA") or "all that the CPU has",
        "CPU": f"{cpu.cpu_name or cpu.arch}, {cpu.vendor} {cpu.family} {cpu.model}{where}",
        "share": f"{option.share % option.one_in} of {option.one_in}",
    }.items():
        reporter.line(f"{name:<6} {text}")


def drawn(
    cases: Sequence[T], count: int, name: str, seed: int, kind: Callable[[T], object] = id
) -> list[T]:
    """Choose `count` of a test's cases, in their order.

    Parameters
    ----------
    cases : sequence
        All cases of the test.
    count : int
        How many to choose, at least one.
    name : str
        Name of the test: each test draws for itself.
    seed : int
        Seed of the run.
    kind : callable, optional
        Gives the kind of a case. Cases of one kind resemble each other: a second case of a kind
        is chosen only after all kinds have one.
    """
    if len(cases) <= count:
        return list(cases)
    order = list(range(len(cases)))
    random.Random(zlib.crc32(name.encode()) ^ seed).shuffle(order)
    turns: Counter[object] = Counter()
    turn = {}
    for i in order:
        turn[i] = turns[kind(cases[i])]
        turns[kind(cases[i])] += 1
    return [cases[i] for i in sorted(sorted(order, key=turn.__getitem__)[:count])]


def thin(metafunc: pytest.Metafunc) -> None:
    """Drop cases that the fast tier has not drawn."""
    mark = metafunc.definition.get_closest_marker("sampled")
    option = metafunc.config.option
    if mark is None or option.tier != "fast":
        return
    (count,) = mark.args
    # Pytest makes its tests from this list; `tests/test_tiers.py` fails if it no longer does.
    metafunc._calls[:] = drawn(
        metafunc._calls,
        count,
        metafunc.definition.nodeid,
        option.tier_seed,
        instruction_sets.kind_of_case,
    )


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests of the other tier."""
    tier = config.option.tier
    if tier == "all":
        return
    kept, left = [], []
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        # Hypothesis marks its tests itself.
        part = any(map(item.get_closest_marker, ("sampled", "hypothesis")))
        wanted = not slow if tier == "fast" else slow or part
        (kept if wanted else left).append(item)
    items[:] = kept
    if left:
        config.hook.pytest_deselected(items=left)
