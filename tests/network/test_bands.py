"""Groups of steps band by band: the same bits as layer by layer, whatever the height of bands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import pplconv
from benchmarks.forced_bands import COSTS, layer_by_layer
from pplconv.network import compiling
from pplconv.network.bands import members
from pplconv.network.bands.gains import Costs
from pplconv.network.bands.rows import Part, bands_of, rates_of
from pplconv.network.operators.row_reach import SAME, Windows
from pplconv.quant import quantize_model
from tests.emulation import is_emulated
from tests.network import forced_bands
from tests.network.graphs import Graph
from tests.network.running import agree as agrees
from tests.network.running import referred, session_of

pytestmark = pytest.mark.unbanded("chooses its own bands")
EXAMPLES = 2 if is_emulated() else max(settings.default.max_examples // 10, 6)


@pytest.fixture(autouse=True)
def in_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of planes do not lie together, and small images often lie in planes."""
    monkeypatch.setattr(compiling, "in_planes", lambda *given: frozenset())


def repeats(session: pplconv.InferenceSession) -> list[int]:
    """Turns of the repeats of all programs."""
    programs = [compiled for compiled, _ in session._network.programs.values()]
    return [repeat.turns for program in programs for repeat in program.repeats]


def by_layers(g: Graph, *outputs: str, **options: object) -> list[np.ndarray]:
    with layer_by_layer():
        return session_of(g, *outputs, **options).run(None, g.feed)


def check(
    g: Graph, *outputs: str, teams: tuple[int, ...] = (1,), refer: bool = False, **options: object
) -> list[int]:
    """Compare bands with layers, and with the reference; give the turns of repeats."""
    expected = by_layers(g, *outputs, **options)
    found: list[int] = []
    for threads in teams:
        session = session_of(g, *outputs, **{**options, "threads": threads})
        got = session.run(None, g.feed)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        found = repeats(session)
    if refer:
        agrees(got, referred(g.model(*outputs), g.feed))
    return found


def inverted(g: Graph, x: str, stride: int = 1) -> str:
    """An inverted residual of MobileNetV2."""
    wide = g.Clip(g.conv(x, 24, (8, 1, 1)), g.constant(0.0), g.constant(6.0))
    deep = g.conv(wide, 24, (1, 3, 3), group=24, pads=[1] * 4, strides=[stride] * 2)
    narrow = g.conv(g.Clip(deep, g.constant(0.0), g.constant(6.0)), 8, (24, 1, 1))
    return str(g.Add(x, narrow)) if stride == 1 else narrow


def mobile(g: Graph) -> str:
    x = g.input(1, 3, 41, 19)
    stem = g.Relu(g.conv(x, 8, (3, 3, 3), pads=[1] * 4, strides=[2, 2]))
    return inverted(g, inverted(g, stem), 2)


def ladder(g: Graph) -> str:
    """A level of a U-Net: down, up, joined with what was there before."""
    x = g.input(1, 4, 32, 12)
    top = g.Relu(g.conv(x, 6, (4, 3, 3), pads=[1] * 4))
    low = g.Relu(g.conv(g.MaxPool(top, kernel_shape=[2, 2], strides=[2, 2]), 5, (6, 1, 1)))
    up = g.Resize(low, "", g.constant([1, 1, 2, 2]), mode="linear")
    return str(g.Relu(g.conv(g.Concat(top, up, axis=1), 7, (11, 3, 3), pads=[1] * 4)))


def nearest(g: Graph) -> str:
    """The neck of a detector."""
    a, b = g.input(1, 6, 30, 10), g.input(1, 6, 15, 5)
    options = {"mode": "nearest", "nearest_mode": "floor"}
    up = g.Resize(g.conv(b, 6, (6, 1, 1)), "", g.constant([1, 1, 2, 2]), **options,
                  coordinate_transformation_mode="asymmetric")  # fmt: skip
    return str(g.conv(g.Add(up, g.conv(a, 6, (6, 1, 1))), 4, (6, 3, 3), pads=[1] * 4))


def gated(g: Graph) -> str:
    """Factors of channels, and a curve with a sum behind it."""
    x, gate = g.input(1, 8, 29, 7), g.input(1, 8, 1, 1)
    y = g.Mul(g.Sigmoid(g.conv(x, 8, (8, 3, 3), pads=[1, 1, 1, 1])), gate)
    z = g.AveragePool(y, kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=0)
    return str(g.Add(g.HardSwish(g.conv(z, 8, (8, 1, 1))), x))


