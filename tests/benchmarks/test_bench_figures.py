"""Where pplconv stands, and the verdict of a run of known times on each figure."""

from __future__ import annotations

import pytest

from benchmarks import figures
from benchmarks.candidates import UNSUPPORTED
from benchmarks.engines.base import Identity
from benchmarks.problems import parse
from benchmarks.report import standings
from benchmarks.results import Entry
from benchmarks.standing import (
    Setting,
    class_table,
    layer_table,
    main_setting,
    ours_of,
    peers_of,
    settings_of,
    stand,
    total_of_peak,
    total_ratio,
    worst,
)
from tests.benchmarks import known_runs

# 1 MFLOP each; with times in ms, GFLOP/s is 1 / time.
POINTWISE = 'mb1ic50ih10oc100kh1n"resnet_50:a*2"'
SMALL = 'mb1ic50ih10oc100kh1n"mobilenet:b*1"'
CONV = 'mb1ic128ih4oc128kh3ph1n"vgg_19:c*1"'
DEPTHWISE = 'mb1g8ic8ih8oc8kh3ph1n"mobilenet:d*1"'


def ours(name, layout, search="estimate", asked=1e-5):
    return Identity(name, True, layout, search, asked)


IDENTITIES = [
    ours("pplconv", "NCHW"),
    ours("pplconv_nhwc", "NHWC"),
    Identity("pplconv_conv2d", True, "NCHW"),
    Identity("ort", False, "NCHW"),
    Identity("litert", False, "NHWC"),
]


def layer(text, times, **more):
    seconds = {name: ms and ms / 1e3 for name, ms in times.items()}
    return known_runs.layer(text, seconds, missing=Entry(UNSUPPORTED, "no batch"), **more)


@pytest.fixture
def layers():
    return [
        layer(POINTWISE, {"pplconv": 2.0, "pplconv_nhwc": 1.0, "ort": 3.0, "litert": 1.5}),
        layer(SMALL, {"pplconv": 2.0, "pplconv_nhwc": 4.0, "ort": 1.0, "litert": 5.0}),
    ]


def test_the_best_layout_meets_the_best_peer(layers):
    names, peers = ours_of(IDENTITIES, Setting("estimate", 1e-5)), peers_of(IDENTITIES)
    assert names == ["pplconv", "pplconv_nhwc"]
    assert peers == ["ort", "litert"]
    first, second = (stand(one, names, peers) for one in layers)
    assert (first.ours, first.peer, first.ratio) == ("pplconv_nhwc", "litert", 1.5)
    assert (second.ours, second.peer, second.ratio) == ("pplconv", "ort", 0.5)
    # 1 MFLOP in 1 ms is 1 GFLOP/s, which is the peak.
    assert first.of_peak == pytest.approx(1.0)
    assert total_ratio([first, second]) == pytest.approx((2 * 1.5 + 1.0) / (2 * 1.0 + 2.0))
    assert total_of_peak([first, second]) == pytest.approx(3.0 / 4.0)
    assert worst([first, second]) is second


def test_what_has_no_time_is_not_compared(layers):
    alone = stand(layer(POINTWISE, {"pplconv": 1.0, "ort": None}), ["pplconv"], ["ort", "mnn"])
    assert (alone.peer, alone.ratio) == ("", None)
    assert total_ratio([alone]) is None
    assert worst([alone]) is None


def test_measured_plans_stand_for_pplconv_where_the_run_has_them():
    both = [
        ours("pplconv@estimate@1e-5", "NCHW"),
        ours("pplconv@measure@1e-5", "NCHW", "measure"),
        ours("pplconv@measure@1e-4", "NCHW", "measure", 1e-4),
    ]
    assert settings_of(both) == [
        Setting("estimate", 1e-5),
        Setting("measure", 1e-5),
        Setting("measure", 1e-4),
    ]
    assert main_setting(both) == Setting("measure", 1e-5)
    assert main_setting(both, 1e-4) == Setting("measure", 1e-4)
    assert main_setting(IDENTITIES) == Setting("estimate", 1e-5)
    assert main_setting(IDENTITIES, 1e-4) is None


