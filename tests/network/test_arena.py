"""Where values of a program lie."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv.network import arena, compiling
from pplconv.network.session import InferenceSession
from pplconv.network.storage import Buffer
from tests.network import forced_bands
from tests.network.graphs import Graph
from tests.network.running import agree, one, referred

SIZE = 4 * 64 * 32 * 32


def program(g: Graph, *outputs: str):
    """Run a model; give its program once its outputs are right."""
    model = g.model(*outputs)
    session = InferenceSession(model, threads=2)
    agree(session.run(None, g.feed), referred(model, g.feed))
    ((compiled, _),) = session._network.programs.values()
    return compiled


def buffers(compiled) -> list[Buffer]:
    found = {v.buffer: None for s in compiled.steps for v in (*s.writes, *s.reads)}
    return [buffer for buffer in found if buffer.in_arena and buffer.size == SIZE]


def softmax(g: Graph, x: str) -> str:
    """A step of its own, whose result is in the arena."""
    return str(g.Softmax(x, axis=-1))


def test_results_take_the_place_of_what_they_are_computed_of(g):
    x, z = g.input(1, 64, 32, 32), g.input(1, 64, 32, 32)
    y = g.Mul(g.Sigmoid(softmax(g, x)), softmax(g, z))
    y = g.Tanh(softmax(g, g.Add(y, g.random(64, 1, 1))))
    compiled = program(g, softmax(g, softmax(g, y)))
    assert len(buffers(compiled)) > len({b.offset for b in buffers(compiled)})
    assert any(b.successors for b in buffers(compiled))
    assert compiled.program.arena_bytes < 3 * SIZE


def test_what_is_read_later_is_not_written_over(g):
    y = softmax(g, g.input(1, 64, 32, 32))
    changed = softmax(g, g.Exp(y))
    compiled = program(g, softmax(g, g.Sub(changed, y)), g.Log(y))
    (first,) = [s.writes[0].buffer for s in compiled.steps if s.nodes == [y]]
    (second,) = [s.writes[0].buffer for s in compiled.steps if s.kind == "Exp"]
    assert first.offset != second.offset


@pytest.mark.parametrize("how", ["turned", "repeated", "part"])
def test_what_lies_otherwise_is_not_written_over(how, g):
    """An element would be written before it is read in another place."""
    y = softmax(g, g.input(1, 32, 32, 32) if how != "repeated" else g.input(1, 1, 32, 32))
    if how == "turned":
        z = g.Add(y, g.Transpose(y, perm=[0, 1, 3, 2]))
    elif how == "repeated":
        z = g.Mul(y, softmax(g, g.input(1, 32, 32, 32)))
    else:
        begin, end, axis = (g.constant([n], np.int64) for n in (0, 16, 1))
        other = (g.constant([n], np.int64) for n in (16, 32, 1))
        z = g.Add(g.Slice(y, begin, end, axis), g.Slice(y, *other))
    compiled = program(g, softmax(g, z))
    step = next(s for s in compiled.steps if s.nodes and z in s.nodes)
    (result,) = step.writes
    for value in step.reads:
        if value.buffer.in_arena and (value.strides, value.offset) != (result.strides, 0):
            apart = value.buffer.offset + value.buffer.size <= result.buffer.offset
            assert apart or result.buffer.offset + result.buffer.size <= value.buffer.offset


def test_buffers_that_live_at_once_lie_apart(rng):
    for _ in range(50):
        found = []
        for _ in range(12):
            first = int(rng.integers(0, 20))
            buffer = Buffer(int(rng.integers(1, 5000)), first=first, last=first + 3)
            if rng.random() < 0.4:
                buffer.successors = [
                    Buffer(buffer.size, first=first + 3 + k, last=first + 4 + k) for k in range(2)
                ]
            found.append(buffer)
        total = arena.arrange(found)
        everything = [one for b in found for one in (b, *b.successors)]
        assert all(b.offset >= 0 and b.offset + b.size <= total for b in everything)
        for a in found:
            assert all(one.offset == a.offset for one in a.successors)
            for b in found:
                if a is not b and a.first <= b.end and b.first <= a.end:
                    assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("channels", [7, 15, 64])
def test_a_copy_of_an_array_before_its_last_pass_serves_nobody_behind_it(channels, batch):
    """A part of a Concat, finished in place, that a residual wants without gaps."""
    g = Graph(opset=18)
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    p = g.MaxPool(g.input(batch, channels, 16, 16), **pool)
    r = g.MaxPool(g.input(batch, 1, 16, 16), **pool)
    y = g.Add(g.Relu(g.conv(p, 1, (channels, 1, 1))), r)
    q = g.MaxPool(g.Concat(y, p, axis=1), kernel_shape=[2, 2])
    z = g.Relu(g.Add(g.conv(p, 1, (channels, 1, 1)), y))
    one(g, q, z)


@pytest.mark.unbanded("chooses its own bands")
@pytest.mark.parametrize("later", ["nobody", "a step behind", "windows of each band"])
def test_a_result_in_bands_takes_the_place_of_what_only_its_bands_read(later, g, monkeypatch):
    forced_bands.force(monkeypatch, 3)
    monkeypatch.setattr(compiling, "in_planes", lambda *given: frozenset())
    x, other = g.input(1, 64, 32, 32), g.input(1, 64, 32, 32)
    a = g.Softmax(x, axis=1)
    windows = {"kernel_shape": [3, 3], "pads": [1] * 4}
    pooled = g.MaxPool(a if later == "windows of each band" else other, **windows)
    y = g.Mul(g.Sigmoid(a), pooled)
    # It reads the whole image.
    outputs = [g.Softmax(y, axis=2)]
    if later == "a step behind":
        outputs.append(g.GlobalMaxPool(a))
    compiled = program(g, *outputs)
    assert any(repeat.turns > 1 for repeat in compiled.repeats)
    (first,) = {s.writes[0].buffer for s in compiled.steps if a in s.nodes}
    (second,) = {s.writes[0].buffer for s in compiled.steps if y in s.nodes}
    assert (first.size, second.size) == (SIZE, SIZE)
    assert (first.offset == second.offset) == (later == "nobody")
