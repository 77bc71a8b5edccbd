"""The site: its reference lists every public name, charts show recorded figures, links work."""

from __future__ import annotations

import argparse
import json
import re
import sys
from types import SimpleNamespace

import pytest
from PIL import Image

from pplconv.__main__ import _parser
from tests.documents import ROOT, tables
from tools.site import front, gallery, links, names, results

REFERENCE = ROOT / "docs" / "reference" / "index.rst"
RESULTS = ROOT / "benchmarks" / "results"


def test_every_public_name_is_in_the_reference():
    listed = names.listed(REFERENCE)
    assert len(listed) > 50
    assert len(set(listed)) == len(listed)
    assert names.public() - set(listed) == set()


def test_public_names_are_found():
    public = names.public()
    assert {"conv2d", "imaging.filter2d", "runtime.pin", "wisdom.export"} <= public
    assert {"quant.observe", "integrations.asgi.app", "integrations.dask.Layer"} <= public
    assert "runtime.ForkableLock" not in public


@pytest.mark.parametrize("name", names.listed(REFERENCE))
def test_what_the_reference_lists_is_there_and_described(name):
    if name.startswith("integrations."):
        pytest.importorskip(f"pplconv.{name.rpartition('.')[0]}", exc_type=ImportError)
    assert names.there(name)


def test_a_name_that_is_gone_is_not_there():
    assert names.there("Plan.error_bound") and names.there("prune.magnitude")
    assert not names.there("Plan.speed") and not names.there("prune.everything")


