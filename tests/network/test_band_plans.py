"""Plans and profiles show groups of steps that run band by band."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.forced_bands import COSTS, layer_by_layer
from pplconv.machine import ceilings
from pplconv.network import compiling
from pplconv.network.bands.gains import Costs
from pplconv.network.session import InferenceSession
from tests.network import forced_bands
from tests.network.graphs import Graph

pytestmark = pytest.mark.unbanded("chooses its own bands")
H, W = 37, 12


@pytest.fixture
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bands of so many rows, of images whose rows lie together."""
    forced_bands.force(monkeypatch, 3)
    monkeypatch.setattr(compiling, "in_planes", lambda *given: frozenset())
    return 3


def residual(g: Graph) -> str:
    x = g.input(1, 8, H, W)
    wide = g.Relu(g.conv(x, 24, (8, 1, 1)))
    deep = g.conv(wide, 24, (1, 3, 3), group=24, pads=[1] * 4)
    low = g.MaxPool(g.conv(deep, 8, (24, 1, 1)), kernel_shape=[2, 1], strides=[1, 1])
    return str(g.Softmax(low, axis=1))


def plan_of(session: InferenceSession, g: Graph):
    return session.plan_for({name: array.shape for name, array in g.feed.items()})


def described(plan) -> Counter:
    """Steps by all that bands do not change, without changes of layout."""
    return Counter(
        (s.kind, s.outputs, s.shape, s.flops, s.method, s.weight_bytes)
        for s in plan.by_operators().steps
        if s.kind != "Copy"
    )


def test_each_operator_of_a_group_is_one_step_of_the_whole_image(g, unit):
    model = g.model(residual(g))
    found = plan_of(InferenceSession(model, threads=1), g)
    with layer_by_layer():
        whole = plan_of(InferenceSession(model, threads=1), g)
    assert found.groups and not whole.groups
    assert whole.by_operators() == whole
    assert len(found.steps) > len(found.by_operators().steps)
    assert described(found) == described(whole)


def test_bands_rows_and_bytes(g, unit):
    plan = plan_of(InferenceSession(g.model(residual(g)), threads=1), g)
    (group,) = plan.groups
    # Two images of 24 channels and one of 8 lie between the four steps; the pool has a row less.
    assert group.inner_bytes == 4 * (24 + 24 + 8) * H * W
    assert 0 < group.window_bytes < group.inner_bytes / 2
    assert group.rows == unit and group.shapes[-1] == (1, 8, H - 1, W)
    members = Counter(step.member for step in plan.steps if step.group == 0)
    assert set(members) >= {0, 1, 2, 3}
    turns = {step.turns for step in plan.steps if step.group == 0}
    assert group.bands - 2 <= max(turns) <= group.bands - 1
    # Middle bands compute `rows` each, the first and the last one less than two bands together.
    assert (group.bands - 2) * unit < H - 1
    # Moves of rows belong to no member, but have turns.
    banded = [n for n, s in enumerate(plan.steps) if s.member is not None or s.turns > 1]
    assert banded == list(range(group.first, group.last + 1))


def test_buffers_follow_summed_steps(g, unit):
    plan = plan_of(InferenceSession(g.model(residual(g)), threads=1), g)
    summed = plan.by_operators()
    (group,) = summed.groups
    assert len(summed.buffers) == len(plan.buffers)
    assert sorted(b.size for b in summed.buffers) == sorted(b.size for b in plan.buffers)
    for buffer in summed.buffers:
        assert 0 <= buffer.first <= buffer.last < len(summed.steps)
    # Windows are there in all bands.
    windows = [b for b in summed.buffers if (b.first, b.last) == (group.first, group.last)]
    assert sum(b.size for b in windows) >= group.window_bytes


def test_a_table_joins_the_steps_of_a_group(g, unit):
    plan = plan_of(InferenceSession(g.model(residual(g)), threads=1), g)
    lines = str(plan).splitlines()
    (head,) = [n for n, line in enumerate(lines) if "stay in cache" in line]
    assert lines[head] == str(plan.groups[0])
    assert f"{plan.groups[0].bands} bands of 3 rows" in lines[head]
    summed = plan.by_operators()
    (group,) = summed.groups
    count = group.last - group.first + 1
    marks = "".join(line.split()[1] for line in lines[head + 1 : head + 1 + count])
    assert marks == "\u250c" + "\u2502" * (count - 2) + "\u2514"
    assert "first band" not in str(plan) and "turns" not in str(plan)


def test_a_profile_sums_the_time_of_all_bands(g, unit, monkeypatch):
    session = InferenceSession(g.model(residual(g)), threads=1)
    rates = ceilings.Ceilings("portable", 1, 1e11, {"L2": 2e11, "L3": 5e10, "memory": 2e10})
    monkeypatch.setattr(ceilings, "measure", lambda *given, **named: rates)
    found = session.profile(g.feed, repeats=1)
    summed = found.by_operators()
    assert type(summed) is type(found) and summed.run_seconds == found.run_seconds
    total = sum(step.seconds for step in found.steps)
    assert sum(step.seconds for step in summed.steps) == pytest.approx(total)
    for name in ("flops", "bytes"):
        each, all_ = (sum(getattr(s, name) for s in plan.steps) for plan in (found, summed))
        assert each == all_ > 0
    page = found.html()
    assert page.count('class="group"') == 3
    assert "Groups of steps in bands" in page and "first band" not in page
    record = found.record()["plan"]
    assert record["groups"][0]["bands"] == found.groups[0].bands
    assert len(record["steps"]) == len(found.steps)
    without = InferenceSession(g.model(residual(g)), threads=1)
    with layer_by_layer():
        assert "in bands" not in without.profile(g.feed, repeats=1).html()


def test_parts_of_a_joined_array_are_not_copied(g, monkeypatch):
    """Without bands they are written where they are read; the sum of two convolutions is not."""
    monkeypatch.setattr(compiling, "in_planes", lambda *given: frozenset())
    costs = Costs([1 << 16], lambda size, level: 0.5 * size, lambda most: range(most, 0, -1))
    monkeypatch.setattr(COSTS, lambda: costs)
    x = g.input(1, 8, 64, 32)
    ends = [g.GlobalMaxPool(x)]
    parts = []
    for _ in range(3):
        x = g.conv(x, 8, (8, 1, 1))
        parts.append(x)
        # It reads the whole image, so that no group goes on.
        ends.append(g.GlobalMaxPool(x))
    y = g.conv(g.Concat(*parts, axis=1), 8, (24, 1, 1))
    plan = plan_of(InferenceSession(g.model(y, *ends), threads=1), g)
    assert not any("Copy" in s.kind and s.member is not None for s in plan.steps)
    z = g.conv(g.Add(g.conv(parts[0], 8, (8, 1, 1)), parts[1]), 8, (8, 1, 1))
    assert plan_of(InferenceSession(g.model(z), threads=1), g).groups
