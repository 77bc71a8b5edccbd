"""What the runs on all emulated CPUs reached together: test files and instruction sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Account:
    """What a run says of itself, as ``pytest --account`` writes it (``tests/shares.py``).

    Parameters
    ----------
    files : mapping of str to mapping of str to int
        Of each test file how many tests could run on the CPU (``able``), how many did (``run``),
        and how many were begun and skipped themselves (``skipped``).
    isas : tuple of str
        A line for each instruction set.
    """

    files: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    isas: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Account:
        """Read the account of a run; that of one that was broken off is empty."""
        if not path.exists():
            return cls()
        told = json.loads(path.read_text())
        return cls(told["files"], tuple(told["instruction sets"]))


def conclude(accounts: Mapping[str, Account]) -> tuple[list[str], bool]:
    """Put the accounts of all CPUs together.

    Parameters
    ----------
    accounts : mapping of str to Account
        By CPU.

    Returns
    -------
    list of str
        What is to be said of it.
    bool
        Whether each file of which a test can run on one of the CPUs has run on one.
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
