"""The page of a profile: whole, safe, and what the plan says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pplconv.drawing.figures import (
    megabytes,
    milliseconds,
    number,
    operations,
    round_number,
    short,
)
from pplconv.drawing.style import STYLE
from pplconv.drawing.svg import Axis, text
from pplconv.network.profiling.measured import (
    COLOURS,
    OTHERS,
    groups,
    kind_of,
    kinds,
    live_bytes,
    moved,
    record,
)
from pplconv.network.profiling.page import page
from pplconv.network.profiling.roofline import draw_movers, movers, points

VOID = {"meta"}
# Whatever a model is called, a page has no other elements and attributes than these.
TAGS = {
    "b", "body", "circle", "dd", "div", "dl", "dt", "h1", "h2", "head", "html", "i", "li", "line",
    "meta", "p", "polygon", "rect", "section", "small", "style", "svg", "table", "tbody", "td",
    "text", "th", "thead", "title", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {
    "aria-label", "charset", "class", "content", "cx", "cy", "dx", "height", "lang", "name",
    "points", "preserveaspectratio", "r", "role", "style", "tabindex", "viewbox", "width", "x",
    "x1", "x2", "y", "y1", "y2",
}  # fmt: skip


class Reader(HTMLParser):
    """Reads a page, and insists that each element is closed in its turn."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.words: list[str] = []
        self.feed(content)
        self.close()
        assert self.open == []

    def handle_starttag(self, name, attributes):
        assert len({key for key, _ in attributes}) == len(attributes)
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)
        if name == "tr":
            self.rows.append([])
        if name in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        self.words.append(data)
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data

    def of(self, name, look):
        return [
            given
            for element, given in self.elements
            if element == name and look in (given.get("class") or "").split()
        ]


def test_page_is_whole_and_alone(profile):
    content = page(profile)
    assert content.startswith("<!DOCTYPE html>")
    reader = Reader(content)
    assert {name for name, _ in reader.elements} <= TAGS
    assert {key for _, given in reader.elements for key in given} <= ATTRIBUTES
    # Nothing is fetched, and nothing runs.
    assert not re.search(r"https?:|url\(|@import|<script|<link|<img|\bon\w+=", content)


def test_every_step_has_its_row(profile):
    rows = Reader(page(profile)).rows
    (begin,) = [index for index, row in enumerate(rows) if row[:2] == ["", "step"]]
    head, *found = rows[begin:]
    assert len(found) == len(profile.plan.steps)
    for index, (row, step) in enumerate(zip(found, profile.plan.steps, strict=True)):
        assert len(row) == len(head)
        assert row[0] == str(index)
        assert row[1] == step.kind
        assert row[3] == "x".join(map(str, step.shape))
        assert row[4] == step.layout
        assert row[5] == milliseconds(step.seconds)
        assert row[7] == megabytes(step.bytes + step.weight_bytes)
        assert row[10] == step.outputs[0]
        if step.flops:
            assert row[6] == number(step.flops / step.seconds / 1e9)


def percents(rectangles, key):
    return [float(given[key].removesuffix("%")) for given in rectangles]


def test_steps_lie_where_their_times_say(profile):
    drawn = Reader(page(profile)).of("rect", "step")
    assert len(drawn) == len(profile.plan.steps)
    pairs = zip(percents(drawn, "x"), percents(drawn, "width"), strict=True)
    at = 0.0
    total = sum(step.seconds for step in profile.plan.steps)
    for (place, width), step in zip(sorted(pairs), profile.plan.steps, strict=True):
        assert place == pytest.approx(at, abs=2e-3)
        assert width == pytest.approx(100 * step.seconds / total, abs=2e-3)
        at += 100 * step.seconds / total
    assert at == pytest.approx(100)


