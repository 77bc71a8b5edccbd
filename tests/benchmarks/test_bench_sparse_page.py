"""Evaluation of a run of sparse weights: gains, break-even densities, tables, the chart."""

from __future__ import annotations

import math

import pytest

from asm.registry import ISAS
from benchmarks.engines.base import Identity
from benchmarks.problems import parse
from benchmarks.results import Entry, LayerResult
from benchmarks.sparse import page, plot
from benchmarks.sparse.figures import figures_table
from benchmarks.sparse.gains import break_even, break_evens, gain, lead, mean
from benchmarks.sparse.measured import Measured, Roles, as_plain, from_plain, group
from benchmarks.sparse.report import products_a_cycle, report
from pplconv import config, machine

POINT = 'mb1ic64ih14oc128kh1n"net:point*1"'
SQUARE = 'mb1ic64ih14oc64kh3ph1n"net:square*1"'
NARROW = 'mb1ic32ih14oc64kh1n"net:narrow*1"'
IDENTITIES = [
    Identity("pplconv_b1", True, "NCHW"),
    Identity("pplconv_b4", True, "NCHW"),
    Identity("pplconv_nhwc_b4@measure", True, "NHWC"),
    Identity("pplconv_dense", True, "NCHW"),
    Identity("pplconv_nhwc_direct", True, "NHWC"),
    Identity("mnn_b4", False, "NCHW"),
    Identity("torch_csr", False, "NCHW"),
]
ROLES = Roles.of(IDENTITIES)


def measured(text, density, threads=1, precision="fp32", peak=100e9, **micro):
    """A layer of which engines took so many microseconds; None: they refused."""
    problem = parse(text)
    names = {"b1": "pplconv_b1", "b4": "pplconv_b4", "nhwc_b4": "pplconv_nhwc_b4@measure",
             "dense": "pplconv_dense", "direct": "pplconv_nhwc_direct"}  # fmt: skip
    entries = {
        names.get(name, name): Entry("unsupported", "cannot")
        if time is None
        else Entry("ok", "", 1e-7, (time * 1e-6, 2 * time * 1e-6), (), "avx512")
        for name, time in micro.items()
    }
    weights = problem.oc * problem.reduction
    kept = {block: round(density * weights) for block in (1, 4)}
    layer = LayerResult(problem, threads, peak, entries)
    return Measured(precision, density, layer, kept, {"avx512": peak})


def test_roles():
    assert ROLES.sparse == {1: ("pplconv_b1",), 4: ("pplconv_b4", "pplconv_nhwc_b4@measure")}
    assert ROLES.dense == ("pplconv_dense",)
    assert ROLES.direct == ("pplconv_nhwc_direct",)
    assert ROLES.peers_of(4) == ("mnn_b4", "torch_csr")
    assert ROLES.peers_of(1) == ROLES.peers_of(16) == ("torch_csr",)


def test_gain_is_of_the_best_layouts():
    one = measured(SQUARE, 0.25, b1=40, b4=20, nhwc_b4=10, dense=30, direct=80)
    assert gain(one, 4, ROLES) == pytest.approx(3.0)
    assert gain(one, 1, ROLES) == pytest.approx(0.75)
    assert gain(one, 4, ROLES, direct=True) == pytest.approx(8.0)
    assert gain(one, 8, ROLES) is None
    # The dense sum of a 1x1 is direct.
    one = measured(POINT, 0.25, b4=10, dense=30, direct=None)
    assert gain(one, 4, ROLES, direct=True) == gain(one, 4, ROLES) == pytest.approx(3.0)
    assert gain(one, 1, ROLES) is None


def test_lead_is_on_peers_that_run_such_blocks():
    one = measured(POINT, 0.25, b1=40, b4=20, mnn_b4=10, torch_csr=50)
    assert lead(one, 4, ROLES) == ("mnn_b4", pytest.approx(0.5))
    assert lead(one, 1, ROLES) == ("torch_csr", pytest.approx(1.25))
    assert lead(measured(POINT, 0.25, b1=40), 1, ROLES) == ("", None)


def test_useful_operations():
    one = measured(POINT, 0.25)
    assert one.useful(4) == pytest.approx(0.25 * one.problem.flops)
    assert one.useful(16) == 0.0


def test_the_ceiling_is_that_of_the_plan():
    one = measured(POINT, 0.25, b4=10)
    assert one.ceiling("pplconv_b4") == ("avx512", 100e9)
    two = Measured("int8", 0.25, one.layer, {}, {"amx": 9e12, "avx2": 1e12})
    assert two.ceiling("pplconv_b4") == ("amx", 9e12)
    assert Measured("int8", 0.25, one.layer).ceiling("") == ("", 100e9)


def test_mean_is_geometric():
    assert mean([4.0, None, 1.0]) == pytest.approx(2.0)
    assert mean([None]) is None


