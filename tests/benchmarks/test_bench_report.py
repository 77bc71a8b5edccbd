"""Sums and tables of a run whose figures are known."""

from __future__ import annotations

import json
from functools import partial

import pytest

from benchmarks.candidates import WRONG
from benchmarks.engines.base import Availability
from benchmarks.files import write_whole
from benchmarks.problems import parse
from benchmarks.report import Head, group, remarks, tables
from benchmarks.results import Entry, from_json, sums, to_json
from tests.benchmarks import known_runs
from tests.benchmarks.known_runs import Named

POINTWISE = 'mb1ic50ih10oc100kh1n"net:one*2"'  # 1 MFLOP
DEPTHWISE = 'mb1g50ic50ih10oc50kh1n"net:dw*1"'  # 0.01 MFLOP


ENGINES = [Named("pplconv", True), Named("pplconv_conv2d", True), Named("ort"), Named("litert")]


layer = partial(known_runs.layer, missing=Entry(WRONG, "x"))


@pytest.fixture
def layers():
    return [
        layer(POINTWISE, {"pplconv": 2e-3, "pplconv_conv2d": 4e-3, "ort": 8e-3, "litert": 4e-3}),
        layer(DEPTHWISE, {"pplconv": 1e-4, "pplconv_conv2d": 2e-4, "ort": 5e-5, "litert": None}),
    ]


def test_sums_count_each_layer_as_often_as_it_occurs(layers):
    pointwise, depthwise, dense, everything = sums(layers, ["ort", "litert"])
    assert [one.label for one in (pointwise, depthwise, dense, everything)] == [
        "1x1",
        "depthwise",
        "all but depthwise",
        "all",
    ]
    assert everything.flops == 2 * 1_000_000 + 10_000
    assert everything.seconds["pplconv"] == pytest.approx(2 * 2e-3 + 1e-4)
    # The best peer differs from layer to layer.
    assert everything.floor == pytest.approx(2 * 4e-3 + 5e-5)
    assert pointwise.seconds == dense.seconds


def test_an_engine_that_lacks_a_layer_has_no_sum(layers):
    everything = sums(layers, ["ort", "litert"])[-1]
    assert "litert" not in everything.seconds
    assert "litert" in sums(layers, ["ort", "litert"])[0].seconds


def test_the_peak_of_a_sum_runs_each_layer_at_its_own(layers):
    faster = [layers[0], layer(DEPTHWISE, {"ort": 1e-3}, peak=2e9)]
    everything = sums(faster, ["ort"])[-1]
    assert everything.peak == pytest.approx(2.01e6 / (2e6 / 1e9 + 1e4 / 2e9))
    unknown = [layers[0], layer(DEPTHWISE, {"ort": 1e-3}, peak=None)]
    assert sums(unknown, ["ort"])[-1].peak is None


def test_the_table_of_rates(layers):
    text = tables("net", layers, ENGINES)[0].text().splitlines()
    cells = [line.split() for line in text if not line.startswith("-")]
    assert cells[0] == ["net,", "1", "thread:", "GFLOP/s"]
    header = text[1]
    for column in ("% peak", "/ peer", "% prepared", "best peer", "MFLOP", "count"):
        assert column in header
    # 0.5 GFLOP/s of a peak of 1; twice litert; conv2d half of that.
    expected = "one 2 1.0 1.0 *0.5 50.0 2.00 0.2 25.0 1.00 50.0 0.1 0.2 litert"
    assert " ".join(cells[2]) == expected
    # On the depthwise layer the peer is ahead, and litert was wrong.
    assert cells[3][0] == "dw"
    assert "*0.2" in cells[3]
    assert cells[3][-2:] == ["wrong", "ort"]
    assert cells[-1][0] == "all"
    assert cells[-1][-2:] == ["-", "ort"]


