"""Ceilings of narrow products, and the tables that a run of them makes."""

from __future__ import annotations

import pytest

from asm.registry import PRODUCTS, kernels
from benchmarks.engines.base import Identity
from benchmarks.peak import Peak, PeakUnavailable
from benchmarks.problems import parse
from benchmarks.quantized import page
from benchmarks.quantized.ceilings import INSTRUCTIONS, Ceilings, loops
from benchmarks.results import Entry, LayerResult
from pplconv import _kernels, config, machine

BUILT = [
    (row["dtype"], row["isa"])
    for row in _kernels.rows()
    if row["op"] == "fma_peak" and row["dtype"] not in ("f16", "f32", "f64")
]
ROLES = page.Roles.of(
    [
        Identity("ours_u8", True, "NHWC"),
        Identity("ours_s8", True, "NHWC"),
        Identity("peer", False, "NHWC"),
        Identity("peer_s8", False, "NHWC"),
        Identity("f32", True, "NHWC"),
    ],
    ["f32"],
    {"ours_u8": "u8", "ours_s8": "s8", "peer": "u8", "peer_s8": "s8"},
)


def test_every_loop_has_a_name_and_a_precision():
    levels = {isa for _, isa in BUILT}
    int8, bf16 = loops("int8", levels), loops("bf16", levels)
    assert sorted(int8 + bf16) == sorted(BUILT)
    built = {(k.dtype, k.isa) for k in kernels() if k.op == "fma_peak" and PRODUCTS[k.dtype].kr > 1}
    assert set(BUILT) <= built <= set(INSTRUCTIONS)
    assert all(product.startswith("bf16") for product, _ in bf16)


def test_loops_are_those_of_the_levels_that_may_be_used(monkeypatch):
    levels = [isa for isa in ("portable", "avx2", "avx512vnni") if isa in {i for _, i in BUILT}]
    assert {isa for _, isa in loops("int8", levels)} <= set(levels)
    # Without an instruction for it, bfloat16 is multiplied as float32.
    assert loops("bf16", ("portable", "avx2")) == [("f32", "avx2")]
    assert loops("int8", ("portable",)) == []
    monkeypatch.setenv("PPLCONV_MAX_ISA", "portable")
    if config.current().max_isa == "portable":
        assert loops("int8") == []
    with pytest.raises(PeakUnavailable, match="no instruction for int8"):
        Ceilings("int8", 1, [])


@pytest.mark.parametrize("precision", ["int8", "bf16"])
def test_the_loops_of_this_machine(precision):
    usable = machine.current().usable_isas(config.current().max_isa)
    for product, isa in loops(precision):
        assert isa in usable
        assert _kernels.fma_peak(isa, product, 10) > 0


def fake_loop(rates):
    """A loop and a clock; each call of a level takes as long as its rate says."""
    now = [0.0]

    def loop(isa, dtype, iterations):
        now[0] += iterations * 1e-6 / rates[isa]
        return iterations

    return loop, lambda: now[0]


def test_readings_are_taken_layer_by_layer():
    rates = {"avx2": 1.0, "amx": 8.0}
    loop, now = fake_loop(rates)
    peaks = [Peak(loop, isa, 1, dtype, now=now) for dtype, isa in (("s16", "avx2"), ("u8t", "amx"))]
    ceilings = Ceilings("int8", 1, peaks)
    assert ceilings.take() == {}
    assert ceilings.read() == pytest.approx(8e6)
    assert ceilings.take() == pytest.approx({"avx2": 1e6, "amx": 8e6})
    rates["avx2"] = 0.5
    ceilings.read()
    assert ceilings.take() == pytest.approx({"avx2": 0.5e6, "amx": 8e6})
    assert ceilings.best() == pytest.approx({"vpmaddwd ymm": 1e6, "tdpbusd": 8e6})


def layer(text, threads=1, isa="avx512vnni", error=0.0, **seconds):
    entries = {
        name: Entry("ok", "", error if name.startswith("peer") else 0.0, (taken,),
                    isa=isa if name.startswith("ours") else "")
        for name, taken in seconds.items()
    }  # fmt: skip
    return LayerResult(parse(text), threads, None, entries)


RES = 'mb1ic64ih56oc64kh1n"resnet_50:a*2"'
DEPTHWISE = 'mb1g32ic32ih8oc32kh3ph1n"mobilenet:dw*1"'


def row(table, label):
    (found,) = [cells for cells in table.rows if cells[0] == label]
    return found


