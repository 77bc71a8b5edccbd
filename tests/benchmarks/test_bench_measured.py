"""Measured candidates: their files, the tool that writes them, and the judge that reads them.

Nothing here is timed: the machines that a model is judged by are those of the files.
"""

from __future__ import annotations

import json
import lzma
import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import corpus, judge_model, measure_candidates
from benchmarks.corpus import Case, CorpusError, Measured, Recording
from benchmarks.problems import load_nets, parse
from benchmarks.reference import reference
from pplconv.machine import Machine, current
from pplconv.planner import Request
from pplconv.problem import ConvProblem
from tests.benchmarks.known_runs import TINY

FILES = corpus.recorded()

# Of each recorded machine: the geometric mean of the best time / the time of the model's choice,
# and the worst case. The model reaches a little more than both, so that a change that makes it
# worse on any machine is noticed; a change that makes it better may raise them.
FLOORS = {
    "amd-25-1-avx2": (0.976, 0.78),  # with large kernels, among neighbours
    "amd-25-17-avx2": (0.980, 0.70),
    "amd-25-17-avx512": (0.982, 0.76),
    "amd-26-2-avx2": (0.987, 0.84),
    "amd-26-2-avx512": (0.982, 0.84),  # with large kernels
    "intel-6-167-avx2": (0.973, 0.71),
    "intel-6-167-avx512": (0.976, 0.72),
    "intel-6-207-avx2": (0.952, 0.68),  # of two visits, among neighbours
    "intel-6-207-avx512": (0.945, 0.66),  # the same
}
# Choices for which no measured candidate stands say nothing, so there may be only few. Candidates
# that the planner proposes only since a machine was recorded are among them.
MOST_LEFT_OUT = 0.125


def test_every_file_has_a_floor_and_no_other():
    assert sorted(FLOORS) == [corpus.name_of(path) for path in FILES]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("path", FILES, ids=corpus.name_of)
def test_the_model_chooses_as_well_as_it_did(path):
    verdicts = judge_model.judge(corpus.load(path))
    mean, worst = FLOORS[corpus.name_of(path)]
    left_out = judge_model.counted(verdicts)[judge_model.LEFT_OUT]
    assert left_out <= MOST_LEFT_OUT * len(verdicts)
    lowest = judge_model.worst(verdicts, 1)[0]
    assert judge_model.mean(verdicts) >= mean
    assert lowest.ratio >= worst, lowest


@pytest.mark.parametrize("path", FILES, ids=corpus.name_of)
def test_files_are_as_the_tool_writes_them(path):
    found = corpus.load(path)
    assert found.name == corpus.name_of(path)
    assert corpus.text_of(found) == lzma.decompress(path.read_bytes()).decode()
    assert path.stat().st_size < 1.5e5
    keys = [case.key for case in found.cases]
    assert len(set(keys)) == len(keys)
    assert {case.run for case in found.cases} <= set(range(len(found.runs)))
    assert all(run["date"] and run["versions"]["pplconv"] for run in found.runs)
    for case in found.cases:
        assert str(case.parsed) == case.problem
        assert len({one.key for one in case.candidates}) == len(case.candidates)


ZEN3 = Machine(
    arch="x86_64", vendor="AuthenticAMD", family=25, model=1, isas=("portable", "avx2"),
    fma_per_cycle={"portable": 1, "avx2": 2, "avx2/s16": 2, "avx2/u8p": 1}, l1d_bytes=32 << 10,
    l2_bytes=512 << 10, cores=((0,), (1,)), packages=((0, 1),), affinity=(0, 1),
    numa_nodes=((0, 1),), quota=1.5,
)  # fmt: skip
POINTWISE = "mb1g1ic64ih28iw28oc128oh28ow28kh1kw1sh1sw1ph0pw0dh0dw0"
BLOCKS = {"orientation": "pixels", "mr": 6, "nr": 16, "k_block": 64, "innermost": "pixels"}


def one(us, algorithm="pointwise", bits="sum over c, kh, kw", **blocks):
    return Measured(algorithm, "f32", bits, BLOCKS | blocks, {"fma": 1e5}, us)


def recording(*candidates, machine=ZEN3, **options):
    case = Case(POINTWISE, "NCHW", 1, candidates or [one(10.0), one(20.0, k_block=32)])
    runs = [{"date": "2026-11-22", "command": "", "versions": {"pplconv": "0.1.0"}, "method": ""}]
    return Recording(machine, "avx2", 1e-5, runs, [replace(case, **options)])


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "new" / "r.json"
    written = recording()
    corpus.save(written, path)
    assert corpus.load(path) == written
    assert list(path.parent.iterdir()) == [path]
    assert written.name == "amd-25-1-avx2"
    lines = path.read_text().splitlines()
    assert sum(line.startswith('["pointwise"') for line in lines) == 2


