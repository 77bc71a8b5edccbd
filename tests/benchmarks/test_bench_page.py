"""Records read back, and the page and charts that are made of them."""

from __future__ import annotations

import json
import re
import struct

import pytest

from benchmarks import charts, page, roofline
from benchmarks.candidates import OK, UNSUPPORTED, WRONG
from benchmarks.engines import ENGINES, choose
from benchmarks.engines.base import Availability
from benchmarks.looks import DARK, LIGHT, THEMES
from benchmarks.problems import load_nets
from benchmarks.recorded import RecordError, load, record
from benchmarks.report import Head
from benchmarks.results import Entry, LayerResult
from benchmarks.standing import stand

ENGINES_OF_RUN = choose(["pplconv", "pplconv_nhwc", "ort", "ncnn"])
CEILINGS = {1: {"L2": 90e9, "L3": 30e9, "memory": 20e9}}


def layer(problem, factor=1.0, threads=1):
    entries = {}
    for index, engine in enumerate(ENGINES_OF_RUN):
        seconds = factor * problem.flops / 1e11 * (1 + 0.1 * index)
        entries[engine.name] = Entry(OK, "", 1e-6 * (index + 1), (2 * seconds, seconds))
    entries["ncnn"] = Entry(UNSUPPORTED, "no <batch>")
    return LayerResult(problem, threads, 1.6e11, entries)


def head(engines):
    found = [(engine, Availability(ok=True, version="1.2")) for engine in engines]
    absent = (ENGINES["mnn"], Availability(ok=False, reason="no module"))
    return Head(
        date="2020-01-01 00:00 UTC",
        command="python -m x",
        machine={"CPU": "Z80 <fast>"},
        engines=[*found, absent],
        method="once",
        notes=["hot & dry"],
    )


@pytest.fixture
def layers():
    nets = load_nets()
    chosen = [*nets["mobilenet"][8:13], *nets["vgg_19"][4:6]]
    # Winograd: faster than the peak allows.
    return [layer(one, 0.2 if one.kind == "3x3" else 1.0) for one in chosen]


@pytest.fixture
def run_file(layers, tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(record(head(ENGINES_OF_RUN), layers, CEILINGS)))
    return path


@pytest.fixture
def accuracy_file(tmp_path):
    engines = [ENGINES["pplconv"].forced("im2col", 1e-6), ENGINES["pplconv"].forced("im2col", 1e-4)]
    engines += [ENGINES["pplconv_nhwc"].forced("pointwise", 1e-6), ENGINES["numpy"]]
    found = [(engine, Availability(ok=True, version="1")) for engine in engines]
    layers = [
        LayerResult(
            problem,
            1,
            1.6e11,
            {
                engines[0].name: Entry(OK, "", 1e-6, (problem.flops / 1e11,)),
                engines[1].name: Entry(OK, "", 0.0, (problem.flops / 2e11,)),
                engines[2].name: Entry(WRONG, "off", 0.5),
                "numpy": Entry(OK, "", 5e-7, (problem.flops / 5e10,)),
            },
        )
        for problem in load_nets()["vgg_19"][:2]
    ]
    path = tmp_path / "accuracy.json"
    path.write_text(json.dumps(record(head([]), layers, {}, found)))
    return path


def size_of(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


def test_a_record_reads_back_as_it_was(run_file, layers):
    run = load(run_file)
    assert list(run.layers) == layers
    assert list(run.identities) == [engine.identity for engine in ENGINES_OF_RUN]
    assert run.ceilings == CEILINGS
    assert ("CPU", "Z80 <fast>") in run.head
    assert ("mnn", "absent: no module") in run.head
    assert run.notes == ["hot & dry"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "No such file"),
        ("{", "is no JSON"),
        ("[]", "is no record of a run"),
        ("{}", "KeyError: 'engines'"),
    ],
)
def test_something_else_is_refused(tmp_path, content, complaint):
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(RecordError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)


def test_a_damaged_layer_is_refused(run_file):
    plain = json.loads(run_file.read_text())
    plain["layers"][0]["problem"] = "mb1ic3"
    run_file.write_text(json.dumps(plain))
    with pytest.raises(RecordError, match="ProblemError: ih, oc, kh missing"):
        load(run_file)