def test_the_table_of_layers():
    one = layer(RES, ours_u8=1.0, ours_s8=1.25, peer=2.0, peer_s8=1.5, f32=3.0)
    flops = one.problem.flops
    readings = [{"avx512vnni": 2.0 * flops, "amx": 20.0 * flops}]
    table = page.layers_table("t", [one], readings, ROLES)
    cells = dict(zip(table.header, row(table, "a"), strict=True))
    # The ceiling is that of the instruction that the plan names.
    assert cells["instructions"] == "avx512vnni"
    assert cells["% ceiling"] == "50.0"
    assert cells["best peer"] == "peer_s8"
    assert cells["/ peer"] == "1.50"
    assert cells["s8 / u8"] == "0.80"
    assert cells["/ own f32"] == "3.00"
    assert not table.bold
    behind = layer(RES, ours_u8=2.0, peer=1.0)
    assert page.layers_table("t", [behind], [{}], ROLES).bold
    # One whose plan names nothing that has a loop is held against the fastest.
    other = layer(RES, isa="avx512", ours_u8=1.0)
    assert page.layers_table("t", [other], readings, ROLES).rows[0][6] == "5.0"


def test_the_table_of_networks_says_what_is_missing():
    layers = [
        layer(RES, ours_u8=1.0, ours_s8=1.0, peer=3.0, f32=2.0),
        layer('mb1ic64ih56oc64kh3ph1n"resnet_50:b*1"', ours_u8=1.0, peer=1.0, peer_s8=0.5),
    ]
    table = page.networks_table(layers, ROLES)
    cells = dict(zip(table.header, table.rows[0], strict=True))
    assert cells["network"] == "resnet_50, 1 thread"
    # 2 * 3.0 + 0.5 of the best peers, over 3 of ours.
    assert cells["/ best peer of each layer"] == "2.17"
    assert cells["/ peer"] == "2.33"
    assert cells["/ peer_s8"] == "0.50 (1 of 2)"
    assert cells["/ own f32"] == "2.00 (1 of 2)"


def test_the_table_of_units():
    layers = [layer(RES, ours_u8=1.0, peer=1.0), layer(RES, error=0.01, ours_u8=1.0, peer=1.0)]
    layers[0].entries["peer_s8"] = Entry("wrong", "2 units off", 2.0)
    table = page.units_table(layers, ROLES)
    assert row(table, "ours_u8")[1:] == ("2", "2", "0", "0", "0")
    assert row(table, "peer")[1:] == ("2", "1", "0.5", "1", "0")
    assert row(table, "peer_s8")[1:] == ("0", "0", "-", "-", "1")
    assert "f32" not in {cells[0] for cells in table.rows}


def test_the_figures_to_reach():
    layers = [
        layer(RES, ours_u8=1.0, ours_s8=1.05, peer=1.2),
        layer(DEPTHWISE, ours_u8=1.0, ours_s8=1.0, peer=0.5, f32=1.4),
    ]
    flops = [one.problem.flops for one in layers]
    readings = [{"avx512vnni": flops[0] / 0.9}, {"avx512vnni": flops[1] * 10.0}]
    table = page.figures_table("int8", layers, readings, ROLES)
    found = {cells[:2]: cells for cells in table.rows}
    assert found["ResNet-50", "each layer / best peer"][4:6] == ("1.200", "yes")
    assert found["ResNet-50", "total / best peers"][4:6] == ("1.200", "yes")
    # (2 * 1 + 1) / (2 * 1.05 + 1): counts included.
    assert found["all layers", "total, s8 / u8"][4:6] == ("0.968", "no")
    assert found["depthwise", "total / own f32"][4:6] == ("1.400", "yes")
    # Depthwise layers do not count here, however slow they are.
    ceiling = found["dense, by avx512vnni", "each layer / ceiling"]
    assert ceiling[3:] == ("0.92", "0.900", "no", "resnet_50:a 0.900", "1 of 1")
    tiles = [layer(RES, isa="amx", ours_u8=1.0)]
    table = page.figures_table("int8", tiles, [{"amx": flops[0] / 0.75}], ROLES)
    assert table.rows[-1][:6] == (
        "dense, by amx", "each layer / ceiling", "1", "0.70", "0.750", "yes"
    )  # fmt: skip


def test_figures_of_a_run_without_ours():
    table = page.figures_table("bf16", [layer(RES, peer=1.0)], [{}], ROLES)
    assert {cells[5] for cells in table.rows} == {"not measured"}


def test_the_table_of_ceilings():
    table = page.ceilings_table({1: {"tdpbusd": 7.5e12}, 2: {"tdpbusd": 1.5e13}})
    assert table.rows == [("tdpbusd", "7500.0", "15000.0")]
