"""The pytest-benchmark suite: a group a layer and team, a benchmark an engine.

``pytest benchmarks --nets resnet_50 --engines pplconv,ort --bench-threads 1,2``. It measures as
``benchmarks.run`` does: the engines of a layer are checked, and visited in turn. pytest-benchmark
gets the time of a call in each visit as a round, keeps histories of it (``--benchmark-save``,
``--benchmark-compare``), and a summary of 80 columns follows its table.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.candidates import FAILED, UNSUPPORTED, WRONG, silenced
from benchmarks.engines.base import Engine
from benchmarks.problems import Problem
from benchmarks.results import LayerResult

_readings: Iterator[float] = itertools.repeat(0.0)


def visits_in_turn() -> float:
    """Give pytest-benchmark the begin or the end of the next visit, which was timed before."""
    return next(_readings)


@pytest.mark.benchmark(timer=visits_in_turn)
def test_conv2d(
    problem: Problem, threads: int, engine: Engine, layer: LayerResult, benchmark: Any
) -> None:
    """Report one engine on one layer; the first one of a layer measures all of them."""
    with silenced():
        found = engine.available()
    if not found.ok:
        pytest.skip(f"{engine.name} is absent: {found.reason}")
    entry = layer.entries[engine.name]
    if entry.status == UNSUPPORTED:
        pytest.skip(f"{engine.name}: {entry.detail}")
    assert entry.status not in (WRONG, FAILED), f"{engine.name}: {entry.detail}"
    benchmark.group = f"{problem.name}, {threads} thread(s)"
    benchmark.extra_info["problem"] = str(problem)
    benchmark.extra_info["version"] = found.version
    benchmark.extra_info["error"] = entry.error
    global _readings
    _readings = itertools.chain.from_iterable((0.0, seconds) for seconds in entry.rounds)
    benchmark.pedantic(lambda: None, rounds=len(entry.rounds))
    if benchmark.stats is not None:
        median = benchmark.stats.stats.median
        benchmark.extra_info["gflops"] = problem.flops / median / 1e9
