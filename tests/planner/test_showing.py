"""`Plan.show`: every term, no more than the plan says, and what was measured."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest

import pplconv
from pplconv.machine import ceilings
from pplconv.machine.ceilings import Ceilings
from pplconv.planner import Plan, Request, make_plan, measuring, showing
from pplconv.planner.roofs import NOMINAL_HERTZ, bytes_of, clock, roofs_of
from pplconv.problem import ConvProblem

TEXT = "mb1ic32ih20oc32kh3ph1"


def plan_of(text=TEXT, dtype="f32", layout="NCHW", **options) -> Plan:
    options = {"threads": 1, **options}
    return make_plan(ConvProblem.parse(text, dtype, layout), **options)[0]


def shown(plan, *arguments, **options) -> str:
    file = io.StringIO()
    assert plan.show(*arguments, file=file, **options) is None
    return file.getvalue()


@pytest.fixture
def measured(monkeypatch):
    """Replace measurements by fixed roofs and half a millisecond a run."""
    found = Ceilings("portable", 1, 64e9, {"L2": 200e9, "memory": 20e9}, 64e9)
    monkeypatch.setattr(ceilings, "measure", lambda *a, **k: found)
    monkeypatch.setattr(showing, "time_plan", lambda plan: 5e-4)
    return found


def test_every_term_has_its_bar():
    plan = plan_of()
    text = shown(plan, width=80)
    assert text.splitlines()[0] == f"{plan.problem} f32 NCHW"
    assert plan.kernel in text and "1 thread" in text
    total = sum(plan.cost.values())
    for name, cycles in plan.cost.items():
        line = re.search(rf"^  {name} .*$", text, re.MULTILINE)
        assert (line is not None) == (cycles > 0.002 * total)
        if line:
            assert line[0].endswith(f"{100 * cycles / total:.0f} %")
    assert "measured" not in text and "of the cost model" in text
    assert max(map(len, text.splitlines()[2:])) <= 80


def test_it_is_printed(capsys):
    assert plan_of().show() is None
    assert "estimate, term by term" in capsys.readouterr().out


def test_what_is_measured_is_told(measured):
    plan = plan_of()
    text = shown(plan, measure=True)
    assert "roofs, measured" in text
    assert re.search(r"^  a run .* 500 µs", text, re.MULTILINE)
    assert "of the run" in text


def test_plans_of_bytes_are_measured_under_the_roofs_of_floats(monkeypatch):
    asked = []
    found = Ceilings("portable", 1, 64e9, {"memory": 20e9}, 64e9)
    monkeypatch.setattr(ceilings, "measure", lambda isa, *a: asked.append(isa) or found)
    layer = pplconv.QConv2d(np.ones((8, 8, 3, 3), np.int8), out_dtype="int32", threads=1)
    assert "a run" in shown(layer.plan_for((1, 8, 9, 9)), True)
    assert asked == [plan_of().isa]


def test_the_time_of_a_search_is_shown():
    plan = plan_of(search="measure", search_seconds=0.01)
    assert plan.seconds is not None
    assert "measured by the search" in shown(plan)


def test_notebooks_have_it_too():
    plan = plan_of()
    page = plan._repr_html_()
    assert page.startswith("<pre") and page.endswith("</pre>")
    assert "in all" in page


@pytest.mark.parametrize(
    ("text", "dtype", "layout", "options"),
    [
        (TEXT, "f32", "NCHW", {}),
        (TEXT, "f32", "NCHW", {"algorithm": "direct"}),
        (TEXT, "f64", "NHWC", {"algorithm": "im2col"}),
        (TEXT, "f32", "NCHW", {"threads": 2}),
        ("mb2ic32ih9oc48kh1", "f32", "NHWC", {}),
        ("mb1g8ic8ih12oc8kh3ph1", "f32", "NCHW", {}),
        ("mb1ic3ih30oc16kh7sh2ph3", "f32", "NHWC", {}),
        ("mb1ic64ih9oc64kh1sb1sd100", "f32", "NHWC", {}),
    ],
)
def test_plans_are_found_again_and_run(text, dtype, layout, options):
    plan = plan_of(text, dtype, layout, **options)
    problem = measuring.problem_of(plan)
    assert str(problem) == plan.problem
    candidate = measuring._found(plan, problem).candidate
    assert (candidate.algorithm, candidate.bits) == (plan.algorithm, plan.bits)
    assert dict(candidate.blocks) == dict(plan.blocks)
    if plan.threads == 1:  # a team may not be had beside other tests
        assert measuring.time_plan(plan) > 0


def test_layers_of_all_kinds_have_bars(rng):
    weight = rng.standard_normal((16, 8, 4, 4)).astype("f")
    plans = [
        pplconv.Linear(weight[:, :, 0, 0], threads=1).plan_for((5, 8)),
        pplconv.Conv2d(weight, threads=1, layout="NCHWc").plan_for((1, 1, 9, 9, 8)),
        pplconv.ConvTranspose2d(weight, stride=2, threads=1).plan_for((1, 16, 7, 7)),
        pplconv.QConv2d(np.ones((16, 8, 3, 3), np.int8), out_dtype="int32", threads=1).plan_for(
            (1, 8, 9, 9)
        ),
    ]
    for plan in plans:
        text = shown(plan)
        assert "estimate, term by term" in text and "in all" in text, plan
    assert "transposed mb1" in shown(plans[2])


def test_parts_of_a_transposed_convolution_are_added_up(measured, rng):
    weight = rng.standard_normal((16, 8, 4, 4)).astype("f")
    plan = pplconv.ConvTranspose2d(weight, stride=2, threads=1).plan_for((1, 16, 7, 7))
    run = 0.5 * len(plan.parts)
    line = re.search(r"^  a run .* ([\d.]+) (µs|ms) ", shown(plan, True), re.MULTILINE)
    assert float(line[1]) * (1 if line[2] == "ms" else 1e-3) == pytest.approx(run)


def test_plans_of_other_machines_are_refused_only_where_they_would_run():
    plan = replace(plan_of(), kernel="pplconv_gemm_f32_99x999_none", isa="portable")
    if not roofs_of(plan):
        assert "roofs" not in shown(plan)
    with pytest.raises(ValueError, match="no candidate of this process is the plan"):
        plan.show(measure=True)


def test_matrices_that_lie_otherwise_are_refused():
    plan = pplconv.Linear(np.ones((4, 8), "f"), threads=1).plan_for((5, 8))
    other = replace(plan, layout="km.nk.mn")
    assert roofs_of(other) == []
    with pytest.raises(ValueError, match="matrices that lie as km"):
        other.show(measure=True)


def test_a_team_that_is_not_there_is_an_error(monkeypatch):
    class Alone(measuring.Bench):
        def prepare(self, candidate, threads):
            self.whole = False
            return lambda runs: 1e-3

    monkeypatch.setattr(measuring, "Bench", Alone)
    with pytest.raises(RuntimeError, match="the plan has 1 threads"):
        measuring.time_plan(plan_of())


def test_roofs_are_times_of_bytes_and_flops():
    plan = plan_of(algorithm="im2col")
    around = Request(measuring.problem_of(plan), threads=1).context()
    peak = 2 * around.lanes * around.machine.fma_rate(plan.isa, "f32") * NOMINAL_HERTZ
    flops, memory = roofs_of(plan)
    assert flops.seconds == pytest.approx(2 * 32 * 32 * 9 * 400 / peak)
    assert flops.seconds <= 1.0001 * plan.cost["fma"] / NOMINAL_HERTZ
    assert bytes_of(plan, measuring.problem_of(plan)) == 4 * 2 * 32 * 400 + plan.packed_weight_bytes
    found = Ceilings(plan.isa, 1, peak / 2, {"memory": 1e9}, peak / 2)
    assert roofs_of(plan, found)[0].seconds == pytest.approx(2 * flops.seconds)
    assert roofs_of(plan, found)[1].seconds == pytest.approx(
        bytes_of(plan, measuring.problem_of(plan)) / 1e9
    )
    assert memory.name in ("L2", "L3", "memory")


def test_the_direct_sum_is_no_roof_of_winograd_by_name():
    plan = plan_of(algorithm="winograd")
    assert roofs_of(plan)[0].name == "direct sum"
    assert roofs_of(plan_of(algorithm="direct"))[0].name == "FMA units"


def test_a_clock_that_cannot_be_is_not_believed():
    isa = plan_of().isa
    assert clock(None) == NOMINAL_HERTZ
    assert clock(Ceilings(isa, 1, 1e20, {}, 1e20)) == NOMINAL_HERTZ
    assert clock(Ceilings(isa, 1, 1.0, {}, 1.0)) == NOMINAL_HERTZ
