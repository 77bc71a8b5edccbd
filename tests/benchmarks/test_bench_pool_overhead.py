"""The benchmark of pools, end to end on requests that take no time."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import pool_overhead

FAST = ["--rounds", "2", "--min-ms", "1"]


@pytest.mark.slow
def test_every_case_is_checked_and_timed(ran):
    found = ran(pool_overhead.main, *FAST, "--bytes", "16,65536")
    assert "What a request costs besides its model's call, 1 instance of 1 thread: µs" in found.out
    assert "command  " in found.out
    assert "python -m benchmarks.pool_overhead --rounds 2" in found.out
    cases = found.plain["cases"]
    assert [(case["mode"], case["request"], case["answer"]) for case in cases] == [
        (mode, request, answer)
        for mode in ("thread", "process")
        for request, answer in ((16, 16), (65536, 16), (16, 16), (65536, 65536))
    ]
    for case in cases:
        over = case["over_seconds"]
        assert 0 < over["best"] <= over["median"] <= over["p95"]
        assert over["stream"] > 0 and case["model_seconds"] > 0 and not case["detail"]


@pytest.mark.slow
def test_a_wrong_answer_is_told_and_not_timed(capfd, monkeypatch):
    made = []

    def make_fickle():
        made.append(1)
        # The pool's model is the first one; those that it is compared with follow.
        return (lambda x: x + 1) if len(made) == 1 else (lambda x: x)

    monkeypatch.setattr(pool_overhead, "FACTORIES", {"fickle": make_fickle})
    assert pool_overhead.main([*FAST, "--modes", "thread", "--bytes", "16"]) == 1
    out = capfd.readouterr().out
    assert "note: thread, 16 bytes: 4 of 4 numbers are wrong" in out
    assert "thread             16            16      -     -       -    -       -" in out


def test_an_answer_of_another_kind_is_wrong():
    case = pool_overhead.Case("thread", "echo", 16, 16)

    class Pool:
        def submit(self, x):
            return self

        def result(self):
            return [1.0]

    pool_overhead.check(Pool(), case, np.ones(4, np.float32))
    assert case.detail == "answer is [1.0]"


def test_what_a_pool_adds_is_what_the_model_does_not_take():
    case = pool_overhead.Case("thread", "echo", 16, 16, model_seconds=1.0)
    case.requests = [float(i) for i in range(20, 0, -1)]
    case.streams = [5.0, 4.0]
    assert case.over() == {"best": 0.0, "median": 9.5, "p95": 18.0, "stream": 3.0}
