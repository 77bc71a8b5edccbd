"""``python -m pplconv doctor``: what on this machine holds speed back, a line for each thing."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Callable
from dataclasses import asdict

from .. import _version
from .doctoring.facts import Facts, gather
from .doctoring.findings import SLOW, Finding, examine
from .ending import complain

DESCRIPTION = """\
Look at what holds speed back here: instruction set, cores, CPU quota, teams and other libraries'
threads, neighbours, clocks, memory, wisdom. A short loop of FMAs is timed; all takes about half a
second. Each line begins with ok, note (may be meant so, or costs little) or slow, and what to do
stands behind an arrow.

Exit status: 0; 1 if a line says slow; 2 if a setting is malformed; 130 if interrupted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command line to `parser`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = DESCRIPTION
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def run(options: argparse.Namespace, look: Callable[[], Facts] = gather) -> int:
    """Print the findings.

    Parameters
    ----------
    options : Namespace
        As `add_arguments` describes them.
    look : callable, optional
        Gives the facts.

    Returns
    -------
    int
        Exit status: 0; 1 if something is slow; 2 if a setting is malformed; 130 if interrupted.
    """
    try:
        facts = look()
    except ValueError as error:
        complain("doctor", error)
        return 2
    except KeyboardInterrupt:
        complain("doctor", "interrupted")
        return 130
    found = examine(facts)
    if options.json:
        print(json.dumps(record(facts, found), indent=1))
    else:
        print(layout(found, shutil.get_terminal_size((100, 24)).columns))
    sys.stdout.flush()
    return int(any(finding.state == SLOW for finding in found))


def layout(found: list[Finding], width: int) -> str:
    """Lay findings out for people: one a line; a longer text continues below."""
    names = max(len(finding.what) for finding in found)
    lines = []
    for finding in found:
        head = f"{finding.state:<5} {finding.what:<{names}}  "
        advice = f" -> {finding.advice}" if finding.advice else ""
        lines += textwrap.wrap(
            f"{finding.text}{advice}", max(width - 1, 60), initial_indent=head,
            subsequent_indent=" " * len(head), break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines)


def record(facts: Facts, found: list[Finding]) -> dict[str, object]:
    """Give findings and figures for a JSON report."""
    return {
        "format": 1,
        "pplconv": _version.__version__,
        "slow": sum(finding.state == SLOW for finding in found),
        "findings": [asdict(finding) for finding in found],
        "loop": None if facts.loop is None else asdict(facts.loop),
        "times": asdict(facts.times),
        "condition": asdict(facts.condition),
    }