def test_the_table_of_sums(layers):
    table = tables("net", layers, ENGINES)[1]
    rows = {row[0]: row[1:] for row in table.rows}
    #                 at peak, pplconv, conv2d, ort, litert, best peer of each layer
    assert rows["all"] == ("2.01", "4.10", "8.20", "16.05", "-", "8.05")
    assert rows["pplconv against"] == ("0.49", "1.00", "2.00", "3.91", "-", "1.96")


def test_two_threads_are_said_so(layers):
    made = tables("net", [layer(POINTWISE, {"ort": 1e-3}, threads=2)], [Named("ort")])
    assert made[0].title == "net, 2 threads: GFLOP/s"


def test_remarks_name_wrong_engines_errors_and_drift(layers):
    layers = [layers[0], layer(DEPTHWISE, {"ort": 1e-4, "litert": None}, peak=3e9)]
    found = remarks(layers)
    assert "litert on net:dw, 1 thread(s): wrong: x" in found
    assert any("largest error" in one and "ort 1.0e-06" in one for one in found)
    assert any("1.0 to 3.0 GFLOP/s" in one for one in found)


def test_a_reason_that_many_layers_share_is_told_once():
    times = {"ort": 1e-3, "litert": None}
    layers = [layer(POINTWISE.replace("one", f"l{i}"), times) for i in range(4)]
    found = remarks(layers)
    assert "litert on 4 layers, such as net:l0, 1 thread(s): wrong: x" in found
    assert len([one for one in found if "litert" in one]) == 1
    batch = [layer(POINTWISE.replace("mb1", "mb8"), {"litert": None})]
    assert "litert on net:one, batch 8, 1 thread(s): wrong: x" in remarks(batch)


def test_many_of_ours_have_rates_only():
    engines = [Named(f"pplconv@{i}", True) for i in range(5)]
    times = {engine.name: 1e-3 for engine in engines}
    table = tables("net", [layer(POINTWISE.replace("mb1", "mb8"), times)], engines)[0]
    assert table.title == "net, batch 8, 1 thread: GFLOP/s"
    assert list(table.header) == ["layer", "count", "MFLOP", "peak", *times, "best peer"]


def test_layers_are_grouped_by_net_batch_and_team(layers):
    eight = layer(POINTWISE.replace("mb1", "mb8"), {"ort": 1e-3})
    two = layer(POINTWISE, {"ort": 1e-3}, threads=2)
    assert group([*layers, eight, two]) == {
        ("net", 1, 1): layers,
        ("net", 8, 1): [eight],
        ("net", 1, 2): [two],
    }


def test_the_head_lists_what_is_absent():
    head = Head(
        date="2020-01-01",
        command="python -m benchmarks.run",
        machine={"CPU": "Z80"},
        engines=[
            (Named("ort"), Availability(ok=True, version="1.2")),
            (Named("mnn"), Availability(ok=False, reason="no module")),
        ],
        method="once",
        notes=["hot"],
    )
    for text in (head.text(), head.markdown()):
        for part in ("2020-01-01", "python -m benchmarks.run", "Z80", "1.2", "once", "hot"):
            assert part in text
        assert "absent: no module" in text
    assert "- command: `python -m benchmarks.run`" in head.markdown()


def test_json_has_every_figure(layers):
    plain = to_json(layers[1])
    assert plain["problem"] == parse(DEPTHWISE).sizes
    assert plain["peak"] == 1e9
    assert plain["engines"]["ort"] == {
        "status": "ok", "detail": "", "error": 1e-6, "seconds": 5e-5, "rounds": [1e-4, 5e-5],
    }  # fmt: skip
    assert plain["engines"]["litert"]["seconds"] is None
    assert plain["engines"]["litert"]["error"] is None


def test_json_reads_back(layers):
    for one in layers:
        assert from_json(json.loads(json.dumps(to_json(one)))) == one
    unnamed = layer("mb1ic50ih10oc100kh1", {"ort": 1e-3})
    assert from_json(to_json(unnamed)) == unnamed


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "report.md"
    target.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(target, "new \udc80")
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    write_whole(target, "new")
    assert target.read_text() == "new"
