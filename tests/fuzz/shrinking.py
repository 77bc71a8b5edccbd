"""A finding made smaller: what can be left out of its case and still shows it."""

from __future__ import annotations

from tests.fuzz.case import Case, Finding
from tests.fuzz.checking import check

MOST_TRIALS = 200


def shrink(case: Case) -> tuple[Case, str | None]:
    """Give the smallest case found that is a finding, and what it says; None if none smaller."""
    text, trials = None, 0
    while trials < MOST_TRIALS:
        for smaller in case.simpler():
            # A step that makes the problem impossible does not lead to the same finding.
            if smaller == case or smaller.predicted() != case.predicted():
                continue
            trials += 1
            try:
                check(smaller)
            except Finding as finding:
                case, text = smaller, str(finding)
                break
        else:
            break
    return case, text
