"""Engines: right results, and the status of engines that are wrong, absent or broken."""

from __future__ import annotations

import dataclasses
import os
import sys
import types
from functools import partial
from typing import ClassVar

import numpy as np
import pytest

import pplconv
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
from benchmarks.engines.base import Engine, Identity, Prepared, Unsupported
from benchmarks.memory import ALIGNMENT, aligned
from benchmarks.problems import parse
from benchmarks.runner import Progress, run_layer
from benchmarks.timing import Settings
from tests.api.blocks import in_blocks, out_of_blocks
from tests.benchmarks import known_runs
from tests.benchmarks.known_runs import RAGGED, python, without

SMALL = [*known_runs.SMALL, "mb1g16ic16ih12oc16kh3sh2ph1", "mb1g8ic8ih9oc16kh3ph1"]
# NumPy and pplconv must be there; a peer is tested where it is installed, and so is the blocked
# layout where this pplconv has it.
MUST = ("pplconv", "pplconv_nhwc", "pplconv_conv2d", "numpy")
TESTED = [name for name, engine in ENGINES.items() if name in MUST or engine.available().ok]


@pytest.mark.sampled(74)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("text", SMALL)
def test_engine_is_right(name, text, threads):
    candidate = prepare_checked(ENGINES[name], make_case(parse(text)), threads)
    if candidate.status == UNSUPPORTED:
        # Of ours, only blocks of channels have something to refuse: groups that do not fill them.
        assert not ENGINES[name].ours or (name, text) == ("pplconv_nchwc", RAGGED)
        assert candidate.detail
        return
    assert candidate.status == OK, candidate.detail
    assert candidate.error <= ENGINES[name].tolerance
    assert check_again(candidate, make_case(parse(text))).status == OK


@pytest.mark.parametrize("text", SMALL)
def test_every_engine_is_given_the_same_aligned_memory(text):
    case = make_case(parse(text))
    for array in (case.x, case.w, aligned(case.problem.output_shape)):
        assert array.ctypes.data % ALIGNMENT == 0
        assert array.flags.c_contiguous and array.dtype == np.float32
    assert aligned(case.problem.output_shape).shape == case.problem.output_shape


class OrtValue:
    """Remembers the arrays that it was made of."""

    arrays: ClassVar[list] = []

    def __init__(self, array):
        self.array = array

    @classmethod
    def ortvalue_from_numpy(cls, array):
        cls.arrays.append(array)
        return cls(array)

    def numpy(self):
        return self.array


class InferenceSession:
    """Binds arrays, and computes by the reference what the model of one Conv would."""

    def __init__(self, model, options, providers):
        self.bound = {}

    def io_binding(self):
        return self

    def bind_ortvalue_input(self, name, value):
        self.bound[name] = value.array

    bind_ortvalue_output = bind_ortvalue_input

    def run_with_iobinding(self, binding):
        self.bound["y"][...] = self.expected