def tiles(g: Graph) -> str:
    """Convolutions for Winograd, whose bands begin where tiles do."""
    x = g.input(1, 16, 46, 18)
    for _ in range(3):
        x = g.Relu(g.conv(x, 16, (16, 3, 3), pads=[1] * 4))
    return x


def branched(g: Graph) -> list[str]:
    """One value leaves the group, and others read it there."""
    x = g.input(1, 6, 33, 9)
    one = g.Relu(g.conv(x, 6, (6, 5, 5), pads=[2] * 4))
    two = g.conv(one, 6, (6, 1, 1))
    three = g.MaxPool(two, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 1, 1], ceil_mode=1)
    return [one, str(g.Relu(g.conv(three, 5, (6, 3, 3), pads=[1, 0, 1, 2])))]


def squeezed(g: Graph) -> str:
    """Squeeze and excite: the mean ends a group, and factors of channels begin the next one."""
    x = g.input(1, 6, 31, 9)
    wide = g.HardSwish(g.conv(x, 24, (6, 1, 1)))
    deep = g.HardSwish(g.conv(wide, 24, (1, 3, 3), group=24, pads=[1] * 4))
    mean = g.Relu(g.conv(g.GlobalAveragePool(deep), 8, (24, 1, 1)))
    gated = g.Mul(deep, g.HardSigmoid(g.conv(mean, 24, (8, 1, 1))))
    return str(g.Add(x, g.conv(gated, 6, (24, 1, 1))))


def decoder(g: Graph) -> str:
    """Transposed convolutions: by phases, of few channels, and with rows that no tap reaches."""
    x = g.input(1, 6, 11, 4)
    x = g.Relu(turned(g, x, 17, (6, 17, 4, 3), strides=[2, 1], pads=[1, 1, 1, 1]))
    x = turned(g, x, 5, (17, 5, 2, 2), strides=[2, 2])
    x = g.Relu(turned(g, x, 4, (5, 4, 1, 3), strides=[3, 2], output_padding=[2, 1]))
    x = turned(g, x, 6, (4, 6, 3, 3), strides=[2, 1], dilations=[2, 1], pads=[3, 0, 4, 1])
    return str(g.conv(x, 3, (6, 3, 3), pads=[1] * 4))


def pushed(g: Graph) -> str:
    """Many rows are cut off above, and what is added decides the type of the sums."""
    x, y = g.input(1, 5, 21, 4), g.input(1, 20, 40, 8)
    up = turned(g, x, 20, (5, 20, 3, 2), strides=[2, 2], pads=[4, 0, 0, 0], output_padding=[1, 0])
    return str(g.conv(g.Sigmoid(g.Add(up, y)), 4, (20, 3, 3), pads=[1] * 4))


def turned(g: Graph, x: str, channels: int, weight: tuple[int, ...], **attributes: object) -> str:
    return str(g.ConvTranspose(
        x, g.random(*weight), g.random(channels), **attributes
    ))  # fmt: skip


def signal(g: Graph) -> str:
    """A vocoder: signals are images of height 1, in bands of columns."""
    x, gate = g.input(1, 9, 70), g.input(1, 12, 1)
    y = g.LeakyRelu(g.conv(x, 12, (9, 7), pads=[3, 3]))
    y = g.Mul(g.Sigmoid(g.conv(y, 12, (12, 3), pads=[2, 2], dilations=[2])), gate)
    up = turned(g, y, 8, (12, 8, 6), strides=[3], pads=[1, 2])
    deep = g.Tanh(g.conv(g.LeakyRelu(up), 8, (1, 5), group=8, pads=[2, 2]))
    both = g.Concat(g.conv(deep, 8, (8, 1)), up, axis=1)
    low = g.AveragePool(both, kernel_shape=[4], strides=[2], pads=[1, 1])
    return str(g.conv(low, 3, (16, 3), strides=[2], pads=[0, 1]))


NETWORKS: list[Callable[[Graph], str | list[str]]] = [
    mobile, ladder, nearest, gated, tiles, branched, squeezed, decoder, pushed, signal,
]  # fmt: skip


