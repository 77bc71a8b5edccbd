"""A finding made smaller: what can be left out of its case and still shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fuzz.cases import Case
from fuzz.checking import Finding, check
from fuzz.refusals import predicted

MOST_TRIALS = 200


def _simpler(case: Case) -> Iterator[Case]:
    """Cases that are a step simpler, the largest steps first."""
    p = case.problem
    options = p.options
    for changes in (
        {"wisdom": None}, {"spoiled": None}, {"forms": dict.fromkeys(case.forms, "plain")},
        {"out": None}, {"other_team": None}, {"tiny": False}, {"scale": 0}, {"block": 0},
        {"special": None},
    ):  # fmt: skip
        yield replace(case, **changes)
    problems = [
        replace(p, activation=None),
        replace(p, with_bias=False),
        replace(p, with_residual=False),
        replace(p, batch=1),
        replace(p, padding=0),
        replace(p, stride=1),
        replace(p, dilation=1),
        replace(p, options={**options, "threads": 1}),
    ]
    for name in ("tolerance", "max_workspace"):
        problems.append(replace(p, options={k: v for k, v in options.items() if k != name}))
    for shorter in (lambda n: n // 2, lambda n: n - 1):
        height, width = p.image
        problems.append(replace(p, image=(max(shorter(height), 1), width)))
        problems.append(replace(p, image=(height, max(shorter(width), 1))))
        kh, kw = p.kernel
        problems.append(replace(p, kernel=(max(shorter(kh), 1), kw)))
        problems.append(replace(p, kernel=(kh, max(shorter(kw), 1))))
        each_in, each_out = p.in_channels // p.groups, p.out_channels // p.groups
        for groups, ic, oc in (
            (max(shorter(p.groups), 1), each_in, each_out),
            (p.groups, max(shorter(each_in), 1), each_out),
            (p.groups, each_in, max(shorter(each_out), 1)),
        ):
            problems.append(
                replace(p, groups=groups, in_channels=groups * ic, out_channels=groups * oc)
            )
    for problem in problems:
        yield replace(case, problem=problem)


def shrink(case: Case) -> tuple[Case, str | None]:
    """Give the smallest case found that is a finding, and what it says; None if none smaller."""
    text, trials = None, 0
    while trials < MOST_TRIALS:
        for smaller in _simpler(case):
            # A step that makes the problem impossible does not lead to the same finding.
            if smaller == case or predicted(smaller) != predicted(case):
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
