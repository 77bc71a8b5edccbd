"""Test files and instruction sets that the runs on all emulated CPUs reached together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Account:
    """The account of one run, written by ``pytest --account`` (``tests/shares.py``).

    Parameters
    ----------
    files : mapping of str to mapping of str to int
        For each test file: tests that could run on the CPU (``able``), that ran (``run``), and that
        began and skipped themselves (``skipped``).
    isas : tuple of str
        A line for each instruction set.
    """

    files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    isas: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Account:
        """Read the account of a run; an interrupted run has an empty one."""
        if not path.exists():
            return cls()
        told = json.loads(path.read_text())
        return cls(told["files"], tuple(told["instruction sets"]))


def conclude(accounts: Mapping[str, Account]) -> tuple[list[str], bool]:
    """Merge the accounts of all CPUs.

    Parameters
    ----------
    accounts : mapping of str to Account
        By CPU.

    Returns
    -------
    list of str
        Lines of the report.
    bool
        Whether every file with a test for some CPU ran on one.
    """
    able: dict[str, int] = {}
    run: dict[str, int] = {}
    skipped: dict[str, int] = {}
    for account in accounts.values():
        for name, counts in account.files.items():
            for total, key in ((able, "able"), (run, "run"), (skipped, "skipped")):
                total[name] = total.get(name, 0) + counts[key]
    possible = sorted(name for name, count in able.items() if count)
    missing = [name for name in possible if not run[name]]
    lines = [f"{cpu}: {line}" for cpu, account in accounts.items() for line in account.isas]
    lines.append(
        f"{len(possible) - len(missing)} of {len(possible)} test files that can be emulated ran on "
        f"at least one of {len(accounts)} CPUs, {sum(run.values())} tests in all"
    )
    for name in missing:
        why = f"{skipped[name]} tests skipped themselves" if skipped[name] else "no test was chosen"
        lines.append(f"NOT COVERED: {name}: {why}")
    return lines, not missing
