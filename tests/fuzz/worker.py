"""The loop of one process: cases of one instruction set, one after the other."""

from __future__ import annotations

import json
import os
import struct
import time
from collections import Counter
from typing import Any, TextIO

from pplconv.planner import target
from tests.fuzz.case import Case, Finding
from tests.fuzz.cases import draw
from tests.fuzz.checking import Outcome, check
from tests.fuzz.shrinking import shrink

REPORT_SECONDS = 0.5
ENOUGH = 20
"""Findings after which one process stops: more of the same help nobody."""


def instruction_sets() -> tuple[str, ...]:
    """Instruction sets of four consecutive seeds: half of all cases have the best one."""
    usable = target.here().isas("f32")
    return usable[-1], usable[-1], usable[-min(2, len(usable))], usable[0]


def figures(case: Case, outcome: Outcome, isa: str) -> list[str]:
    """What to count a case under, as ``"heading: item"``."""
    found = [f"instruction set: {isa}", f"layout: {case.layout}", f"call: {case.call}"]
    found.append(f"dtype: {case.problem.dtype}")
    if outcome.refusal is not None:
        return [*found, f"refused: {outcome.refusal}"]
    asked = case.problem.options.get("algorithm", "auto")
    shown = asked if outcome.algorithm == "not shown" else outcome.algorithm
    found.append(f"algorithm: {shown if shown != 'auto' else 'auto, not shown'}")
    found.append(f"asked for: {'auto' if asked == 'auto' else 'an algorithm'}")
    if outcome.teams > 1:
        found.append("teams: same bytes with another team")
    if case.special:
        found.append(f"special numbers: {case.special}")
    if case.wisdom:
        found.append(f"wisdom file: {case.wisdom}")
    return found


def describe(case: Case) -> str:
    """Write a case as the call that it is."""
    arrays = [f"{name}={case.forms[name]}" for name, a in case.plain.items() if a is not None]
    lines = [
        case.text,
        f"arrays: {', '.join(arrays)}, out {'not given' if case.out is None else case.out}",
        f"tiny caches: {case.tiny}, other team: {case.other_team}, spoiled: {case.spoiled}, "
        f"wisdom: {case.wisdom}, first operand * 2**{case.scale}, special: {case.special}",
        repr(case),
    ]
    return "\n".join(lines)


def run(seeds: range, isa: str, seconds: float, mark: int | None, out: TextIO) -> None:
    """Run seeds and write lines of JSON: what was counted, and findings.

    Parameters
    ----------
    seeds : range
        Of these, those of `isa` are run.
    isa : str
        The value of ``PPLCONV_MAX_ISA`` in this process.
    seconds : float
        When to stop.
    mark : int or None
        A file that holds the seed which is being run, in case this process is found dead.
    out : text file
        Where lines go.
    """
    end = time.monotonic() + seconds
    last = time.monotonic()
    counts: Counter[str] = Counter()
    sets = instruction_sets()
    findings = 0
    next_seed = seeds.start

    def tell(**what: Any) -> None:
        print(json.dumps(what), file=out, flush=True)

    try:
        for seed in seeds:
            if sets[seed % len(sets)] != isa:
                next_seed = seed + 1
                continue
            if mark is not None:
                os.pwrite(mark, struct.pack("<q", seed), 0)
            case = draw(seed)
            try:
                counts.update(figures(case, check(case), isa))
            except Finding as finding:
                findings += 1
                tell(finding=seed, isa=isa, text=str(finding), call=describe(case),
                     smaller=shrunk(case))  # fmt: skip
            counts["problems"] += 1
            next_seed = seed + 1
            now = time.monotonic()
            if now - last > REPORT_SECONDS:
                tell(next=next_seed, counts=counts)
                counts.clear()
                last = now
            if now > end or findings >= ENOUGH:
                break
    finally:
        tell(next=next_seed, counts=counts)


def shrunk(case: Case) -> str | None:
    """Describe the smallest case that still is a finding, if there is a smaller one."""
    small, text = shrink(case)
    return None if text is None else f"{describe(small)}\n{text}"
