"""Convolutions with dilation, in parts without: their values, and where there are none."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from pplconv.network.operators import convolution
from pplconv.network.operators.dilated import parts_of
from pplconv.network.session import InferenceSession
from tests.network.graphs import Graph
from tests.network.running import agree, by_onnxruntime, needs_onnxruntime, referred


def session_of(g: Graph, y: str) -> tuple[InferenceSession, list[np.ndarray]]:
    """A session whose outputs were compared with onnxruntime's, and its outputs."""
    model = g.model(y)
    session = InferenceSession(model, threads=1)
    outputs = session.run(None, g.feed)
    agree(outputs, by_onnxruntime(model, g.feed), least=1)
    return session, outputs


def geometry(dilation: tuple[int, int], padding: Any, stride: int = 1) -> dict[str, Any]:
    return {"stride": (stride,) * 2, "padding": padding, "dilation": dilation, "groups": 1}


def convolutions(session: InferenceSession) -> int:
    """How many convolutions a session's program has."""
    ((program, _),) = session._network.programs.values()
    return sum(step.kind == "Conv" for step in program.steps)


@needs_onnxruntime
@pytest.mark.parametrize("dilation", [(2, 1), (1, 2), (2, 2), (3, 2), (4, 4)])
@pytest.mark.parametrize("taps", [(3, 3), (5, 5), (1, 3), (2, 4)])
def test_values(dilation, taps, g, rng, monkeypatch):
    """With residuals, activations, scales and groups, for sizes that no part divides."""
    monkeypatch.setattr(convolution, "_LEAST_GAIN", 0)
    reach = [(k - 1) * d for k, d in zip(taps, dilation, strict=True)]
    for group in (1, 2, 4):
        g = Graph(int(rng.integers(1 << 30)))
        pads = [int(rng.integers(0, most + 1)) for most in reach]
        ends = [most - pad for most, pad in zip(reach, pads, strict=True)]
        h, w = (int(n) for n in rng.integers(9, 21, 2))
        x = g.input(2, 4, h, w)
        y = g.conv(x, 4, (4 // group, *taps), group=group, dilations=dilation, pads=[*pads, *ends])
        residual = g.input(2, 4, h, w)
        z = g.Mul(g.Relu(g.Add(y, residual)), g.random(4, 1, 1))
        # What follows reads images in NHWC.
        session_of(g, g.conv(g.Add(z, g.input(2, 4, h, w)), 5, (4, 3, 3)))


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_types(dtype, g, monkeypatch):
    monkeypatch.setattr(convolution, "_LEAST_GAIN", 0)
    y = g.conv(g.input(1, 8, 15, 12), 16, (8, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2])
    model = g.model(g.conv(g.Relu(y), 8, (16, 3, 3)))
    outputs = InferenceSession(model, threads=1).run(None, g.feed)
    agree(outputs, referred(model, g.feed), 5e-3 if dtype == np.float16 else None)


@pytest.mark.unbanded("counts the steps of a whole image")
@needs_onnxruntime
def test_parts_are_chosen_where_they_take_less_time(g, monkeypatch):
    """The same network in one step, and in as many as the dilation has remainders."""
    y = g.conv(g.input(1, 8, 17, 13), 16, (8, 3, 3), dilations=[2, 1], pads=[2, 1, 2, 1])
    y = g.conv(y, 16, (16, 3, 3), pads=[1, 1, 1, 1])
    found = {}
    for gain in (0, np.inf):
        monkeypatch.setattr(convolution, "_LEAST_GAIN", gain)
        session, outputs = session_of(g, y)
        found[convolutions(session)] = outputs
    # Where images are planes, there are no parts.
    assert 2 in found and found.keys() <= {2, 3}
    if 3 in found:
        agree(found[3], found[2])


@pytest.mark.parametrize("dilation", [(2, 1), (1, 3), (2, 2), (4, 3)])
@pytest.mark.parametrize("taps", [1, 2, 3, 5])
def test_parts_read_and_write_each_pixel(dilation, taps):
    """Each output is written once, from the inputs that the definition names."""
    for size, before, after in itertools.product((7, 8, 13), (0, 1, 4), (0, 2, 3)):
        outputs = [size + before + after - (taps - 1) * d for d in dilation]
        if min(outputs) < 1:
            continue
        padding = ((before, after),) * 2
        parts = parts_of(
            (1, 1, size, size), (1, 1, *outputs), (1, 1, taps, taps), geometry(dilation, padding)
        )
        written = np.zeros(outputs, int)
        for part in parts:
            written[part.outputs] += 1
            for axis in (0, 1):
                reads = range(size)[part.inputs[axis]]
                begin, end = part.geometry["padding"][axis]
                for index, o in enumerate(range(outputs[axis])[part.outputs[axis]]):
                    for tap in range(taps):
                        wanted = o - before + tap * dilation[axis]
                        got = index - begin + tap
                        assert -begin <= got < len(reads) + end
                        inside = 0 <= got < len(reads)
                        assert inside == (0 <= wanted < size)
                        assert not inside or reads[got] == wanted
        assert (written == (1 if parts else 0)).all()


@pytest.mark.parametrize(
    ("dilation", "size", "padding", "stride"),
    [
        ((1, 1), 9, 1, 1),
        ((2, 2), 9, 2, 2),
        # Each part would be a step.
        ((5, 5), 40, 5, 1),
        # A part would read padding alone.
        ((4, 4), 3, 5, 1),
    ],
)
def test_where_there_are_no_parts(dilation, size, padding, stride):
    outputs = (size + 2 * padding - 2 * dilation[0] - 1) // stride + 1
    pads = ((padding, padding),) * 2
    shapes = (1, 1, size, size), (1, 1, outputs, outputs), (1, 1, 3, 3)
    assert parts_of(*shapes, geometry(dilation, pads, stride)) == []