def named(outputs: str | list[str]) -> list[str]:
    return [outputs] if isinstance(outputs, str) else outputs


@pytest.mark.parametrize("unit", [1, 2, 3, 7])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda made: made.__name__)
def test_the_same_bits_for_any_height(g, network, unit, monkeypatch):
    forced_bands.force(monkeypatch, unit)
    found = check(g, *named(network(g)), teams=(1, 2, 3), refer=True)
    assert found and max(found) >= 1


@pytest.fixture
def wide(g, monkeypatch):
    """A graph whose images lie on their side."""
    given = g.input
    monkeypatch.setattr(g, "input", lambda n, c, height, width: given(n, c, width, height))
    return g


@pytest.mark.parametrize("unit", [1, 2, 3, 7])
@pytest.mark.parametrize(
    "network", [mobile, gated, tiles, branched, squeezed], ids=lambda made: made.__name__
)
def test_the_same_bits_for_bands_of_columns(wide, network, unit, monkeypatch):
    forced_bands.force(monkeypatch, unit, columns=True)
    found = check(wide, *named(network(wide)), teams=(1, 2, 3), refer=True)
    assert found and max(found) >= 1


@pytest.mark.parametrize(("shape", "axis"), [((16, 512), 3), ((512, 16), 2), ((128, 96), 2)])
def test_columns_are_cut_where_rows_are_too_long(g, shape, axis, monkeypatch):
    """Bands of one row would not fit."""
    costs = Costs([200_000], lambda size, level: 1e9, lambda most: range(most, 0, -1))
    monkeypatch.setattr(COSTS, lambda: costs)
    x = g.input(1, 8, *shape)
    y = g.Relu(g.conv(x, 16, (8, 3, 3), pads=[1] * 4))
    output = g.conv(y, 8, (16, 3, 3), pads=[1] * 4)
    assert check(g, output, refer=True)
    plan = session_of(g, output).plan_for({name: array.shape for name, array in g.feed.items()})
    (group,) = plan.groups
    assert group.axis == axis
    assert f"bands of {group.rows} {'columns' if axis == 3 else 'rows'}," in str(plan)


@pytest.mark.parametrize("unit", [1, 3, 5])
@pytest.mark.parametrize(("dilation", "shape"), [(2, (240, 64)), (3, (252, 63))])
def test_tiles_of_every_second_or_third_row_begin_where_they_began(
    g, dilation, shape, unit, monkeypatch
):
    """A dilated convolution by Winograd is computed in parts of every d-th row."""
    x = g.input(1, 64, *shape)
    y = g.conv(x, 64, (64, 1, 1))
    wide = {"pads": [dilation] * 4, "dilations": [dilation] * 2}
    y = g.conv(y, 64, (64, 3, 3), **wide)
    y = g.conv(y, 64, (64, 1, 1))
    forced_bands.force(monkeypatch, unit)
    check(g, y)


@pytest.mark.parametrize("network", NETWORKS, ids=lambda made: made.__name__)
def test_plans_of_bands_are_shown(g, network, monkeypatch):
    """A row for each operator of a group, whatever the steps that it is made of."""
    forced_bands.force(monkeypatch, 3)
    session = session_of(g, *named(network(g)))
    plan = session.plan_for({name: array.shape for name, array in g.feed.items()})
    assert plan.groups
    summed = plan.by_operators()
    assert sum(step.flops for step in summed.steps) == sum(step.flops for step in plan.steps)
    for group in plan.groups:
        assert f"{group.bands} bands of {group.size}" in str(plan)


def test_a_mean_stands_between_two_groups(g, monkeypatch):
    forced_bands.force(monkeypatch, 2)
    assert len(check(g, squeezed(g))) == 2