def test_what_is_compressed_is_read_as_what_is_not(tmp_path):
    plain, packed = tmp_path / "r.json", tmp_path / "r.json.xz"
    for path in (plain, packed):
        corpus.save(recording(), path)
    assert lzma.decompress(packed.read_bytes()) == plain.read_bytes()
    assert corpus.load(packed) == corpus.load(plain)
    packed.write_bytes(packed.read_bytes()[:-40])
    with pytest.raises(CorpusError, match=r"r\.json\.xz cannot be decompressed"):
        corpus.load(packed)


def test_rates_are_those_of_the_present_model(tmp_path):
    path = tmp_path / "r.json"
    corpus.save(recording(machine=replace(ZEN3, fma_per_cycle={"portable": 9, "avx2": 9})), path)
    assert corpus.load(path).machine == ZEN3
    arm = replace(ZEN3, arch="aarch64", isas=("portable", "neon"), fma_per_cycle={"neon": 4})
    assert corpus.machine_of(json.loads(json.dumps(arm.as_dict()))) == arm


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda plain: "no JSON at all", "is no JSON"),
        (lambda plain: "[]", "holds no measured candidates"),
        (lambda plain: json.dumps(plain | {"format": 2}), "format 2, 1 is known"),
        (lambda plain: json.dumps(plain | {"columns": ["us"]}), "holds no measured"),
        (lambda plain: json.dumps(plain | {"machine": {"cores": "?", "size": 3}}), "size"),
        (lambda plain: json.dumps(plain | {"cases": [{}]}), "candidates"),
    ],
)
def test_other_files_are_refused(tmp_path, change, complaint):
    path = tmp_path / "r.json"
    path.write_text(change(json.loads(corpus.text_of(recording()))))
    with pytest.raises(CorpusError, match=complaint):
        corpus.load(path)
    with pytest.raises(CorpusError, match="No such file"):
        corpus.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [
        ("mb1ic8ih9oc8kh1", "1x1"),
        ("mb1ic8ih9oc8kh3ph1", "3x3"),
        ("mb1ic8ih9oc8kh5ph2", "5x5 and larger"),
        ("mb1ic8ih9oc8kh7ph3", "5x5 and larger"),
        ("mb1ic8ih9oc8kh1kw7ph0pw3", "1xN, Nx1"),
        ("mb1ic8ih9oc8kh3kw5ph1pw2", "other"),
        ("mb1ic8ih9oc8kh2", "other"),
        ("mb1ic8ih9oc8kh3sh2ph1", "strided"),
        ("mb1g8ic8ih9oc8kh3sh2ph1", "depthwise"),
    ],
)
def test_classes(sizes, kind):
    problem = ConvProblem.parse(sizes)
    assert judge_model.class_of(problem) == kind
    assert kind in judge_model.CLASSES
    assert judge_model.short(problem) == sizes


def test_short_names_are_read_back():
    for layers in load_nets().values():
        for layer in layers:
            problem = ConvProblem.parse(layer.sizes)
            text = judge_model.short(problem)
            assert ConvProblem.parse(text) == problem
            assert len(text) < len(layer.sizes)


def candidate_of(found):
    """The planner's own choice for the case of a recording."""
    ((_, candidate),) = judge_model.choices(found)
    return candidate