@pytest.mark.parametrize(
    ("gains", "density", "side"),
    [
        # Times of 2, 1.5 and 0.75 of the dense one: crossed a third of the way from 0.25 to 0.5.
        ({0.75: 0.5, 0.5: 1 / 1.5, 0.25: 1 / 0.75}, 0.25 + 0.25 / 3, ""),
        ({0.75: 1.25, 0.5: 2.0}, 0.75, ">"),
        ({0.5: 0.9, 0.05: 0.95}, 0.05, "<"),
        # Noise that crosses twice: the sparse side counts.
        ({0.75: 2.0, 0.5: 0.5, 0.25: 2.0}, 0.25 + 0.25 / 3, ""),
        ({0.5: 1.0, 0.25: 2.0}, 0.5, ""),
        ({0.5: None, 0.25: 2.0}, 0.25, ">"),
    ],
)
def test_break_even(gains, density, side):
    found, where = break_even(gains)
    assert (found, where) == (pytest.approx(density), side)


def test_nothing_measured_breaks_even_nowhere():
    density, side = break_even({0.5: None})
    assert math.isnan(density)
    assert side == ""


def test_break_evens_by_layer():
    some = [
        measured(text, density, b1=time, dense=10)
        for text in (POINT, SQUARE)
        for density, time in ((0.5, 15), (0.25, 5))
    ]
    assert break_evens(some, 1, ROLES) == {
        name: (pytest.approx(0.375), "") for name in ("net:point", "net:square")
    }


def run_of(b4=10.0):
    """Two layers at two densities with two sizes of team."""
    return [
        measured(text, density, threads, b1=50 * density, b4=b4 * density, dense=30, mnn_b4=8,
                 direct=None if text == POINT else 60)
        for threads in (1, 2)
        for text in (POINT, SQUARE)
        for density in (0.25, 0.1)
    ]  # fmt: skip


def test_a_record_is_read_back():
    one = measured(SQUARE, 0.25, b1=40, dense=30, mnn_b4=None)
    assert from_plain(as_plain(one)) == one


def test_groups():
    assert {key: len(some) for key, some in group(run_of()).items()} == {
        ("fp32", 1): 4, ("fp32", 2): 4,
    }  # fmt: skip


def cells(table, row=0):
    """A row by the titles of its columns; of equal ones the first counts."""
    found = {}
    for title, cell in zip(table.header, table.rows[row], strict=True):
        found.setdefault(title, cell)
    return found


def test_the_table_of_gains():
    some = run_of()[:4]
    table = page.gains_table("gains", some, ROLES)
    first = cells(table)
    assert (first["layer"], first["density"], first["dense by"]) == (
        "net:point", "0.25", "pplconv_dense",
    )  # fmt: skip
    flops = some[0].problem.flops
    assert first["dense"] == f"{flops / 30e-6 / 1e9:.1f}"
    assert first["block 4"] == f"{0.25 * flops / 2.5e-6 / 1e9:.1f}"
    # 30 µs of the dense layer, 12.5 of single weights: 2.4; 3x3 by the direct sum, twice as much.
    assert first["/ dense"] == first["/ direct"] == "2.40"
    assert (cells(table, 2)["/ dense"], cells(table, 2)["/ direct"]) == ("2.40", "4.80")
    assert len(table.rules) == 2


def test_without_direct_sums_there_is_no_column_of_them():
    roles = Roles.of([one for one in IDENTITIES if "direct" not in one.name])
    for table in (
        page.gains_table("", run_of(), roles),
        page.classes_table("", run_of(), roles),
        page.break_even_table("", {1: run_of()}, roles),
    ):
        assert not any("direct" in title for title in table.header)
        assert table.rows


def test_the_table_of_peers_marks_who_is_ahead():
    table = page.peers_table("peers", run_of(b4=40.0)[:2], ROLES)
    first = cells(table)
    assert first["best peer, block 4"] == "mnn_b4"
    column = list(table.header).index("best peer, block 4") + 1
    assert table.rows[0][column] == "0.80"
    assert table.bold == {(0, column)}
    # No peer runs single weights here.
    assert first["best peer, block 1"] == "-"


def test_the_table_of_times_says_who_refused():
    table = page.times_table("ms", run_of()[:2])
    assert cells(table)["pplconv_nhwc_direct"] == "unsupported"
    assert cells(table)["pplconv_dense"] == "0.03"


def test_the_table_of_products():
    one = measured(POINT, 0.25, b4=10, nhwc_b4=20, dense=30)
    first = cells(page.products_table("products", [one], ROLES, {"avx512": 32.0}))
    part = 0.25 * one.problem.flops / 10e-6 / 100e9
    assert (first["loop"], first["a cycle"]) == ("avx512", "32")
    assert first["block 4 a cycle"] == f"{32 * part:.1f}"
    assert first["block 1 a cycle"] == first["% loop"] == "-"
    unknown = page.products_table("products", [one], ROLES, {})
    assert cells(unknown)["block 4 a cycle"] == "-"
    assert unknown.rows[0][-1] == f"{100 * part:.1f}"