def test_each_buffer_is_a_rectangle(profile):
    drawn = Reader(page(profile)).of("rect", "buffer")
    assert len(drawn) == len(profile.plan.buffers)
    count = len(profile.plan.steps)
    for given, buffer in zip(drawn, profile.plan.buffers, strict=True):
        assert float(given["x"][:-1]) == pytest.approx(100 * buffer.first / count, abs=1e-2)
        wide = 100 * (buffer.last + 1 - buffer.first) / count
        assert float(given["width"][:-1]) == pytest.approx(wide, abs=1e-2)


def test_each_step_is_a_point_once(profile):
    drawn = Reader(page(profile)).of("circle", "point")
    computing, moving = points(profile), movers(profile)
    assert len(drawn) == len(computing) + len(moving) == len(profile.plan.steps)
    assert all(0 <= place <= 100 for place in percents(drawn, "cx"))
    for index, intensity, rate in computing:
        step = profile.plan.steps[index]
        assert intensity == step.flops / (step.bytes + 512)
        assert rate == step.flops / step.seconds
    assert sum(flops for flops in (profile.plan.steps[i].flops for i, _ in moving)) == 0


def test_memory_in_use_is_that_of_the_living_buffers(profile):
    plan = profile.plan
    expected = [
        sum(buffer.size for buffer in plan.buffers if buffer.first <= index <= buffer.last)
        for index in range(len(plan.steps))
    ]
    assert live_bytes(plan) == expected
    (polygon,) = Reader(page(profile)).of("polygon", "live")
    heights = [float(pair.split(",")[1]) for pair in polygon["points"].split()]
    assert len(heights) == 2 * len(expected) + 2
    most = max(plan.arena_bytes, *expected)
    assert 100 - min(heights) == pytest.approx(100 * max(expected) / (1.08 * most), abs=0.01)


def test_groups_add_up(profile):
    for found in (kinds(profile.plan), groups(profile.plan, lambda step: step.layout)):
        assert sorted(n for group in found for n in group.numbers) == list(range(30))
        assert sum(group.seconds for group in found) == pytest.approx(profile.step_seconds)
        assert sum(group.flops for group in found) == profile.flops
        assert sum(group.moved for group in found) == profile.moved
    found = kinds(profile.plan)
    assert len(found) == COLOURS
    assert found[-1].name == OTHERS
    times = [group.seconds for group in found[:-1]]
    assert times == sorted(times, reverse=True)


def test_kinds_are_named_for_people(profile):
    steps = profile.plan.steps
    assert kind_of(steps[0]) == "Conv direct"
    assert kind_of(steps[1]) == "epilogue"
    assert kind_of(steps[3]) == "element-wise chain"
    assert kind_of(steps[29]) == "Erf in Python"


HOSTILE = [
    "</style><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "]]>--><!--",
    "&lt;b&gt;&amp;",
    "a\x00b\x1b[31m\x85",
    "lone \ud800 surrogate",
    "\u202egnp.exe",
    "%s {0} {{}}",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(profile, name):
    steps = tuple(
        replace(
            step, kind=f"{name}{index % 3}", outputs=(name, name), layout=name, detail=name,
            method=name,
        )
        for index, step in enumerate(profile.plan.steps)
    )  # fmt: skip
    plan = replace(profile.plan, steps=steps, inputs=((name, (1,)),), fired={name: [name]})
    content = page(replace(profile, model=name, machine=name, version=name, plan=plan))
    content.encode("utf-8")
    reader = Reader(content)
    assert {element for element, _ in reader.elements} <= TAGS
    assert {key for _, given in reader.elements for key in given} <= ATTRIBUTES
    # As it is written for a reader, wherever it stands.
    shown = text(name)
    plain = Reader(f"<p>{shown}</p>").words[0]
    assert [row[4] for row in reader.rows if len(row) == 11][1:] == [plain] * len(steps)
    assert not any(ord(c) < 32 and c != "\n" for c in content)