def test_a_choice_is_looked_up():
    candidate = candidate_of(recording())
    own = Measured(candidate.algorithm, "f32", candidate.bits, dict(candidate.blocks), {}, 12.0)
    half, quarter = (
        replace(own, blocks={**own.blocks, "k_block": own.blocks["k_block"] // part}, us=us)
        for part, us in ((2, 15.0), (4, 14.0))
    )
    other_tile = replace(own, blocks={**own.blocks, "mr": own.blocks["mr"] - 1}, us=10.0)
    other_bits = replace(own, bits="another order", us=9.0)
    case = recording(half, own, other_tile).cases[0]
    assert judge_model.look_up(case, candidate) == (own, judge_model.EXACT)
    case = recording(quarter, other_tile, half).cases[0]
    assert judge_model.look_up(case, candidate) == (half, judge_model.NEAR)
    case = recording(other_tile, other_bits).cases[0]
    assert judge_model.look_up(case, candidate) == (None, judge_model.LEFT_OUT)
    (verdict,) = judge_model.judge(recording(half, own, other_tile))
    assert (verdict.ratio, verdict.found) == (10.0 / 12.0, judge_model.EXACT)


def test_words_and_factors_make_the_distance():
    far = judge_model.distance
    assert far({"k": 64, "innermost": "pixels"}, {"k": 64, "innermost": "pixels"}) == 0
    assert far({"k": 64}, {"k": 16}) == pytest.approx(far({"k": 16}, {"k": 64}))
    assert far({"k": 0}, {"k": 1}) == 0
    assert far({"innermost": "pixels"}, {"innermost": "channels"}) == 1


def test_it_is_judged_by_the_recorded_machine():
    """Neither this machine nor its environment has a say."""
    found = recording()
    assert candidate_of(found).kernel.tile in ("6x16", "4x24", "12x8")
    wide = replace(ZEN3, isas=("portable", "avx2", "avx512"))
    fma = {"portable": 1, "avx2": 2, "avx512": 2}
    for isa, lanes in (("avx512", 16), ("avx2", 8)):  # avx2 as a cap of the run chose it
        capped = Recording(replace(wide, fma_per_cycle=fma), isa, 1e-5, cases=found.cases)
        (around,) = capped.request(capped.cases[0], capped.target()).contexts()
        assert (around.isa, around.lanes) == (isa, lanes)


def test_the_judge_prints_and_writes(tmp_path, capsys, refused):
    candidate = candidate_of(recording())
    own = Measured(candidate.algorithm, "f32", candidate.bits, dict(candidate.blocks), {}, 20.0)
    path, figures = tmp_path / "r.json", tmp_path / "f.json"
    corpus.save(recording(one(10.0), own), path)
    assert judge_model.main([str(path), "--json", str(figures), "--worst", "3"]) == 0
    out, err = capsys.readouterr()
    assert "1 choices: 1 were measured (geometric mean 0.500), 0 count as the nearest" in out
    assert "1x1        1    0.500  0.500  0.500" in out
    assert "mb1ic64ih28oc128kh1" in out
    assert "[1/1] r" in err
    (plain,) = json.loads(figures.read_text())["r"]["cases"]
    assert (plain["ratio"], plain["us"], plain["best_us"]) == (0.5, 20.0, 10.0)
    assert "No such file" in refused(judge_model.main, str(tmp_path / "none.json"))


def ranked(text, layout="NCHW", threads=1):
    asked = Request(ConvProblem.parse(text, layout=layout), threads=threads)
    return asked.ranked(threads, slack=math.inf)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_what_is_worth_timing(layout):
    every = ranked("mb1ic64ih56oc64kh3ph1", layout)
    for count in (1, 24, 1000):
        some = measure_candidates.worth_timing(every, count)
        for method in {measure_candidates.method(r.candidate) for r in every}:
            own = [r for r in every if measure_candidates.method(r.candidate) == method]
            taken = [r for r in some if measure_candidates.method(r.candidate) == method]
            assert len(taken) >= min(2, len(own))
            assert own[0] in taken
        assert some[0] is every[0]
        assert some == sorted(some, key=lambda r: r.total)
    assert len(some) == len(every)
    assert len(measure_candidates.worth_timing(every, 24)) == min(24, len(every))


def test_candidates_take_turns():
    seen = []

    def candidate(name, seconds):
        def run(count):
            seen.append((name, count))
            return seconds

        return run

    runs = [candidate("a", 1e-3), candidate("b", 2e-3), candidate("far", 4e-3)]
    turns = []
    best, visits = measure_candidates.time_in_turns(runs, 3, 4e-3, turns.append, lambda: False)
    assert (best, visits, turns) == ([1e-3, 2e-3, 4e-3], 3, [1, 2, 3])
    timed = [name for name, count in seen[6:] if count > 1]
    assert timed == ["a", "b", "far", "a", "b", "a", "b"]
    assert {count for name, count in seen if name == "a"} == {1, 4}
    _, visits = measure_candidates.time_in_turns(runs, 9, 4e-3, turns.append, lambda: True)
    assert visits == measure_candidates.LEAST_ROUNDS


def test_time_is_shared_by_size():
    now = 100.0
    shares = measure_candidates.Shares(60.0, 6e9, lambda: now)
    assert shares.end_of(2e9) == 120.0
    now = 110.0  # less was needed: the other problems get the rest
    assert shares.end_of(2e9) == 135.0
    now = 170.0
    assert shares.end_of(2e9) == 170.0
    assert measure_candidates.Shares(math.inf, 1.0, lambda: now).end_of(1.0) == math.inf


def test_results_are_right_and_wrong_ones_are_refused():
    text = "mb1ic8ih12oc16kh3ph1"
    for layout in ("NCHW", "NHWC"):
        problem = ConvProblem.parse(text, layout=layout)
        asked = Request(problem, threads=1)
        bench = measure_candidates.Bench(problem, {a.numerics: a.isa for a in asked.contexts()})
        x = bench.x if layout == "NCHW" else bench.x.transpose(0, 3, 1, 2)
        y = reference(parse(text), x, bench.weight)
        expected = (y if layout == "NCHW" else y.transpose(0, 2, 3, 1)).astype(np.float32)
        for found in measure_candidates.worth_timing(ranked(text, layout), 8):
            run = bench.prepare(found.candidate, 1)
            bound = found.candidate.error_bound
            measure_candidates.check(bench.result(run), expected, bound)
            for bad in (np.nan, 2.0):
                wrong = bench.result(run)
                wrong.flat[-1] = bad * 100
                with pytest.raises(measure_candidates.Wrong, match="of the largest output"):
                    measure_candidates.check(wrong, expected, bound)


class FakeBench:
    """Runs nothing: the n-th candidate that is prepared, from 0, takes n microseconds."""

    off = ()  # which of them are wrong

    def __init__(self, problem, isas):
        self.count = 0

    def prepare(self, candidate, threads):
        number = self.count
        self.count += 1
        return lambda runs: 1e-6 * number if runs else number

    def result(self, run):
        return np.full(3, 2.0 if run(0) in self.off else 1.0, np.float32)


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """The tool on fake times; gives its exit status and the recording in its file."""
    monkeypatch.setattr(measure_candidates, "Bench", FakeBench)
    monkeypatch.setattr(measure_candidates, "open_peaks", lambda threads: ({}, []))
    path = tmp_path / "r.json"

    def run(*arguments):
        status = measure_candidates.main([*TINY, "--out", str(path), *arguments])
        return status, corpus.load(path) if path.exists() else None

    return run


def test_a_recording_from_end_to_end(tool, capfd):
    status, found = tool("--minutes", "1")
    out, err = capfd.readouterr()
    assert status == 0
    assert "4 cases measured, 4 in" in out
    assert "[4/4" in err
    assert found.machine == current()
    sizes = [layer.sizes for layer in load_nets()["mobilenet"]]
    assert {case.problem for case in found.cases} <= set(sizes)
    assert [case.layout for case in found.cases] == ["NCHW", "NHWC"] * 2
    assert "benchmarks.measure_candidates --nets mobilenet" in found.runs[0]["command"]
    for case in found.cases:
        times = [one.us for one in case.candidates]
        assert times == [float(us) for us in range(1, len(times) + 1)]
        assert (case.threads, case.visits, case.peak) == (1, measure_candidates.ROUNDS, None)
    assert {v.found for v in judge_model.judge(found)} == {judge_model.EXACT}


def test_an_interrupted_recording_goes_on(tool, interrupted, monkeypatch, capfd):
    real = interrupted(measure_candidates, "measure", after=1)
    status, found = tool()
    assert (status, len(found.cases)) == (130, 1)
    assert "interrupted in step 2 of 4: --resume goes on" in capfd.readouterr().out
    kept = found.cases[0]
    monkeypatch.setattr(measure_candidates, "measure", real)
    with pytest.raises(SystemExit):
        tool()
    assert "--resume measures what it lacks" in capfd.readouterr().err
    status, found = tool("--resume")
    assert (status, [case.run for case in found.cases]) == (0, [0, 1, 1, 1])
    assert found.cases[0] == kept
    status, found = tool("--resume")
    assert "0 cases measured, 4 in" in capfd.readouterr().out
    status, found = tool("--replace", "--layouts", "NHWC")
    assert [case.layout for case in found.cases] == ["NHWC"] * 2


def test_a_team_is_recorded_where_it_pays(tool):
    status, found = tool("--threads", "1,2", "--layouts", "NHWC")
    assert status == 0
    assert found.team_start is not None
    # conv11 is a 1x1 on one pixel, too little for two threads.
    assert {case.threads for case in found.cases if "ih1iw1" in case.problem} == {1}
    for case in found.cases:
        problem = ConvProblem.parse(case.problem, layout=case.layout)
        assert Request(problem, threads=case.threads).context().threads == case.threads


def test_wrong_candidates_are_not_timed(tool, monkeypatch, capfd):
    monkeypatch.setattr(FakeBench, "off", (2,))  # the first is the reference
    status, found = tool("--layouts", "NHWC", "--layers", "conv11")
    assert status == 1
    assert "is off by 1.0e+00 of the largest output" in capfd.readouterr().out
    (case,) = found.cases
    assert 2.0 not in [one.us for one in case.candidates]


def test_another_machine_is_not_mixed_in(tool, tmp_path, capfd):
    other = recording()
    other.machine = replace(other.machine, vendor="Another")
    corpus.save(other, tmp_path / "r.json")
    with pytest.raises(SystemExit):
        tool("--resume")
    assert "is of another machine" in capfd.readouterr().err
