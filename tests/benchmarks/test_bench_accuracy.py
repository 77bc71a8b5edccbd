"""Error against speed: every algorithm, once for each result that it can give."""

from __future__ import annotations

import os

import numpy as np
import pytest

import pplconv
from benchmarks import accuracy, wisdom
from benchmarks.candidates import OK, make_case, prepare_checked
from benchmarks.engines import ENGINES
from benchmarks.engines.base import Availability
from benchmarks.problems import parse
from benchmarks.recorded import load
from benchmarks.reference import make_data, reference
from benchmarks.runner import Progress
from benchmarks.timing import Settings
from tests.benchmarks.known_runs import FAST, TINY

LAYER = parse('mb1ic4ih6oc5kh3ph1n"net:tiny*1"')
QUICK = Settings(rounds=1, min_seconds=1e-4)


def test_every_algorithm_with_every_tolerance():
    there = Availability(ok=True, version="1")
    gone = Availability(ok=False, reason="none")
    found = [
        (ENGINES["pplconv"], there),
        (ENGINES["pplconv_nhwc"], gone),
        (ENGINES["numpy"], there),
    ]
    made = [engine.name for engine, _ in accuracy.ways(found, [1e-6, 1e-3])]
    assert made == [
        *(f"pplconv@{name}@{t}" for name in accuracy.algorithms() for t in ("1e-6", "1e-3")),
        "pplconv_nhwc",
        "numpy",
    ]
    assert {"pointwise", "im2col"} <= set(accuracy.algorithms())


def test_only_results_of_their_own_are_timed(monkeypatch):
    x, w = make_data(LAYER)
    exact = reference(LAYER, x, w).astype(np.float32)

    def conv2d(w, *, tolerance, algorithm, **_):
        if algorithm == "direct":
            raise ValueError('algorithm="direct" cannot serve: no')
        # As Winograd would be: 1e-5 gives the bits of 1e-6, 1e-4 others.
        error = 5e-5 if algorithm == "winograd" and tolerance >= 1e-4 else 0.0
        return lambda x, out: exact * np.float32(1 + error)

    monkeypatch.setattr(pplconv, "Conv2d", conv2d)
    engines = [
        ENGINES["pplconv"].forced(name, asked)
        for name in ("direct", "im2col", "winograd")
        for asked in (1e-6, 1e-5, 1e-4)
    ]
    result = accuracy.measure(LAYER, engines, 1, QUICK, None, Progress(1))
    assert {name: entry.status for name, entry in result.entries.items()} == {
        "pplconv@direct@1e-6": "unsupported",
        "pplconv@im2col@1e-6": "ok",
        "pplconv@winograd@1e-6": "ok",
        "pplconv@winograd@1e-4": "ok",
    }
    assert result.entries["pplconv@winograd@1e-4"].error == pytest.approx(5e-5, rel=0.01)
    assert result.entries["pplconv@im2col@1e-6"].seconds > 0
    rows = accuracy.table("t", [result]).rows
    assert [row[1] for row in rows] == [name for name in result.entries if "direct" not in name]


def test_an_algorithm_beyond_its_tolerance_is_wrong_and_not_timed(monkeypatch):
    x, w = make_data(LAYER)
    off = (reference(LAYER, x, w) * 1.001).astype(np.float32)
    monkeypatch.setattr(pplconv, "Conv2d", lambda w, **_: lambda x, out: off)
    engine = ENGINES["pplconv"].forced("winograd", 1e-4)
    entry = accuracy.measure(LAYER, [engine], 1, QUICK, None, Progress(1)).entries[engine.name]
    assert (entry.status, entry.seconds) == ("wrong", None)


def test_the_tool(ran):
    found = ran(accuracy.main, *TINY, *FAST, "--engines", "pplconv,numpy")
    assert "mobilenet, 1 thread: error against speed" in found.out
    assert "pplconv@im2col@1e-6" in found.out
    # A 1x1 algorithm cannot serve a depthwise layer, and the notes say so.
    assert 'algorithm="pointwise" cannot serve' in found.out
    run = load(found.record)
    assert [layer.problem.layer for layer in run.layers] == ["conv11", "conv6/dw"]
    assert {one.algorithm for one in run.identities} == {*accuracy.algorithms(), ""}
    assert found.plain["command"].startswith("python -m benchmarks.accuracy")


def test_a_run_neither_reads_nor_leaves_wisdom(monkeypatch):
    cleared = []

    class Wisdom:
        """Stands in for the module."""

        @staticmethod
        def clear():
            cleared.append(os.environ["PPLCONV_WISDOM"])

    monkeypatch.setattr(pplconv, "wisdom", Wisdom, raising=False)
    monkeypatch.setenv("PPLCONV_WISDOM", "theirs")
    wisdom.forget()
    assert cleared == []
    with wisdom.private():
        wisdom.forget()
        case = make_case(LAYER)
        for name in ("pplconv", "pplconv_nhwc"):
            assert prepare_checked(ENGINES[name], case, 1).status == OK
    assert cleared == ["off"] * 3
    assert os.environ["PPLCONV_WISDOM"] == "theirs"
    monkeypatch.delenv("PPLCONV_WISDOM")
    with wisdom.private():
        assert os.environ["PPLCONV_WISDOM"] == "off"
    assert "PPLCONV_WISDOM" not in os.environ
