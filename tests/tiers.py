"""Which tests belong to the fast tier, what `make test` runs, and which to the slow one alone.

``--tier=fast`` leaves out

- tests marked ``slow``, which build the package or take many seconds;
- of the cases of a test marked ``sampled(n)`` all but `n`, drawn anew in each run, from each
  instruction set in turn: the tests whose cases take most of the suite's time, and resemble one
  another;
- most random problems of tests that Hypothesis draws (`EXAMPLES` instead of 200).

The fast tier has everything else whole, above all each case that ever was a bug: those are tests of
their own, or cases of tests without the mark. ``--tier=slow`` is every test that the fast tier does
not have whole, ``--tier=all`` (the default) is every test.

A run says which number it draws by, and ``--tier-seed`` repeats it. Cases are left out before
pytest makes tests of them: an emulated process takes milliseconds to make each.
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
    """Register the marker; draw for the whole run, whose workers are told."""
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
    """Have a worker draw as all others do."""
    node.workerinput[_SEED] = node.config.option.tier_seed


def report(config: pytest.Config, reporter: Any) -> None:
    """Say what ran where: tier, level, CPU and share, and how to repeat the draw."""
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
        All of them.
    count : int
        How many, at least one.
    name : str
        Of the test: each draws for itself.
    seed : int
        Of the run.
    kind : callable, optional
        Cases of one kind resemble each other: each kind has one before any has two.
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
    """Leave out cases that the fast tier has not drawn."""
    mark = metafunc.definition.get_closest_marker("sampled")
    option = metafunc.config.option
    if mark is None or option.tier != "fast":
        return
    (count,) = mark.args
    # The list that pytest makes tests of; `tests/test_tiers.py` fails where it is no longer that.
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