class Batch(Graph):
    """Inputs have three images."""

    def input(self, *shape: int, **options: Any) -> str:
        return super().input(3 * shape[0], *shape[1:], **options)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small caches would divide batches."""
    monkeypatch.setattr(compiling, "images_at_once", lambda graph, *given: batch_of(graph))


def batch_of(graph: Any) -> int:
    return int(graph.shapes[graph.inputs[0]][0])


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("network", NETWORKS, ids=lambda made: made.__name__)
def test_the_same_bits_of_batches(network, monkeypatch):
    """A band is of one image."""
    forced_bands.force(monkeypatch, 3)
    g = Batch()
    found = check(g, *named(network(g)), teams=(1, 2), refer=True)
    assert len(found) % 3 == 0 and found


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("images", [1, 3])
def test_factors_of_all_images_and_of_each(images, monkeypatch):
    forced_bands.force(monkeypatch, 2)
    g = Graph()
    x = g.Sigmoid(g.Mul(g.conv(g.input(3, 8, 29, 7), 8, (8, 3, 3)), g.input(images, 8, 1, 1)))
    y = g.conv(g.Mul(g.Erf(g.conv(x, 8, (8, 3, 3))), g.random(images, 8, 1, 1)), 8, (8, 1, 1))
    # What is known for each image is not cut.
    assert len(check(g, y, refer=True)) == 3


@pytest.mark.usefixtures("at_once")
def test_large_batches_run_layer_by_layer(monkeypatch):
    """Each image would have steps of its own."""
    forced_bands.force(monkeypatch, 2)
    found = []
    for images in (members.MOST_IMAGES, members.MOST_IMAGES + 1):
        g = Graph()
        x = g.conv(g.conv(g.input(images, 2, 24, 5), 3, (2, 3, 3)), 2, (3, 3, 3))
        found.append(len(check(g, x, refer=True)))
    assert found == [members.MOST_IMAGES, 0]


@pytest.mark.parametrize("precision", ["bf16", "low", "low_bf16", "fp32"])
@pytest.mark.parametrize(
    "network", [mobile, ladder, nearest, pushed, signal], ids=lambda made: made.__name__
)
def test_the_same_bits_in_any_precision(g, network, precision, monkeypatch):
    forced_bands.force(monkeypatch, 3)
    assert check(g, *named(network(g)), precision=precision)


@pytest.mark.parametrize("dtype", [np.float16, np.float64], ids=lambda kind: kind.__name__)
def test_the_same_bits_of_other_types(dtype, monkeypatch):
    forced_bands.force(monkeypatch, 2)
    g = Graph(dtype=dtype)
    check(g, mobile(g))


@pytest.mark.parametrize("unit", [1, 3])
@pytest.mark.parametrize(
    "network", [mobile, ladder, decoder, signal], ids=lambda made: made.__name__
)
@pytest.mark.parametrize("columns", [False, True], ids=["rows", "columns"])
def test_the_same_bytes_of_quantized_networks(g, network, unit, columns, monkeypatch):
    output = network(g)
    model = quantize_model(g.model(output), [g.feed])
    with layer_by_layer():
        (expected,) = pplconv.InferenceSession(model, threads=1).run(None, g.feed)
    forced_bands.force(monkeypatch, unit, columns)
    session = pplconv.InferenceSession(model, threads=1)
    (got,) = session.run(None, g.feed)
    assert repeats(session)
    np.testing.assert_array_equal(got, expected)


@given(data=st.data())
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_same_bits_of_any_chain(data: st.DataObject) -> None:
    g = Graph(data.draw(st.integers(0, 1 << 20)))
    channels, height = data.draw(st.integers(1, 9)), data.draw(st.integers(12, 50))
    is_signal, width = data.draw(st.booleans()), data.draw(st.integers(3, 9))
    values = [g.input(1, channels, 1, height) if is_signal else g.input(1, channels, height, width)]
    rows = height
    for _ in range(data.draw(st.integers(2, 6))):
        x = values[-1]
        taps, stride = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([1, 1, 1, 2]))
        apart = data.draw(st.sampled_from([1, 1, 2]))
        begin, end = (data.draw(st.integers(0, taps // 2)) for _ in range(2))
        kernel, pads = [taps, taps], [begin, taps // 2 * apart, end, taps // 2 * apart]
        strides, dilations = [stride, 1], [apart, apart]
        longer = [taps + stride - 1, taps]
        if is_signal:
            kernel, pads, longer = [1, taps], [0, begin, 0, end], [1, taps + stride - 1]
            strides, dilations = [1, stride], [1, apart]
        geometry, near = {"pads": pads, "strides": strides}, [min(p, taps // 2) for p in pads]
        moved = {**geometry, "dilations": dilations}
        kind = data.draw(
            st.sampled_from(["conv", "depthwise", "turned", "pool", "sum", "curve", "join"])
        )
        if kind in ("conv", "depthwise", "pool"):
            seen = taps if kind == "pool" else apart * (taps - 1) + 1
            # A window larger than its padded image is refused, whatever the bands.
            assume(rows + begin + end >= seen)
            rows = (rows + begin + end - seen) // stride + 1
        elif kind == "turned":
            rows = rows * stride + taps - 1 - begin - end
            assume(rows > 0)
        if kind == "conv":
            values.append(g.conv(x, channels, (channels, *kernel), **moved))
        elif kind == "depthwise":
            values.append(g.conv(x, channels, (1, *kernel), group=channels, **moved))
        elif kind == "turned":
            weight = g.random(channels, channels, *longer)
            values.append(g.ConvTranspose(x, weight, **{**geometry, "pads": near}))
        elif kind == "pool":
            values.append(g.MaxPool(x, kernel_shape=kernel, **{**geometry, "pads": near}))
        elif kind == "sum":
            values.append(g.Add(g.conv(x, channels, (channels, 1, 1)), x))
        elif kind == "curve":
            values.append(g.Sigmoid(x))
        else:
            both = g.Concat(x, g.conv(x, channels, (channels, 1, 1)), axis=1)
            values.append(g.conv(both, channels, (2 * channels, 1, 1)))
    outputs = {values[-1], data.draw(st.sampled_from(values[1:]))}
    with pytest.MonkeyPatch.context() as patch:
        forced_bands.force(patch, data.draw(st.integers(1, 6)), data.draw(st.booleans()))
        check(g, *sorted(outputs))


# The rows of bands ------------------------------------------------------------------------------


@given(
    reaches=st.lists(
        st.builds(Windows, st.integers(1, 3), st.integers(0, 3), st.integers(1, 6)), min_size=1,
        max_size=5,
    ),
    height=st.integers(8, 200), unit=st.integers(1, 8), align=st.integers(1, 4),
)  # fmt: skip
def test_each_row_is_there_before_it_is_read(reaches, height, unit, align):
    """Each band finds what it reads among the rows of earlier steps, and computes all rows once."""
    heights, parts = {"0": height}, []
    for at, reach in enumerate(reaches, 1):
        before = heights[str(at - 1)]
        rows = (before + 2 * reach.before - reach.extent) // reach.stride + 1
        if rows < 1 or reach.before >= reach.extent:
            return
        heights[str(at)] = rows
        parts.append(Part(str(at), {str(at - 1): reach}, align if at == 1 else 1))
    inner = [part.result for part in parts[:-1]]
    bands = bands_of(parts, heights, inner, unit)
    if bands is None:
        return
    done = dict.fromkeys(heights, 0) | {"0": height}
    for band in range(bands.turns + 2):
        kept = {name: max(done[name] - bands.again[name], 0) for name in inner}
        for part in parts:
            name, ((read, reach),) = part.result, part.reads.items()
            count = bands.step[name]
            if band in (0, bands.turns + 1):
                count = bands.begin[name] if not band else bands.rest[name]
            assert done[name] % part.align == 0
            if count:
                end = min(reach.end(done[name] + count), heights[read])
                assert end <= done[read]
                if band and read in inner:
                    assert max(reach.first(done[name]), 0) >= kept[read]
            done[name] += count
    assert done == heights


def test_ways_that_disagree_are_no_group():
    """Two ways through a group whose strides differ."""
    parts = [
        Part("b", {"a": Windows(2, 0, 2)}), Part("c", {"a": SAME}),
        Part("d", {"b": SAME, "c": SAME}),
    ]  # fmt: skip
    assert rates_of(parts) is None
    assert rates_of([*parts[:2], Part("d", {"b": SAME, "c": Windows(2, 0, 1)})]) == {
        "a": 2, "b": 1, "c": 2, "d": 1,
    }  # fmt: skip


def test_an_image_that_is_too_low_is_no_group():
    parts = [Part("b", {"a": Windows(1, 1, 3)}), Part("c", {"b": Windows(1, 1, 3)})]
    assert bands_of(parts, {"a": 4, "b": 4, "c": 4}, ["b"], 2) is None