def test_record_is_json_and_the_plan(profile):
    found = json.loads(json.dumps(record(profile)))
    steps = found["plan"]["steps"]
    assert [step["seconds"] for step in steps] == [step.seconds for step in profile.plan.steps]
    assert sum(step["seconds"] for step in steps) == pytest.approx(found["step_seconds"])
    assert sum(step["flops"] for step in steps) == found["flops"]
    assert sum(step["bytes"] + step["weight_bytes"] for step in steps) == found["moved_bytes"]
    assert [step["live_bytes"] for step in steps] == live_bytes(profile.plan)
    assert found["run_seconds"] == profile.run_seconds
    assert found["plan"]["inputs"] == {"x": [1, 3, 8, 8]}
    assert found["ceilings"]["bandwidths"]["L2"] == 200e9


@pytest.mark.parametrize("count", [0, 1, 2])
def test_small_networks_have_a_page(profile, count):
    steps = tuple(replace(step, seconds=0.0) for step in profile.plan.steps[:count])
    plan = replace(profile.plan, steps=steps, buffers=(), arena_bytes=0, fired={})
    reader = Reader(page(replace(profile, plan=plan, run_seconds=0.0)))
    assert len(reader.of("rect", "step")) == count
    assert not reader.of("circle", "point")


@pytest.mark.parametrize(("factor", "words"), [(1.1, "the shortest"), (2.0, "busy cores?")])
def test_a_run_that_is_held_up_says_so(profile, factor, words):
    run = factor * profile.step_seconds
    assert f"<small>{words}</small>" in page(replace(profile, run_seconds=run))


def test_style_has_every_look_in_both_lights():
    assert STYLE.count("{") == STYLE.count("}")
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")
    names = re.findall(r"--[\w-]+(?=:)", light)
    assert set(names) == set(re.findall(r"--[\w-]+(?=:)", dark))
    used = set(re.findall(r"var\((--[\w-]+)\)", STYLE))
    assert used <= set(names)
    for colour in range(COLOURS):
        assert f".k{colour} {{" in STYLE


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0, 17.3, [0, 5, 10, 15]), (0, 129, [0, 50, 100]), (0, 6, [0, 1, 2, 3, 4, 5, 6])],
)
def test_ticks_are_round(low, high, ticks):
    assert Axis(low, high).ticks() == ticks


def test_logarithmic_axes():
    axis = Axis(0.5, 500.0, log=True)
    assert axis.ticks() == [1.0, 10.0, 100.0]
    assert axis.at(0.5) == 0 and axis.at(500.0) == pytest.approx(100)
    assert axis.at(5.0) == pytest.approx(100 / 3)
    assert len(Axis(1e-9, 1e9, log=True).ticks()) <= 6


def test_numbers_for_people():
    assert [number(v) for v in (0, 1.2, 36.84, 411.3, 999.7, 12345, 0.000012)] == [
        "0", "1.20", "36.8", "411", "1,000", "12,345", "1.2e-05",
    ]  # fmt: skip
    assert [round_number(v) for v in (0.1, 10.0, 1000.0)] == ["0.1", "10", "1,000"]
    assert milliseconds(0.0123) == "12.3 ms" and milliseconds(4.5e-6) == "4.50 µs"
    assert megabytes(3.28e6) == "3.28 MB" and megabytes(512) == "0.512 kB"
    assert operations(4.1e9) == "4.10 GFLOP" and operations(8.08e6) == "8.08 MFLOP"
    assert short("x" * 40) == "x" * 27 + "…" and short("kind") == "kind"


def test_names_of_roofs_lie_above_their_lines(profile):
    """On a phone the name of one stands on the line of another."""
    drawn = draw_movers(profile, kinds(profile.plan))
    named = [drawn.index(f">{name} ") for name in profile.ceilings.bandwidths]
    assert min(named) > drawn.rindex('class="roof"')


def test_moved_counts_weights(profile):
    assert moved(profile.plan.steps[0]) == profile.plan.steps[0].bytes + 512
