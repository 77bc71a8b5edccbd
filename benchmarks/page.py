"""Make a page and charts of a run: ``python -m benchmarks.page RUN.json --accuracy ACCURACY.json``.

``python -m benchmarks.run --json`` writes ``RUN.json``, ``python -m benchmarks.accuracy --json``
writes ``ACCURACY.json``. The page contains its charts, so that one file is enough to send; files of
the charts lie beside it, for light and for dark paper.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks import charts, roofline
from benchmarks.files import write_whole
from benchmarks.looks import DPI, THEMES, Theme
from benchmarks.problems import load_nets
from benchmarks.recorded import RecordError, Run, load
from benchmarks.report import conditions, group, standings, tables
from benchmarks.results import LayerResult
from benchmarks.standing import main_setting, ours_of, peers_of, settings_of, stand
from benchmarks.tables import Table

STYLE = Path(__file__).resolve().parent / "page.css"
OUT = Path(__file__).resolve().parent / "report"

_ROOFLINE = """A point is a layer by pplconv's best layout; the grey dash above or below it is the
best peer there. Flops and bytes are those of the direct sum: 2 a product, and every input that
counts, every weight and every output moved once. The sloping roofs were measured in the same run by
copying arrays that fill half of L2, several L2s, or more than the last cache; between the calls of
a benchmark a small layer's tensors stay in cache, so the roof that counts for it is that of the
level that holds them. Winograd stands above the flat roof because it multiplies less than it is
credited for: with free transforms it would reach the dashed lines, where they are drawn."""
_BARS = """Flops of the direct sum over all layers with their counts, over the time of the engine,
as a part of what the FMA loop reached beside each layer. An engine that cannot run a layer, or was
wrong on one, has no sum. Winograd may exceed 100."""
_SCATTER = """Each point is one 3x3 layer by one algorithm: how far its largest error against a
float64 convolution lies from zero, and how fast it is. Lower tolerance leaves fewer algorithms."""


@dataclass(frozen=True)
class Chart:
    """A chart to draw, once for each look.

    Attributes
    ----------
    stem : str
        Its file without look and suffix.
    title, text : str
        Heading, and how to read it.
    draw : callable
        Takes a theme, gives a figure.
    """

    stem: str
    title: str
    text: str
    draw: Callable[[Theme], Any]


def charts_of(run: Run, accuracy: Run | None) -> list[Chart]:
    """List the charts that the records have figures for."""
    found = []
    setting = main_setting(run.identities) or next(iter(settings_of(run.identities)), None)
    for batch, threads in dict.fromkeys((one.problem.mb, one.threads) for one in run.layers):
        layers = [one for one in run.layers if (one.problem.mb, one.threads) == (batch, threads)]
        if not all(one.peak for one in layers):
            continue
        where, stem = conditions(batch, threads), f"mb{batch}-{threads}t"
        if setting is not None:
            found.append(_roofline(run, layers, where, stem))
        nets: dict[str, list[LayerResult]] = {}
        for one in layers:
            nets.setdefault(one.problem.net, []).append(one)
        found.append(_bars(run, nets, where, stem))
    if accuracy is not None and accuracy.layers:
        found.append(_scatter(accuracy))
    return found


def _roofline(run: Run, layers: Sequence[LayerResult], where: str, stem: str) -> Chart:
    setting = main_setting(run.identities) or settings_of(run.identities)[0]
    ours, peers = ours_of(run.identities, setting), peers_of(run.identities)
    compared = [one for layer in layers if (one := stand(layer, ours, peers)).ours_seconds]
    ceilings = run.ceilings.get(layers[0].threads, {})
    title = f"Roofline, {where}"
    return Chart(
        f"roofline-{stem}",
        title,
        _ROOFLINE,
        lambda theme: roofline.draw(title, compared, ceilings, theme),
    )


def _bars(run: Run, nets: Mapping[str, Sequence[LayerResult]], where: str, stem: str) -> Chart:
    title = f"Part of the FMA peak, {where}"
    return Chart(
        f"peak-{stem}",
        title,
        _BARS,
        lambda theme: charts.bars(title, nets, run.identities, theme),
    )


def _scatter(accuracy: Run) -> Chart:
    title = f"Error against speed, {conditions(1, accuracy.layers[0].threads)}"
    return Chart(
        "accuracy",
        title,
        _SCATTER,
        lambda theme: charts.scatter(title, accuracy.layers, accuracy.identities, theme),
    )


def write_charts(found: Sequence[Chart], out: Path) -> dict[str, dict[str, bytes]]:
    """Draw every chart in every look into `out`; give the pictures by stem and look."""
    pictures: dict[str, dict[str, bytes]] = {}
    for chart in found:
        for theme in THEMES:
            buffer = BytesIO()
            # Without a date, the same record gives the same file.
            chart.draw(theme).savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
            (out / f"{chart.stem}{theme.suffix}.png").write_bytes(buffer.getvalue())
            pictures.setdefault(chart.stem, {})[theme.suffix] = buffer.getvalue()
    return pictures


def html(
    run: Run,
    accuracy: Run | None,
    found: Sequence[Chart],
    pictures: Mapping[str, Mapping[str, bytes]],
) -> str:
    """Write the page: where pplconv stands, the charts, each network's tables, how it was run."""
    overall = standings(run.layers, run.identities, load_nets())
    nets = {net: f"net-{number}" for number, net in enumerate(_nets(run.layers))}
    of_nets: dict[str, list[Table]] = {net: [] for net in nets}
    for (net, _, _), layers in group(run.layers).items():
        of_nets[net] += tables(net, layers, run.identities)
    for table in list(overall):
        for net in nets:
            if table.title.startswith(f"{net}, "):
                of_nets[net].append(table)
                overall.remove(table)
    links = [("#standing", "Standing"), ("#charts", "Charts")]
    links += [(f"#{anchor}", net) for net, anchor in nets.items()]
    links.append(("#method", "How it was measured"))
    date = next((text for label, text in run.head if label == "date"), "")
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        "<title>pplconv and its peers</title>",
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style></head><body>",
        f"<header><h1>pplconv and its peers</h1><p>{escape(date)}</p>",
        "<nav>" + " ".join(f'<a href="{to}">{escape(text)}</a>' for to, text in links) + "</nav>",
        "</header><main>",
        # The figures come last in a report that scrolls by, and first on a page.
        _section("standing", "Standing", _boxes([*overall[-1:], *overall[:-1]])),
        _section("charts", "Charts", "\n".join(_figure(one, pictures[one.stem]) for one in found)),
    ]
    parts += [_section(nets[net], net, _boxes(made)) for net, made in of_nets.items()]
    parts += [_section("method", "How it was measured", _head(run, accuracy))]
    return "\n".join([*parts, "</main></body></html>", ""])


