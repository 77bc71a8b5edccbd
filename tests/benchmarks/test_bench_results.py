"""Quoted figures are in the file of the run that they are quoted from."""

from __future__ import annotations

import re

import pytest

from benchmarks.long_tables import read
from tests.documents import ROOT, figures, follow, headings, links, section, tables

README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
RUNS = sorted((ROOT / "benchmarks" / "results").glob("*.md"))
# Names of networks in prose and in the tables of runs.
NETWORKS = {"ResNet-50": "resnet_50", "VGG-19": "vgg_19", "MobileNetV1": "mobilenet"}
FIGURE = r"\**(\d+(?:\.\d+)?) (?:ms|µs|s)\**"


def numbers(cell: str) -> list[str]:
    """List the numbers of a cell, as they are written."""
    return re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", cell)


def quoted() -> list[tuple[str, str, str, str]]:
    """List label, number, whose it is and the link of each figure in README's table."""
    (table,) = tables(section(README, "how-fast"))
    found = []
    for label, ours, peers, run in table[1:]:
        (link,) = links(run)
        (number,) = re.findall(FIGURE, ours)
        found.append((label, number, "pplconv", link))
        for part in peers.split("; "):
            match = re.fullmatch(FIGURE + r", (.+)", part)
            assert match, f"{part}: expected a figure and whose it is"
            found.append((label, match[1], match[2], link))
    return found


@pytest.mark.parametrize(
    ("label", "number", "whose", "link"), quoted(), ids=[f"{n} {who}" for _, n, who, _ in quoted()]
)
def test_readme_quotes_its_runs(label, number, whose, link):
    """The number is in one row or column with its network and its engine."""
    path, name = follow(README, link)
    assert path in RUNS
    network = next((net for net in NETWORKS if label.startswith(net)), "")
    for table in tables(section(path, name)):
        for row in table[1:]:
            beside = [" ".join(row), *(f"{row[0]} {head}" for head in table[0])]
            if number in [n for cell in row for n in numbers(cell)] and any(
                whose in text and network in text for text in beside
            ):
                return
    pytest.fail(f"{link} has no row with {number}, {network} and {whose}")


def sums(text: str, network: str, threads: int) -> list[float]:
    """Give the totals of a network by every engine, in milliseconds."""
    title = f"**{network}, {threads} thread{'s' * (threads > 1)}: sums over the network, ms**"
    _, _, after = text.partition(title)
    assert after, title
    (total,) = [row for row in tables(after)[0] if row[0] == "all"]
    return [float(number) for cell in total[1:] for number in numbers(cell)]


def test_summary_is_of_the_run():
    """Its sums are those of the run, rounded."""
    path = ROOT / "benchmarks" / "results" / "2026-11-21-intel-6-207.md"
    run = section(path, "all-engines-avx-512")
    table = tables(section(path, "summary"))[0]
    assert len(table) == 1 + 2 * len(NETWORKS)
    for label, *cells in table[1:]:
        name, threads = re.fullmatch(r"(\S+), all, (\d) threads?", label).groups()
        exact = sums(run, NETWORKS[name], int(threads))
        for cell in cells:
            rounded = float(numbers(cell)[0])
            assert min(abs(value - rounded) for value in exact) < 0.0501, f"{label}: {cell}"


def test_results_page_quotes_its_runs():
    """Each figure of the page stands in a file that its section links to."""
    text = RESULTS.read_text(encoding="utf-8")
    machines = [text[begin:end] for _, level, begin, end in headings(text) if level == 2]
    assert machines
    for machine in machines:
        linked = {follow(RESULTS, link)[0] for link in links(machine)} & set(RUNS)
        runs = [read(path) for path in linked]
        known = {n for run in runs for n in numbers(run)} | {
            f for run in runs for f in figures(run)
        }
        unknown = set(figures(machine)) - known
        assert unknown == set()


def test_results_page_links_to_every_run():
    linked = {follow(RESULTS, link)[0] for link in links(RESULTS.read_text(encoding="utf-8"))}
    assert RUNS
    assert set(RUNS) <= linked
    assert len(RESULTS.read_text(encoding="utf-8").splitlines()) < 140, "one page, not the tables"


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_a_file_is_of_one_day_and_one_cpu(path):
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)-([a-z]+)-(\d+)-(\d+)\.md", path.name)
    assert match, "expected <date>-<vendor>-<family>-<model>.md"
    date, vendor, family, model = match.groups()
    text = path.read_text(encoding="utf-8")
    dates = re.findall(r"^- date: (\S+)", text, re.MULTILINE)
    assert dates
    assert set(dates) == {date}
    cpus = re.findall(r"^- CPU: (.*)", text, re.MULTILINE)
    assert len(cpus) == len(dates) == len(re.findall(r"^- command: `", text, re.MULTILINE))
    for cpu in cpus:
        assert vendor in cpu.lower()
        assert cpu.endswith(f"(family {family}, model {model})")
