"""Run a share of the suite, and record which of its files a run has reached.

``--one-in=N --share=K`` keeps about one test in `N`, and at least one of each file. A hash of the
test's name decides its share, so all shares together are the whole suite. Cases outside the share
are not made into tests (`thin`): under emulation that takes milliseconds for each, and there are
tens of thousands.

``--part=K/N`` divides the files among `N` runs: one file in `N` is collected, and `N` times as many
of its tests run. So `N` emulated CPUs together import and collect little more than the suite once.
Files about instruction sets are in each part, because the CPUs have different sets.

``--account=FILE`` writes an account of the run to a file: how many tests of each file could run,
how many did, how many skipped themselves, and a line for each instruction set
(`instruction_sets`). ``tools.arm`` merges the accounts of several emulated CPUs.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "ABLE",
    "add_options",
    "drawn",
    "file_of",
    "ignore",
    "in_part",
    "kept",
    "select",
    "thin",
    "write_account",
]

# How many tests of each file could run.
ABLE = pytest.StashKey[dict[str, int]]()
# How many cases each test with several cases had before `thin`.
_CASES = pytest.StashKey[dict[str, int]]()
_REST = "in other shares than {share} of {one_in}"
# The room and the files whose tests name instruction sets.
_ROOM_OF_SETS = "kernels"
_NAMES_SETS = re.compile(r"\b(isas?|LADDER|needs_isa|cap|every_cap)\b")
_HERE = Path(__file__).resolve().parent


def add_options(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("shares")
    group.addoption("--one-in", type=int, default=1, metavar="N", help="of all tests")
    group.addoption("--share", type=int, default=0, metavar="K", help="which of the N")
    group.addoption("--part", metavar="K/N", help="of the files, those of one CPU of N")
    group.addoption("--account", type=Path, metavar="FILE", help="which files a run reached, JSON")


def _place(name: str) -> tuple[int, str]:
    # Order by hash: neighbours, which test nearly the same, are spread over all shares.
    return zlib.crc32(name.encode()), name


def drawn(names: Iterable[str], one_in: int, share: int) -> set[str]:
    """Choose from the cases of one test: its part of the share, at least one of them.

    Parameters
    ----------
    names : iterable of str
        Ids of the cases.
    one_in : int
        Number of shares.
    share : int
        Number of this share.

    Returns
    -------
    set of str
    """
    order = sorted(names, key=_place)
    if len(order) >= one_in:
        return set(order[share % one_in :: one_in])
    # A single case, a different one in each share that has the test (`kept`).
    return {order[share % one_in // (one_in // len(order)) % len(order)]}


def kept(tests: Mapping[str, int], one_in: int, share: int) -> set[str]:
    """Choose from the tests of one file, after `drawn` has chosen their cases.

    Parameters
    ----------
    tests : mapping of str to int
        Node ids without cases, and how many cases each test has.
    one_in : int
        Number of shares.
    share : int
        Number of this share.

    Returns
    -------
    set of str
        Over all shares, each test is chosen once for each of its cases. A share has at least one
        test, if there are any.
    """
    share %= one_in
    found = set()
    for name, cases in tests.items():
        every = max(one_in // cases, 1)
        if share % every == zlib.crc32(name.encode()) % every:
            found.add(name)
    order = sorted(tests, key=_place)
    return found or set(order[share % len(order) :][:1] if order else ())


def ignore(path: Path, config: pytest.Config) -> str:
    """Say why a file is not collected: it is in another part. Empty if it is collected."""
    part = config.getoption("part")
    if part is None or path.suffix != ".py" or in_part(path, *map(int, part.split("/"))):
        return ""
    return f"files in other parts than {part}"


def in_part(path: Path, part: int, parts: int) -> bool:
    """Whether a part has a file of tests.

    Parameters
    ----------
    path : Path
        The file.
    part, parts : int
        Number of the part, and how many parts there are.

    Returns
    -------
    bool
        True for one part; for each part if the file is about instruction sets.
    """
    return _is_about_sets(path) or zlib.crc32(path.name.encode()) % parts == part % parts


@cache
def _is_about_sets(path: Path) -> bool:
    return path.parent == _HERE / _ROOM_OF_SETS or bool(_NAMES_SETS.search(path.read_text()))


def _share_of(path: Path, config: pytest.Config) -> tuple[int, int]:
    """Give a file's share: one in how many of its tests, and which of them."""
    one_in, share, part = (config.getoption(name) for name in ("one_in", "share", "part"))
    if part is None or _is_about_sets(path):
        return one_in, share
    parts = int(part.partition("/")[2])
    return max(one_in // parts, 1), share // parts


def thin(metafunc: pytest.Metafunc) -> None:
    """Drop cases of other shares before they become tests."""
    config, calls = metafunc.config, metafunc._calls
    if config.getoption("one_in") == 1 or len(calls) < 2:
        return
    cases = config.stash.setdefault(_CASES, {})
    cases[metafunc.definition.nodeid] = len(calls)
    one_in, share = _share_of(metafunc.definition.path, config)
    chosen = drawn((call.id for call in calls), one_in, share)
    calls[:] = [call for call in calls if call.id in chosen]


def select(config: pytest.Config, items: list[pytest.Item]) -> tuple[str, int]:
    """Keep the requested share of `items`; return why others are left out, and how many."""
    one_in, share = config.getoption("one_in"), config.getoption("share")
    if one_in == 1:
        config.stash[ABLE] = dict(Counter(file_of(item.nodeid) for item in items))
        return "", 0
    cases = config.stash.get(_CASES, {})
    files: dict[Path, dict[str, int]] = defaultdict(dict)
    for item in items:
        name = _test_of(item.nodeid)
        files[item.path][name] = cases.get(name, 1)
    able = {file_of(next(iter(tests))): sum(tests.values()) for tests in files.values()}
    config.stash[ABLE] = able
    chosen = set().union(*(kept(tests, *_share_of(path, config)) for path, tests in files.items()))
    left = [item for item in items if _test_of(item.nodeid) not in chosen]
    items[:] = [item for item in items if _test_of(item.nodeid) in chosen]
    if left:
        config.hook.pytest_deselected(items=left)
    reason = _REST.format(share=share % one_in, one_in=one_in)
    return reason, sum(able.values()) - len(items)


def file_of(nodeid: str) -> str:
    """Path of the file that a test is in."""
    return nodeid.partition("::")[0]


def _test_of(nodeid: str) -> str:
    """Node id of a test without its case."""
    return nodeid.partition("[")[0]


def write_account(config: pytest.Config, reporter: Any, lines: list[str]) -> None:
    """Write the account, if ``--account`` asks for one.

    Parameters
    ----------
    config : pytest.Config
        The configuration of the process that prints.
    reporter : TerminalReporter
        Holds the reports of all tests.
    lines : list of str
        One line for each instruction set.
    """
    path = config.getoption("account")
    if path is None:
        return
    able = config.stash.get(ABLE, {})
    files = {file: Counter(able=count, run=0, skipped=0) for file, count in able.items()}
    for outcome in ("passed", "failed", "skipped", "error", "xfailed", "xpassed"):
        for report in reporter.stats.get(outcome, []):
            nodeid = getattr(report, "nodeid", "")
            if file_of(nodeid) in files:
                # A test that skips itself has not run; a test whose setup fails has.
                files[file_of(nodeid)]["skipped" if outcome == "skipped" else "run"] += 1
    path.write_text(json.dumps({"files": files, "instruction sets": lines}))
