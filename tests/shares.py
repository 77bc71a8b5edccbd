"""A share of the suite, and which of its files a run has reached.

``--one-in=N --share=K`` keeps one test in `N` of each file, and at least one of each: of a file
with fewer than `N` tests one in as many as it has. Which ones, the tests' names say. So every share
reaches every file, and all shares together are the whole suite.

``--account=FILE`` leaves an account of the run there: how many tests of each file could run, how
many did, and how many skipped themselves; and a line for each instruction set (`instruction_sets`).
``tools.arm`` puts those of several emulated CPUs together.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "add_options",
    "give_to_controller",
    "kept",
    "select",
    "take_from_worker",
    "write_account",
]

_ABLE = pytest.StashKey[dict[str, int]]()
_REST = "in other shares than {share} of {one_in}"


def add_options(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("shares")
    group.addoption("--one-in", type=int, default=1, metavar="N", help="of each file's tests")
    group.addoption("--share", type=int, default=0, metavar="K", help="which of the N")
    group.addoption("--account", type=Path, metavar="FILE", help="which files a run reached, JSON")


def kept(names: Iterable[str], one_in: int, share: int) -> set[str]:
    """Choose from the tests of one file.

    Parameters
    ----------
    names : iterable of str
        Node ids.
    one_in : int
        Into how many shares they are cut, if they are as many.
    share : int
        Which one.

    Returns
    -------
    set of str
        At least one of them, if there are any.
    """
    # In an order of their own, so that neighbours, which test much the same, fall to all shares.
    order = sorted(names, key=lambda name: (zlib.crc32(name.encode()), name))
    shares = min(one_in, len(order)) or 1
    return set(order[share % one_in % shares :: shares])


def select(config: pytest.Config, items: list[pytest.Item]) -> str:
    """Keep the share of `items` that was asked for; say why the others were left out."""
    one_in, share = config.getoption("one_in"), config.getoption("share")
    files: dict[str, list[str]] = defaultdict(list)
    for item in items:
        files[file_of(item.nodeid)].append(item.nodeid)
    config.stash[_ABLE] = {file: len(names) for file, names in files.items()}
    chosen = set().union(*(kept(names, one_in, share) for names in files.values()))
    left = [item for item in items if item.nodeid not in chosen]
    items[:] = [item for item in items if item.nodeid in chosen]
    if left:
        config.hook.pytest_deselected(items=left)
    return _REST.format(share=share % one_in, one_in=one_in)


def file_of(nodeid: str) -> str:
    """Path of the file that a test is in."""
    return nodeid.partition("::")[0]


def give_to_controller(config: pytest.Config) -> None:
    """Send what a worker collected to the process that writes; all workers collect the same."""
    if hasattr(config, "workeroutput"):
        config.workeroutput["able"] = config.stash.get(_ABLE, {})


def take_from_worker(node: Any) -> None:
    """Take what a worker collected."""
    node.config.stash[_ABLE] = getattr(node, "workeroutput", {}).get("able", {})


def write_account(config: pytest.Config, reporter: Any, lines: list[str]) -> None:
    """Leave the account, if one was asked for.

    Parameters
    ----------
    config : pytest.Config
        Of the process that prints.
    reporter : TerminalReporter
        Which has the reports of all tests.
    lines : list of str
        Of the instruction sets.
    """
    path = config.getoption("account")
    if path is None:
        return
    able = config.stash.get(_ABLE, {})
    files = {file: Counter(able=count, run=0, skipped=0) for file, count in able.items()}
    for outcome in ("passed", "failed", "skipped", "error", "xfailed", "xpassed"):
        for report in reporter.stats.get(outcome, []):
            nodeid = getattr(report, "nodeid", "")
            if file_of(nodeid) in files:
                # One that skips itself has not run; a setup that fails has tried.
                files[file_of(nodeid)]["skipped" if outcome == "skipped" else "run"] += 1
    path.write_text(json.dumps({"files": files, "instruction sets": lines}))