def test_the_table_of_layers(layers):
    peers = ["ort", "litert"]
    made = layer_table("t", [stand(one, ["pplconv", "pplconv_nhwc"], peers) for one in layers])
    assert made.rows[0] == ("a", "1x1", "pplconv_nhwc", "1.0", "100.0", "litert", "0.7", "1.50")
    assert made.rows[1] == ("b", "1x1", "pplconv", "0.5", "50.0", "ort", "1.0", "0.50")
    # The worst layer is stressed.
    assert made.bold == {(1, 7)}


def test_the_table_of_classes_names_the_worst_layer(layers):
    layers = [*layers, layer(DEPTHWISE, {"pplconv": 0.1, "ort": None, "litert": None})]
    made = class_table(
        "t", [stand(one, ["pplconv", "pplconv_nhwc"], ["ort", "litert"]) for one in layers]
    )
    rows = {row[0]: row[1:] for row in made.rows}
    assert rows["1x1"] == ("2", "75.0", "1.00", "mobilenet:b", "0.50", "ort")
    assert rows["· resnet_50"] == ("1", "100.0", "1.50", "resnet_50:a", "1.50", "litert")
    # No peer ran it: it is in no sum, and the row says so.
    assert rows["depthwise"][0] == "0 of 1"
    assert rows["depthwise"][2:] == ("-", "-", "-", "-")
    assert rows["all"][0] == "2 of 3"


def outcome(found, what, layers):
    return next(one for one in found if (one.figure.what, one.figure.layers) == (what, layers))


EXPECTED = {"resnet_50": [parse(POINTWISE)], "mobilenet": [parse(SMALL), parse(DEPTHWISE)]}
FAR = "1x1, ResNet-50 and MobileNetV1, NHWC or NCHWc"


def test_figures_of_pointwise_layers(layers):
    found = figures.outcomes(layers, IDENTITIES, EXPECTED)
    litert = outcome(found, "each layer / LiteRT", FAR)
    # NHWC alone counts: 1.5 / 1.0 and 5.0 / 4.0.
    assert litert.value == litert.worst_value == 1.25
    assert (litert.worst, litert.rival, litert.verdict) == ("mobilenet:b", "litert", "yes")
    peak = outcome(found, "total / FMA peak", FAR)
    assert peak.value == pytest.approx(3.0 / (2 * 1.0 + 4.0))
    assert peak.verdict == "no"
    near = outcome(found, "each layer / best NCHW peer", "1x1, ResNet-50 and MobileNetV1, NCHW")
    # NCHW against ort alone: 3.0 / 2.0 and 1.0 / 2.0.
    assert (near.value, near.worst, near.rival) == (0.5, "mobilenet:b", "ort")
    assert near.reached is False


def test_a_part_of_the_layers_is_not_all_of_them(layers):
    found = figures.outcomes(layers[:1], IDENTITIES, EXPECTED)
    litert = outcome(found, "each layer / LiteRT", FAR)
    assert (litert.found, litert.expected, litert.verdict) == (1, 2, "yes so far")
    nothing = outcome(found, "total / best peers", "depthwise, MobileNetV1")
    assert (nothing.value, nothing.verdict) == (None, "not measured")


def test_a_bar_of_one_thread_only_is_not_asked_of_a_team(layers):
    layers = [layer(CONV, {"pplconv": 0.3, "ort": 0.5}, threads=threads) for threads in (1, 2)]
    found = figures.outcomes(layers, IDENTITIES, {"vgg_19": [parse(CONV)]})
    wide = [one for one in found if "128-256" in one.figure.layers]
    assert [one.threads for one in wide] == [1]
    flops = parse(CONV).flops
    assert wide[0].value == pytest.approx(flops / 0.3e-3 / 1e9)
    every = [one for one in found if one.figure.layers.startswith("all layers") and one.value]
    assert [one.figure.needed(one.threads) for one in every] == [0.97, 0.95]