def test_onnxruntime_computes_in_aligned_memory(monkeypatch, case):
    """Both its arrays: by itself it aligns the output alone."""
    stand_in = types.ModuleType("onnxruntime")
    stand_in.SessionOptions = types.SimpleNamespace
    stand_in.InferenceSession, stand_in.OrtValue = InferenceSession, OrtValue
    InferenceSession.expected = case.expected
    monkeypatch.setitem(sys.modules, "onnxruntime", stand_in)
    OrtValue.arrays.clear()
    # Misaligned, as NumPy may place it.
    room = np.empty(case.x.size + 1, np.float32)
    off = (room.ctypes.data // 4) % 16 == 0
    x = room[off : off + case.x.size].reshape(case.x.shape)
    x[...] = case.x
    candidate = prepare_checked(ENGINES["ort"], dataclasses.replace(case, x=x), 1)
    assert candidate.status == OK, candidate.detail
    assert [array.shape for array in OrtValue.arrays] == [x.shape, case.problem.output_shape]
    assert all(array.ctypes.data % ALIGNMENT == 0 for array in OrtValue.arrays)


def test_the_engines_of_the_tables():
    assert list(ENGINES) == [
        "pplconv", "pplconv_nhwc", "pplconv_nchwc", "pplconv_conv2d", "torch", "torch_nhwc",
        "onednn", "ort", "openvino", "ncnn", "mnn", "litert", "numpy",
    ]  # fmt: skip
    assert [engine.name for engine in choose(["numpy", "pplconv"])] == ["pplconv", "numpy"]
    with pytest.raises(ValueError, match="unknown engine numpi: expected some of pplconv"):
        choose(["numpi"])


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_a_version_or_a_reason(name):
    found = ENGINES[name].available()
    assert bool(found.version) == found.ok
    assert bool(found.reason) != found.ok


def test_the_layouts_of_the_tables():
    layouts = {name: engine.layout for name, engine in ENGINES.items()}
    assert layouts["pplconv_nchwc"] == "NCHWc"
    assert {name for name, layout in layouts.items() if layout == "NHWC"} == {
        "pplconv_nhwc", "torch_nhwc", "litert",
    }  # fmt: skip
    assert layouts["onednn"] == "blocked"


def test_a_prepared_pplconv_comes_once_for_each_setting():
    chosen = choose(["pplconv_nhwc", "pplconv_conv2d", "ort"], ["estimate", "measure"], [0.0, 1e-4])
    assert [engine.name for engine in chosen] == [
        "pplconv_nhwc@estimate@0", "pplconv_nhwc@measure@0", "pplconv_nhwc@estimate@1e-4",
        "pplconv_nhwc@measure@1e-4", "pplconv_conv2d", "ort",
    ]  # fmt: skip
    assert chosen[3].identity == Identity(
        "pplconv_nhwc@measure@1e-4", True, "NHWC", "measure", 1e-4
    )
    assert [engine.tolerance for engine in chosen] == [2e-5, 2e-5, 1e-4, 1e-4, 2e-5, 2e-5]
    assert [engine.name for engine in choose(["pplconv"], ["measure"])] == ["pplconv@measure"]
    assert [engine.name for engine in choose(["pplconv"], (), [2.5e-6])] == ["pplconv@2.5e-6"]


def test_settings_reach_conv2d(monkeypatch, case):
    given = []
    real = pplconv.Conv2d

    def spy(w, **arguments):
        given.append(arguments)
        return real(w, **{**arguments, "search": "estimate"})

    monkeypatch.setattr(pplconv, "Conv2d", spy)
    (engine,) = choose(["pplconv_nhwc"], ["measure"], [1e-4])
    assert prepare_checked(engine, case, 2).status == OK
    asked = {key: given[0][key] for key in ("search", "tolerance", "layout", "threads")}
    assert asked == {"search": "measure", "tolerance": 1e-4, "layout": "NHWC", "threads": 2}
    assert given[0]["input_shape"] == (1, 4, 4, 2)


def test_a_result_may_be_off_by_as_much_as_was_asked_for(monkeypatch, case):
    y = right(case.problem, case.x, case.w) * np.float32(1 + 5e-5)
    monkeypatch.setattr(pplconv, "Conv2d", lambda w, **_: lambda x, out: y)
    strict, loose = choose(["pplconv"], (), [1e-5, 1e-4])
    assert prepare_checked(strict, case, 1).status == WRONG
    assert prepare_checked(loose, case, 1).status == OK


def test_what_this_pplconv_cannot_is_absent_with_its_reason(monkeypatch):
    def refuse(w, **arguments):
        raise ValueError(f"search must be 'estimate', got {arguments['search']!r}")

    monkeypatch.setattr(pplconv, "Conv2d", refuse)
    found = choose(["pplconv"], ["exhaustive"])[0].available()
    assert not found.ok
    assert "got 'exhaustive'" in found.reason


def test_the_blocked_layout(monkeypatch, case):
    """With a stand-in that blocks by 16: arrays, output shape and channel tails."""

    class Conv2d:
        """Convolves blocked arrays by the reference."""

        def __init__(self, w, *, layout, input_shape=None, **_):
            assert layout == "NCHWc"
            self.w, self.input_shape = w, input_shape

        def __call__(self, x, out):
            assert x.shape == self.input_shape == (1, 1, 4, 4, 16)
            out[...] = in_blocks(right(case.problem, out_of_blocks(x, 2), self.w), 16)
            return out

        def plan_for(self, shape):
            if not taken:
                raise ValueError("it does not take layout NCHWc")
            assert shape == (1, 1, 4, 4, 16)

    taken = [True]

    monkeypatch.setattr(pplconv, "to_blocked", partial(in_blocks, block=16), raising=False)
    monkeypatch.setattr(pplconv, "from_blocked", out_of_blocks, raising=False)
    monkeypatch.setattr(pplconv, "Conv2d", Conv2d)
    engine = ENGINES["pplconv_nchwc"]
    assert engine.available().ok
    candidate = prepare_checked(engine, case, 1)
    assert candidate.status == OK, candidate.detail
    assert candidate.prepared.call().shape == (1, 1, 4, 4, 16)
    # A layout that no algorithm takes counts as absent.
    taken.clear()
    assert "does not take layout" in engine.available().reason
    without(monkeypatch, "to_blocked")
    assert "to_blocked" in engine.available().reason


def test_an_algorithm_that_cannot_serve_is_unsupported_with_its_reason(case):
    forced = ENGINES["pplconv"].forced("pointwise", 1e-3)
    assert forced.name == "pplconv@pointwise@1e-3"
    candidate = prepare_checked(forced, case, 1)
    assert candidate.status == UNSUPPORTED
    assert "pointwise" in candidate.detail
    assert prepare_checked(ENGINES["pplconv"].forced("im2col", 1e-3), case, 1).status == OK


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


def entry_of(engine, case, **settings):
    """Measure an engine; give its entry."""
    settings = Settings(**settings)
    return run_layer(case.problem, [engine], 1, settings, None, Progress(1)).entries["fake"]


def right(problem, x, w):
    return make_case(problem).expected.astype(np.float32)


def test_a_wrong_engine_is_reported_and_never_timed(case):
    engine = Fake(lambda problem, x, w: right(problem, x, w) * np.float32(1.001))
    candidate = prepare_checked(engine, case, 1)
    assert candidate.status == WRONG
    assert "error 1.0e-03" in candidate.detail
    assert candidate.prepared is None
    checked = engine.calls
    entry = entry_of(engine, case, rounds=1, min_seconds=1e-4)
    assert (entry.status, entry.seconds) == (WRONG, None)
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
    entry = entry_of(engine, case, rounds=2, min_seconds=1e-3)
    assert (entry.status, entry.seconds) == (WRONG, None)


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
    done = python(code)
    assert (done.stdout, done.stderr) == ("table\n", "")


def test_the_streams_are_restored_after_an_error(capfd):
    with pytest.raises(RuntimeError), silenced():
        raise RuntimeError
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"


def test_an_engine_is_left_out_where_the_cpu_lacks_what_it_needs():
    """A peer that saturates, or cuts results off, would be named as wrong."""
    engine = known_runs.Named("peer")
    engine.distribution = "numpy"
    assert engine.available().ok
    engine.levels = ("z80", "6502")
    assert engine.available().reason == "it needs z80 or 6502"
    assert not engine.available().ok
    engine.levels = ("z80", "portable", "neon")
    assert engine.available().ok