def _nets(layers: Sequence[LayerResult]) -> list[str]:
    return list(dict.fromkeys(layer.problem.net for layer in layers))


def _section(anchor: str, title: str, body: str) -> str:
    return f'<section id="{anchor}"><h2>{escape(title)}</h2>\n{body}\n</section>'


def _boxes(made: Sequence[Table]) -> str:
    """Give each table a box that scrolls by itself where the window is narrow."""
    return "\n".join(f'<div class="table">{table.html()}</div>' for table in made)


def _figure(chart: Chart, looks: Mapping[str, bytes]) -> str:
    light, dark = (
        "data:image/png;base64," + base64.b64encode(looks[theme.suffix]).decode("ascii")
        for theme in THEMES
    )
    return (
        f'<figure id="{chart.stem}"><picture>'
        f'<source srcset="{dark}" media="(prefers-color-scheme: dark)">'
        f'<img src="{light}" alt="{escape(chart.title)}"></picture>'
        f"<figcaption>{escape(chart.text)}</figcaption></figure>"
    )


def _head(run: Run, accuracy: Run | None) -> str:
    parts = []
    for title, one in (("The run", run), ("Error against speed", accuracy)):
        if one is None:
            continue
        parts.append(f"<h3>{title}</h3><dl>")
        parts += [f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in one.head]
        parts.append("</dl><ul>")
        parts += [f"<li>{escape(note)}</li>" for note in one.notes]
        parts.append("</ul>")
    return "\n".join(parts)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN.json", help="of benchmarks.run --json")
    parser.add_argument(
        "--accuracy", type=Path, metavar="FILE", help="of benchmarks.accuracy --json"
    )
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR", help="default %(default)s")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; give the exit status."""
    parser = _parser()
    chosen = parser.parse_args(arguments)
    if importlib.util.find_spec("matplotlib") is None:
        parser.error('charts need matplotlib: pip install "pplconv[report]"')
    try:
        run = load(chosen.run)
        accuracy = load(chosen.accuracy) if chosen.accuracy is not None else None
    except RecordError as error:
        parser.error(str(error))
    if not run.layers:
        parser.error(f"{chosen.run} holds no layers: the run was interrupted before the first one")
    chosen.out.mkdir(parents=True, exist_ok=True)
    found = charts_of(run, accuracy)
    pictures = write_charts(found, chosen.out)
    write_whole(chosen.out / "index.html", html(run, accuracy, found, pictures))
    print(chosen.out / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
