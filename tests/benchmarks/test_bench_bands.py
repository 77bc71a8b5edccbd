"""Measured chains of layers: their files, the tool that writes them, and the judge.

Nothing here is timed: the machines that the model of bands is judged by are those of the files.
"""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from benchmarks import judge_bands, measure_bands
from benchmarks.chains import CHAINS, INPUT, model_of
from benchmarks.corpus import CorpusError, name_of
from benchmarks.forced_bands import forced, layer_by_layer
from benchmarks.recorded_bands import Chain, Chains, Height, load, recorded, save
from pplconv import InferenceSession

FILES = recorded()
# Of each recorded machine: geometric mean of the best time / the time of the choice, and the worst
# chain. Sides that are equal differ by some percent there.
FLOORS = {"amd-26-2-avx512": (0.94, 0.83)}
# What bands gain there in the mean, and the most that a chain may lose.
GAIN, LOSS = 1.17, 0.97
CASE = Chain("three", 1, 0, 3, 100.0, 0.01, [
    Height([(3, 9, 4)], 80.0, 12.0), Height([(3, 5, 8)], 60.0), Height([(2, 9, 4)], 90.0),
])  # fmt: skip


def test_every_file_has_a_floor_and_no_other():
    assert sorted(FLOORS) == [name_of(path) for path in FILES]


def isa_of(path):
    return name_of(path).rsplit("-", 1)[1]


# Networks are compiled, and the kernels of that instruction set pack their weights.
executable = [
    pytest.param(path, marks=pytest.mark.needs_isa(isa_of(path)), id=name_of(path))
    for path in FILES
]


@pytest.mark.parametrize("path", executable)
def test_the_model_chooses_as_well_as_it_did(path):
    verdicts = judge_bands.judge(load(path))
    mean, worst = FLOORS[name_of(path)]
    assert all(v.ratio is not None for v in verdicts)
    assert judge_bands.mean(v.ratio for v in verdicts) >= mean
    assert min(v.ratio for v in verdicts) >= worst
    assert judge_bands.mean(v.gain for v in verdicts) >= GAIN
    assert min(v.gain for v in verdicts) >= LOSS


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_cpu_without_the_instruction_set_is_refused(path, monkeypatch):
    machine = judge_bands.here().machine
    lacking = SimpleNamespace(machine=SimpleNamespace(usable_isas=lambda: ("portable",)))
    monkeypatch.setattr(judge_bands, "here", lambda: lacking)
    with pytest.raises(CorpusError, match=f"kernels of {isa_of(path)}, which this CPU lacks"):
        judge_bands.judge(load(path))
    assert "portable" in machine.usable_isas()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_are_as_the_tool_writes_them(path, tmp_path):
    chains = load(path)
    save(chains, tmp_path / "again.json")
    again, there = ((json.loads(p.read_text())) for p in (tmp_path / "again.json", path))
    # FMA rates belong to the model, and are looked up anew.
    for one in (again, there):
        one["machine"].pop("fma_per_cycle")
    assert again == there
    assert chains.of.name == name_of(path)
    assert [case.name for case in chains.cases] == list(CHAINS)


def test_a_choice_is_looked_up():
    at = judge_bands.look_up
    assert at(CASE, []) == 100.0
    assert at(CASE, [(3, 9, 4)]) == 80.0
    assert at(CASE, [(3, 4, 7)]) == at(CASE, [(3, 3, 90)]) == 60.0
    assert at(CASE, [(3, 9, 5)]) == 80.0
    assert at(CASE, [(2, 7, 16)]) == 90.0
    assert at(CASE, [(4, 7, 16)]) is None
    assert at(CASE, [(3, 9, 4), (3, 9, 4)]) is None


def test_verdicts():
    verdict = judge_bands.Verdict(CASE, [(3, 9, 4)], 80.0)
    assert verdict.best == CASE.heights[1]
    assert verdict.ratio == pytest.approx(0.75) and verdict.gain == pytest.approx(1.25)
    layers = judge_bands.Verdict(replace(CASE, us=50.0), [], 50.0)
    assert layers.best.groups == [] and layers.ratio == 1.0
    table = judge_bands.table_of("here", [verdict, judge_bands.Verdict(CASE, [(4, 2, 1)], None)])
    assert "3 steps in 9 of 4 rows" in table.text() and "0.750" in table.text()
    assert judge_bands.mean([None]) is None


def test_a_file_of_something_else(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"format": 7}')
    with pytest.raises(CorpusError, match=r"x\.json"):
        load(path)


def test_the_tool_measures_a_chain(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(CHAINS, "small", (4, 40, 20, CHAINS["three 3x3 of 32, 512x512"][3]))
    monkeypatch.setattr(measure_bands, "UNITS", (2,))
    path = tmp_path / "x.json"
    options = ["--chains", "small", "--rounds", "1", "--min-ms", "0.1", "--out", str(path)]
    assert measure_bands.main([*options, "--remark", "none"]) == 0
    (case,) = load(path).cases
    assert case.name == "small" and case.us > 0 and case.visits == 1
    assert all(height.us > 0 for height in case.heights)
    assert judge_bands.main([str(path)]) == 0
    assert "small" in capsys.readouterr().out


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CHAINS)
def test_chains_can_be_cut_and_left_whole(name):
    model, x = model_of(name)
    plans = []
    for around in (layer_by_layer(), forced(4)):
        with around:
            plans.append(InferenceSession(model, threads=1).plan_for({INPUT: x.shape}))
    assert not plans[0].groups and plans[1].groups
    assert sum(step.flops for step in plans[0].steps) == sum(step.flops for step in plans[1].steps)


def test_recorded_chains_are_written(tmp_path):
    chains = Chains(load(FILES[0]).of, [{"date": "today"}], [CASE])
    save(chains, tmp_path / "new" / "x.json")
    found = load(tmp_path / "new" / "x.json")
    assert found.cases == [CASE] and found.runs == chains.runs