def test_the_table_of_classes():
    table = page.classes_table("classes", run_of()[:4], ROLES)
    assert [(row[0], row[1], row[2]) for row in table.rows] == [
        ("1x1", "0.25", "1"), ("1x1", "0.1", "1"),
        ("3x3 stride 1", "0.25", "1"), ("3x3 stride 1", "0.1", "1"),
    ]  # fmt: skip
    assert cells(table)["block 4 / dense"] == "12.00"


def test_the_table_of_break_even_densities():
    some = [
        measured(POINT, density, b1=time, b4=1, dense=10)
        for density, time in ((0.5, 15), (0.25, 5))
    ]
    first = cells(page.break_even_table("starts", {1: some}, ROLES))
    assert first["block 1, 1 t"] == "0.38"
    assert first["block 4, 1 t"] == "> 0.50"


def verdicts(some):
    """Verdict, worst value and count of each figure, by layers, figure, block and threads."""
    table = figures_table(some, {"fp32": ROLES})
    return {row[:4]: (row[6], row[5], row[7]) for row in table.rows}


def test_the_figures():
    narrow = measured(NARROW, 0.25, b4=100, dense=10)
    found = verdicts([*run_of(), narrow])
    assert found["fp32 1x1", "/ own dense at 0.25", "4", "1"] == ("yes", "12.00", "1 of 1")
    assert found["fp32 1x1", "/ own dense at 0.25", "1", "2"] == ("yes", "2.40", "1 of 1")
    assert found["fp32 1x1", "/ own dense at 0.25", "8", "1"] == ("not measured", "-", "0 of 0")
    assert found["fp32 1x1", "break-even density", "4", "1"] == ("no", "0.25", "0 of 1")
    assert found["fp32 all", "/ best peer", "4", "1"] == ("yes", "3.20", "4 of 4")
    found = verdicts(run_of(b4=60.0))
    assert found["fp32 1x1", "/ own dense at 0.25", "4", "1"] == ("no", "2.00", "0 of 1")
    assert found["fp32 3x3", "/ own dense at 0.25", "4", "1"] == ("yes", "2.00", "1 of 1")
    assert found["fp32 all", "/ best peer", "4", "1"] == ("no", "0.53", "2 of 4")


def test_a_report_of_everything():
    some = [*run_of(), *(measured(POINT, 0.25, 1, "int8", b4=5, dense=10) for _ in range(1))]
    made = report(some, {"fp32": IDENTITIES, "int8": IDENTITIES}, {"fp32": {"avx512": 32.0}})
    titles = [table.title for table in made]
    assert titles[0].startswith("Figures to reach")
    assert len(titles) == len(set(titles)) == 1 + 2 + 5 * 3
    assert "int8, 1 thread: ms" in titles
    for table in made:
        assert table.markdown()
    assert report([], {}, {}) == []


def test_products_a_cycle_of_this_machine():
    isas = machine.current().usable_isas(config.current().max_isa)
    found = products_a_cycle("fp32")
    assert set(found) <= set(isas)
    for isa, products in found.items():
        lanes = ISAS[isa].vector_bytes // 4
        assert products == lanes * machine.current().fma_rate(isa, "f32")
    assert "amx" not in products_a_cycle("int8")


# The chart ---------------------------------------------------------------------------------------


def test_the_curve_of_a_layer():
    some = run_of()[:4]
    assert plot.curve(some, "net:point", 4, ROLES) == [
        (0.25, pytest.approx(12.0)),
        (0.1, pytest.approx(30.0)),
    ]
    assert plot.curve(some, "net:point", 16, ROLES) == []


def test_layers_of_the_chart_are_of_each_network_and_class():
    texts = [f'mb1ic64ih14oc128kh1n"{net}:point{n}*1"' for net in "ab" for n in range(9)]
    texts += [f'mb1ic64ih14oc64kh3ph1n"a:square{n}*1"' for n in range(2)]
    names = plot.chosen([measured(text, density) for text in texts for density in (0.5, 0.25)])
    assert len(names) == len(set(names)) == 6
    assert sum("square" in name for name in names) == 2
    assert sum(name.startswith("b:") for name in names) == 2


def test_the_chart_is_the_same_each_time(tmp_path):
    pytest.importorskip("matplotlib")
    first, second = tmp_path / "a" / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        plot.write(path, "Sparse weights", run_of()[:4], ROLES)
    text = first.read_text()
    assert text == second.read_text()
    assert "<svg" in text
    for word in ("net:point", "net:square", "weights one by one", "times as fast as own dense"):
        assert word in text
    assert not list(tmp_path.rglob(".*"))
