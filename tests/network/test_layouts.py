"""The layouts that a network's images get: the cheapest ones, and what they are worth."""

from __future__ import annotations

import itertools
import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pplconv.network import compiling
from pplconv.network.min_cut import source_side
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import agree, referred


def price(count: int, edges: list[tuple[int, int, float]], inside: set[int]) -> float:
    return sum(cost for a, b, cost in edges if a in inside and b not in inside)


@given(st.data())
def test_a_cut_is_the_cheapest_one(data):
    """Of all divisions of up to eight nodes."""
    count = data.draw(st.integers(2, 8))
    node, cost = st.integers(0, count - 1), st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 3.0, 1e9])
    edges = data.draw(st.lists(st.tuples(node, node, cost), max_size=24))
    found = source_side(count, 0, 1, edges)
    assert 0 in found and 1 not in found
    least = min(
        price(count, edges, {0, *inside})
        for n in range(count - 1)
        for inside in itertools.combinations(range(2, count), n)
    )
    assert price(count, edges, found) == pytest.approx(least, abs=1e-6)


def test_no_cut_of_finite_cost():
    with pytest.raises(ValueError, match="finite"):
        source_side(3, 0, 1, [(0, 2, math.inf), (2, 1, math.inf)])


def chain(channels: int = 8, count: int = 4) -> Graph:
    """Convolutions one behind the other, with an element-wise node and a join between them."""
    g = Graph(opset=17)
    y = g.input(1, channels, 12, 12)
    for _ in range(count):
        z = g.Erf(g.conv(y, channels, (channels, 1, 1)))
        y = g.Concat(z, y, axis=1)
        channels *= 2
    return g.model(y), g.feed


def layouts(session: InferenceSession, feed: dict) -> list[tuple[str, str]]:
    steps = session.plan_for(feed).by_operators().steps
    # A plus says that there are gaps.
    return [(step.kind, step.layout.rstrip("+")) for step in steps]


def planned(model, feed, prices) -> tuple[InferenceSession, list[tuple[str, str]]]:
    with mock.patch.object(compiling, "prices", prices):
        session = InferenceSession(model, threads=1)
        got = session.run(None, feed)
    agree(got, referred(model, feed))
    return session, layouts(session, feed)


def test_planes_from_border_to_border_need_no_copies():
    """A file's own layout, where convolutions have no reason for another one."""
    model, feed = chain()
    _, steps = planned(model, feed, lambda *_: (1e9, 0.0))
    kinds = [kind for kind, _ in steps]
    assert kinds.count("Conv") == 4
    assert {layout for kind, layout in steps if kind != "Copy"} == {"NCHW"}
    # Only the input is copied, to its place in a Concat.
    assert kinds.count("Copy") == 1
    _, steps = planned(model, feed, lambda *_: (0.0, 1e9))
    assert {layout for kind, layout in steps if kind == "Conv"} == {"NHWC"}


def test_a_change_is_not_paid_for_less_than_it_costs():
    """The layout changes between neighbours, and only where the gain is more than the cost."""
    g = Graph(opset=17)
    y = g.conv(g.input(1, 16, 32, 32), 16, (16, 1, 1))
    middle = g.conv(g.Erf(y), 16, (16, 1, 1))
    model = g.model(g.conv(g.Erf(middle), 16, (16, 1, 1)))
    change = compiling.planner.turning_cycles((1, 16, 32, 32), 4)

    def worth(times: float):
        def prices(node, builder, graph):
            planes = node.outputs[0] != middle
            return (0.0, 1e9) if not planes else (times * change, 0.0)

        return prices

    # The borders are planes: in pixels, the middle alone takes two changes, the rest costs more.
    _, steps = planned(model, g.feed, worth(5.0))
    assert [layout for kind, layout in steps if kind == "Conv"] == ["NCHW", "NHWC", "NCHW"]
    _, steps = planned(model, g.feed, worth(0.0))
    assert [layout for kind, layout in steps if kind == "Conv"][1] == "NHWC"


def test_a_reshape_reads_what_lies_as_in_the_file():
    """Its input is copied at most once, whoever else reads it."""
    g = Graph(opset=17)
    y = g.conv(g.input(1, 6, 7, 9), 8, (6, 3, 3))
    wide = g.constant([1, 8, 35], np.int64)
    line = g.constant([8 * 5 * 7], np.int64)
    model = g.model(g.Reshape(y, wide), g.Reshape(g.Erf(y), wide), g.Reshape(y, line))
    # Two outputs have the same elements, so one of them is a copy of the other in any case.
    for prices, copies in (((0.0, 1e9), 3), ((1e9, 0.0), 1)):
        _, steps = planned(model, g.feed, lambda *_, prices=prices: prices)
        assert [kind for kind, _ in steps].count("Copy") == copies


def rows_and_images(g: Graph, last: str) -> str:
    """A convolution of channels between products of rows of pixels, as transformers have it."""
    c, h, w = 24, 14, 14
    rows = g.MatMul(g.input(1, h * w, 16), g.random(16, c))
    lines = g.Transpose(rows, perm=[0, 2, 1])
    image = g.Reshape(lines, g.constant([1, c, h, w], np.int64))
    y = g.Conv(image, g.random(c, 1, 3, 3), pads=[1, 1, 1, 1], group=c)
    y = g.Transpose(g.Reshape(y, g.constant([1, c, h * w], np.int64)), perm=[0, 2, 1])
    return g.MatMul(getattr(g, last)(y), g.random(c, 16))


@pytest.mark.parametrize("last", ["Relu", "Erf"])
def test_rows_of_pixels_are_images_in_pixels(last):
    """A Transpose and a Reshape between them copy nothing, unless planes are worth two copies."""
    g = Graph(opset=17)
    model = g.model(rows_and_images(g, last))
    change = compiling.planner.turning_cycles((1, 24, 14, 14), 4)
    for worth, layout, copies in ((1.5, "NHWC", 0), (2.5, "NCHW", 2)):
        _, steps = planned(model, g.feed, lambda *_, gain=worth: (gain * change, 0.0))
        assert [layout for kind, layout in steps if kind == "Conv"][1] == layout
        assert [kind for kind, _ in steps].count("Copy") == copies


def test_rows_of_channels_are_images_in_planes():
    """Without a Transpose, a Reshape has the order of the file."""
    g = Graph(opset=17)
    rows = g.MatMul(g.random(1, 24, 16), g.input(1, 16, 196))
    image = g.Reshape(rows, g.constant([1, 24, 14, 14], np.int64))
    y = g.Conv(image, g.random(24, 1, 3, 3), pads=[1, 1, 1, 1], group=24)
    model = g.model(g.Reshape(y, g.constant([1, 24, 196], np.int64)))
    change = compiling.planner.turning_cycles((1, 24, 14, 14), 4)
    _, steps = planned(model, g.feed, lambda *_: (0.0, 1.5 * change))
    assert ("Conv", "NCHW") in steps and "Copy" not in {kind for kind, _ in steps}


def test_the_layout_is_the_same_for_any_team():
    model, feed = chain(24, 3)
    found = {tuple(layouts(InferenceSession(model, threads=n), feed)) for n in (1, 2, 3)}
    assert len(found) == 1