def test_tolerance_has_figures_of_its_own():
    identities = [*IDENTITIES, ours("pplconv@1e-4", "NCHW", "estimate", 1e-4)]
    layers = [layer(CONV, {"pplconv": 1.0, "pplconv@1e-4": 0.5, "ort": 1.0})]
    found = figures.outcomes(layers, identities, {"vgg_19": [parse(CONV)]})
    assert outcome(found, "total / best peers", "3x3 stride 1, VGG-19 and ResNet-50").value == 1.0
    loose = outcome(
        found, "total / best peers", "3x3 stride 1, VGG-19 and ResNet-50, tolerance 1e-4"
    )
    assert (loose.value, loose.verdict) == (2.0, "yes")


def test_estimate_is_held_against_measure():
    identities = [
        ours("pplconv@estimate", "NCHW"),
        ours("pplconv_nhwc@estimate", "NHWC"),
        ours("pplconv@measure", "NCHW", "measure"),
    ]
    times = {"pplconv@estimate": 1.3, "pplconv_nhwc@estimate": 1.1, "pplconv@measure": 1.0}
    layers = [layer(POINTWISE, times), layer(SMALL, {name: 1.0 for name in times})]
    figure = "total, estimate / measure, at most", "all layers, every batch size"
    found = outcome(figures.outcomes(layers, identities, EXPECTED), *figure)
    assert found.value == pytest.approx((2 * 1.1 + 1.0) / 3.0)
    assert (found.worst, found.verdict) == ("resnet_50:a", "no")
    assert found.worst_value == pytest.approx(1.1)
    # Without measured plans there is nothing to hold against.
    found = outcome(figures.outcomes(layers, identities[:2], EXPECTED), *figure)
    assert found.verdict == "not measured"


def test_every_batch_size_counts_once():
    layers = [
        layer(text.replace("mb1", mb), {"pplconv": 1.0, "ort": 1.0})
        for mb in ("mb1", "mb8")
        for text in (POINTWISE, SMALL, DEPTHWISE)
    ]
    found = figures.outcomes(layers, IDENTITIES, EXPECTED)
    every = outcome(found, "each layer / best peer", "all layers, every batch size")
    assert (every.found, every.expected, every.verdict) == (6, 6, "yes")
    pointwise = outcome(found, "total / FMA peak", "1x1, ResNet-50 and MobileNetV1, NCHW")
    assert pointwise.found == 2


def test_the_shipped_networks_have_layers_for_every_figure():
    from benchmarks.problems import load_nets

    problems = [one for net in load_nets().values() for one in net]
    counts = [sum(map(figure.pick, problems)) for figure in figures.FIGURES]
    assert counts == [25, 25, 25, 25, 12, 5, 12, 9, 9, 3, 126, 126]


def test_the_report_has_it_all(layers):
    made = standings(layers, IDENTITIES, EXPECTED)
    titles = [one.title for one in made]
    assert titles == [
        "Figures to reach (pplconv with search=estimate, tolerance=1e-5)",
        "resnet_50, 1 thread: best layout, best peer (search=estimate, tolerance=1e-5)",
        "mobilenet, 1 thread: best layout, best peer (search=estimate, tolerance=1e-5)",
        "Classes of layers, 1 thread (search=estimate, tolerance=1e-5)",
        "Summary: each network by the best layout of each layer, beside the best peer of each",
    ]
    markdown = made[0].markdown()
    expected = (
        "| 1x1, ResNet-50 and MobileNetV1, NHWC or NCHWc | each layer / LiteRT | 1 | 0.99 | 1.250 |"
    )
    assert expected in markdown
    assert "| **no** | mobilenet:b | 0.500 | ort | 2 of 3 |" in markdown


def test_a_report_ends_with_a_row_a_network(layers):
    made = standings(layers, IDENTITIES)
    assert not [one for one in made if one.title.startswith("Figures to reach")]
    assert [row[0] for row in made[-1].rows] == ["resnet_50, 1 thread", "mobilenet, 1 thread"]
    lines = made[-1].text().splitlines()
    assert max(map(len, lines[1:])) <= 80


def test_peers_alone_stand_nowhere(layers):
    assert standings(layers, IDENTITIES[2:], EXPECTED) == []
