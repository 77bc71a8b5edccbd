"""The memory that networks run on in these tests is filled: what no step writes shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pplconv.network.compiled import Compiled
from pplconv.network.session import InferenceSession
from pplconv.ops.program import Program
from tests.network.graphs import Graph


@pytest.mark.parametrize("dtype", [np.float32, np.int64], ids=str)
def test_outputs_that_no_step_writes(dtype, g):
    session = InferenceSession(g.model(g.Identity(g.input(2, 3))), threads=1)
    x = g.feed[next(iter(g.feed))]
    (y,) = session.run(None, g.feed)
    np.testing.assert_array_equal(y, x)
    ((compiled, _),) = session._network.programs.values()
    sizes = [array.nbytes for array in (x, y)]
    empty = Compiled(
        Program([], 64, sizes, 1, 1), [], [], compiled.inputs, compiled.outputs, frozenset(),
        compiled.model, {}, 1,
    )  # fmt: skip
    empty.run([x, y])
    assert np.isnan(y).all() if dtype == np.float32 else (y.view(np.uint8) == 0xA5).all()
    np.testing.assert_array_equal(x, g.feed[next(iter(g.feed))])


def test_the_arena_is_not_a_number(monkeypatch):
    seen = []

    def look(self, frame, arrays, seconds):
        seen.append(np.frombuffer(frame, np.float32).copy())

    monkeypatch.setattr("tests.poisoning._run", look)
    g = Graph(1)
    y = g.MatMul(g.Relu(g.MatMul(g.input(4, 5), g.random(5, 6))), g.random(6, 7))
    InferenceSession(g.model(y), threads=1).run(None, g.feed)
    (arena,) = seen
    assert arena.size >= 4 * 6 and np.isnan(arena).all()


# Sanitizers and how-tos run networks in programs of their own; packaging has types checked alone.
ELSEWHERE = {"sanitizers", "docs", "packaging"}


def test_every_room_that_runs_networks_fills_their_memory():
    tests = Path(__file__).resolve().parents[1]
    sources = {path: path.read_text() for path in tests.glob("*/*.py")}
    rooms = {path.parent for path, text in sources.items() if "InferenceSession(" in text}
    assert len(rooms) > 4
    for room in rooms:
        if room.name not in ELSEWHERE:
            assert "poisoning.install()" in sources[room / "conftest.py"], room.name
