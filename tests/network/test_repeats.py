"""Steps of a program that are repeated: running sums over the rows of an array."""

from __future__ import annotations

import numpy as np
import pytest

from pplconv._kernels import INSTRUCTIONS
from pplconv.network import arena
from pplconv.network.storage import Buffer, Repeat, Step, Value, place_of
from pplconv.ops.program import Program
from pplconv.schedules.elementwise_loops import Elementwise
from tests.levels import allowed_isas


def added(columns: int, segment: int):
    """Array 0 = array 1 + array 2, in tasks of some columns."""
    fields = {
        "dtype": "f32", "dims": (), "columns": columns, "outputs": [(0, (), 1, 0)],
        "inputs": [(1, (), 1, 0), (2, (), 1, 1)],
        "code": [(INSTRUCTIONS["ADD"], 0, 0, 1, 0)],
        "row_segment": 1, "column_segment": segment,
    }  # fmt: skip
    return Elementwise(fields, allowed_isas()[-1])


def running_sums(
    turns: int, columns: int, segment: int, back: bool, threads: int, x=None, stop=()
):  # fmt: skip
    """The state in the arena is added to, and shown in each row; before and after, other steps."""
    row, work = 4 * columns, added(columns, segment)
    size = -(-row // 64) * 64
    whole = turns * row
    first, stride = (whole - row, -row) if back else (0, row)
    state, double = ("arena", 0, row), ("arena", size, row)

    def each(number):
        return ("each", ("external", number, first, whole - first), stride)

    read = each(0) if x is None else ("each", ("constant", x.reshape(-1), first), stride)
    steps = [
        ([state, ("external", 1, 0, row), ("external", 1, 0, row)], False),
        ([double, state, state], False),
        ([state, state, read], True),
        ([each(2), state, double], True),
        ([("external", 3, 0, row), state, double], False),
    ]
    made = [(work, {"arrays": places}) for places, _ in steps]
    return Program(
        made, 2 * size, [whole, row, whole, row], threads, 3, repeats=[(2, 4, turns, *stop)]
    )  # fmt: skip


CASES = [(1, 5, 5), (7, 5, 5), (4, 300, 100), (300, 64, 64), (3, 4000, 64)]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(("turns", "columns", "segment"), CASES)
def test_running_sums(turns, columns, segment, timed, back, rng):
    """Steps of one task and of several, either way, step by step too; twice, and in parts."""
    x, begin = (rng.integers(-9, 9, s).astype(np.float32) for s in ((turns, columns), columns))
    order = slice(None, None, -1) if back else slice(None)
    expected = np.empty_like(x)
    expected[order] = 2 * begin + np.cumsum(x[order], 0) + 4 * begin
    for threads in (1, 2, 3):
        program = running_sums(turns, columns, segment, back, threads)
        for parts in ([(0, 5)], [(0, 2), (2, 4), (4, 5)], [(0, 1), (1, 5)]):
            y, last = np.zeros_like(x), np.zeros_like(begin)
            seconds = np.zeros(5) if timed else None
            frame = program.frame()
            for first, end in parts:
                program.run(frame, [x, begin, y, last], first, end, seconds)
            program.give_back(frame)
            np.testing.assert_array_equal(y, expected)
            np.testing.assert_array_equal(last, expected[order][-1])
            assert seconds is None or (seconds > 0).all()


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(("turns", "columns", "segment"), CASES)
def test_a_byte_ends_turns(turns, columns, segment, timed, rng):
    """It is 0 once a certain turn has written a sum of 0; no further turn begins."""
    begin, row = np.zeros(columns, np.float32), 4 * columns
    for at in {0, turns // 2, turns - 1}:
        x = rng.integers(1, 9, (turns, columns)).astype(np.float32)
        x[at, -1] = -x[:at, -1].sum()
        sums = np.cumsum(x, 0)
        # The last byte of the turn's last sum: sign and exponent.
        stop = ("external", 2, (at + 1) * row - 1, 1)
        for threads in (1, 2, 3):
            program = running_sums(turns, columns, segment, False, threads, stop=[stop])
            for most in (turns + 3, turns, max(turns // 3, 1)):
                y, last = np.ones_like(x), np.zeros_like(begin)
                frame = program.frame()
                seconds = np.zeros(5) if timed else None
                taken = program.run(frame, [x, begin, y, last], 0, 5, seconds, most)
                program.give_back(frame)
                assert taken == min(at + 1, most)
                np.testing.assert_array_equal(y[:taken], sums[:taken])
                assert (y[taken:] == 1).all()
                np.testing.assert_array_equal(last, sums[taken - 1])


@pytest.mark.parametrize(
    "stop", [("external", 2, 40, 1), ("external", 4, 0, 1), ("arena", 128, 1), ("arena", -1, 1)]
)
def test_a_byte_beyond_an_array_is_refused(stop):
    with pytest.raises(ValueError, match="beyond"):
        running_sums(1, 10, 10, False, 1, stop=[stop])


def test_no_turn_is_refused():
    program = running_sums(3, 8, 8, False, 1)
    frame = program.frame()
    with pytest.raises(ValueError, match="no turn"):
        program.run(frame, [np.zeros(n, np.float32) for n in (24, 8, 24, 8)], 0, 5, most=0)
    program.give_back(frame)


def test_a_constant_moves_on(rng):
    x, begin = rng.random((6, 8), np.float32), rng.random(8, np.float32)
    y, last = np.zeros_like(x), np.zeros_like(begin)
    program = running_sums(6, 8, 8, True, 1, x)
    frame = program.frame()
    program.run(frame, [x * 0, begin, y, last], 0, 5)
    program.give_back(frame)
    np.testing.assert_allclose(y[::-1], 6 * begin + np.cumsum(x[::-1], 0), rtol=1e-6)


ROW = 32
CONSTANT = np.zeros(8 * 4, np.float32)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (("each", ("external", 0, 0, 4 * ROW), ROW + 4), "beyond the caller"),
        (("each", ("external", 0, 4, 4 * ROW - 4), ROW), "beyond the caller"),
        (("each", ("external", 0, 0, 5 * ROW), ROW), "beyond the caller"),
        (("each", ("external", 0, 2 * ROW, 2 * ROW), -ROW), "beyond the caller"),
        (("each", ("arena", 2 * ROW, 2 * ROW), -ROW), "beyond the arena"),
        (("each", ("arena", 0, 4 * ROW), 2 * ROW), "takes|beyond the arena"),
        (("each", ("constant", CONSTANT, 2 * ROW), -ROW), "beyond a constant"),
        (("each", ("constant", CONSTANT, ROW), ROW), "takes"),
        (("each", ("constant", CONSTANT, 5 * ROW), -ROW), "beyond a constant"),
        (("each", ("constant", CONSTANT, -ROW), ROW), "beyond a constant"),
        (("external", (1 << 63) - 1, 0, ROW), "beyond the caller"),
        (("external", 0, (1 << 63) - 1, ROW), "beyond the caller"),
        (("external", 0, 0, (1 << 63) - 1), "beyond the caller"),
        (("arena", (1 << 63) - 1, 4 * ROW), "beyond the arena"),
        (("arena", -(1 << 63), 4 * ROW), "beyond the arena"),
        (("arena", 4, (1 << 63) - 1), "beyond the arena"),
    ],
)
def test_places_beyond_an_array_in_any_turn_are_refused(place, message):
    work = added(8, 8)
    good = ("external", 0, 0, ROW)
    for number in range(3):
        places = [good] * 3
        places[number] = place
        with pytest.raises(ValueError, match=message):
            Program([(work, {"arrays": places})], 128, [4 * ROW], 1, 1, repeats=[(0, 1, 4)])


@pytest.mark.parametrize("stride", [1 << 46, -(1 << 46), 1 << 62, -(1 << 63), 1 << 70])
def test_strides_beyond_memory_are_refused(stride):
    place = ("each", ("external", 0, 0, ROW), stride)
    with pytest.raises(MemoryError, match="beyond"):
        steps = [(added(8, 8), {"arrays": [place] * 3})]
        Program(steps, 0, [ROW], 1, 1, repeats=[(0, 1, 1 << 20)])


@pytest.mark.parametrize(
    "repeats",
    [
        [(0, 0, 2)], [(1, 0, 2)], [(-1, 1, 2)], [(0, 4, 2)], [(0, 2, 2), (1, 3, 2)],
        [(2, 3, 2), (0, 1, 2)], [(0, 1, 0)], [(0, 1, -1)], [(0, 1, 1 << 40)],
    ],
)  # fmt: skip
def test_repeats_of_no_steps_are_refused(repeats):
    steps = [(added(8, 8), {"arrays": [("external", 0, 0, ROW)] * 3})] * 3
    with pytest.raises(ValueError, match="repeat"):
        Program(steps, 0, [ROW], 1, 1, repeats=repeats)


def test_a_part_of_a_repeat_is_refused():
    program = running_sums(3, 8, 8, False, 1)
    arrays = [np.zeros(n, np.float32) for n in (24, 8, 24, 8)]
    frame = program.frame()
    for begin, end in ((0, 3), (3, 5), (3, 3), (3, 4)):
        with pytest.raises(ValueError, match="as a whole"):
            program.run(frame, arrays, begin, end)
    program.give_back(frame)


def test_what_lives_in_a_repeat_lives_through_all_turns():
    """But for what each turn writes anew."""

    def value():
        return Value((8,), np.dtype(np.float32), (4,), Buffer(32))

    work = added(8, 8)

    def step(to, *sources):
        return Step(work, list(sources), [to], {"arrays": [to, *sources]}, "Add")

    begin, state, first, second, shown = (value() for _ in range(5))
    moving = Value((8,), np.dtype(np.float32), (4,), Buffer(64), advance=32)
    steps = [
        step(begin, begin, begin),
        step(state, begin, begin),
        step(first, state, begin),
        step(second, first, first),
        step(moving, second, first),
        step(state, second, second),
        step(shown, state, state),
    ]
    found = arena.lives(steps, [Repeat(2, 6, 2)])
    assert (begin.buffer.first, begin.buffer.last) == (0, 5)
    assert (state.buffer.first, state.buffer.last) == (1, 6)
    assert (moving.buffer.first, moving.buffer.last) == (2, 5)
    assert (second.buffer.first, second.buffer.last) == (3, 5)
    kept = {state.buffer, begin.buffer, moving.buffer}
    assert all(not b.successors for b in kept if b is not state.buffer)
    assert not {s for b in found for s in b.successors} & kept
    arena.arrange(found)
    assert place_of(moving) == ("each", ("arena", moving.buffer.offset, 64), 32)
