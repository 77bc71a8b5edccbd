"""Engines: right results, and what happens to the ones that are wrong, absent or broken."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.candidates import (
    FAILED,
    OK,
    UNSUPPORTED,
    WRONG,
    check_again,
    make_case,
    prepare_checked,
    silenced,
)
from benchmarks.engines import ENGINES, choose
from benchmarks.engines.base import Engine, Prepared, Unsupported
from benchmarks.problems import parse
from benchmarks.runner import Progress, run_layer
from benchmarks.timing import Settings

SMALL = [
    "mb1ic8ih8oc8kh3ph1",
    "mb1ic3ih21oc16kh7sh2ph3",
    "mb1ic32ih14oc48kh1sh2",
    "mb2ic16ih9iw11oc8kh3kw1ph1pw0dh1",
    "mb1g4ic16ih10oc24kh3ph2dh1",
    "mb1g16ic16ih12oc16kh3sh2ph1",
    "mb1g8ic8ih9oc16kh3ph1",
    "mb1ic64ih1oc5kh1",
]
# NumPy and pplconv must be there; a peer is tested where it is installed.
TESTED = [
    name
    for name, engine in ENGINES.items()
    if engine.ours or name == "numpy" or engine.available().ok
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("text", SMALL)
def test_engine_is_right(name, text, threads):
    candidate = prepare_checked(ENGINES[name], make_case(parse(text)), threads)
    if candidate.status == UNSUPPORTED:
        assert not ENGINES[name].ours
        assert candidate.detail
        return
    assert candidate.status == OK, candidate.detail
    assert candidate.error <= ENGINES[name].tolerance
    assert check_again(candidate, make_case(parse(text))).status == OK


def test_the_engines_of_the_tables():
    assert list(ENGINES) == [
        "pplconv", "pplconv_nhwc", "pplconv_conv2d", "torch", "torch_nhwc", "onednn", "ort",
        "openvino", "ncnn", "mnn", "litert", "numpy",
    ]  # fmt: skip
    assert [engine.name for engine in choose(["numpy", "pplconv"])] == ["pplconv", "numpy"]
    with pytest.raises(ValueError, match="unknown engine numpi: expected some of pplconv"):
        choose(["numpi"])


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_a_version_or_a_reason(name):
    found = ENGINES[name].available()
    assert bool(found.version) == found.ok
    assert bool(found.reason) != found.ok


class Fake(Engine):
    """An engine made of a function; counts its calls."""

    name = "fake"

    def __init__(self, compute):
        self.compute = compute
        self.calls = 0

    def prepare(self, problem, x, w, threads):
        """Bind the function."""
        data = x.copy()

        def call():
            self.calls += 1
            return self.compute(problem, data, w)

        return Prepared(call, lambda y: y)


@pytest.fixture
def case():
    return make_case(parse("mb1ic2ih4oc3kh3ph1"))


def right(problem, x, w):
    return make_case(problem).expected.astype(np.float32)


def test_a_wrong_engine_is_reported_and_never_timed(case):
    engine = Fake(lambda problem, x, w: right(problem, x, w) * np.float32(1.001))
    candidate = prepare_checked(engine, case, 1)
    assert candidate.status == WRONG
    assert "error 1.0e-03" in candidate.detail
    assert candidate.prepared is None
    checked = engine.calls
    result = run_layer(
        case.problem, [engine], 1, Settings(rounds=1, min_seconds=1e-4), None, Progress(1)
    )
    assert result.entries["fake"].status == WRONG
    assert result.entries["fake"].seconds is None
    # Two calls to check it, and none to time it.
    assert engine.calls == checked + 2


def test_an_engine_that_spoils_its_input_is_wrong(case):
    def spoil(problem, x, w):
        y = right(problem, x, w) if x.any() else np.zeros(problem.output_shape, np.float32)
        x[:] = 0
        return y

    assert prepare_checked(Fake(spoil), case, 1).status == WRONG


def test_an_engine_that_turns_wrong_while_it_is_timed_has_no_time(case):
    engine = Fake(None)
    engine.compute = lambda problem, x, w: right(problem, x, w) * (1 if engine.calls < 6 else 2)
    result = run_layer(
        case.problem, [engine], 1, Settings(rounds=2, min_seconds=1e-3), None, Progress(1)
    )
    assert result.entries["fake"].status == WRONG
    assert result.entries["fake"].seconds is None


def test_a_right_engine_is_timed(case):
    engine = Fake(right)
    result = run_layer(
        case.problem, [engine], 1, Settings(rounds=3, min_seconds=1e-3), None, Progress(1)
    )
    entry = result.entries["fake"]
    assert entry.status == OK
    assert len(entry.rounds) == 3
    assert entry.seconds == min(entry.rounds) > 0
    assert result.peak is None


@pytest.mark.parametrize(
    ("error", "status"), [(Unsupported("no groups"), UNSUPPORTED), (ValueError("oh"), FAILED)]
)
def test_an_engine_that_raises_does_not_end_the_run(case, error, status):
    def fail(problem, x, w):
        raise error

    candidate = prepare_checked(Fake(fail), case, 1)
    assert candidate.status == status
    assert str(error) in candidate.detail


def test_an_interrupt_does(case):
    def interrupt(problem, x, w):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_checked(Fake(interrupt), case, 1)


def test_a_candidate_that_fails_later_has_no_time(case):
    candidate = prepare_checked(Fake(right), case, 1)

    def fail():
        raise RuntimeError("gone")

    broken = dataclasses.replace(candidate, prepared=Prepared(fail, lambda y: y))
    assert check_again(broken, case).status == FAILED


def test_native_chatter_is_kept_off_the_streams():
    code = (
        "import os, sys\n"
        "from benchmarks.candidates import silenced\n"
        "with silenced():\n"
        "    os.write(1, b'noise'); os.write(2, b'noise'); print('noise')\n"
        "print('table')\n"
    )
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("table\n", "")


def test_the_streams_are_restored_after_an_error(capfd):
    with pytest.raises(RuntimeError), silenced():
        raise RuntimeError
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"