def test_every_command_is_in_the_reference():
    (table,) = tables((ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8"))
    told = {re.match(r"`([\w-]+)", row[0])[1] for row in table[1:]}
    (commands,) = [
        action.choices
        for action in _parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    assert told == set(commands)


def test_every_example_has_its_place():
    there = {path.stem for path in (ROOT / "examples").glob("*.py")} - {"__init__"}
    assert there == set(gallery.EXAMPLES)
    assert [gallery.place(f"{name}.py") for name in gallery.EXAMPLES] == sorted(
        range(len(gallery.EXAMPLES))
    )


def test_readme_fits_the_first_minute():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) < 120
    for picture in front.PICTURES.values():
        assert picture.relative_to(ROOT).as_posix() in readme
        assert picture.stat().st_size < 100_000
    tutorial = (ROOT / "docs" / "tutorials" / "network.md").read_text(encoding="utf-8")
    for picture in (ROOT / "docs" / "_static").glob("profile*.png"):
        assert f"docs/_static/{picture.name}" in readme
        assert f"../_static/{picture.name}" in tutorial
        assert picture.stat().st_size < 100_000
    path = front.RUN.relative_to(ROOT).as_posix()
    assert path in readme, "the run that the picture shows"


@pytest.mark.parametrize("path", front.PICTURES.values(), ids=lambda path: path.name)
def test_the_picture_shows_what_was_recorded(path):
    """If this fails, run ``python -m tools.site.front``."""
    with Image.open(path) as picture:
        told = json.loads(picture.text[front.FIGURES])
    assert set(told) == set(front.NETWORKS)
    assert told == front.times()


def test_charts_take_ratios_and_sums_as_they_were_recorded():
    found = {chart.name: chart for chart in results.charts(RESULTS)}
    networks = found["2026-11-24-amd-26-2-whole-networks-against-three-peers-1"]
    assert networks.what == "whole networks"
    assert networks.cpu == "AMD Zen 5 (family 26, model 2)"
    assert networks.bars[0] == results.Bar("ppocr_det_640", "openvino", 1.45)
    sums = found["2026-11-23-amd-26-2-four-networks-against-five-peers-1"]
    (resnet,) = [bar for bar in sums.bars if bar.network == "resnet_50"]
    assert resnet.peer == "litert" and resnet.gain == pytest.approx(29.28 / 20.73, rel=1e-3)


def test_filters_are_drawn_for_one_image(tmp_path):
    (tmp_path / "2026-01-02-amd-1-1.md").write_text(
        "# A day\n\n## Filters\n\n- CPU: AMD\n\n**filters, uint8, 2 threads: ms**\n\n"
        "| image, MP | kernel | pplconv | one | two | one / pplconv |\n| --- | ---: | --- | --- |"
        " --- | --- |\n| 1 | 3x3 | 2.00 | **1.00** | 3.00 | 0.50 |\n"
        "| 1 | 5x5 | **2.00** | 5.00 | 4.00 | 2.50 |\n| 1 | 7x7 | 2.00 | - | 3.00 | - |\n"
        "| 64 | 3x3 | 2.00 | 1.00 | 3.00 | 0.50 |\n"
    )
    (chart,) = results.charts(tmp_path)
    assert (chart.threads, chart.what) == (2, "filters of an image of a megapixel, uint8")
    bars = [("3x3", "one", 0.5), ("5x5", "two", 2.0), ("7x7", "two", 1.5)]
    assert chart.bars == [results.Bar(*bar) for bar in bars]


def test_no_chart_stands_for_two():
    charts = results.charts(RESULTS)
    assert len(charts) > 10
    assert len({chart.name for chart in charts}) == len(charts)
    assert all(len(chart.bars) >= results.FEWEST for chart in charts)
    # Losses are drawn like gains.
    assert any(bar.gain < 1 for chart in charts for bar in chart.bars)


def test_charts_are_written_for_light_and_dark(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    rows = "".join(f"| net{i} | 2.0 | 3.0 | {1.5 + i / 10} | peer |\n" for i in range(3))
    (folder / "2026-01-02-amd-1-1.md").write_text(
        "# A day\n\n## A run\n\n- CPU: AMD\n\n### Networks, 1 thread: median of the rounds, ms\n\n"
        "| network | pplconv | peer | pplconv / best peer | best peer |\n|---|---|---|---|---|\n"
        + rows
    )
    results.write(folder, tmp_path / "charts")
    written = {path.name for path in (tmp_path / "charts").iterdir()}
    assert written == {
        "charts.txt",
        "2026-01-02-amd-1-1-a-run-1.svg",
        "2026-01-02-amd-1-1-a-run-1-dark.svg",
    }
    page = (tmp_path / "charts" / "charts.txt").read_text(encoding="utf-8")
    assert "(../benchmarks/results/2026-01-02-amd-1-1.md#a-run)" in page
    assert page.count(":class: only-dark") == page.count(":class: only-light") == 1


def test_the_site_shows_pages_with_all_their_tables():
    path = RESULTS / "2026-11-22-amd-25-17.md"
    handlers, dependencies = {}, []
    env = SimpleNamespace(doc2path=lambda _: str(path), note_dependency=dependencies.append)
    app = SimpleNamespace(connect=handlers.__setitem__, env=env)
    results.connect(app)
    source = [path.read_text(encoding="utf-8")]
    handlers["source-read"](app, "benchmarks/results/2026-11-22-amd-25-17", source)
    assert [len(table) for table in tables(source[0])].count(1 + 81) == 4
    assert dependencies == [RESULTS / "data" / "2026-11-22-amd-25-17.json.xz"]


def test_docstrings_lead_to_pages():
    pytest.importorskip("docutils")
    from tools.site.references import _link_pages

    lines = ["see docs/imaging.md, or docs/how-to/choose.md.", "``docs/imaging.md``", "other.md"]
    _link_pages(None, "function", "f", None, None, lines)
    assert lines == [
        "see :doc:`docs/imaging.md </docs/imaging>`, or "
        ":doc:`docs/how-to/choose.md </docs/how-to/choose>`.",
        "``docs/imaging.md``",
        "other.md",
    ]


SILENT = "HTTPSConnectionPool: Max retries exceeded (Caused by NameResolutionError('no such host'))"


@pytest.fixture
def site(tmp_path):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "theme.html").write_text('<a href="{{ template }}">theme</a>')
    (tmp_path / "folder").mkdir()
    old = '<a name="old">old</a><a href="../a.html#b">b</a>'
    (tmp_path / "folder" / "index.html").write_text(old)
    (tmp_path / "picture one.png").write_bytes(b"")
    (tmp_path / "a.html").write_text(
        '<h1 id="b">B</h1><a href="#b">b</a><a href="folder/#old">f</a>'
        '<img src="picture%20one.png"><a href="https://example.org/">other</a>'
    )
    return tmp_path


def test_a_whole_site_has_no_dead_links(site):
    assert links.dead_inside(site) == (4, [])


@pytest.mark.parametrize(
    "link, said",
    [
        ("#c", "no such anchor"),
        ("folder/index.html#new", "no such anchor"),
        ("b.html", "no such file"),
        ("folder/picture.png", "no such file"),
    ],
)
def test_dead_links_are_named(site, link, said):
    page = site / "a.html"
    page.write_text(page.read_text() + f'<a href="{link}">dead</a>')
    assert links.dead_inside(site) == (5, [f"a.html: {link}: {said}"])


def row(uri: str, status: str, info: str = "") -> dict[str, object]:
    return {"filename": "a.md", "lineno": 7, "uri": uri, "status": status, "info": info}


def test_without_a_network_no_link_is_called_dead():
    rows = [row("https://a.org/", "broken", SILENT), row("#b", "unchecked")]
    assert links.dead_outside(rows) == (1, 0, [])


def test_with_a_network_a_host_that_is_gone_is_dead():
    rows = [
        row("https://a.org/", "working"),
        row("https://gone.org/", "broken", SILENT),
        row("https://a.org/page", "broken", "404 Client Error: Not Found"),
    ]
    asked, answered, dead = links.dead_outside(rows)
    assert (asked, answered) == (3, 2)
    assert [line.split(": ")[1] for line in dead] == ["https://gone.org/", "https://a.org/page"]


@pytest.mark.parametrize("info, status", [(SILENT, 0), ("404 Client Error", 1)])
def test_the_verdict(site, monkeypatch, capsys, info, status):
    found = site / "output.json"
    found.write_text(json.dumps(row("https://a.org/", "broken", info)) + "\n")
    monkeypatch.setattr(sys, "argv", ["links", str(site), "--others", str(found)])
    assert links.main() == status
    assert ("NOT CHECKED HERE" in capsys.readouterr().out) == (status == 0)
