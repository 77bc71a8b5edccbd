"""The page of the analysis: tables of results, footprints of plans, sections replaced singly."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.analysis import footprint, limits, osaca, page
from benchmarks.analysis.cores import CORES, cores_of
from pplconv.planner import Request
from pplconv.problem import ConvProblem


def test_sections_are_put_and_replaced():
    arm, x86 = page.section("aarch64", ["one\n"]), page.section("x86_64", ["two"])
    both = page.put(page.put("", "aarch64", arm), "x86_64", x86)
    assert both.startswith("# Analysis")
    assert both.index("## aarch64\n\none") < both.index("## x86_64\n\ntwo")
    again = page.put(both, "aarch64", page.section("aarch64", [r"\1 three"]))
    assert r"\1 three" in again and "one\n" not in again.split("## aarch64")[1]
    assert again.count("## aarch64") == again.count("## x86_64") == 1
    assert again.endswith("<!-- end of x86_64 -->\n")


def test_what_is_short_of_its_figure_is_stressed(recorded):
    core, loop, answer = recorded("fma")
    good = limits.judge(core, loop, answer)
    bad = dataclasses.replace(good, rate=1.94, bound="dispatch")
    row = page.Row(loop, [good, bad])
    text = page.tile_table("f32", [core, core], [row]).markdown()
    assert "| 4x4 rows (neon) | 20 | 10.00 | 1.99 FMA | **1.94 dispatch** |" in text
    free = dataclasses.replace(core, wanted=0.0)
    assert not page.short_of(free, row, bad)
    exact = dataclasses.replace(loop, kernel=dataclasses.replace(loop.kernel, dtype="f64"))
    assert not page.short_of(core, page.Row(exact, [bad]), bad)


def test_narrow_types_are_held_to_the_same_share_where_rows_are_packed(recorded):
    core, loop, answer = recorded("fma")
    short = dataclasses.replace(limits.judge(core, loop, answer), rate=1.9)
    narrow = dataclasses.replace(loop, kernel=dataclasses.replace(loop.kernel, dtype="s8m", kr=8))
    assert page.short_of(core, page.Row(narrow, [short]), short)
    # If they are not, another resource may limit the loop.
    apart = dataclasses.replace(narrow, name="k")
    assert not page.short_of(core, page.Row(apart, [short]), short)
    # A peak of half the FMAs' peak is not the loop's fault.
    slow = dataclasses.replace(short, rate=0.99, peak=1)
    assert not page.short_of(core, page.Row(narrow, [slow]), slow)


def test_products_are_counted_by_the_fastest_loop(recorded):
    core, loop, answer = recorded("fma")
    verdict = limits.judge(core, loop, answer)
    fast = dataclasses.replace(verdict, rate=2.0)
    matrix = dataclasses.replace(loop.kernel, dtype="s8m", isa="i8mm", nr=12, mr=8, kr=8)
    other = dataclasses.replace(core, name="other")
    rows = [
        page.Row(loop, [verdict, verdict], [core, other]),
        page.Row(loop, [fast, verdict], [core, other]),
        page.Row(dataclasses.replace(loop, kernel=matrix), [fast], [core]),
        page.Row(dataclasses.replace(loop, kernel=matrix, name="k"), [fast], [core]),
    ]
    text = page.product_table([core, other], rows).markdown()
    # 2^30 products, four for each FMA, and 32 for each SMMLA: 1024 columns are 86 panels of 12.
    assert f"| fp32 | {2**30 / 8e6:.1f} (1.00) |" in text
    assert f"{1024 * 1032 * 1024 / 64e6:.1f} (7.94) | - |" in text


def test_accumulators_hide_the_larger_of_both_latencies(recorded):
    core, _, answer = recorded("fma")
    (row,) = page.core_table([core], [answer]).rows
    # Four cycles in the model, five on the core: 2 x 5.
    assert row[:8] == ("tsv110", "Kunpeng 920", "2", "2", "5", "4", "10", "4")


def test_osaca_is_asked_about_its_cores_only(recorded):
    _, loop, _ = recorded("fma")
    asked = []

    def ask(core, loop):
        asked.append(core.name)
        return osaca.Opinion(10.0, "port 4") if core.name == "tsv110" else osaca.Opinion(0.0, "no")

    text = page.osaca_table(cores_of("aarch64"), [loop], ask).markdown()
    assert asked == ["tsv110", "neoverse-n1", "neoverse-v2", "a64fx", "apple-m1"]
    assert "| 2.00 port 4 | no | no | no | no |" in text


@pytest.mark.parametrize("core", cores_of("aarch64"), ids=lambda core: core.name)
def test_packed_panels_fit_the_caches(core):
    """A panel takes 1.5 times L1 or a quarter of L2 at most; data that is read again fits L2."""
    for found in footprint.footprints(core):
        if found.algorithm in ("winograd", "pointwise"):
            most = max(1.5 * core.machine.l1d_bytes, core.machine.l2_share / 4)
            assert 0 < found.l1 <= most, found
        if found.algorithm == "winograd":
            assert found.l2 <= core.machine.l2_share, found


def test_footprints_count_what_stays_and_what_passes():
    core = CORES[0]
    problem = ConvProblem.parse("mb1ic64ih56oc256kh1", layout="NCHW")
    asked = Request(problem, algorithm="pointwise", threads=1, target=footprint.target_of(core))
    best = asked.ranked()[0].candidate
    mr, nr = best.blocks["mr"], best.blocks["nr"]
    assert (best.blocks["k_block"], best.blocks["innermost"]) == (64, "pixels")
    l1, l2 = footprint.sizes(best)
    weights, pixels = (mr, nr) if best.blocks["orientation"] == "pixels" else (nr, mr)
    assert l1 == 4 * (weights * 64 + 24 * pixels + mr * nr)
    assert l2 == 4 * 64 * min(best.blocks["hw_segment"], 56 * 56)
    depthwise = ConvProblem.parse("mb1g32ic32ih14oc32kh3ph1")
    asked = Request(depthwise, algorithm="depthwise", threads=1, target=footprint.target_of(core))
    with pytest.raises(ValueError, match="no tile"):
        footprint.sizes(asked.ranked()[0].candidate)
