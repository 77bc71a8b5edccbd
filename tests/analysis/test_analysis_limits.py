"""The resource that limits a loop, by recorded answers of llvm-mca; no tool is needed."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.analysis import limits, mca


@pytest.mark.parametrize(
    ("name", "rate", "peak", "bound"),
    [
        ("fma", 20 / 10, 2, "FMA"),
        ("latency", 4 / 4, 2, "latency"),
        ("loads", 8 / 12, 1, "A57UnitL"),
        ("dispatch", 12 / (26 / 3), 2, "dispatch"),
        ("groups", 16 / 9, 2, "groups"),
        ("order", 12 / 13, 2, "order"),
        ("x86", 6 / 4, 2, "SKXPort2"),
    ],
)
def test_a_loop_gets_its_bound(recorded, name, rate, peak, bound):
    core, loop, answer = recorded(name)
    verdict = limits.judge(core, loop, answer)
    assert verdict.rate == pytest.approx(rate, rel=0.01)
    assert verdict.peak == peak
    assert verdict.share == pytest.approx(rate / peak, rel=0.01)
    assert verdict.bound == bound


def test_stalls_name_what_no_bound_explains(recorded):
    core, loop, answer = recorded("fma")
    slow = dataclasses.replace(answer, cycles=2 * answer.cycles)
    for stalls, bound in (
        ({"DataDependencyCycles": 9, "ResourcePressureCycles": 3}, "dependencies"),
        ({"DataDependencyCycles": 3, "ResourcePressureCycles": 9}, "units"),
        ({}, "groups"),
    ):
        slow = dataclasses.replace(slow, stalls=stalls)
        assert limits.judge(core, loop, slow).bound == bound


def test_resources_lose_the_numbers_of_their_units(recorded):
    answer = recorded("groups")[2]
    assert {"N1UnitL", "N1UnitV0", "N1UnitB"} <= set(answer.pressure)
    assert answer.fma_resources == {"N1UnitV0", "N1UnitV1"}
    assert (answer.dispatch_width, answer.fma_latency, answer.fma_cycles) == (3, 4.0, 0.5)


@pytest.mark.parametrize("text", ["", "{}", '{"CodeRegions": []}', '{"CodeRegions": 3}'])
def test_what_is_no_answer_is_refused(text):
    with pytest.raises(mca.ToolError, match="not an answer"):
        mca.read(text)
