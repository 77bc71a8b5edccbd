"""The pytest-benchmark suite: a group a layer and team, a benchmark an engine.

``pytest benchmarks --nets resnet_50 --engines pplconv,ort --bench-threads 1,2``. It shares data,
checks and timing core with ``benchmarks.run``. The rounds of ``benchmarks.run`` interleave the
engines: prefer it for ratios between engines on a noisy machine. This suite keeps histories
(``--benchmark-save``, ``--benchmark-compare``).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import pytest

from benchmarks.candidates import (
    FAILED,
    UNSUPPORTED,
    WRONG,
    Case,
    check_again,
    make_case,
    prepare_checked,
    silenced,
)
from benchmarks.engines.base import Engine
from benchmarks.options import SETTLE_SECONDS
from benchmarks.problems import Problem
from benchmarks.timing import MIN_SAMPLES, Clock, Settings, calls_per_sample, settle, time_calls

_case = lru_cache(maxsize=1)(make_case)


def test_conv2d(problem: Problem, threads: int, engine: Engine, benchmark: Any) -> None:
    """Check one engine on one layer, then time it."""
    with silenced():
        found = engine.available()
    if not found.ok:
        pytest.skip(f"{engine.name} is absent: {found.reason}")
    case: Case = _case(problem)
    candidate = prepare_checked(engine, case, threads)
    if candidate.status == UNSUPPORTED:
        pytest.skip(f"{engine.name}: {candidate.detail}")
    if candidate.prepared is None:
        pytest.fail(f"{engine.name} is {candidate.status}: {candidate.detail}")
    call = candidate.prepared.call
    settings = Settings(settle_seconds=SETTLE_SECONDS if threads > 1 else 0.0)
    clock = Clock()
    number = calls_per_sample(call, clock)
    sample = time_calls(call, number, clock)
    settle(settings, clock)
    benchmark.group = f"{problem.name}, {threads} thread(s)"
    benchmark.pedantic(
        call,
        iterations=number,
        rounds=max(MIN_SAMPLES, math.ceil(settings.min_seconds / sample)),
        warmup_rounds=1,
    )
    checked = check_again(candidate, case)
    assert checked.status not in (WRONG, FAILED), checked.detail
    benchmark.extra_info["problem"] = str(problem)
    benchmark.extra_info["version"] = found.version
    benchmark.extra_info["error"] = checked.error
    if benchmark.stats is not None:
        median = benchmark.stats.stats.median
        benchmark.extra_info["gflops"] = problem.flops / median / 1e9