def test_the_page_and_its_charts(run_file, accuracy_file, tmp_path, capsys):
    out = tmp_path / "new" / "report"
    assert page.main([str(run_file), "--accuracy", str(accuracy_file), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out / "index.html")
    assert {path.name for path in out.iterdir()} == {
        "index.html",
        *(
            f"{stem}{look}.png"
            for stem in ("roofline-mb1-1t", "peak-mb1-1t", "accuracy")
            for look in ("", "-dark")
        ),
    }
    text = (out / "index.html").read_text()
    # One file is all: nothing is fetched from anywhere.
    assert re.findall(r'(?:src|srcset|href)="(?!data:image/png;base64,|#)', text) == []
    assert "url(" not in text
    assert "@import" not in text
    assert text.count("data:image/png;base64,") == 6
    assert "prefers-color-scheme: dark" in text
    for part in ("Figures to reach", "Classes of layers", "mobilenet, 1 thread: GFLOP/s"):
        assert part in text
    assert "vgg_19, 1 thread: best layout, best peer" in text
    # Names of machines and libraries are escaped.
    assert "Z80 &lt;fast&gt;" in text
    assert "Z80 <fast>" not in text
    assert "hot &amp; dry" in text
    # Every link leads to a section.
    for target in re.findall(r'href="#([^"]+)"', text):
        assert f'id="{target}"' in text


def test_looks_differ_in_colour_and_not_in_size(run_file, tmp_path):
    page.main([str(run_file), "--out", str(tmp_path / "r")])
    for stem in ("roofline-mb1-1t", "peak-mb1-1t"):
        light = (tmp_path / "r" / f"{stem}.png").read_bytes()
        dark = (tmp_path / "r" / f"{stem}-dark.png").read_bytes()
        assert size_of(light) == size_of(dark)
        assert size_of(light)[0] >= 1200
        assert light != dark
    assert not (tmp_path / "r" / "accuracy.png").exists()


def test_a_run_without_a_peak_or_without_pplconv_has_fewer_charts(layers):
    engines = choose(["ort"])
    peers = [LayerResult(one.problem, 1, one.peak, {"ort": one.entries["ort"]}) for one in layers]

    def stems(layers, engines):
        run = page.Run([], [], [engine.identity for engine in engines], {}, layers)
        return [chart.stem for chart in page.charts_of(run, None)]

    assert stems(peers, engines) == ["peak-mb1-1t"]
    no_peak = [LayerResult(one.problem, 1, None, one.entries) for one in layers]
    assert stems(no_peak, ENGINES_OF_RUN) == []
    teams = [*layers, *(layer(one.problem, threads=2) for one in layers)]
    assert stems(teams, ENGINES_OF_RUN) == [
        "roofline-mb1-1t", "peak-mb1-1t", "roofline-mb1-2t", "peak-mb1-2t",
    ]  # fmt: skip


@pytest.mark.parametrize("theme", THEMES, ids=["light", "dark"])
def test_the_roofline_has_every_layer_and_every_roof(layers, theme):
    compared = [stand(one, ["pplconv", "pplconv_nhwc"], ["ort"]) for one in layers]
    axes = roofline.draw("t", compared, CEILINGS[1], theme).axes[0]
    points = {
        (round(x, 6), round(y, 3))
        for line in axes.lines
        if line.get_marker() in ("o", "s", "D", "^", "v")
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    assert points == {
        (round(p.flops / p.compulsory_bytes, 6), round(p.flops / one.ours_seconds / 1e9, 3))
        for one in compared
        for p in [one.layer.problem]
    }
    texts = [text.get_text() for text in axes.texts]
    assert "FMA peak 160 GFLOP/s" in texts
    assert "memory 20 GB/s" in texts
    assert "Winograd F(2,3): 2.25 x peak" in texts
    low, high = axes.get_ylim()
    assert all(low < y < high for _, y in points)
    # Nothing written on it leaves the picture.
    figure = axes.get_figure()
    figure.canvas.draw()
    for text in [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]:
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1


def test_no_layer_above_the_roof_needs_no_winograd(layers):
    compared = [stand(one, ["pplconv"], ["ort"]) for one in layers if one.problem.kind == "1x1"]
    axes = roofline.draw("t", compared, {}, LIGHT).axes[0]
    assert not [text for text in axes.texts if "Winograd" in text.get_text()]


def test_bars_have_a_length_or_a_reason(layers):
    nets = {"one": layers[:5], "two": layers[5:]}
    identities = [engine.identity for engine in ENGINES_OF_RUN]
    figure = charts.bars("t", nets, identities, DARK)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert titles == ["one", "two"]
    first = figure.axes[0]
    # 100 GFLOP/s of 160; then 1.1 and 1.2 times as slow.
    widths = [bar.get_width() for bar in first.patches]
    assert widths == pytest.approx([62.5, 62.5 / 1.1, 62.5 / 1.2])
    assert [text.get_text() for text in first.texts] == ["62", "57", "52", "0 of 5 layers"]


def test_the_scatter_has_a_point_for_each_right_result(accuracy_file):
    run = load(accuracy_file)
    figure = charts.scatter("t", run.layers, run.identities, LIGHT)
    points = [
        (x, round(y))
        for line in figure.axes[0].lines
        if line.get_marker() not in ("", "None", None)
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    ]
    # An exact result has its place at 1e-9; the wrong one has none.
    assert sorted(points) == [(1e-9, 200)] * 2 + [(5e-7, 50)] * 2 + [(1e-6, 100)] * 2
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["im2col, tolerance 1e-6", "im2col, tolerance 1e-4", "numpy"]


def test_the_page_refuses_what_it_cannot_use(tmp_path, run_file, refused, monkeypatch):
    assert "No such file" in refused(page.main, str(tmp_path / "none.json"))
    plain = json.loads(run_file.read_text())
    run_file.write_text(json.dumps({**plain, "layers": []}))
    assert "holds no layers" in refused(page.main, str(run_file))
    monkeypatch.setattr(page.importlib.util, "find_spec", lambda name: None)
    assert "pplconv[report]" in refused(page.main, str(run_file))
