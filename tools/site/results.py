"""Charts of the tables in ``benchmarks/results``, and its pages with all tables.

A recorded run is drawn if its tables have the benchmarks' titles: no list of runs is kept. There
are three kinds: whole networks (`Networks, 1 thread: median of the rounds, ms`), the
convolutions of a network (`resnet_50, 1 thread: sums over the network, ms`), and filters of images
(`filters, uint8, 1 thread: ms`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.long_tables import data_of, expand, marked, read
from benchmarks.looks import THEMES, Theme, dress, new_figure
from tools.markdown import anchor, section, tables

# Sections with fewer networks have no chart; readers find them in the tables.
FEWEST = 3
_NETWORKS = re.compile(r"Networks, (\d+) threads?: median of the rounds, ms")
_SUMS = re.compile(r"(\w+), (\d+) threads?: sums over the network, ms")
_FILTERS = re.compile(r"filters, (\w+), (\d+) threads?: ms")
_HEADING = re.compile(r"^(##+) +(.+?) *$", re.MULTILINE)
_TITLE = re.compile(r"^(?:#+ +|\*\*)(.+?)(?:\*\*)? *$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_OURS = "pplconv"
# Only filters of images of this size are drawn.
_MEGAPIXELS = "1"
# Names that people know, of the CPUs that reports call by brand and numbers.
_CPUS = {
    "family 6, model 167": "Intel Granite Rapids",
    "family 6, model 207": "Intel Emerald Rapids",
    "family 25, model 17": "AMD Zen 4",
    "family 26, model 2": "AMD Zen 5",
}
# Columns of sums that are not engines.
_NO_ENGINES = {"at peak", "best peer of each layer"}


@dataclass(frozen=True)
class Bar:
    """Speed of pplconv divided by that of the best peer, on a network or with a kernel."""

    network: str
    peer: str
    gain: float


@dataclass(frozen=True)
class Chart:
    """Figures of one section of a results page, for several networks.

    Attributes
    ----------
    path : Path
        The recorded file.
    heading : str
        The section of it.
    cpu : str
    what : str
        The timed work.
    threads : int
    bars : sequence of Bar
    """

    path: Path
    heading: str
    cpu: str
    what: str
    threads: int
    bars: Sequence[Bar]

    @property
    def name(self) -> str:
        """Name the chart's file."""
        return f"{self.path.stem}-{anchor(self.heading)}-{self.threads}"

    @property
    def date(self) -> str:
        """Give the day of the run."""
        return self.path.stem[:10]


def charts(folder: Path) -> list[Chart]:
    """Find the sections to draw, the newest run first."""
    found: list[Chart] = []
    for path in sorted(folder.glob("*.md"), reverse=True):
        text = read(path)
        for match in _HEADING.finditer(text):
            if len(match[1]) == 2:
                found += _of_section(path, match[2], section(path, anchor(match[2])))
    return found


def _of_section(path: Path, heading: str, text: str) -> Iterator[Chart]:
    cpu = re.search(r"^- CPU: (.*)", text, re.MULTILINE)
    found: dict[tuple[str, int], list[Bar]] = {}
    for title, table in _titled(text):
        if match := _NETWORKS.fullmatch(title):
            of_networks = found.setdefault(("whole networks", int(match[1])), [])
            of_networks += _network_bars(table)
        elif match := _SUMS.fullmatch(title):
            of_sums = found.setdefault(("all convolutions of a network", int(match[2])), [])
            of_sums += _sum_bars(match[1], table)
        elif match := _FILTERS.fullmatch(title):
            what = f"filters of an image of a megapixel, {match[1]}"
            found.setdefault((what, int(match[2])), []).extend(_filter_bars(table))
    for (what, threads), bars in found.items():
        if cpu and len(bars) >= FEWEST:
            yield Chart(path, heading, _known(cpu[1]), what, threads, bars)


def _known(cpu: str) -> str:
    """Name a CPU, "AMD EPYC (family 26, model 2)", by the name of its core: "AMD Zen 5 (…)"."""
    _, _, numbers = cpu.rstrip(")").rpartition("(")
    return f"{_CPUS[numbers]} ({numbers})" if numbers in _CPUS else cpu


def _titled(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield each title with the table directly below it."""
    for match in _TITLE.finditer(text):
        below = text[match.end() :].lstrip("\n")
        if below.startswith("|"):
            yield match[1], tables(below.partition("\n\n")[0])[0]


def _network_bars(table: Sequence[Sequence[str]]) -> Iterator[Bar]:
    """Read the printed ratios: they are of rounds, not of medians."""
    for row in table[1:]:
        cells = dict(zip(table[0], row, strict=True))
        ratio = cells.get("pplconv / best peer", "").strip("* ")
        if _NUMBER.fullmatch(ratio):
            yield Bar(cells["network"], cells["best peer"], float(ratio))


def _sum_bars(network: str, table: Sequence[Sequence[str]]) -> Iterator[Bar]:
    """Divide the least sum of a peer by our least sum; `wrong` entries are skipped."""
    for row in table[1:]:
        sums = {
            name: float(cell.strip("* "))
            for name, cell in zip(table[0], row, strict=True)
            if name not in _NO_ENGINES and _NUMBER.fullmatch(cell.strip("* "))
        }
        ours = [time for name, time in sums.items() if name.startswith(_OURS)]
        peers = {name: time for name, time in sums.items() if not name.startswith(_OURS)}
        if row[0] == "all" and ours and peers:
            best = min(peers, key=lambda name: peers[name])
            yield Bar(network, best, peers[best] / min(ours))


def _filter_bars(table: Sequence[Sequence[str]]) -> Iterator[Bar]:
    """Divide the least time of a peer by ours."""
    for row in table[1:]:
        cells = {name: cell.strip("* ") for name, cell in zip(table[0], row, strict=True)}
        times = {
            name: float(cell)
            for name, cell in cells.items()
            if name not in ("image, MP", "kernel") and "/" not in name and _NUMBER.fullmatch(cell)
        }
        ours = times.pop(_OURS, None)
        if cells["image, MP"] == _MEGAPIXELS and ours and times:
            best = min(times, key=lambda name: times[name])
            yield Bar(cells["kernel"], best, times[best] / ours)


def draw(chart: Chart, theme: Theme) -> Any:
    """Draw pplconv's speed relative to the best peer, network by network.

    Returns
    -------
    matplotlib.figure.Figure
    """
    bars = chart.bars
    figure = new_figure(5.4, 1.0 + 0.34 * len(bars), theme)
    axes = figure.add_subplot()
    dress(axes, theme, x="times as fast as the best peer: longer is better")
    axes.grid(visible=False, axis="y")
    for row, bar in enumerate(bars):
        color = theme.ours if bar.gain >= 1 else theme.faint
        axes.barh(row, bar.gain, height=0.68, color=color)
        axes.annotate(
            f"{bar.gain:.2f}  {bar.peer}",
            (bar.gain, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=theme.ink,
        )
    axes.axvline(1, color=theme.ink, linewidth=1.0, linestyle=(0, (4, 3)))
    axes.set_xlim(0, 1.3 * max(1.0, *(bar.gain for bar in bars)))
    axes.set_yticks(range(len(bars)), [bar.network for bar in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    return figure


def page(found: Sequence[Chart]) -> str:
    """Write the part of the results page that shows the charts, as Markdown."""
    lines: list[str] = []
    day = ""
    for chart in found:
        if (heading := f"{chart.date}, {chart.cpu}") != day:
            day = heading
            lines += [f"## {heading}", ""]
        threads = f"{chart.threads} thread{'s' * (chart.threads > 1)}"
        link = f"../benchmarks/results/{chart.path.name}#{anchor(chart.heading)}"
        lines += [f"{chart.heading}, {chart.what}, {threads} ([tables]({link})):", ""]
        told = f"Bars: pplconv against the best peer in each of {len(chart.bars)} cases"
        lines.append("::::{container} chart")
        for theme in THEMES:
            kind = "only-dark" if theme.suffix else "only-light"
            image = f"_charts/{chart.name}{theme.suffix}.svg"
            lines += [f":::{{image}} {image}", f":class: {kind}", f":alt: {told}", ":::"]
        lines += ["::::", ""]
    return "\n".join(lines)


def write(results: Path, out: Path) -> None:
    """Draw all charts into a folder, with the part of the page that shows them."""
    import matplotlib

    matplotlib.rcParams["svg.hashsalt"] = _OURS  # the same names in the file every time
    matplotlib.rcParams["svg.fonttype"] = "none"
    out.mkdir(exist_ok=True)
    found = charts(results)
    for chart in found:
        for theme in THEMES:
            path = out / f"{chart.name}{theme.suffix}.svg"
            draw(chart, theme).savefig(path, transparent=True, metadata={"Date": None})
    (out / "charts.txt").write_text(page(found), encoding="utf-8")


def connect(app: Any) -> None:
    """Register the drawing of charts, and the reading of pages with all their tables."""

    def begin(app: Any) -> None:
        root = Path(app.srcdir)
        write(root / "benchmarks" / "results", root / "docs" / "_charts")

    def source_read(app: Any, name: str, source: list[str]) -> None:
        if marked(source[0]):
            page = Path(app.env.doc2path(name))
            app.env.note_dependency(data_of(page))
            source[0] = expand(source[0], page)

    app.connect("builder-inited", begin)
    app.connect("source-read", source_read)
